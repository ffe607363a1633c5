"""Conversations whoever wrote them, the facts that are made of them, and what the store holds."""

import json
import sys

import anyio
import pytest

from lance_context_core import Item, Message

pytestmark = pytest.mark.anyio

MODEL = """
class Model:
    name = "mine"

    async def complete(self, request):
        raise NotImplementedError

mine = Model()
number = 7
"""


async def test_the_history_of_a_session_is_found_whoever_wrote_it(call, store):
    for agent, text in (("tutor", "one"), ("coach", "two"), ("", "three"), ("tutor", "four")):
        await store.history.append(agent, Message.user(text), session_id="monday")
    told = (await call("history", session_id="monday"))["messages"]
    assert [one["text"] for one in told] == ["one", "two", "three", "four"]
    assert [one.get("agent_id") for one in told] == ["tutor", "coach", None, "tutor"]
    older = await call("history", session_id="monday", last=2, before_last=1)
    assert [one["text"] for one in older["messages"]] == ["two", "three"]
    one = await call("history", session_id="monday", agent_id="tutor")
    assert [one["text"] for one in one["messages"]] == ["one", "four"]
    (content,) = (await call.client.read_resource("memory://sessions/monday")).contents
    assert [one["text"] for one in json.loads(content.text)["messages"]] == [
        "one",
        "two",
        "three",
        "four",
    ]


async def test_a_session_that_does_not_exist_is_an_error_and_an_empty_one_is_not(call, store):
    assert "session 'no such' does not exist" in await call.error("history", session_id="no such")
    await store.sessions.create("empty")
    nothing = {"messages": [], "sessions": []}
    assert await call("history", session_id="empty") == nothing
    await store.history.append("tutor", Message.user("x"), session_id="monday")
    assert await call("history", session_id="monday", before_last=9) == nothing
    told = await call.error("history", session_id="monday", agent_id="coach")
    assert "agent_id='coach' wrote no message in session 'monday'" in told


async def test_facts_are_offered_only_where_they_are_made(serving, store):
    async with serving(store) as call:
        assert "facts" not in await call.names()
    async with serving(store, knowledge=store.knowledge) as call:
        assert "facts" in await call.names()
        said = [{"role": "user", "text": "My name is Ada and I live in Oslo."}]
        await call("append_conversation", session_id="monday", messages=said)
        (job,) = await store.knowledge.jobs.list()
        assert job.state == "scheduled"
        await store.knowledge.jobs.run_due()
        (found,) = (await call("facts", query="where does Ada live?", limit=1))["facts"]
        assert "Oslo" in found["text"]


@pytest.mark.process
async def test_a_server_with_a_model_makes_facts_in_the_background(started, tmp_path):
    said = [{"role": "user", "text": "My name is Ada and I live in Oslo."}]
    async with started("--uri", tmp_path / "memory", "--model", "rules", "--tools", "all") as call:
        await call("append_conversation", session_id="monday", messages=said)
        with anyio.fail_after(120):
            found = []
            while not found:
                found = (await call("facts", query="where does Ada live?"))["facts"]
    assert any("Oslo" in one["text"] for one in found)


@pytest.mark.parametrize("name", ["magic", "no.such:thing", "of_mine:number", "of_mine:", ":x"])
def test_a_model_that_is_none_is_said_in_one_line(refused, tmp_path, monkeypatch, name):
    (tmp_path / "of_mine.py").write_text(MODEL, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "of_mine", raising=False)
    assert f"model={name!r}" in refused("--uri", str(tmp_path / "memory"), "--model", name)


@pytest.mark.process
async def test_a_language_model_is_named_by_its_module(started, tmp_path):
    (tmp_path / "of_mine.py").write_text(MODEL, encoding="utf-8")
    options = ("--uri", "memory", "--model", "of_mine:mine", "--tools", "knowledge")
    async with started(*options, cwd=tmp_path) as call:
        assert "facts" in await call.names()


async def test_a_resource_tells_what_the_store_holds_in_this_scope(serving, store):
    ada, bob = store.scope(user_id="ada"), store.scope(user_id="bob")
    await ada.history.append("tutor", Message.user("x"), session_id="monday")
    await ada.memory.add(["Ada likes tea."])
    await ada.kv("prefs").put([Item(key="tone", value={"is": "dry"})])
    await bob.kv("secrets").put([Item(key="code", value={"is": "1234"})])
    await bob.memory.add(["Bob likes rum."])
    await ada.documents.add(b"# Lease", name="lease.md", type="markdown")

    async def read(scope):
        async with serving(scope) as call:
            (content,) = (await call.client.read_resource("memory://store")).contents
            return json.loads(content.text)

    assert await read(ada) == {
        "users": ["ada"],
        "sessions": 1,
        "records": 2,
        "documents": 1,
        "items": {"prefs": 1},
        "collections": {},
    }
    told = await read(store)
    assert (told["users"], told["records"]) == (["ada", "bob"], 3)
    assert told["items"] == {"prefs": 1, "secrets": 1}
