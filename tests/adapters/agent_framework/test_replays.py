"""Whatever a caller passes again, the store has the conversation, once."""

import asyncio
from itertools import count

from adapters.agent_framework.samples import answer, call, forms, model, user
from agent_framework_lance_context import LanceHistoryProvider
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import AsyncContextStore

WORDS = st.sampled_from(["yes", "no"])
TURNS = st.lists(
    st.tuples(WORDS, st.booleans(), WORDS, st.sampled_from(["turn", "all", "end"])),
    max_size=4,
)
"""What a user says, whether a tool is called, what the model says, and how much is passed."""


def turn(asks, uses_tool, says, ids):
    used = [call("c", city=asks), answer(says, "c")] if uses_tool else []
    return [user(asks, message_id=ids()), *used, model(says, message_id=ids())]


async def stored(steps):
    async with AsyncContextStore.open("memory://") as store:
        history = LanceHistoryProvider(store)
        for messages in steps:
            await history.save_messages("1", messages)
        return forms(await history.get_messages("1"))


def steps_of(turns, ids):
    """What is passed in each step; and the conversation, as a list that is only ever appended to."""
    said, steps = [], []
    for asks, uses_tool, says, how in turns:
        new = turn(asks, uses_tool, says, ids)
        before = {"turn": [], "all": said, "end": said[-3:]}[how]
        steps.append([*before, *new])
        said = [*said, *new]
    return steps, forms(said)


@given(TURNS)
def test_messages_with_ids_are_stored_once_in_order(turns):
    numbers = count()
    steps, conversation = steps_of(turns, lambda: f"m-{next(numbers)}")
    assert asyncio.run(stored(steps)) == conversation


@given(TURNS)
def test_messages_without_ids_too_where_a_turn_or_all_is_passed(turns):
    turns = [(*one[:3], "all" if one[3] == "end" else one[3]) for one in turns]
    steps, conversation = steps_of(turns, lambda: None)
    assert asyncio.run(stored(steps)) == conversation
