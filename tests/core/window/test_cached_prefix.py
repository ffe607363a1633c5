"""What a provider's cache keeps: the prefix of a window changes when the history is cut, and not else."""

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import ContextStore, Message
from lance_context_core.window import (
    HistorySection,
    ProfileSection,
    RecallSection,
    SummarySection,
    SystemSection,
)
from lance_context_core.window.truncation import size_of, sizes_of

SYSTEM = SystemSection(text="You bake.")
WORDS = ["bread", "rises", "in", "ovens", "of", "old", "bakeries", "near", "harbour", "towns"]
MADE_OF = {
    "profile and recall": [SYSTEM, ProfileSection(), HistorySection(), RecallSection()],
    "summary": [SYSTEM, SummarySection(summariser=lambda _: "Old things."), HistorySection()],
}


@pytest.fixture
def store():
    with ContextStore.open("memory://") as opened:
        yield opened


def english(chance, n):
    return " ".join(chance.choices(WORDS, k=n))


def chinese(chance, n):
    return "".join(chr(0x4E00 + chance.randrange(3_000)) for _ in range(n))


def code(chance, n):
    return "\n".join(f"if x_{k}[{chance.randrange(99)}] != None: return" for k in range(n // 6))


def n_breaks(store, sections, say, *, n=100):
    """How many of so many windows do not begin with what the one before had up to its last mark."""
    chance = random.Random(0)
    before, found = [], 0
    for turn in range(n):
        question = Message.user(f"{turn}: {say(chance, 8)}?", id=f"u{turn}")
        store.history.append("", question, session_id="s")
        if turn % 5 == 0:
            store.memory.add([f"Likes {say(chance, 5)}"], user_id="ada")
        window = store.assemble(session_id="s", budget=1_200, sections=sections, user_id="ada")
        cached = [one.to_json() for one in window.messages[: window.breakpoints[-1] + 1]]
        found += cached[: len(before)] != before
        before = cached
        answer = Message.assistant(say(chance, 16), id=f"a{turn}")
        store.history.append("", answer, session_id="s")
    return found


@pytest.mark.parametrize(
    ("made_of", "say"),
    [
        ("profile and recall", english),
        ("summary", english),
        ("summary", chinese),
        ("summary", code),
    ],
)
def test_the_cached_prefix_breaks_five_times_in_a_hundred_turns_at_most(tmp_path, made_of, say):
    with ContextStore.open(tmp_path, maintenance=None) as store:
        assert n_breaks(store, MADE_OF[made_of], say) <= 5


def test_what_is_remembered_after_the_cut_stands_behind_the_history(store):
    store.memory.add(["Ada bakes on Fridays."], user_id="ada")
    store.history.append("", Message.user("Hello", id="u"), session_id="s")
    sections = [ProfileSection(), HistorySection()]

    def shown():
        window = store.assemble(session_id="s", budget=2_000, sections=sections, user_id="ada")
        assert sum(one.tokens for one in window.report.outcomes) == window.tokens
        return [one.text for one in window.messages], window

    (first, hello), _ = shown()
    store.memory.add(["Ada dislikes mint."], user_id="ada")
    (same, again, later), window = shown()
    assert (first, hello) == (same, again)
    assert "Fridays" in first
    assert "mint" in later
    assert "Fridays" not in later
    assert [one.text for one in window.citations.values()] == [
        "Ada bakes on Fridays.", "Ada dislikes mint."
    ]  # fmt: skip


def test_a_profile_of_more_than_its_limit_keeps_its_beginning_as_memories_are_added(store):
    store.memory.add([f"Ada likes tea {n}." for n in range(6)], user_id="ada")
    store.history.append("", Message.user("Hello", id="u"), session_id="s")
    sections = [ProfileSection(limit=4), HistorySection()]
    prefixes = set()
    for n in range(6):
        window = store.assemble(session_id="s", budget=2_000, sections=sections, user_id="ada")
        prefixes.add(window.messages[0].text)
        store.memory.add([f"Ada likes cake {n}."], user_id="ada")
    (prefix,) = prefixes
    assert [f"tea {n}" in prefix for n in range(6)] == [False, False, True, True, True, True]
    assert [f"cake {n}" in window.messages[-1].text for n in range(5)] == [False, *[True] * 4]


def test_a_memory_that_is_removed_leaves_the_prefix_at_once(store):
    store.memory.add(["Ada bakes.", "Ada dives."], user_id="ada")
    store.history.append("", Message.user("Hello", id="u"), session_id="s")
    (dives,) = [one.id for one in store.memory.latest(user_id="ada") if one.text == "Ada dives."]
    store.memory.delete(ids=[dives], user_id="ada")
    sections = [ProfileSection(), HistorySection()]
    window = store.assemble(session_id="s", budget=2_000, sections=sections, user_id="ada")
    assert "dives" not in "".join(one.text for one in window.messages)


@given(texts=st.lists(st.text() | st.none() | st.sampled_from(["tea 123 {}", "茶は何処", "🫖é "])))
def test_what_is_read_and_what_is_said_since_are_measured_alike(texts):
    read = sizes_of(pa.chunked_array([pa.array(texts, pa.string())]))
    assert read == tuple(size_of(one) for one in texts)
