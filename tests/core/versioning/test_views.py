"""A view of an earlier version refuses every kind of write."""

import pytest
from core.versioning.samples import dump, write

from lance_context_core.errors import ReadOnlyError
from lance_context_core.messages import Message
from lance_context_core.types import Document

WRITES = {
    "history.append": lambda v: v.history.append("a", Message.user("0"), session_id="s"),
    "history.append by id": lambda v: v.history.append("a", Message.user("0", id="m"), session_id="t"),
    "history.replace": lambda v: v.history.replace("a", [Message.user("0")], session_id="s"),
    "history.annotate": lambda v: v.history.annotate("a", {"k": 1}, session_id="s"),
    "history.clear": lambda v: v.history.clear("a", session_id="s"),
    "history.clear of nothing": lambda v: v.history.clear("a", session_id="unknown"),
    "history.clear_run": lambda v: v.history.clear_run("a", session_id="s", run_id="r"),
    "sessions.create": lambda v: v.sessions.create("new"),
    "sessions.update": lambda v: v.sessions.update("s0", title="new"),
    "sessions.update by messages": lambda v: v.sessions.update("s", title="new"),
    "sessions.delete": lambda v: v.sessions.delete("s0"),
    "memory.add": lambda v: v.memory.add(["new"], user_id="u"),
    "memory.delete": lambda v: v.memory.delete(user_id="u"),
    "vectors.add": lambda v: v.vectors("c").add([Document(text="new")]),
    "vectors.upsert": lambda v: v.vectors("c").upsert([Document(id="d0", text="new")]),
    "vectors.add to a new one": lambda v: v.vectors("new").add([Document(text="new")]),
    "vectors.delete": lambda v: v.vectors("c").delete(["d0"]),
    "vectors.delete by filter": lambda v: v.vectors("c").delete(filter={"k": 1}),
    "vectors.delete_collection": lambda v: v.vectors("c").delete_collection(),
    "vectors.delete_collection later": lambda v: v.vectors("later").delete_collection(),
    "context.add": lambda v: v.context().add("user", "new"),
    "context.upsert": lambda v: v.context().upsert("user", "new", external_id="x"),
    "context.update": lambda v: v.context().update(external_id="known", tags=["new"]),
    "context.delete": lambda v: v.context().delete(external_id="known"),
    "context.compact": lambda v: v.context().compact(),
    "tag": lambda v: v.tag("new"),
    "delete_tag": lambda v: v.delete_tag("then"),
    "restore": lambda v: v.restore(1),
    "maintain": lambda v: v.maintain(),
}  # fmt: skip


@pytest.mark.slow
async def test_a_view_refuses_every_kind_of_write(store):
    await store.context().add("user", "known", external_id="known")
    await write(store, 0)
    await store.tag("then")
    await store.vectors("later").add([Document(text="later")])
    before, tags, version = await dump(store), await store.tags(), await store.version()
    views = [await store.checkout(ref) for ref in ("then", version)]
    for action, done in WRITES.items():
        for view in views:
            with pytest.raises(ReadOnlyError):
                await done(view)
        assert await dump(store) == before, action
        assert (await store.tags(), await store.version()) == (tags, version), action


async def test_a_view_refuses_to_embed(open_store, embedder):
    await open_store().memory.add(["tea"], user_id="u")
    store = open_store(embedder=embedder)
    view = await store.checkout(await store.version())
    with pytest.raises(ReadOnlyError):
        await view.embed_pending()
    assert await store.embed_pending() == 1
