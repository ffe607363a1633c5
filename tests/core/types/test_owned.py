"""The fields that several values have from one place."""

import copy
import pickle
from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest

from lance_context_core.graph import Entity, Mention
from lance_context_core.knowledge import Summary
from lance_context_core.results import Blob, Problem, Verification

WHOSE = ["tenant", "user_id", "agent_id"]
BLOB = Blob(
    hash="h", size=1, content_type="text/plain", created_at=datetime(2026, 1, 1, tzinfo=UTC)
)
MENTION = Mention(entity_id="e", source_id="s", text="Ada", user_id="u")


@pytest.mark.parametrize(
    "one", [Entity(name="Ada"), MENTION, BLOB], ids=lambda one: type(one).__name__
)
def test_a_value_tells_what_it_is_before_whose_it_is(one: Entity | Mention | Blob) -> None:
    names = [field.name for field in fields(one)]
    assert names[-3:] == WHOSE
    assert repr(one).startswith(f"{type(one).__name__}({names[0]}=")
    assert repr(one).endswith(f"agent_id={one.agent_id!r})")


def test_an_entity_tells_since_when_it_is_so_before_whose_it_is() -> None:
    known = ["source_ids", "valid_from", "valid_to", "recorded_at"]
    names = [field.name for field in fields(Entity)]
    assert names == ["id", "name", "type", "properties", *known, *WHOSE]


def test_a_report_of_a_check_tells_what_was_looked_at_before_what_is_wrong() -> None:
    problem = Problem(kind="file", where="a", what="gone", way_out="restore it")
    found = Verification(files=1, rows=2, indexes=0, problems=(problem,))
    assert not found.is_whole
    assert repr(found) == f"Verification(files=1, rows=2, indexes=0, problems=({problem!r},))"
    assert repr(problem) == "Problem(kind='file', where='a', what='gone', way_out='restore it')"


def test_an_answer_tells_what_was_made_before_what_was_refused_and_what_it_took() -> None:
    names = [field.name for field in fields(Summary)]
    assert names == ["text", "faults", "usage"]


def test_what_a_value_shares_with_others_is_compared_copied_and_kept_like_its_own() -> None:
    assert pickle.loads(pickle.dumps(MENTION)) == copy.deepcopy(MENTION) == MENTION  # noqa: S301 - ours
    assert replace(MENTION, user_id="v") != MENTION == replace(MENTION, text="Ada")
    with pytest.raises(AttributeError):
        MENTION.user_id = "v"  # type: ignore[misc]
