"""Histories that break every rule, summarisers that fail, counters that lie: a valid window, or one clear error."""

import re
import zlib

import pytest
from core.window.histories import histories, numbered
from core.window.test_compaction import FAULTS
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import ContextStore, InvalidRequestError, Message
from lance_context_core.errors import BudgetError
from lance_context_core.messages import ToolCallPart
from lance_context_core.window import (
    DIALECTS,
    Budget,
    HistorySection,
    PinnedSection,
    SummarySection,
    SystemSection,
    for_context_window,
    groups,
    groups_of,
    sources,
)

SYSTEM = SystemSection(text="You pour tea.")


@pytest.fixture(scope="module")
def empty():
    with ContextStore.open("memory://") as store:
        yield store


@pytest.fixture
def store():
    with ContextStore.open("memory://") as opened:
        yield opened


def tea(n, *, first=0):
    roles = ("user", "assistant")
    return [Message.of(roles[k % 2], f"tea {k}", id=f"t{k}") for k in range(first, first + n)]


def called(n, *, of="c"):
    return [Message.assistant(ToolCallPart(call_id=f"{of}{k}", name="look")) for k in range(n)]


# Summarisers


@pytest.mark.parametrize(("summariser", "said"), FAULTS)
def test_whatever_a_summariser_does_the_window_is_valid_and_says_so(store, summariser, said):
    store.history.append_many("", tea(300), session_id="s")
    summary = SummarySection(summariser=summariser, timeout_seconds=0.05)
    window = store.assemble(
        session_id="s", budget=600, sections=[SYSTEM, summary, HistorySection()], dialect="gemini"
    )
    (note,) = window.report.notes
    assert said in note
    assert "secret" not in note
    assert window.validate() == []
    assert window.report.ids("kept")[-1] == "t299"
    assert store.context("summaries").list() == []


# Counters


