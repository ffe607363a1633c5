"""What a framework is told of a record, and what it may not ask for."""

import json
from datetime import UTC, datetime

import pytest

from lance_context_core import ContextRecord, ImagePart, InvalidRequestError, TextPart
from lance_context_core.adapting import check_name, check_names, content_of, facts_of, listed


def record(**more):
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    known = {"id": "r", "kind": "message", "content_type": "text/plain"}
    return ContextRecord(**known, created_at=moment, updated_at=moment, **more)


def test_the_facts_are_what_the_store_knows_as_json():
    who = {"tenant": "acme", "user_id": "ada", "agent_id": "helper", "session_id": "monday"}
    spoken = {"role": "user", "name": "Ada", "run_id": "7"}
    facts = facts_of(record(text="tea", metadata={"a": 1}, tags=("t",), **who, **spoken))
    assert json.loads(json.dumps(facts)) == facts
    moment = "2026-01-02T03:04:05.000006+00:00"
    assert facts == {"kind": "message", "created_at": moment, **who, **spoken}


def test_the_facts_leave_out_what_is_absent_and_keep_what_is_empty():
    assert facts_of(record()).keys() == {"kind", "created_at"}
    assert facts_of(record(agent_id=""))["agent_id"] == ""


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ([TextPart(text="tea")], "tea"),
        ([TextPart(text="tea"), ImagePart(url="a.png", caption="a cup")], "tea"),
        (
            [ImagePart(url="a.png", caption="a cup"), ImagePart(url="b.png", caption="a pot")],
            "a cup\na pot",
        ),
        ([ImagePart(url="a.png")], ""),
    ],
)
def test_the_content_is_the_text_or_else_what_the_images_show(parts, content):
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    assert content_of(record(text=texts[0] if texts else None, parts=parts)) == content


def test_many_are_a_list_and_one_is_not_many():
    assert listed((one for one in "ab"), "ids") == ["a", "b"]
    for one in ("ab", b"ab", {"a": 1}, None, 7):
        with pytest.raises(InvalidRequestError, match=r"^ids is "):
            listed(one, "ids")


def test_a_name_says_where_it_is_no_name():
    assert check_name("a", "id") == "a"
    assert check_names(["a", "b"], "ids") == ["a", "b"]
    for name in (None, 7, "", "a\0b", "a\ud800"):
        with pytest.raises(InvalidRequestError, match=r"^id "):
            check_name(name, "id")
        with pytest.raises(InvalidRequestError, match=r"^ids\[1\] "):
            check_names(["a", name], "ids")
