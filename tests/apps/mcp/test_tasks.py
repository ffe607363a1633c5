"""Fifty requests in a user's words: the cards lead to the right tool, and its arguments do the job."""

import asyncio
import shutil
from collections import Counter

import pytest
from apps.mcp.chooser import chosen
from apps.mcp.tasks import TASKS, do, each_task, prepared

from lance_context_core import AsyncContextStore
from lance_context_core.window import HeuristicTokenCounter

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A store about Ada, and the ids of what is in it by the names that the tasks use."""
    place = tmp_path_factory.mktemp("known") / "memory"
    return place, asyncio.run(prepared(place))


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
    await do(call, task, names)


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
