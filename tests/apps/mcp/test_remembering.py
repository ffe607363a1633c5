"""What one conversation remembers another one recalls, until it is forgotten."""

from datetime import UTC, datetime

import pytest

from lance_context_core import Message

pytestmark = pytest.mark.anyio


def texts(answer):
    return [one["text"] for one in answer["results"]]


async def test_what_is_remembered_is_recalled_and_is_a_memory_of_the_store(call, store):
    told = await call("remember", text="Ada likes trains.", metadata={"topic": "travel"})
    (found,) = (await call("recall", query="trains"))["results"]
    assert (found["id"], found["text"], found["metadata"]) == (
        told["id"],
        "Ada likes trains.",
        {"topic": "travel"},
    )
    (kept,) = (await store.memory.list()).items
    assert (kept.id, kept.text) == (told["id"], "Ada likes trains.")


async def test_what_was_said_in_a_conversation_is_recalled_too(call, store):
    await store.history.append("tutor", Message.user("Ada moved to Oslo."), session_id="monday")
    (found,) = (await call("recall", query="Oslo"))["results"]
    assert (found["kind"], found["session_id"], found["agent_id"]) == ("message", "monday", "tutor")


async def test_a_recall_is_narrowed_by_kind_session_and_time(call, store, clock):
    await store.history.append("", Message.user("tea in the morning"), session_id="monday")
    clock.advance(days=1)
    between = clock.now().isoformat()
    await call("remember", text="tea at noon", session_id="tuesday")
    assert texts(await call("recall", query="tea", kind="memory")) == ["tea at noon"]
    assert texts(await call("recall", query="tea", session_id="monday")) == ["tea in the morning"]
    assert texts(await call("recall", query="tea", since=between)) == ["tea at noon"]
    assert texts(await call("recall", query="tea", until=between)) == ["tea in the morning"]
    assert len(texts(await call("recall", query="tea", limit=1))) == 1


async def test_what_is_forgotten_is_not_recalled_and_what_is_not_there_is_said(call):
    told = await call("remember", text="The key is under the mat.")
    answer = await call("forget", ids=[told["id"], "nobody", told["id"]])
    assert answer == {"forgotten": [told["id"]], "not_found": ["nobody"]}
    assert texts(await call("recall", query="key")) == []
    assert await call("forget", ids=[told["id"]]) == {"forgotten": [], "not_found": [told["id"]]}


async def test_what_expires_is_recalled_until_then(call, clock):
    await call("remember", text="The code is 1234.", expires_in_days=2)
    clock.advance(days=1)
    assert len(texts(await call("recall", query="code"))) == 1
    clock.advance(days=1)
    assert texts(await call("recall", query="code")) == []


async def test_a_recall_as_of_then_finds_what_was_there_then(call, store):
    told = await call("remember", text="Ada lives in Oslo.")
    await store.tag("spring")
    then = datetime.now(UTC)  # Moments are those of the machine, whatever clock a store has.
    await call("forget", ids=[told["id"]])
    assert texts(await call("recall", query="Ada")) == []
    assert texts(await call("recall", query="Ada", as_of="spring")) == ["Ada lives in Oslo."]
    assert texts(await call("recall", query="Ada", as_of=then.isoformat())) == [
        "Ada lives in Oslo."
    ]
    assert "autumn" in await call.error("recall", query="Ada", as_of="autumn")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param({}, "'query' is a required property", id="absent"),
        pytest.param({"query": 7}, "query: 7 is not of type 'string'", id="of another type"),
        pytest.param({"query": ""}, "query: '' should be non-empty", id="empty"),
        pytest.param({"query": "x", "limit": 0}, "limit: 0 is less than", id="too few"),
        pytest.param({"query": "x", "limit": 101}, "limit: 101 is greater", id="too many"),
        pytest.param({"query": "x", "limit": "3"}, "limit: '3' is not of type", id="digits"),
        pytest.param(
            {"query": "x", "since": "soon"}, "since='soon' is not a moment", id="no moment"
        ),
        pytest.param(
            {"query": "x", "branch": "a", "as_of": "b"}, "give one of the two", id="two places"
        ),
        pytest.param({"query": "x", "branch": "nowhere"}, "nowhere", id="no branch"),
    ],
)
async def test_a_request_that_cannot_be_says_which_argument_and_why(call, arguments, named):
    assert named in await call.error("recall", **arguments)


async def test_an_unknown_tool_is_an_error_and_no_crash(call):
    assert "no tool 'drop_table'" in await call.error("drop_table")


async def test_a_reader_is_offered_nothing_that_writes(serving, store):
    await store.memory.add(["Ada likes trains."])
    async with serving(store, is_read_only=True) as call:
        tools = (await call.client.list_tools()).tools
        assert tools
        assert all(tool.annotations.read_only_hint for tool in tools)
        assert "no tool 'remember'" in await call.error("remember", text="x")
        assert texts(await call("recall", query="trains")) == ["Ada likes trains."]
