"""The end of a session is read page by page, and is cut alike however much of it is read."""

import itertools
from datetime import UTC, datetime, timedelta
from unittest import mock

import pyarrow as pa
import pytest
from core.conformance.doubles import ManualClock
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import ContextStore, Message
from lance_context_core.messages import ToolCallPart
from lance_context_core.storage.lance import reads
from lance_context_core.window import sources
from lance_context_core.window.truncation import block_of, places

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
    kept = reads.take
    monkeypatch.setattr(
        reads, "take", lambda handle, ids, columns: n_read.append(len(ids)) or kept(handle, ids, columns)
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
    monkeypatch.setattr(reads, "_MANY", 10)
    monkeypatch.setattr(reads, "_FEW", 3)
    found = store.history.get_messages("", session_id="s", last=n)
    assert [one.id for one in found] == whole[-n:]
    paged = store.history.get_messages("", session_id="s", last=n, offset=5)
    assert [one.id for one in paged] == whole[-n - 5 : -5]


BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)
SOON = BEGINNING + timedelta(hours=1)
WAYS = {
    "more is said": lambda s: s.history.append(
        "", Message.user("one more", id="x"), session_id="s"
    ),
    "others say more": lambda s: said(30, "other", s),
    "another agent says more in it": lambda s: s.history.append(
        "planner", Message.user("not this one's", id="y"), session_id="s"
    ),
    "the last is taken back": lambda s: s.history.pop("", session_id="s"),
    "the last are replaced": lambda s: s.history.replace_tail(
        "", [Message.user("instead", id="z")], session_id="s", after="t395"
    ),
    "one is said otherwise": lambda s: s.history.rewrite(
        "", Message.user("otherwise", id="t395"), session_id="s"
    ),
    "one is erased": lambda s: s.erase(ids=["t399"]),
    "all expire": lambda s: s.history.touch("", session_id="s", expires_at=SOON),
    "one that expires is said": lambda s: s.history.append(
        "", Message.user("for a while", id="w"), session_id="s", expires_at=SOON
    ),
    "it is folded": lambda s: s.flush(),
    "upkeep is done": lambda s: s.maintain(),
}


@pytest.mark.parametrize(
    "ways", list(itertools.pairwise([*WAYS, "more is said"])), ids=" then ".join
)
def test_an_end_that_is_kept_is_what_a_read_shows(tmp_path, ways):
    clock = ManualClock(BEGINNING)
    with ContextStore.open(tmp_path, clock=clock, maintenance=None) as store:
        said(400, "s", store)
        store.history.append("", Message.assistant("So far.", id="v"), session_id="s")
        for way in [*ways, "time goes by"]:
            store.assemble(session_id="s", budget=400)
            clock.advance(hours=2) if way == "time goes by" else WAYS[way](store)
            if there := store.history.get_messages("", session_id="s"):
                window = store.assemble(session_id="s", budget=400)
                shown = [one for one in window.messages if one.id]
                told = window.report.ids("kept", "dropped", "rejected")
                assert shown == there[-len(shown) :]
                assert list(told) == [one.id for one in there[window.report.n_not_considered :]]


def test_a_conversation_that_goes_on_is_not_read_again(tmp_path, monkeypatch):
    with ContextStore.open(tmp_path, maintenance=None) as store:
        said(1_500, "s", store)
        store.history.append("", Message.assistant("So far.", id="w"), session_id="s")
        before = store.assemble(session_id="s", budget=400)
        monkeypatch.setattr(reads, "slice_of", None)
        store.history.append("", Message.user("and now?", id="x"), session_id="s")
        after = store.assemble(session_id="s", budget=400)
    assert after.messages[:-1] == before.messages
    assert after.messages[-1].id == "x"


def test_a_larger_window_after_a_smaller_one_shows_the_same_end(tmp_path):
    with ContextStore.open(tmp_path, maintenance=None) as store:
        said(400, "s", store)
        for number, budget in enumerate((300, 300, 500, 440)):
            one_more = Message.assistant(f"{number} more", id=f"x{number}")
            store.history.append("", one_more, session_id="s")
            window = store.assemble(session_id="s", budget=budget)
            shown = [one for one in window.messages if one.id]
            assert shown == store.history.get_messages("", session_id="s")[-len(shown) :]


