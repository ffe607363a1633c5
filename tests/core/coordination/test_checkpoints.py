"""Checkpoints of agents: where each stood, for whoever goes on."""

import asyncio

import pytest

from lance_context_core.errors import InvalidRequestError


@pytest.fixture
def checkpoints(open_store):
    return open_store().checkpoints


async def test_another_process_goes_on_where_an_agent_stood(checkpoints, open_store):
    assert await checkpoints.last("ann") is None
    await checkpoints.save("ann", {"done": 1})
    saved = await checkpoints.save(
        "ann", {"done": [1, "ä"]}, status="running", iteration=7, task_id="t", session_id="s"
    )
    await checkpoints.save("ben", {"done": 0})
    last = await open_store().checkpoints.last("ann")
    assert last == saved
    assert (last.number, last.state, last.status) == (2, {"done": [1, "ä"]}, "running")
    assert (last.iteration, last.task_id, last.session_id) == (7, "t", "s")
    assert await checkpoints.agents() == ["ann", "ben"]


async def test_agents_are_found_by_what_they_were_at_last(checkpoints):
    await checkpoints.save("ann", {}, session_id="s", task_id="t", status="running")
    await checkpoints.save("ben", {}, session_id="s")
    await checkpoints.save("eve", {}, session_id="s", task_id="t")
    moved = await checkpoints.save("eve", {}, session_id="other", task_id="t", status="running")
    found = {
        name: [one.agent_id for one in await checkpoints.latest(**asked)]
        for name, asked in {
            "all": {},
            "session": {"session_id": "s"},
            "task": {"task_id": "t"},
            "both": {"session_id": "other", "status": "running"},
            "none": {"session_id": "s", "task_id": "other"},
        }.items()
    }
    assert found == {
        "all": ["ann", "ben", "eve"],
        "session": ["ann", "ben"],
        "task": ["ann", "eve"],
        "both": ["eve"],
        "none": [],
    }
    assert (await checkpoints.latest(session_id="other")) == [moved]


async def test_an_agent_is_known_as_it_was_at_a_moment(checkpoints, clock):
    first = await checkpoints.save("ann", {"n": 1})
    clock.advance(minutes=2)
    second = await checkpoints.save("ann", {"n": 2})
    assert await checkpoints.last("ann", at=first.at) == first
    assert await checkpoints.last("ann", at=second.at) == second
    clock.advance(minutes=-9)
    assert await checkpoints.last("ann", at=clock.now()) is None


async def test_those_saved_at_once_all_are_kept_with_a_number_each(checkpoints):
    saved = await asyncio.gather(*(checkpoints.save("ann", {"n": n}) for n in range(8)))
    assert sorted(one.number for one in saved) == list(range(1, 9))
    assert {one.state["n"] for one in await checkpoints.list("ann")} == set(range(8))


async def test_all_but_the_latest_are_forgotten(checkpoints):
    for n in range(4):
        await checkpoints.save("ann", {"n": n})
    assert await checkpoints.delete("ann", keep=2) == 2
    assert [one.state["n"] for one in await checkpoints.list("ann")] == [3, 2]
    assert (await checkpoints.save("ann", {})).number == 5
    assert await checkpoints.delete("ann") == 3
    assert await checkpoints.agents() == []


async def test_a_wrong_checkpoint_is_refused_and_not_kept(checkpoints):
    for request in (
        {"agent_id": ""},
        {"state": {"n": float("nan")}},
        {"state": None},
        {"iteration": -1},
        {"task_id": ""},
        {"status": None},
    ):
        with pytest.raises(InvalidRequestError):
            await checkpoints.save(**{"agent_id": "ann", "state": {}, **request})
    assert await checkpoints.agents() == []
