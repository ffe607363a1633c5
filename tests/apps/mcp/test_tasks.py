"""Fifty requests in a user's words: the cards lead to the right tool, and its arguments do the job."""

import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from apps.mcp.chooser import chosen
from lance_context_mcp.graph import Graph

from lance_context_core import AsyncContextStore, Message
from lance_context_core.window import HeuristicTokenCounter

pytestmark = pytest.mark.anyio

TASKS = json.loads(Path(__file__).with_name("tasks.json").read_text(encoding="utf-8"))
each_task = pytest.mark.parametrize("task", TASKS, ids=[one["said"] for one in TASKS])


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A store about Ada, and the ids of what is in it by the names that the tasks use."""
    place = tmp_path_factory.mktemp("known") / "memory"
    return place, asyncio.run(prepared(place))


async def prepared(place):
    async with AsyncContextStore.open(place, maintenance=None) as store:
        memories = ["Ada drinks her coffee black.", "Ada's dentist is Dr. Olsen."]
        coffee, dentist = await store.memory.add(memories)
        said = [Message.user("I am allergic to nuts."), Message.assistant("I will avoid them.")]
        nuts, _ = await store.history.append_many("tutor", said, session_id="monday")
        await store.knowledge.add(Message.user("I live in Oslo."), session_id="sunday")
        (oslo,) = await store.knowledge.list()
        deposit = b"# Lease\n\nThe deposit is 900 euros."
        lease = await store.documents.add(deposit, name="lease.md")
        pages = "# Handbook\n\n" + "Nothing is said here.\n\n" * 1_000 + "This is the last page."
        handbook = await store.documents.add(pages.encode(), name="handbook.md")
        eva = {"name": "Eva", "entityType": "person", "observations": ["plays the cello"]}
        await Graph(store).create_entities([eva])
        now = await store.version()
        draft = await store.create_branch("draft")
        await draft.memory.add(["Ada drinks tea."])
        ids = {"coffee": coffee, "dentist": dentist, "nuts": nuts, "oslo": oslo.id}
        return ids | {"lease": lease.id, "handbook": handbook.id, "now": now}


@pytest.fixture
async def ada(known, tmp_path, serving):
    """Calls all tools of a server of a copy of the store, and the ids in it."""
    place, names = shutil.copytree(known[0], tmp_path / "memory"), known[1]
    async with AsyncContextStore.open(place, maintenance=None) as store:
        options = {"knowledge": store.knowledge, "has_branches": True}
        async with serving(store, tools=("all",), **options) as call:
            yield call, names


async def cards_of(serving, store, *tools):
    async with serving(store, tools=tools, has_branches="branches" in tools) as call:
        return (await call.client.list_tools()).tools


@each_task
async def test_the_words_of_the_cards_lead_to_the_right_tool(serving, store, task):
    cards = await cards_of(serving, store, *task.get("tools", ["default"]))
    assert chosen(cards, task["said"]) == task["tool"]


@each_task
async def test_the_right_tool_does_with_its_arguments_what_was_asked_for(ada, task):
    call, names = ada

    async def is_found(words):
        """Whether a recall finds these words."""
        wanted = {"query": words, "limit": 20, **task.get("recall", {})}
        return words in json.dumps(await call("recall", **wanted))

    if "gone" in task:
        assert await is_found(task["gone"])
    if "then" in task:
        assert not await is_found(task["then"])
    arguments = with_ids(task["arguments"], names)
    answer = json.dumps(await call(task["tool"], **arguments))
    assert task.get("answer", "") in answer
    if "gone" in task:
        assert not await is_found(task["gone"])
    if "then" in task:
        assert await is_found(task["then"])


def with_ids(value, names):
    """The arguments, each `$name` replaced by what it stands for."""
    if isinstance(value, str) and value.startswith("$"):
        return names[value[1:]]
    if isinstance(value, list):
        return [with_ids(one, names) for one in value]
    if isinstance(value, dict):
        return {name: with_ids(one, names) for name, one in value.items()}
    return value


async def test_the_tasks_use_each_default_tool_and_each_of_its_arguments(serving, store):
    assert len({one["said"] for one in TASKS}) == 50
    used = Counter((one["tool"], name) for one in TASKS for name in one["arguments"])
    for card in await cards_of(serving, store, "default"):
        for name in card.input_schema["properties"]:
            assert used[card.name, name] > 0, f"no task gives {name} to {card.name}"


async def test_the_default_cards_together_take_at_most_2000_tokens(serving, store):
    cards = await cards_of(serving, store, "default")
    told = [card.model_dump_json(by_alias=True, exclude_none=True) for card in cards]
    assert HeuristicTokenCounter().count("\n".join(told)) <= 2_000