def test_what_is_kept_makes_the_window_that_a_new_process_makes(tmp_path):
    with ContextStore.open(tmp_path, maintenance=None) as store:
        said(900, "s", store)
        for step in range(12):
            lines = [Message.user(f"{step}?", id=f"q{step}")]
            lines += [Message.assistant("leaf " * (step % 5), id=f"a{step}.{n}") for n in range(7)]
            store.history.append_many("", lines, session_id="s")
            kept = store.assemble(session_id="s", budget=420)
            with ContextStore.open(tmp_path, maintenance=None) as other:
                anew = other.assemble(session_id="s", budget=420)
            assert kept.messages == anew.messages
            assert kept.report == anew.report


def test_what_is_kept_is_not_what_a_version_shows_nor_a_version_what_comes_after(tmp_path):
    with ContextStore.open(tmp_path, maintenance=None) as store:
        said(400, "s", store)
        version = store.tag("then")
        for number in range(2):
            store.history.append("", Message.user("and now?", id=f"x{number}"), session_id="s")
            now = store.assemble(session_id="s", budget=400)
            then = store.checkout(version).assemble(session_id="s", budget=400)
            assert (now.messages[-1].id, then.messages[-1].id) == (f"x{number}", "t399")


def test_messages_before_the_end_that_expire_are_not_counted(tmp_path):
    clock = ManualClock(BEGINNING)
    with ContextStore.open(tmp_path, clock=clock, maintenance=None) as store:
        early = [Message.user("for a while", id=f"w{n}") for n in range(5)]
        store.history.append_many("", early, session_id="s", expires_at=SOON)
        said(900, "s", store)
        for n_there in (905, 905, 900):
            clock.advance(minutes=25)
            report = store.assemble(session_id="s", budget=400).report
            told = report.ids("kept", "dropped", "rejected")
            assert report.n_not_considered + len(told) == n_there


def test_who_changes_a_message_of_a_window_does_not_change_the_next_window(store):
    said(3, "s", store)
    store.history.append("", Message.user("look", id="x", metadata={"seen": [1]}), session_id="s")
    store.assemble(session_id="s", budget=400).messages[-1].metadata["seen"].append(2)
    assert store.assemble(session_id="s", budget=400).messages[-1].metadata == {"seen": [1]}


@given(
    n_read=st.integers(0, 9),
    n_added=st.integers(0, 5),
    first=st.integers(0, 7),
    asked=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6),
)
def test_any_span_of_an_end_is_that_of_the_session_whatever_was_asked_before(
    n_read, n_added, first, asked
):
    session = [f"m{place}" for place in range(first + n_read + n_added)]
    rows = [dict.fromkeys(sources.COLUMNS) | {"id": one, "role": "user"} for one in session[first:]]
    schema = pa.schema([pa.field(name, pa.string()) for name in sources.COLUMNS])
    ending = sources.Ending(
        rows=pa.Table.from_pylist(rows[:n_read], schema=schema),
        added=tuple(rows[n_read:]),
        first=first,
        sizes=(20,) * len(rows),
        last_user=None,
    )
    with mock.patch.object(sources, "message_of", lambda row: row["id"]):
        for one, other in asked:
            start, stop = sorted(first + round(share * len(rows)) for share in (one, other))
            assert ending.messages(start, stop) == session[start:stop]


def test_of_thirty_thousand_messages_the_first_window_reads_and_decodes_a_few(
    tmp_path, monkeypatch
):
    with ContextStore.open(tmp_path, maintenance=None) as store:
        roles = ("user", "assistant")
        talk = [
            Message.of(roles[n % 2], f"turn {n} of tea" + " leaf" * 12, id=f"t{n}")
            for n in range(30_000)
        ]
        for first in range(0, 30_000, 5_000):
            store.history.append_many("", talk[first : first + 5_000], session_id="s")
    n_rows, n_decoded = [], []
    read, decoded = sources._of, sources.message_of
    monkeypatch.setattr(
        sources, "_of", lambda rows, *given: n_rows.append(rows.num_rows) or read(rows, *given)
    )
    monkeypatch.setattr(sources, "message_of", lambda row: n_decoded.append(1) or decoded(row))
    with ContextStore.open(tmp_path, maintenance=None) as store:
        window = store.assemble(session_id="s", budget=4_000)
    assert window.messages[-1].id == "t29999"
    assert window.report.n_not_considered + len(n_decoded) == 30_000
    assert sum(n_rows) <= 2_048
    assert len(n_decoded) <= 1_024
