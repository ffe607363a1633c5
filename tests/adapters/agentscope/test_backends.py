"""The services as backends of AgentScope's service factories."""

import asyncio
import sys
from types import ModuleType

import pytest
from adapters.agentscope.samples import said, texts
from agentscope_lance_context import (
    LanceContextMemoryService,
    LanceContextSessionHistoryService,
    LanceContextStateService,
    register_backends,
)
from agentscope_lance_context._runtime import SessionHistoryServiceFactory, StateServiceFactory

from lance_context_core import AsyncContextStore, InvalidRequestError

NOT_CALLED = {
    "mem0": "AsyncMemoryClient",
    "reme_ai": "",
    "reme_ai.service": "",
    "reme_ai.service.personal_memory_service": "PersonalMemoryService",
    "reme_ai.service.task_memory_service": "TaskMemoryService",
}
"""The clients of services elsewhere that AgentScope's factory imports."""


def memory_factory(monkeypatch):
    """AgentScope's factory of memory services, with stand-ins for the clients."""
    for module, name in NOT_CALLED.items():
        stand_in = ModuleType(module)
        setattr(stand_in, name, object)
        monkeypatch.setitem(sys.modules, module, stand_in)
    from agentscope_lance_context._runtime import MemoryServiceFactory

    return MemoryServiceFactory


def test_without_its_own_memory_factory_the_other_two_are_registered(monkeypatch):
    place = "agentscope_runtime.engine.services.memory.memory_service_factory"
    monkeypatch.setitem(sys.modules, place, None)
    assert register_backends() == ["session_history", "state"]


def test_environment_variables_are_enough(monkeypatch, tmp_path):
    factories = {
        "SESSION_HISTORY": SessionHistoryServiceFactory,
        "MEMORY": memory_factory(monkeypatch),
        "STATE": StateServiceFactory,
    }
    assert register_backends() == ["session_history", "state", "memory"]
    for prefix in factories:
        monkeypatch.setenv(f"{prefix}_BACKEND", "lancedb")
        monkeypatch.setenv(f"{prefix}_LANCEDB_URI", str(tmp_path / "store"))
        monkeypatch.setenv(f"{prefix}_LANCEDB_UNKNOWN", "ignored")
    monkeypatch.setenv("SESSION_HISTORY_LANCEDB_MAX_MESSAGES_PER_SESSION", "2")
    monkeypatch.setenv("SESSION_HISTORY_LANCEDB_TTL_SECONDS", "1.5e3")
    monkeypatch.setenv("MEMORY_LANCEDB_DEDUPLICATE", "True")

    async def main():
        history, memory, state = [await one.create() for one in factories.values()]
        kinds = [type(one) for one in (history, memory, state)]
        session = await history.get_session("ada", "monday")
        await history.append_message(session, [said(text) for text in "abc"])
        message = said("tea")
        await memory.add_memory("ada", [message])
        await memory.add_memory("ada", [message])
        await state.save_state("ada", {"a": 1})
        for one in (history, memory, state):
            await one.stop()
        return kinds, texts(session.messages), texts(await memory.list_memory("ada"))

    kinds, last, remembered = asyncio.run(main())
    assert kinds == [
        LanceContextSessionHistoryService,
        LanceContextMemoryService,
        LanceContextStateService,
    ]
    assert (last, remembered) == (["b", "c"], ["tea"])


def test_parameters_win_over_the_environment_and_a_store_may_be_one(monkeypatch, tmp_path):
    register_backends("ours")
    monkeypatch.setenv("STATE_OURS_NAME", "from_the_environment")

    async def main():
        async with await AsyncContextStore.open(tmp_path / "store") as store:
            one = await StateServiceFactory.create("ours", store=store)
            other = await StateServiceFactory.create("ours", store=store, name="given")
            await one.save_state("ada", {"a": 1})
            names = await store.kv().names()
            return names, await other.export_state("ada")

    assert asyncio.run(main()) == (["from_the_environment"], None)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"uri": "x", "store": "y"},
        {"uri": "x", "ttl_seconds": "soon"},
        {"uri": "x", "max_messages_per_session": "1.5"},
        {"uri": "x", "deduplicate": "perhaps"},
        {"uri": "x", "on_missing": "explode"},
    ],
)
def test_what_cannot_be_understood_is_refused(given):
    register_backends()
    with pytest.raises(InvalidRequestError):
        asyncio.run(SessionHistoryServiceFactory.create("lancedb", **given))