def by_chance(text):
    """As many tokens as chance has it, but always as many for the same text."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) % 200


LIARS = {
    "nothing": lambda _: 0,
    "always the same": lambda _: 7,
    "the shorter the more": lambda text: max(0, 300 - len(text)),
    "by chance": by_chance,
    "far too many": lambda text: 50 * len(text),
}


@pytest.mark.parametrize("counter", LIARS.values(), ids=LIARS)
@given(messages=histories(), room=st.integers(20, 3_000), dialect=st.sampled_from(sorted(DIALECTS)))
def test_a_counter_that_lies_makes_no_window_that_breaks_a_rule(
    empty, counter, messages, room, dialect
):
    messages = numbered([*messages, Message.user("Tea?")])
    sections = (SYSTEM, PinnedSection(texts=["No mint."]), HistorySection())
    arguments = {
        "session_id": "s",
        "sections": sections,
        "messages": messages,
        "counter": counter,
        "dialect": dialect,
    }
    try:
        window = empty.assemble(budget=Budget(total=room, margin=0), **arguments)
    except BudgetError as error:
        least = error.minimum
        window = empty.assemble(budget=Budget(total=least, margin=0), **arguments)
        assert room < least
        room = least
    assert window.tokens <= room
    assert sum(one.tokens for one in window.report.outcomes) == window.tokens
    assert window.validate() == []
    assert messages[-1].id in window.report.ids("kept")


def test_a_counter_that_raises_is_named(store):
    def broken(_):
        raise KeyError("vocabulary")

    with pytest.raises(InvalidRequestError, match="token counter"):
        store.assemble(session_id="s", budget=100, messages=[Message.user("tea")], counter=broken)


# Budgets


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (lambda: 0, "total=0 leaves no room"),
        (lambda: -1, "total=-1"),
        (lambda: Budget(total=0), "total=0 leaves no room"),
        (lambda: Budget(total=100, reserve_output=100), "reserve_output=100"),
        (lambda: Budget(total=1), "total=1 leaves no room"),
        (lambda: None, "budget=None"),
        (lambda: 9.5, "budget=9.5"),
    ],
    ids=[
        "nothing",
        "less than nothing",
        "a budget of 0",
        "all is reserved",
        "the margin takes it",
        "none",
        "a fraction",
    ],
)
def test_a_budget_of_nothing_is_one_clear_error(store, given, named):
    with pytest.raises(InvalidRequestError, match=re.escape(named)):
        store.assemble(session_id="s", budget=given(), messages=[Message.user("tea")])


def test_a_budget_below_the_instructions_names_what_they_take(store):
    sections = [SystemSection(text="You pour tea. " * 50), HistorySection()]
    said = [Message.user("tea")]
    with pytest.raises(BudgetError, match=r"system [0-9]+") as error:
        store.assemble(session_id="s", budget=50, messages=said, sections=sections)
    enough = Budget(total=error.value.minimum, margin=0)
    window = store.assemble(session_id="s", budget=enough, messages=said, sections=sections)
    assert window.tokens == error.value.minimum


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"context_window": 0}, "context_window=0"),
        ({"context_window": -5}, "context_window=-5"),
        ({"context_window": 100, "reserve_output": 100}, "reserve_output=100"),
        ({"context_window": 100, "reserve_output": -1}, "reserve_output=-1"),
        ({"context_window": 100, "trigger": 0}, "trigger=0"),
        ({"context_window": 100, "target": -0.5}, "target=-0.5"),
    ],
    ids=["nothing", "less", "all is reserved", "less is reserved", "no trigger", "no target"],
)
def test_a_context_window_of_nothing_is_one_clear_error(given, named):
    with pytest.raises(InvalidRequestError, match=re.escape(named)):
        for_context_window(**given)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_below_the_newest_turn_the_minimum_is_named_and_is_enough(store, dialect):
    store.history.append_many("", tea(30), session_id="s")
    newest = Message.user("Which tea? " * 200, id="newest")
    arguments = {"session_id": "s", "sections": [SYSTEM, HistorySection()], "messages": [newest]}
    with pytest.raises(BudgetError) as caught:
        store.assemble(budget=Budget(total=40, margin=0), dialect=dialect, **arguments)
    least = caught.value.minimum
    assert f"need {least} " in str(caught.value)
    with pytest.raises(BudgetError):
        store.assemble(budget=Budget(total=least - 1, margin=0), dialect=dialect, **arguments)
    window = store.assemble(budget=Budget(total=least, margin=0), dialect=dialect, **arguments)
    assert window.report.ids("kept") == ("newest",)
    assert window.validate() == []


# Histories


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param(lambda n: [Message.tool("x", call_id=f"z{k}") for k in range(n)], id="orphans"),
        pytest.param(lambda n: [Message.tool("x", call_id=f"c{k}") for k in range(n)], id="first first"),
        pytest.param(lambda n: [Message.tool("x", call_id="c0")] * n, id="one of them again"),
        pytest.param(lambda n: [Message.tool("x", call_id=None, tool_name="smell")] * n, id="of another tool"),
        pytest.param(lambda n: [Message.tool("x", call_id=None, tool_name="look")] * n, id="without ids"),
    ],
)  # fmt: skip
def test_many_calls_that_wait_are_not_all_looked_at_for_each_result(monkeypatch, answers):
    n, looked = 400, []
    original = groups._Call.open_index
    monkeypatch.setattr(
        groups._Call, "open_index", lambda self, result: looked.append(1) or original(self, result)
    )
    grouped = groups_of([*called(n), *answers(n)])
    told = sum(len(one.messages) for one in grouped.groups) + len(grouped.rejected)
    assert told >= 2 * n
    assert len(looked) <= 5 * n


def test_a_line_of_a_million_signs_and_scripts_of_all_kinds_are_shown_or_left_out_whole(store):
    odd = ["🫖" * 50, "\u202eaet\u202c", "e\u0301" * 40, "茶" * 60, "\u0000\u0007", "a\u2028b"]
    messages = [Message.user(text, id=f"o{n}") for n, text in enumerate(odd)]
    giant = Message.assistant("x" * 1_000_000, id="giant")
    store.history.append_many("", [giant, *messages], session_id="s")
    for dialect in DIALECTS:
        window = store.assemble(session_id="s", budget=1_200, dialect=dialect)
        shown = {one.id: one.text for one in window.messages if one.id}
        assert shown == {f"o{n}": text for n, text in enumerate(odd)}
        assert "giant" in window.report.ids("dropped") or window.report.n_not_considered == 1
        assert window.validate() == []


@pytest.fixture
def made(monkeypatch):
    """A mark for each row that a message was made of."""
    marks = []
    original = sources.message_of
    monkeypatch.setattr(sources, "message_of", lambda row: marks.append(1) or original(row))
    return marks


@pytest.mark.slow
def test_of_many_tiny_turns_as_few_are_read_as_of_a_few(store, made):
    counts = []
    for n in (2_000, 10_000):
        store.history.append_many("", tea(n), session_id=f"s{n}")
        made.clear()
        window = store.assemble(session_id=f"s{n}", budget=800)
        assert window.report.ids("kept")[-1] == f"t{n - 1}"
        assert len(window.report.outcomes) + window.report.n_not_considered >= n
        counts.append(len(made))
    assert max(counts) <= 1_500
    assert counts[1] <= 2 * counts[0]


@pytest.mark.long
def test_of_a_million_tiny_turns_as_few_are_read_as_of_a_few(tmp_path, made):
    with ContextStore.open(tmp_path / "memory") as store:
        for first in range(0, 1_000_000, 50_000):
            store.history.append_many("", tea(50_000, first=first), session_id="s")
        window = store.assemble(session_id="s", budget=800, dialect="anthropic")
        assert window.report.ids("kept")[-2:] == ("t999998", "t999999")
        told = {id for one in window.report.outcomes for id in one.ids}
        assert len(told) + window.report.n_not_considered == 1_000_000
        assert window.validate() == []
        assert len(made) <= 1_500
