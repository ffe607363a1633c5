"""Lines of AgentScope that take turns with one store, as in a migration or a rollback.

No environment has two of them: what the others save is written through the store, where they do.
"""

import asyncio

import agentscope_lance_context as adapter
import pytest
from adapters.agentscope.conftest import AGENTSCOPE_1, AGENTSCOPE_2, LINE, RUNTIME_0, RUNTIME_1

from lance_context_core import AsyncContextStore, Item

ROUND_1 = f"{2**63:020d}"
SAVED = {
    "LanceContextSessionHistoryService": ("agentscope_sessions", ("sessions",), "monday"),
    "LanceContextStateService": ("agentscope_states", ("states", "monday"), ROUND_1),
    "LanceContextSession": ("agentscope_session_states", ("session states",), "monday"),
    "LanceContextMemory": ("agentscope_summaries", ("summaries", "monday"), ""),
    "LanceContextAgentStateStore": ("agentscope_agent_states", ("agent states", ""), "monday"),
    "LanceContextVectorStore": ("agentscope_collections", ("collections",), "monday"),
}
"""What the class keeps of the session or collection `monday`: the name, the namespace and the key."""
OWN = {
    RUNTIME_0: {"LanceContextSessionHistoryService"},
    RUNTIME_1: {"LanceContextSessionHistoryService", "LanceContextStateService"},
    AGENTSCOPE_1: {"LanceContextSession", "LanceContextMemory"},
    AGENTSCOPE_2: {"LanceContextAgentStateStore", "LanceContextVectorStore"},
    None: set(),
}[LINE]
NAMES = pytest.mark.parametrize("name", [None, "mine"])
"""By default each class has a name of its own; a user may give one to all of them."""


def part(store, class_):
    """What of a store the class keeps for Ada; collections are nobody's."""
    return store if class_ == "LanceContextVectorStore" else store.scope(user_id="ada")


async def items(store, name):
    """What is there by class; None where nothing is."""
    found = {}
    for class_, (default, namespace, key) in SAVED.items():
        kv = part(store, class_).kv(name or default)
        (found[class_],) = await kv.get([(namespace, key)])
    return found


async def save_others(store, name):
    """Save what the classes of the other lines would."""
    for class_ in SAVED.keys() - OWN:
        default, namespace, key = SAVED[class_]
        item = Item(namespace=namespace, key=key, value={"of": class_}, data=b'{"agent": {}}')
        await part(store, class_).kv(name or default).put([item])


async def use(store, **options):
    """Each verb of the installed line that reads, begins or saves something."""
    if LINE in (RUNTIME_0, RUNTIME_1):
        for ttl in (None, 60):
            history = adapter.LanceContextSessionHistoryService(store, ttl_seconds=ttl, **options)
            await history.get_session("ada", "monday")
            await history.create_session("ada", "monday")
            await history.list_sessions("ada")
    if LINE == RUNTIME_1:
        states = adapter.LanceContextStateService(store, **options)
        await states.export_state("ada", "monday")
        await states.save_state("ada", {"n": 1}, "monday")
    if LINE == AGENTSCOPE_1:
        for ttl in (None, 60):
            session = adapter.LanceContextSession(store, ttl_seconds=ttl, **options)
            await session.load_session_state("monday", "ada")
            await session.save_session_state("monday", "ada")
            await session.load_session_state("monday", "ada")
        memory = adapter.LanceContextMemory(store, "monday", user_id="ada", **options)
        await memory.get_memory()
        await memory.update_compressed_summary("so far")
    if LINE == AGENTSCOPE_2:
        from agentscope.state import AgentState

        states = adapter.LanceContextAgentStateStore(store, ttl_seconds=60, **options)
        await states.load("monday", user_id="ada")
        await states.save(AgentState(session_id="monday"), user_id="ada")
        assert await states.session_ids(user_id="ada") == ["monday"]
        documents = adapter.LanceContextVectorStore(store, **options)
        await documents.has_collection("monday")
        await documents.create_collection("monday", 2)


async def forget(store, **options):
    """Each verb that forgets a session, a state or a collection."""
    if LINE in (RUNTIME_0, RUNTIME_1):
        history = adapter.LanceContextSessionHistoryService(store, **options)
        await history.delete_session("ada", "monday")
        await history.delete_user_sessions("ada")
    if LINE == AGENTSCOPE_1:
        session = adapter.LanceContextSession(store, **options)
        await session.delete_session_state("monday", "ada")
        await adapter.LanceContextMemory(store, "monday", user_id="ada", **options).clear()
    if LINE == AGENTSCOPE_2:
        states = adapter.LanceContextAgentStateStore(store, **options)
        await states.delete("monday", user_id="ada")
        await adapter.LanceContextVectorStore(store, **options).delete_collection("monday")


def options(name):
    return {} if name is None else {"name": name}


@NAMES
def test_what_other_lines_saved_stays_whatever_this_one_does(name):
    async def main():
        store = await AsyncContextStore.open("memory://")
        await save_others(store, name)
        before = await items(store, name)
        await use(store, **options(name))
        await forget(store, **options(name))
        after = await items(store, name)
        await store.close()
        return before, after

    before, after = asyncio.run(main())
    others = SAVED.keys() - OWN
    assert {one for one, item in before.items() if item is not None} == others
    assert {one: after[one] for one in others} == {one: before[one] for one in others}


@NAMES
def test_what_this_line_saves_is_where_the_other_lines_leave_it_alone(name):
    async def main():
        store = await AsyncContextStore.open("memory://")
        await use(store, **options(name))
        found = await items(store, name)
        await store.close()
        return found

    found = asyncio.run(main())
    assert {class_ for class_, item in found.items() if item is not None} == OWN


@NAMES
def test_this_line_does_not_take_for_its_own_what_another_one_saved(name):
    async def main():
        store = await AsyncContextStore.open("memory://")
        await save_others(store, name)
        found = await everything(store, **options(name))
        await store.close()
        return found

    assert not any(asyncio.run(main()))


async def everything(store, **options):
    """What the installed line finds of Ada's sessions, states and collections."""
    if LINE in (RUNTIME_0, RUNTIME_1):
        history = adapter.LanceContextSessionHistoryService(store, on_missing="none", **options)
        yielded = [await history.get_session("ada", "monday"), await history.list_sessions("ada")]
        if LINE == RUNTIME_1:
            states = adapter.LanceContextStateService(store, **options)
            yielded.append(await states.export_state("ada", "monday"))
        return yielded
    if LINE == AGENTSCOPE_1:
        session = adapter.LanceContextSession(store, **options)
        memory = adapter.LanceContextMemory(store, "monday", user_id="ada", **options)
        return [await session.delete_session_state("monday", "ada"), await memory.get_memory()]
    if LINE == AGENTSCOPE_2:
        states = adapter.LanceContextAgentStateStore(store, **options)
        documents = adapter.LanceContextVectorStore(store, **options)
        return [
            await states.load("monday", user_id="ada"),
            await states.session_ids(user_id="ada"),
            await documents.has_collection("monday"),
        ]
    return []


def test_no_two_classes_share_a_name_or_the_beginning_of_a_namespace():
    for places in zip(*((name, space[0]) for name, space, _ in SAVED.values()), strict=True):
        assert len(set(places)) == len(SAVED)
