"""Whatever a history is like: a window that its provider takes, within its budget, of which all is told."""

from contextlib import suppress

import pytest
from core.window.histories import histories, numbered
from core.window.refusals import refusals
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core import ContextStore, Message
from lance_context_core.errors import BudgetError
from lance_context_core.errors import InvalidRequestError as NothingThere
from lance_context_core.messages import ToolCallPart, ToolResultPart
from lance_context_core.window import (
    DIALECTS,
    Budget,
    HistorySection,
    PinnedSection,
    SystemSection,
    groups_of,
)


@pytest.fixture(scope="module")
def empty():
    with ContextStore.open("memory://") as store:
        yield store


def assembled(store, messages, room, dialect, *sections):
    """A window of that room, or None where what must be in it does not fit, or nothing is there."""
    budget = Budget(total=room, margin=0)
    arguments = {"messages": messages, "dialect": dialect, "budget": budget, "session_id": "s"}
    try:
        return store.assemble(sections=sections, **arguments)
    except BudgetError as error:
        least = error.minimum
        wider = Budget(total=least, margin=0)
        with suppress(NothingThere):
            found = store.assemble(sections=sections, **(arguments | {"budget": wider}))
            assert room < least <= found.room
        return None
    except NothingThere:
        return None


SYSTEM = SystemSection(text="You pour tea.")
PINNED = PinnedSection(texts=["Allergic to mint."])

rooms = st.integers(1, 120) | st.integers(120, 4_000)


dialects = st.sampled_from(sorted(DIALECTS))


@settings(max_examples=3 * settings.default.max_examples)
@given(dialect=dialects, messages=histories(), room=rooms, with_sections=st.booleans())
def test_a_window_keeps_to_its_budget_and_its_providers_rules(
    empty, dialect, messages, room, with_sections
):
    sections = (SYSTEM, PINNED, HistorySection()) if with_sections else (HistorySection(),)
    window = assembled(empty, messages, room, dialect, *sections)
    if window is None:
        return
    assert window.tokens <= room
    assert window.messages
    assert window.validate() == []
    assert refusals(dialect, window.render()) == []
    assert sum(one.tokens for one in window.report.outcomes) == window.tokens
    assert sum(window.tokens_by_section.values()) == window.tokens
    # Every message is accounted for, and the newest turn of the user is there.
    told = window.report.ids("kept", "stubbed", "dropped", "rejected")
    assert set(told) == {one.id for one in messages}
    turns = [one for one in groups_of(messages).groups if one.is_user_turn]
    assert not turns or turns[-1].ids[0] in window.report.ids("kept")


@given(dialect=dialects, messages=histories(), room=rooms)
def test_what_waits_for_results_is_kept_at_the_end(empty, dialect, messages, room):
    opened = Message.assistant(
        [ToolCallPart(call_id="z1", name="a"), ToolCallPart(call_id="z2", name="b")]
    )
    first = Message.tool("half", call_id="z1")
    messages = numbered([*messages, Message.user("Go on."), opened, first])
    window = assembled(empty, messages, room, dialect, SYSTEM, PINNED, HistorySection())
    if window is None:
        return
    parts = [part for one in window.messages[-2:] for part in one.parts]
    assert [type(one) for one in parts] == [ToolCallPart, ToolCallPart, ToolResultPart]
    assert [one.call_id for one in parts] == ["z1", "z2", "z1"]
    assert window.validate() == []
    assert refusals(dialect, window.render()) == []


@given(dialect=dialects, messages=histories(), room=rooms)
def test_two_assemblies_are_the_same_to_the_byte(empty, dialect, messages, room):
    one = assembled(empty, messages, room, dialect, SYSTEM, HistorySection())
    if one is not None:
        other = assembled(empty, messages, room, dialect, SYSTEM, HistorySection())
        assert repr(one.render()) == repr(other.render())
        assert one.report == other.report
        assert one.stable(other) == 1.0


@given(messages=histories(30))
def test_groups_put_a_history_in_order_without_losing_a_message(messages):
    grouped = groups_of(messages)
    told = [id for group in grouped.groups for id in group.ids]
    told += [one.id for one, _ in grouped.rejected]
    assert set(told) == {one.id for one in messages}
    assert groups_of(grouped.messages).messages == grouped.messages
    assert not any(group.is_open for group in grouped.groups[:-1])
