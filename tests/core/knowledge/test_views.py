"""Every read of the knowledge works on a branch and at a version: it answers as it did then."""

import pytest
from core.knowledge.living import BERGEN, OSLO, day, facts

from lance_context_core import NotFoundError

SCHEMA = {"properties": {"residence": {"type": "string"}}}


def found(memory, **more):
    hits = memory.search("where live moved Oslo Bergen", user_id="ada", evidence=True, **more)
    return sorted((hit.record.id, [one.is_verified for one in hit.evidence]) for hit in hits)


def answers(memory, fact_id, turn_id):
    """What each read says, by its name."""
    explained = memory.explain(fact_id)
    return {
        **{one: found(memory, search_type=one) for one in ("chain", "facts", "summaries", "turns")},
        "then": found(memory, search_type="facts", valid_at=day(2025, 6)),
        "profile": memory.profile(SCHEMA, user_id="ada").values,
        "episodes": [(one.session_ids, one.n_turns) for one in memory.episodes()],
        "explain": (sorted(explained.records), explained.is_verified, len(explained.links)),
        "of the turn": sorted(memory.explain(turn_id).records),
        "trace": sorted((one.kind, one.id) for one in memory.trace("s1")),
        "history": [(one.kind, one.job_id) for one in memory.history(fact_id)],
        "jobs": [(one.id, one.state) for one in memory.jobs.list()],
        "candidates": [one.record.id for one in memory.candidates()],
    }


def test_every_read_works_on_a_branch_and_at_a_version(store, memory):
    added = memory.add([OSLO], session_id="s1", user_id="ada")
    fact_id = store.context("knowledge").list(filters={"kind": "fact"})[0]["id"]
    known = fact_id, added.ids[0]
    then, version = answers(memory, *known), store.version()
    branch = store.create_branch("other")
    moved = memory.add([BERGEN], session_id="s1", user_id="ada")
    now = answers(memory, *known)
    assert [name for name, answer in now.items() if answer == then[name]] == []
    assert answers(store.checkout(version).knowledge, *known) == then
    assert answers(branch.knowledge, *known) == then
    for view in (store.checkout(version), branch):
        for unknown in (view.knowledge.explain, view.knowledge.jobs.get):
            with pytest.raises(NotFoundError):
                unknown(moved.ids[0] if unknown == view.knowledge.explain else moved.job_id)
    branch.knowledge.add([BERGEN], session_id="s1", user_id="ada")
    assert facts(branch) == facts(store) == ["We moved to Bergen last week."]
