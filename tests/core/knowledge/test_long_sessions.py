"""What an add costs is what its new turns cost, however much was said in its session before."""

from collections import Counter

import pytest
from core.knowledge.living import BERGEN, OSLO, day, facts, said
from lance_context_testing import ScriptedModel

from lance_context_core import InvalidRequestError
from lance_context_core._loop import block_on
from lance_context_core.knowledge import ModelSummariser, SpokenTurn, Summary
from lance_context_core.storage import sql
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import WriteBatch

LATE = "I like the tea of late autumn with some bread."


def many(n, first=0):
    return [f"Nothing much about number {first + n} happened." for n in range(n)]


def summary(store, session="s"):
    kept = store.context("knowledge").list(filters={"kind": "summary", "session_id": session})
    return [one["text"] for one in kept]


@pytest.fixture
def read(monkeypatch):
    """How many rows were read of tables, by the verb that read them."""
    counted = Counter()

    def counting(name):
        verb = getattr(Table, name)

        async def count(self, *given, **options):
            found = await verb(self, *given, **options)
            rows = found[0] if isinstance(found, tuple) else found
            counted[name] += len(rows)
            return found

        return count

    for name in ("find", "select", "slice", "tail", "page", "get"):
        monkeypatch.setattr(Table, name, counting(name))
    return counted


def test_an_add_reads_no_more_rows_of_a_long_session_than_of_a_short_one(store, memory, read):
    counts = []
    for n in (12, 300):
        memory.add(many(n), session_id=f"s{n}", user_id="ada")
        read.clear()
        memory.add(LATE, session_id=f"s{n}", user_id="ada")
        counts.append(read.total())
    assert 0 < counts[1] <= counts[0] + 2
    assert LATE in facts(store)


def test_an_add_counts_no_session_and_asks_for_no_fact_by_its_metadata(memory, monkeypatch):
    memory.add(many(40), session_id="s", user_id="ada")
    memory.add("I like green tea.", session_id="s", user_id="ada")
    asked = []
    for name in ("find", "select", "count"):
        verb = getattr(Table, name)

        async def noting(self, where, *, _name=name, _verb=verb, **options):
            asked.append((_name, str(where)))
            return await _verb(self, where, **options)

        monkeypatch.setattr(Table, name, noting)
    memory.add(LATE, session_id="s", user_id="ada")
    assert asked
    assert [one for one in asked if one[0] == "count" or "json" in one[1]] == []


def test_a_fact_that_an_older_release_has_written_is_found_by_the_next_of_its_slot(store, memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    records = store.aio._resources.records
    where = sql.equals("kind", "fact")
    block_on(records.write(WriteBatch(where=where, values={"external_id": None})))
    memory.add([BERGEN], session_id="s2", user_id="ada")
    assert [one.text for one in memory.list(user_id="ada")] == [BERGEN["content"]]
    unnamed = sql.all_of([sql.equals("kind", "fact"), sql.is_absent("external_id")])
    assert block_on(records.count(unnamed)) == 0


def test_a_summary_of_an_older_release_is_carried_forward_in_order(store, memory):
    memory.add("Ingrid came from Tromsø on 3 May.", session_id="s")
    kept = store.context("knowledge")
    for one in kept.list(filters={"kind": {"$in": ["summary", "chunk"]}}):
        without = {name: each for name, each in one["metadata"].items() if "place" not in name}
        kept.update(id=one["id"], metadata=without)
    memory.add("Peter left for Bergen on 9 June.", session_id="s")
    assert summary(store)[0].splitlines() == [
        "user: Ingrid came from Tromsø on 3 May.",
        "user: Peter left for Bergen on 9 June.",
    ]


def test_a_summariser_is_sent_the_last_summary_and_what_is_new(memory):
    model = ScriptedModel(*[{"summary": "Ada counts."}] * 2, {"summary": "Ada drinks tea."})
    telling = memory.using(summariser=ModelSummariser(model))
    telling.add(many(200), session_id="s")
    telling.add(many(100, first=200), session_id="s")
    telling.add(LATE, session_id="s")
    told = model.requests[-1].messages[-1].text
    assert LATE in told
    assert "Ada counts." in told
    assert "number 1 " not in told
    assert len(told) < 400


def test_a_summary_that_was_carried_forward_is_that_of_all_turns_at_once(store, memory):
    words = ["Ingrid", "Tromsø", "harbour", "lantern", "sailing", "12 May", "mountain", "Bergen"]
    texts = [
        f"We met {words[n % 8]} near {words[(n * 3) % 7]} with {n * 7 % 11} {words[(n * 5) % 6]}s. It rained."
        for n in range(40)
    ]
    memory.add(texts, session_id="at once")
    for n in range(0, 40, 3):
        memory.add(texts[n : n + 3], session_id="by and by")
    assert len(summary(store, "at once")[0].splitlines()) == 6
    assert summary(store, "by and by") == summary(store, "at once")


def test_what_was_said_before_stands_before_in_a_summary_whichever_job_ran_first(store, memory):
    first = memory.add("Ingrid came from Tromsø on 3 May.", session_id="s", infer="later")
    memory.add("Peter left for Bergen on 9 June.", session_id="s")
    assert summary(store) == ["user: Peter left for Bergen on 9 June."]
    memory.jobs.run_due()
    assert memory.jobs.get(first.job_id).state == "succeeded"
    assert summary(store)[0].splitlines() == [
        "user: Ingrid came from Tromsø on 3 May.",
        "user: Peter left for Bergen on 9 June.",
    ]


def test_what_is_cleared_goes_from_the_summary_with_the_next_turn(store, memory):
    memory.add([said("Ingrid came from Tromsø on 3 May.", day(2024))], session_id="s")
    store.history.clear("", session_id="s")
    memory.add("Peter left for Bergen on 9 June.", session_id="s")
    assert summary(store) == ["user: Peter left for Bergen on 9 June."]


def test_turns_in_the_middle_of_a_session_have_their_place_in_it(store, memory):
    texts = [f"I live in {place}." for place in ("Oslo", "Bergen", "Narvik")]
    moment = {"created_at": day(2024)}
    adds = [
        memory.add({"role": "user", "content": text, **moment}, session_id="s", infer="later")
        for text in texts
    ]
    for added in reversed(adds):
        memory.jobs.retry(added.job_id)
    memory.jobs.run_due()
    kept = store.context("knowledge").list(filters={"kind": "fact"}, include_retired=True)
    places = {one["text"]: one["metadata"]["fact"]["place"] for one in kept}
    assert places == dict(zip(texts, range(3), strict=True))


class Counting:
    """A summariser of one's own: what it is given, it says."""

    name = "counting/1"

    def summarise(self, turns, before):
        assert all(isinstance(one, SpokenTurn) for one in turns)
        return Summary(text=f"{before or 'start'} and {len(turns)}")


def test_a_summariser_of_ones_own_carries_its_summary_forward(store, memory):
    counting = memory.using(summariser=Counting())
    for n in (2, 3):
        counting.add(many(n), session_id="s")
    assert summary(store) == ["start and 2 and 3"]


def test_a_summariser_that_cannot_be_given_the_last_summary_is_refused(memory):
    class Old:
        name = "old/1"

        def summarise(self, turns):
            return Summary(text=str(len(turns)))

    with pytest.raises(InvalidRequestError, match="summary so far"):
        memory.using(summariser=Old())
