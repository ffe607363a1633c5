"""The store's sessions keep the contract of `SessionStore`, and more than that."""

from core.conformance.sessions import SessionContract

from lance_context_core.messages import Message


class TestSessions(SessionContract):
    """The sessions of the store itself."""


async def test_deleting_a_session_leaves_the_memories_and_records_that_came_from_it(store):
    await store.history.append("a", Message.user("0"), session_id="s")
    await store.memory.add(["likes tea"], user_id="u", session_id="s")
    await store.context().add("tool", b"bytes", session_id="s", kind="artifact")
    assert await store.sessions.delete("s") is True
    assert (await store.memory.list(user_id="u", session_id="s")).total == 1
    assert await store.context().entries() == 2


async def test_sessions_of_different_tenants_have_nothing_to_do_with_each_other(store, clock):
    tenants = {name: store.scope(tenant=name) for name in ("x", "y")}
    for name, tenant in tenants.items():
        await tenant.sessions.create("s", title=name)
        await tenant.history.append("a", Message.user(name), session_id="s")
        clock.advance(minutes=1)
    await tenants["x"].sessions.update("s", status="closed")
    assert await tenants["x"].sessions.delete("s") is True
    assert await tenants["x"].sessions.get("s") is None
    found = await tenants["y"].sessions.get("s")
    assert (found.title, found.status, found.tenant, found.n_messages) == ("y", "active", "y", 1)
