"""Checkpoints of workflows: copies, in order of time, and no object that is not allowed."""

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta, timezone

import pytest
from adapters.agent_framework.flow import NAME, TYPES, Letter, workflow
from adapters.agent_framework.samples import EVERYTHING, forms
from agent_framework import WorkflowCheckpoint
from agent_framework.exceptions import WorkflowCheckpointException
from agent_framework_lance_context import LanceCheckpointStorage


@pytest.fixture
def storage(store):
    return LanceCheckpointStorage(store)


def at(hours, zone=UTC):
    return (
        (datetime(2026, 11, 30, 12, tzinfo=UTC) + timedelta(hours=hours))
        .astimezone(zone)
        .isoformat()
    )


def checkpoint(id, hours=0, workflow_name="flow", **more):
    return WorkflowCheckpoint(
        workflow_name, "hash", checkpoint_id=id, timestamp=more.pop("timestamp", at(hours)), **more
    )


async def test_a_checkpoint_comes_back_equal_and_is_a_copy(storage):
    state = {
        "values": [
            1,
            2.5,
            None,
            "\ud800",
            {1: "a", "b": (1, 2)},
            {3, 4},
            b"\0",
            datetime(2026, 1, 1, tzinfo=UTC),
        ],
        "long": "x" * 100_000,
    }
    given = checkpoint("1", state=state, previous_checkpoint_id="0", metadata={"n": 1})
    assert await storage.save(given) == "1"
    state["values"].clear()
    found = await storage.load("1")
    assert found.state["values"][3:6] == ["\ud800", {"1": "a", "b": (1, 2)}, {3, 4}]
    assert len(found.state["values"]) == 8
    found.state.clear()
    latest = await storage.get_latest(workflow_name="flow")
    assert latest.state["long"] == "x" * 100_000
    assert (latest.previous_checkpoint_id, latest.metadata) == ("0", {"n": 1})


async def test_messages_in_a_checkpoint_come_back_equal(storage):
    await storage.save(checkpoint("1", state={"messages": EVERYTHING}))
    assert forms((await storage.load("1")).state["messages"]) == forms(EVERYTHING)


async def test_checkpoints_are_listed_by_time_whatever_their_zone(storage):
    east = timezone(timedelta(hours=9))
    for id, hours, zone in (("c", 3, UTC), ("a", 1, east), ("b", 2, UTC)):
        await storage.save(checkpoint(id, timestamp=at(hours, zone)))
    await storage.save(checkpoint("x", 9, workflow_name="flow 2"))
    naive = at(0).removesuffix("+00:00")
    await storage.save(checkpoint("0", timestamp=naive))
    assert await storage.list_checkpoint_ids(workflow_name="flow") == ["0", "a", "b", "c"]
    listed = await storage.list_checkpoints(workflow_name="flow")
    assert [one.checkpoint_id for one in listed] == ["0", "a", "b", "c"]
    assert (await storage.get_latest(workflow_name="flow")).checkpoint_id == "c"
    assert (await storage.load("a")).timestamp == at(1, east)
    assert await storage.list_checkpoints(workflow_name="unheard of") == []
    assert await storage.get_latest(workflow_name="unheard of") is None


async def test_a_checkpoint_replaces_that_of_its_id_wherever_it_was(storage):
    await storage.save(checkpoint("1", 5, state={"n": 1}))
    await storage.save(checkpoint("1", 2, state={"n": 2}))
    await storage.save(checkpoint("2", 3))
    assert await storage.list_checkpoint_ids(workflow_name="flow") == ["1", "2"]
    assert (await storage.load("1")).state == {"n": 2}
    await storage.save(checkpoint("1", 2, workflow_name="other"))
    assert await storage.list_checkpoint_ids(workflow_name="flow") == ["2"]
    assert await storage.list_checkpoint_ids(workflow_name="other") == ["1"]


async def test_savers_of_one_id_at_once_leave_one_checkpoint(storage):
    await asyncio.gather(*(storage.save(checkpoint("1", hours)) for hours in range(8)))
    assert await storage.list_checkpoint_ids(workflow_name="flow") == ["1"]
    assert await storage.load("1") == await storage.get_latest(workflow_name="flow")


async def test_a_deleted_checkpoint_is_gone(storage):
    await storage.save(checkpoint("1"))
    assert [await storage.delete("1"), await storage.delete("1")] == [True, False]
    assert await storage.list_checkpoint_ids(workflow_name="flow") == []
    with pytest.raises(WorkflowCheckpointException, match="no such checkpoint"):
        await storage.load("1")


async def test_an_object_of_a_type_that_is_not_allowed_is_neither_saved_nor_loaded(storage, store):
    letter = checkpoint("1", state={"letter": Letter(["Dear Ben"])})
    with pytest.raises(WorkflowCheckpointException, match="Letter"):
        await storage.save(letter)
    assert await store.kv("agent-framework").count() == 0
    trusting = LanceCheckpointStorage(store, allowed_checkpoint_types=TYPES)
    await trusting.save(letter)
    assert (await trusting.load("1")).state == letter.state
    for call in (
        storage.load("1"),
        storage.get_latest(workflow_name="flow"),
        storage.list_checkpoints(workflow_name="flow"),
    ):
        with pytest.raises(WorkflowCheckpointException, match="Letter"):
            await call
    assert await storage.delete("1")


async def test_what_cannot_be_encoded_is_refused(storage, store):
    endless = []
    endless.append(endless)
    for state in ({"f": lambda: None}, {"loop": endless}):
        with pytest.raises(WorkflowCheckpointException, match="'1' cannot be stored"):
            await storage.save(checkpoint("1", state=state))
    for changes in (
        {"checkpoint_id": ""},
        {"checkpoint_id": "a\0b"},
        {"checkpoint_id": 5},
        {"workflow_name": ""},
        {"workflow_name": "\ud800"},
        {"timestamp": "yesterday"},
        {"timestamp": None},
    ):
        (name,) = changes
        with pytest.raises(WorkflowCheckpointException, match=name):
            await storage.save(dataclasses.replace(checkpoint("1"), **changes))
    with pytest.raises(WorkflowCheckpointException, match="give a WorkflowCheckpoint"):
        await storage.save({"checkpoint_id": "1"})
    with pytest.raises(WorkflowCheckpointException, match="allowed_checkpoint_types"):
        LanceCheckpointStorage(store, allowed_checkpoint_types="my_app:State")
    assert await store.kv("agent-framework").count() == 0


async def test_a_workflow_goes_on_from_each_of_its_checkpoints(store):
    storage = LanceCheckpointStorage(store, allowed_checkpoint_types=TYPES)
    result = await workflow(storage).run("Dear Ben")
    assert result.get_outputs() == ["Dear Ben first second"]
    chain = await storage.list_checkpoints(workflow_name=NAME)
    assert [one.previous_checkpoint_id for one in chain] == [
        *(None, *(one.checkpoint_id for one in chain[:-1]))
    ]
    for one in chain[:-1]:
        again = await workflow(storage).run(checkpoint_id=one.checkpoint_id)
        assert again.get_outputs() == ["Dear Ben first second"]
