"""The tools that are offered by default: few, small, and one for each intent."""

import json
from datetime import timedelta

import pytest

from lance_context_core import InvalidRequestError, Message
from lance_context_core.graph import Entity, Relation

pytestmark = pytest.mark.anyio

DEFAULT = ["remember", "recall", "get", "update", "forget", "history", "add_document"]


@pytest.fixture
async def few(serving, store):
    """Calls the tools of a server that was told nothing about tools."""
    async with serving(store, tools=("default",)) as told:
        yield told


async def test_seven_tools_of_few_words_are_offered_by_default(few):
    tools = (await few.client.list_tools()).tools
    assert sorted(tool.name for tool in tools) == sorted(DEFAULT)
    cards = [tool.model_dump_json(by_alias=True, exclude_none=True) for tool in tools]
    assert sum(map(len, cards)) < 4 * 2_000
    assert not any("branch" in tool.input_schema["properties"] for tool in tools)


async def test_other_tools_are_offered_by_their_own_names_or_by_that_of_a_set(serving, store):
    async with serving(store, tools=("read_graph", "recall")) as call:
        assert sorted(await call.names()) == ["read_graph", "recall"]
    async with serving(store, tools=("default", "branches")) as call:
        names = await call.names()
        assert {*DEFAULT, "merge_branch"} <= {*names}
        (recall,) = [one for one in (await call.client.list_tools()).tools if one.name == "recall"]
        assert "branch" in recall.input_schema["properties"]
    async with serving(store, tools=("all",), knowledge=store.knowledge) as call:
        assert len(await call.names()) == 27
    with pytest.raises(InvalidRequestError, match="tools=magic: there are the sets default"):
        async with serving(store, tools=("magic",)):
            pass


async def test_the_same_text_is_remembered_once_and_updates_what_is_there(few, store, clock):
    first = await few("remember", text="Ada likes tea", expires_in_days=2)
    again = await few("remember", text="Ada likes tea", metadata={"sure": True})
    assert (first["is_new"], again) == (True, {"id": first["id"], "is_new": False})
    clock.advance(days=3)
    (found,) = (await few("recall", query="tea"))["results"]
    assert (found["id"], found["metadata"]) == (first["id"], {"sure": True})
    await store.memory.add(["Ada likes rum"])
    assert not (await few("remember", text="Ada likes rum"))["is_new"]
    assert (await store.memory.list()).total == 2


async def test_the_memory_of_another_user_is_not_taken_for_ones_own(few, store, serving):
    await store.scope(user_id="ada").memory.add(["I like tea"])
    assert (await few("remember", text="I like tea"))["is_new"]
    async with serving(store.scope(user_id="bob"), tools=("default",)) as bob:
        assert (await bob("remember", text="I like tea"))["is_new"]
    assert await store.user_ids() == ["ada", "bob"]


async def test_what_expires_may_be_said_by_its_moment(few, store, clock):
    at = clock.now() + timedelta(hours=1)
    await few("remember", text="The code is 1234", expires_at=at.isoformat())
    assert (await few("recall", query="code"))["results"]
    clock.advance(hours=1)
    assert not (await few("recall", query="code"))["results"]
    assert "is over" in await few.error("remember", text="x", expires_at=at.isoformat())
    assert "give one of the two" in await few.error(
        "remember", text="x", expires_at="2999-01-01", expires_in_days=1
    )


@pytest.fixture
async def full(serving, store):
    """Calls all tools of a server whose store has something of each kind about Oslo."""
    async with serving(store, knowledge=store.knowledge) as call:
        await call("remember", text="Oslo is cold.")
        await store.knowledge.add(Message.user("I live in Oslo."), session_id="monday")
        await call("add_document", name="guide.md", text="# Oslo\n\nThe opera is white.")
        eva = {"name": "Eva", "entityType": "person", "observations": ["from Oslo"]}
        await call("create_entities", entities=[eva])
        await call(
            "create_relations", relations=[{"from": "Eva", "to": "Ada", "relationType": "knows"}]
        )
        yield call


