"""States of agents in the store, as AgentScope's state service."""

import asyncio

import pytest
from agentscope_lance_context import LanceContextStateService
from agentscope_runtime.engine.services.agent_state.state_service import StateService
from core.conformance.doubles import ManualClock

from lance_context_core import AsyncContextStore, InvalidRequestError


def with_states(restarts, use):
    """What `use` returns of a service that lives for this call."""

    async def main():
        service = LanceContextStateService(restarts.where)
        try:
            return await use(service)
        finally:
            await service.stop()

    return asyncio.run(main())


def test_it_is_what_agentscope_calls_one(restarts):
    assert isinstance(LanceContextStateService(restarts.where), StateService)


def test_rounds_are_counted_and_the_last_is_exported_after_a_restart(restarts):
    async def save(service):
        return [
            await service.save_state("ada", {"n": "a"}),
            await service.save_state("ada", {"n": "b"}, "default"),
            await service.save_state("ada", {"n": "c"}, round_id=7),
            await service.save_state("ada", {"n": "d"}, session_id=""),
            await service.save_state("ada", {"n": "e"}, round_id=2),
            await service.save_state("ada", {"n": "f"}, round_id=-3),
        ]

    async def export(service):
        rounds = [None, -3, 1, 2, 3, 7, 8]
        return [await service.export_state("ada", round_id=one) for one in rounds]

    assert with_states(restarts, save) == [1, 2, 7, 8, 2, -3]
    states = with_states(restarts, export)
    assert [state and state["n"] for state in states] == ["d", "f", "a", "e", None, "c", "d"]


def test_states_are_of_a_user_and_a_session(restarts):
    keys = [(user, session) for user in ("ada", "", "it's") for session in ("monday", "' OR 1=1")]

    async def use(service):
        for user, session in keys:
            await service.save_state(user, {"of": [user, session]}, session)
        return [await service.export_state(user, session) for user, session in keys]

    assert with_states(restarts, use) == [{"of": [user, session]} for user, session in keys]


def test_what_is_unknown_is_none(restarts):
    async def use(service):
        return await service.export_state("ada"), await service.export_state("ada", "x", 1)

    assert with_states(restarts, use) == (None, None)


STATE = {
    "z": 1, "a": {"b": [1.5, None, True, "ö\n\0\ud800"]}, "": {}, "big": 2**70, "inf": float("inf"),
}  # fmt: skip


def test_a_state_comes_back_as_it_was_with_its_keys_in_order(restarts):
    async def use(service):
        await service.save_state("ada", STATE)
        return await service.export_state("ada")

    found = with_states(restarts, use)
    assert found == STATE
    assert list(found) == list(STATE)


def test_what_a_caller_changes_is_not_changed_in_the_store(restarts):
    async def use(service):
        state = {"a": [1]}
        await service.save_state("ada", state)
        state["a"].append(2)
        (await service.export_state("ada"))["a"].append(3)
        return await service.export_state("ada")

    assert with_states(restarts, use) == {"a": [1]}


def test_rounds_that_are_saved_at_once_are_all_kept(restarts):
    async def use(service):
        saved = [service.save_state("ada", {"n": n}) for n in range(6)]
        rounds = await asyncio.gather(*saved)
        states = [await service.export_state("ada", round_id=one) for one in rounds]
        return sorted(rounds), [state["n"] for state in states]

    assert with_states(restarts, use) == (list(range(1, 7)), list(range(6)))


SELF = {}
SELF["self"] = SELF


@pytest.mark.parametrize("state", [None, [], "text", {"a": open}, {"a": {1, 2}}, SELF])
def test_what_is_no_json_object_is_refused_before_anything_is_written(restarts, state):
    async def use(service):
        with pytest.raises(InvalidRequestError, match="state"):
            await service.save_state("ada", state)
        return await service.export_state("ada")

    assert with_states(restarts, use) is None


@pytest.mark.parametrize("round_id", ["1", 1.0, True, 2**63])
def test_what_is_no_round_is_refused(restarts, round_id):
    async def use(service):
        with pytest.raises(InvalidRequestError, match="round_id"):
            await service.save_state("ada", {}, round_id=round_id)
        with pytest.raises(InvalidRequestError, match="round_id"):
            await service.export_state("ada", round_id=round_id)
        return await service.export_state("ada")

    assert with_states(restarts, use) is None


def test_it_needs_no_start_and_its_health_is_asked_for(restarts):
    async def main():
        async with await AsyncContextStore.open(restarts.where) as store:
            async with LanceContextStateService(store) as service:
                await service.save_state("ada", {})
                assert await service.health() is True
            assert await service.health() is True
        assert await service.health() is False

    asyncio.run(main())


def test_the_states_of_a_session_that_nobody_uses_end_together(tmp_path):
    async def main():
        clock = ManualClock()
        async with await AsyncContextStore.open(tmp_path / "store", clock=clock) as store:
            service = LanceContextStateService(store, ttl_seconds=10)
            found = []
            for session in ("monday", "tuesday"):
                await service.save_state("ada", {"n": 1}, session)
            for seconds in (9, 9, 10):
                clock.advance(seconds=seconds)
                # Each of the rounds is kept by the use of any of them.
                found.append(await service.export_state("ada", "monday"))
                await service.export_state("ada", "monday", round_id=1)
                if seconds == 9:
                    await service.save_state("ada", {"n": len(found) + 1}, "monday")
            found.append(await service.export_state("ada", "tuesday"))
            # What has ended is counted anew.
            return found, await service.save_state("ada", {"n": 1}, "monday")

    assert asyncio.run(main()) == ([{"n": 1}, {"n": 2}, None, None], 1)


def test_all_rounds_of_a_session_that_is_used_are_kept(tmp_path):
    async def main():
        clock = ManualClock()
        async with await AsyncContextStore.open(tmp_path / "store", clock=clock) as store:
            service = LanceContextStateService(store, ttl_seconds=10)
            for n in (1, 2, 3):
                await service.save_state("ada", {"n": n})
                clock.advance(seconds=9)
            first = await service.export_state("ada", round_id=1)
            clock.advance(seconds=9)
            return first, await service.export_state("ada")

    assert asyncio.run(main()) == ({"n": 1}, {"n": 3})


@pytest.mark.parametrize("seconds", [0, float("nan"), "10", True])
def test_how_long_a_state_is_kept_is_seconds(restarts, seconds):
    with pytest.raises(InvalidRequestError, match="ttl_seconds"):
        LanceContextStateService(restarts.where, ttl_seconds=seconds)
