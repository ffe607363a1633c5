"""The end of a session is read page by page, and is cut alike however much of it is read."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import ContextStore, Message
from lance_context_core.engine.table import reading
from lance_context_core.messages import ToolCallPart
from lance_context_core.window.cutting import block_of, places

sizes = st.lists(st.integers(17, 900), min_size=1, max_size=700)


@given(sizes=sizes, room=st.integers(30, 900), step=st.floats(0.2, 1))
def test_a_session_is_cut_alike_whichever_of_its_blocks_are_read(sizes, room, step):
    block = block_of(room)
    whole = places(sizes, room, step, first=0, block=block)
    for first in range(0, len(sizes), block):
        part = places(sizes[first:], room, step, first=first, block=block)
        assert part.starts == tuple(one for one in whole.starts if one >= first)


@given(sizes=sizes, room=st.integers(30, 900))
def test_a_place_to_cut_stays_one_as_more_is_said(sizes, room):
    block = block_of(room)
    ends = [len(sizes) // 3, len(sizes) // 2, len(sizes)]
    found = [
        set(places(sizes[:end], room, 0.66, first=0, block=block).starts) for end in ends if end
    ]
    assert all(earlier <= later for earlier, later in itertools.pairwise(found))


@pytest.fixture
def store():
    with ContextStore.open("memory://") as opened:
        yield opened


def said(n, session_id, store, *, first=0):
    messages = [
        Message.of("assistant" if n % 2 else "user", f"turn {n} of tea", id=f"t{n}")
        for n in range(first, first + n)
    ]
    store.history.append_many("", messages, session_id=session_id)
    return messages


def test_of_a_long_session_the_end_alone_is_read_and_the_rest_is_counted(store, monkeypatch):
    said(2_000, "s", store)
    n_read = []
    kept = reading.take
    monkeypatch.setattr(
        reading, "take", lambda handle, ids, columns: n_read.append(len(ids)) or kept(handle, ids, columns)
    )  # fmt: skip
    window = store.assemble(session_id="s", budget=400)
    told = window.report.ids("kept", "dropped", "rejected")
    assert window.report.n_not_considered + len(told) == 2_000
    assert told[-1] == "t1999"
    assert sum(n_read) <= 700


def test_the_newest_turn_of_the_user_is_found_however_far_back_it_is(store):
    said(301, "s", store)
    calls = [
        one
        for n in range(300)
        for one in (
            Message.assistant(ToolCallPart(call_id=f"c{n}", name="look"), id=f"call{n}"),
            Message.tool("leaf " * 40, call_id=f"c{n}", id=f"result{n}"),
        )
    ]
    store.history.append_many("", calls, session_id="s")
    window = store.assemble(session_id="s", budget=600, dialect="anthropic")
    assert window.messages[0].id == "t300"
    assert window.report.ids("kept")[0] == "t300"
    assert window.validate() == []


@pytest.mark.parametrize("n", [1, 7, 40, 900])
def test_the_last_rows_are_found_without_listing_the_others(store, monkeypatch, n):
    """In a table that others write to, too, of which much was rewritten and merged."""
    for part in range(4):
        said(150, "s", store, first=150 * part)
        said(100, f"other {part}", store)
    store.history.annotate(
        "", {"seen": True}, session_id="s", filter={"id": {"$in": ["t3", "t590"]}}
    )
    store.history.clear("", session_id="s", filter={"id": {"$in": ["t580", "t599"]}})
    store.maintain()
    whole = [one.id for one in store.history.get_messages("", session_id="s")]
    monkeypatch.setattr(reading, "_MANY", 10)
    monkeypatch.setattr(reading, "_FEW", 3)
    found = store.history.get_messages("", session_id="s", last=n)
    assert [one.id for one in found] == whole[-n:]
    paged = store.history.get_messages("", session_id="s", last=n, offset=5)
    assert [one.id for one in paged] == whole[-n - 5 : -5]
