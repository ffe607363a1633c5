"""The store's sessions keep the contract of `SessionStore`, and more than that."""

import pytest
from core.conformance.places import InEachPlace
from core.conformance.sessions import StoredSessionTests

from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import Message


class TestSessions(InEachPlace, StoredSessionTests):
    """The sessions of the store itself."""

    @pytest.fixture
    def history(self, history):
        return history

    @pytest.fixture
    def sessions(self, sessions):
        return sessions


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


@pytest.mark.slow
async def test_users_and_agents_who_call_theirs_alike_have_one_each_at_every_width(store, clock):
    """Every handle sees, gets, changes and deletes what a handle of the session itself does."""
    whose = [("x", "ada", None), ("x", "bob", None), ("y", "ada", None), ("x", None, None)]
    whose += [("x", "eve", "tutor"), ("x", "eve", "cook")]
    handles = {one: scoped(store, *one) for one in whose}
    for n, handle in enumerate(handles.values(), start=1):
        await handle.sessions.create("s", title=f"{n}")
        await handle.history.append_many("", [Message.user("0")] * n, session_id="s")
        clock.advance(minutes=1)
    expected = {one: (f"{n}", n) for n, one in enumerate(whose, start=1)}

    for tenant, user in [(None, None), ("x", None), ("y", None), ("x", "ada"), ("x", "eve")]:
        wide = scoped(store, tenant, user)
        inside = {
            one: told
            for one, told in expected.items()
            if tenant in (None, one[0]) and user in (None, one[1])
        }
        listed = await wide.sessions.list()
        for page in (1, 3, 6):
            assert await wide.sessions.list(limit=page, offset=1) == listed[1:][:page]
        assert [told(one) for one in listed] == [*inside.values()][::-1]
        assert {place(one) for one in listed} == set(inside)
        if len(inside) == 1 or (tenant, user, None) in inside:
            found = await wide.sessions.get("s")
            assert told(found) == inside.get((tenant, user, None), next(iter(inside.values())))
        else:
            for call in (wide.sessions.get, wide.sessions.delete, wide.sessions.update):
                with pytest.raises(InvalidRequestError, match=r"session_id='s'.*scope"):
                    await call("s")

    for one in (("x", "ada", None), ("x", "eve", "cook")):
        await handles[one].sessions.update("s", title="new")
        expected[one] = ("new", expected[one][1])
        assert {place(s): told(s) for s in await store.sessions.list()} == expected
    for one in whose:
        await handles[one].sessions.delete("s")
        del expected[one]
        assert {place(s): told(s) for s in await store.sessions.list()} == expected


async def test_users_whose_sessions_nobody_described_have_one_each(store):
    for user in ("ada", "bob"):
        for agent in ("tutor", "cook"):
            said = [Message.user("0")] * len(user + agent)
            await store.scope(user_id=user).history.append_many(agent, said, session_id="s")
    assert sorted((one.user_id, one.n_messages) for one in await store.sessions.list()) == [
        *(("ada", 15), ("bob", 15))
    ]
    # One that is described outside their scopes is nobody's, and does not stand for theirs.
    assert (await store.sessions.create("s", title="whose?")).n_messages == 0
    assert [one.title for one in await store.sessions.list()].count(None) == 2
    assert (await store.sessions.update("s", title="mine")).user_id is None
    assert await store.sessions.delete("s") is True
    assert await store.scope(user_id="ada").sessions.delete("s") is True
    assert (await store.sessions.get("s")).user_id == "bob"


def scoped(store, tenant, user, agent=None):
    return store.scope(tenant=tenant, user_id=user, agent_id=agent)


def place(session):
    return session.tenant, session.user_id, session.agent_id


def told(session):
    return session.title, session.n_messages