async def test_recall_finds_all_kinds_and_narrows_to_one(full):
    kinds = ["memory", "message", "fact", "document", "entity"]
    found = (await full("recall", query="Oslo"))["results"]
    assert {one["kind"] for one in found} == {*kinds}
    for kind in kinds:
        (only,) = (await full("recall", query="Oslo", kind=kind))["results"]
        assert (only["kind"], "Oslo" in only["text"]) == (kind, True)
    of_session = (await full("recall", query="Oslo", session_id="monday"))["results"]
    assert {one["kind"] for one in of_session} == {"message", "fact"}
    (eva,) = (await full("recall", query="who knows Ada?", kind="entity"))["results"]
    assert "Eva knows Ada" in eva["text"]
    assert not (await full("recall", query="Oslo", until="2020-01-01"))["results"]
    assert "belongs to a session" in await full.error(
        "recall", query="Oslo", kind="document", session_id="monday"
    )


async def test_recall_finds_what_the_graph_of_the_store_holds(few, store):
    ada, acme = (
        Entity(name="Ada Lovelace", type="person", properties={"born": 1815}),
        Entity(name="Acme", type="firm"),
    )
    ada, acme = await store.graph.add_entities([ada, acme])
    await store.graph.add_relations(
        [Relation(source_id=ada.id, target_id=acme.id, type="works_at")]
    )
    (found,) = (await few("recall", query="Where does ada lovelace work?"))["results"]
    assert (found["kind"], found["id"]) == ("entity", ada.id)
    assert found["text"] == "Ada Lovelace (person)\nborn: 1815\nAda Lovelace works_at Acme"
    assert (await few("get", id=ada.id))["text"] == found["text"]
    assert not (await few("recall", query="Ada", kind="entity"))["results"]


async def test_a_long_text_is_cut_in_a_search_and_read_whole_by_get(few):
    long = "Oslo " * 9_000
    added = (await few("add_document", name="long", text=long, type="text"))["document"]
    told = await few("remember", text=long)
    for one in (await few("recall", query="Oslo"))["results"]:
        assert len(one["text"]) <= 2_000
    for id in (told["id"], added["id"]):
        read, begin = "", 0
        while begin is not None:
            part = await few("get", id=id, offset=begin)
            read, begin = read + part["text"], part.get("next_offset")
        assert read.split() == long.split()


async def test_what_recall_finds_is_read_corrected_and_forgotten_by_its_id(full, store):
    found = {one["kind"]: one for one in (await full("recall", query="Oslo"))["results"]}
    for kind, one in found.items():
        assert (await full("get", id=one["id"]))["kind"] == kind
    for kind in ("memory", "fact", "document"):
        assert await full("update", id=found[kind]["id"], text=f"Bergen {kind}") == {
            "id": found[kind]["id"]
        }
        assert f"Bergen {kind}" in (await full("get", id=found[kind]["id"]))["text"]
    assert {one["kind"] for one in (await full("recall", query="Bergen"))["results"]} == {
        "memory",
        "fact",
        "document",
    }
    told = await full.error("update", id=found["message"]["id"], text="Bergen")
    assert "conversations stay as they were" in told
    ids = [found[kind]["id"] for kind in ("memory", "message", "fact", "document")]
    assert await full("forget", ids=ids) == {"forgotten": ids, "not_found": []}
    assert not (await full("recall", query="Bergen"))["results"]
    for id in ids:
        assert "does not exist" in await full.error("get", id=id)
        assert "does not exist" in await full.error("update", id=id, text="x")
    assert (await full("forget", ids=ids))["not_found"] == ids


async def test_a_corrected_memory_keeps_all_else_that_is_known_of_it(few, store):
    told = await few(
        "remember", text="The code is 1", session_id="s", metadata={"a": 1}, expires_in_days=2
    )
    (before,) = await store.context().records()
    await few("update", id=told["id"], text="The code is 2")
    (after,) = await store.context().records()
    for name in ("id", "kind", "session_id", "metadata", "expires_at", "created_at", "role"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.text == "The code is 2"
    await few("update", id=told["id"], metadata={"b": 2})
    assert (await few("get", id=told["id"]))["metadata"] == {"b": 2}
    again = await few("remember", text="The code is 1", session_id="s")
    assert again["is_new"]
    assert again["id"] != told["id"]
    assert "give text, metadata or both" in await few.error("update", id=told["id"])


async def test_history_without_a_session_lists_the_conversations(few, store):
    await store.history.append("tutor", Message.user("x"), session_id="monday")
    told = await few("history")
    assert [one["id"] for one in told["sessions"]] == ["monday"]
    assert json.loads(json.dumps(told))["messages"] == []
