"""What every `HistoryProvider` must do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from random import Random

import pytest
from lance_context_core.testing.samples import METADATA, NAMES, NO_NAMES, TEXTS

from lance_context_core.errors import AlreadyExistsError, InvalidRequestError
from lance_context_core.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    VideoPart,
)
from lance_context_core.protocols import HistoryProvider

EVERY_BYTE = bytes(range(256))
PARTS = [
    (),
    (TextPart(text="a"), TextPart(text=""), TextPart(text="a")),
    (ImagePart(data=EVERY_BYTE, media_type="image/png", name="ä.png", caption="a cat"),),
    (ImagePart(url="https://example.com/a.png?b=c#d"), ImagePart(file_id="f-1"), ImagePart(data=b"")),
    (AudioPart(data=EVERY_BYTE), VideoPart(url="u"), FilePart(data=b"\0", name="it's.pdf")),
    (ReasoningPart(text="hm", signature="s=="), ReasoningPart()),
    (ToolCallPart(call_id="c", name="add", arguments={"a": [1, None, {"b": 0.1}]}),),
    (ToolCallPart(name="", arguments="{broken"),),
    (
        ToolResultPart(
            call_id="c", content=["2", ImagePart(data=EVERY_BYTE), ToolResultPart(content="3")]
        ),
        ToolResultPart(name="f", is_error=True),
    ),
    (DataPart(data={"a": [1, "2", None]}), DataPart(data=None), DataPart(data=[])),
    (UnknownPart(type="hologram", payload={"x": [1, {"y": None}]}), UnknownPart(type="image")),
    (TextPart(text="a", extra={"cache": {"ttl": 5}, "citations": []}),),
]  # fmt: skip
NATIVE = {"framework": "elsewhere", "lc": 1, "kwargs": {"content": "a", "none": None}}

MESSAGES = [
    *(Message.assistant(parts) for parts in PARTS),
    *(Message.user("hi", metadata=metadata) for metadata in METADATA),
    *(Message.user(text) for text in TEXTS),
    *(Message.user("hi", name=name) for name in NAMES),
    *(Message.of(role, "hi") for role in ("system", "tool", "developer", "ai", "Owner's role")),
    Message.user("hi", native=NATIVE),
    Message.user("hi", created_at=datetime(1970, 1, 1, tzinfo=UTC)),
    Message.user("hi", created_at=datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    Message.user("hi", created_at=datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    Message.user("hi", created_at=datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-7)))),
]


def numbered(start: int, stop: int) -> list[Message]:
    """Messages that say their number, and have it in their ids."""
    return [Message.user(f"{n}", id=f"m{n}") for n in range(start, stop)]


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


class HistoryContract:
    """Needs the fixtures `history`, `clock` (what it reads) and `back_door`."""

    def test_it_has_the_methods_of_the_protocol(self, history):
        assert isinstance(history, HistoryProvider)

    # Order

    async def test_messages_come_back_in_the_order_of_their_appends(self, history):
        await history.append("a", Message.user("0"), session_id="s")
        await history.append_many("a", numbered(1, 4), session_id="s")
        await history.append("a", Message.user("4"), session_id="s", run_id="r")
        await history.append_many("a", [Message.user(f"{n}") for n in (5, 6)], session_id="s")
        found = await history.get_messages("a", session_id="s")
        assert texts(found) == [f"{n}" for n in range(7)]
        assert await history.count("a", session_id="s") == 7

    async def test_their_own_times_do_not_change_their_order(self, history, clock):
        times = [clock.now(), clock.now() - timedelta(days=1), clock.now() + timedelta(days=1)]
        written = [Message.user(f"{time}", created_at=time) for time in times]
        for message in written:
            await history.append("a", message, session_id="s")
        clock.advance(days=-7)
        await history.append("a", Message.user("last"), session_id="s")
        found = await history.get_messages("a", session_id="s")
        assert texts(found) == [*texts(written), "last"]

    async def test_limit_offset_and_last_take_what_slices_of_a_list_would(self, history):
        written = [f"{n}" for n in range(5)]
        await history.append_many("a", numbered(0, 5), session_id="s")
        numbers = (0, 1, 3, 5, 9)
        for offset, limit in product(numbers, (None, *numbers)):
            found = await history.get_messages("a", session_id="s", limit=limit, offset=offset)
            assert texts(found) == written[offset:][:limit], (offset, limit)
        for offset, last in product(numbers, numbers):
            found = await history.get_messages("a", session_id="s", last=last, offset=offset)
            backwards = written[::-1][offset:][:last]
            assert texts(found) == backwards[::-1], (offset, last)

    async def test_a_chat_can_be_read_backwards_page_by_page(self, history):
        await history.append_many("a", numbered(0, 8), session_id="s")
        read: list[str] = []
        for n_expected in (3, 3, 2, 0):
            page = await history.get_messages("a", session_id="s", last=3, offset=len(read))
            assert len(page) == n_expected
            read = [*texts(page), *read]
        assert read == [f"{n}" for n in range(8)]

    @pytest.mark.anywhere
    @pytest.mark.parametrize(
        "span",
        [
            {"limit": -1},
            {"offset": -1},
            {"last": -1},
            {"limit": 1, "last": 1},
            {"limit": 1.0},
            {"offset": None},
            {"offset": True},
            {"last": "1"},
        ],
        ids=repr,
    )
    async def test_a_span_that_makes_no_sense_is_refused(self, history, span):
        await history.append("a", Message.user("0"), session_id="s")
        with pytest.raises(InvalidRequestError, match=next(iter(span))):
            await history.get_messages("a", session_id="s", **span)

    # Content

    @pytest.mark.costly
    async def test_every_message_comes_back_equal(self, history, clock):
        given = [replace(message, id=f"{n}") for n, message in enumerate(MESSAGES)]
        await history.append_many("a", given, session_id="s")
        found = await history.get_messages("a", session_id="s")
        assert len(found) == len(given)
        for read, message in zip(found, given, strict=True):
            assert read == replace(message, created_at=message.created_at or clock.now())

    async def test_a_message_with_parts_of_every_kind_comes_back_equal(self, history, clock):
        parts = [part for parts in PARTS for part in parts]
        given = Message.assistant(parts, id="m", name="Ann", metadata=METADATA[5], native=NATIVE)
        await history.append("a", given, session_id="s")
        (found,) = await history.get_messages("a", session_id="s")
        assert found == replace(given, created_at=clock.now())

    @pytest.mark.local
    async def test_an_image_of_fifty_megabytes_comes_back_whole(self, history):
        data = Random(0).randbytes(50 * 2**20)
        given = Message.user([ImagePart(data=data, media_type="image/png"), "large"])
        await history.append("a", given, session_id="s")
        (found,) = await history.get_messages("a", session_id="s")
        assert found.parts == given.parts

    @pytest.mark.costly
    async def test_two_thousand_messages_come_back_in_order(self, history):
        ids = await history.append_many("a", numbered(0, 2_000), session_id="s")
        assert ids == [f"m{n}" for n in range(2_000)]
        found = await history.get_messages("a", session_id="s")
        assert texts(found) == [f"{n}" for n in range(2_000)]
        last = await history.get_messages("a", session_id="s", last=2, offset=1_000)
        assert texts(last) == ["998", "999"]

    async def test_the_time_of_a_message_without_one_is_that_of_the_append(self, history, clock):
        clock.advance(microseconds=1)
        await history.append("a", Message.user("0"), session_id="s")
        moment = clock.now()
        clock.advance(days=1)
        (found,) = await history.get_messages("a", session_id="s")
        assert found.created_at == moment

    # Ids

    async def test_a_message_without_an_id_is_given_one_of_its_own(self, history):
        same = Message.user("again")
        ids = [await history.append("a", same, session_id="s") for _ in range(2)]
        ids += await history.append_many("a", [same, same], session_id="s")
        found = await history.get_messages("a", session_id="s")
        assert [message.id for message in found] == ids
        assert len(set(ids)) == 4

    async def test_a_retry_changes_nothing(self, history, clock):
        batch = numbered(0, 3)
        first = await history.append_many("a", batch, session_id="s", run_id="r")
        await history.append("a", Message.user("3"), session_id="s")
        before = await history.get_messages("a", session_id="s")
        clock.advance(hours=1)
        assert await history.append_many("a", batch, session_id="s", run_id="r") == first
        assert await history.append("a", batch[1], session_id="s", run_id="r") == "m1"
        assert await history.get_messages("a", session_id="s") == before

    async def test_a_known_id_that_says_something_else_is_refused_and_nothing_is_written(
        self, history
    ):
        await history.append("a", Message.user("old", name="Ann", id="m"), session_id="s")
        others = [
            Message.user("new", name="Ann", id="m"),
            Message.user("old", name="Ben", id="m"),
            Message.assistant("old", name="Ann", id="m"),
            Message.user(["old", ImagePart(data=b"\0")], name="Ann", id="m"),
        ]
        for other in others:
            for batch in ([other], [Message.user("1", id="m1"), other], [other, Message.user("2")]):
                with pytest.raises(AlreadyExistsError, match="'m'"):
                    await history.append_many("a", batch, session_id="s")
        assert texts(await history.get_messages("a", session_id="s")) == ["old"]
        again = Message.user("old", name="Ann", id="m", metadata={"seen": True})
        assert await history.append("a", again, session_id="s") == "m"
        assert await history.append("b", others[0], session_id="s") == "m"
        assert texts(await history.get_messages("a", session_id="s")) == ["old"]

    async def test_a_batch_with_some_known_ids_adds_the_others_at_the_end(self, history):
        await history.append_many("a", numbered(1, 3), session_id="s")
        ids = await history.append_many("a", numbered(0, 5), session_id="s")
        assert ids == ["m0", "m1", "m2", "m3", "m4"]
        found = await history.get_messages("a", session_id="s")
        assert texts(found) == ["1", "2", "0", "3", "4"]

    async def test_an_id_twice_in_one_batch_is_refused_and_nothing_is_written(
        self, history, back_door
    ):
        batch = [*numbered(0, 2), Message.user("another", id="m0")]
        with pytest.raises(InvalidRequestError, match="m0"):
            await history.append_many("a", batch, session_id="s")
        assert await back_door.rows("records") == []

    async def test_one_id_names_a_message_per_agent_and_session(self, history):
        places = [(a, s) for a in ("", "a", "b", "None", "null") for s in ("s", "t", "None")]
        for agent, session in places:
            message = Message.user(f"{agent} in {session}", id="m")
            assert await history.append(agent, message, session_id=session) == "m"
        for agent, session in places:
            found = await history.get_messages(agent, session_id=session)
            assert texts(found) == [f"{agent} in {session}"]

    @pytest.mark.local
    async def test_any_text_can_name_a_message_an_agent_a_session_and_a_run(self, history):
        batch = [Message.user(name, id=name) for name in NAMES]
        assert await history.append_many("a", batch, session_id="all") == NAMES
        found = await history.get_messages("a", session_id="all")
        assert [message.id for message in found] == NAMES
        # Each name stands in each place once, beside two others.
        places = list(zip(NAMES, NAMES[1:] + NAMES[:1], NAMES[2:] + NAMES[:2], strict=True))
        for agent, session, run in places:
            await history.append(agent, Message.user(run), session_id=session, run_id=run)
        for agent, session, run in places:
            assert texts(await history.get_messages(agent, session_id=session)) == [run]
        for agent, session, run in places:
            assert await history.clear_run(agent, session_id=session, run_id=run) == 1
        assert await history.count("a", session_id="all") == len(NAMES)

    @pytest.mark.anywhere
    @pytest.mark.parametrize("name", ["", *NO_NAMES], ids=ascii)
    async def test_what_cannot_be_a_name_is_refused_before_anything_is_written(
        self, history, back_door, name
    ):
        message = Message.user("hi")
        with pytest.raises(InvalidRequestError, match="session_id"):
            await history.append("a", message, session_id=name)
        if name:
            with pytest.raises(InvalidRequestError, match="agent_id"):
                await history.append(name, message, session_id="s")
            with pytest.raises(InvalidRequestError, match="run_id"):
                await history.append("a", message, session_id="s", run_id=name)
        for read in (history.get_messages, history.count, history.clear):
            with pytest.raises(InvalidRequestError, match="session_id"):
                await read("a", session_id=name)
        assert await back_door.rows("records") == []

    async def test_a_batch_with_something_else_in_it_is_refused_as_a_whole(
        self, history, back_door
    ):
        with pytest.raises(InvalidRequestError, match=r"messages\[1\]"):
            await history.append_many("a", [Message.user("0"), "1"], session_id="s")
        assert await back_door.rows("records") == []

    # What is not there

    async def test_an_unknown_session_has_no_messages(self, history):
        async def nothing():
            assert await history.get_messages("a", session_id="s") == []
            assert await history.get_messages("a", session_id="s", last=3) == []
            assert await history.count("a", session_id="s") == 0
            assert await history.clear("a", session_id="s") == 0
            assert await history.clear_run("a", session_id="s", run_id="r") == 0

        await nothing()
        await history.append("a", Message.user("0"), session_id="another")
        await history.append("another", Message.user("0"), session_id="s")
        await nothing()

    async def test_nothing_to_append_writes_nothing(self, history, back_door):
        assert await history.append_many("a", [], session_id="s") == []
        assert await back_door.n_commits("records") == 0
        await history.append("a", Message.user("0"), session_id="s")
        before = await back_door.n_commits("records")
        assert await history.append_many("a", [], session_id="s") == []
        assert await back_door.n_commits("records") == before

    # Forgetting

    async def test_clear_forgets_one_session_and_nothing_else(self, history):
        for agent, session in product(["", "a", "b"], ["s", "t"]):
            await history.append_many(agent, numbered(0, 2), session_id=session)
        assert await history.clear("a", session_id="s") == 2
        assert await history.clear("a", session_id="s") == 0
        assert await history.get_messages("a", session_id="s") == []
        for agent, session in product(["", "a", "b"], ["s", "t"]):
            left = 0 if (agent, session) == ("a", "s") else 2
            assert await history.count(agent, session_id=session) == left

    async def test_clear_run_forgets_one_run_of_one_session_and_nothing_else(self, history):
        for session, run in product(["s", "t"], ["", "r", "q"]):
            message = Message.user(f"{session}{run}")
            await history.append("a", message, session_id=session, run_id=run)
        assert await history.clear_run("a", session_id="s", run_id="r") == 1
        assert texts(await history.get_messages("a", session_id="s")) == ["s", "sq"]
        assert texts(await history.get_messages("a", session_id="t")) == ["t", "tr", "tq"]

    async def test_a_cleared_session_can_be_written_again_with_the_same_ids(self, history):
        await history.append_many("a", numbered(0, 3), session_id="s")
        await history.clear("a", session_id="s")
        again = [*numbered(2, 3), *numbered(0, 1)]
        await history.append_many("a", again, session_id="s")
        assert texts(await history.get_messages("a", session_id="s")) == ["2", "0"]

    # Through the back door

    async def test_a_message_is_in_the_table_as_it_was_given(self, history, clock, back_door):
        message = Message.user(["hi", ImagePart(data=b"\0")], id="m", name="Ann", metadata={"k": 1})
        await history.append("a", message, session_id="s", run_id="r")
        (row,) = await back_door.rows("records")
        expected = {
            "id": "m",
            "kind": "message",
            "agent_id": "a",
            "session_id": "s",
            "run_id": "r",
            "user_id": None,
            "role": "user",
            "name": "Ann",
            "text": "hi",
            "metadata": '{"k":1}',
            "created_at": clock.now(),
            "context": "default",
        }
        assert {name: row[name] for name in expected} == expected

    async def test_what_another_program_wrote_into_the_table_is_read(
        self, history, clock, back_door
    ):
        await history.append("a", Message.user("0"), session_id="s")
        required = {
            "kind": "message",
            "context": "default",
            "content_type": "text/plain",
            "lifecycle_status": "active",
            "created_at": clock.now(),
            "updated_at": clock.now(),
            "revision": 1,
        }
        written = {"agent_id": "a", "session_id": "s", "role": "user", "text": "1"}
        await back_door.add("records", [{"key": "k", "id": "m", **required, **written}])
        found = await history.get_messages("a", session_id="s")
        assert texts(found) == ["0", "1"]
        assert found[1] == Message.user("1", id="m", created_at=clock.now())

    async def test_a_batch_is_one_commit(self, history, back_door):
        await history.append("a", Message.user("0"), session_id="s")
        before = await back_door.n_commits("records")
        await history.append_many("a", numbered(0, 9), session_id="s")
        assert await back_door.n_commits("records") == before + 1
        await history.append_many("a", [Message.user("0")] * 9, session_id="s")
        assert await back_door.n_commits("records") == before + 2

    # All of it together

    @pytest.mark.costly
    @pytest.mark.parametrize("seed", range(3))
    async def test_any_sequence_of_calls_leaves_what_lists_would_hold(self, history, seed):
        random = Random(seed)
        held = {(agent, session): [] for agent in ("", "a", "None") for session in ("s", "t")}
        for step in range(40):
            (agent, session), run = random.choice(list(held)), random.choice(["", "r", "q"])
            log = held[agent, session]
            match random.choice(["append", "append_many", "append_many", "clear", "clear_run"]):
                case "append":
                    await history.append(
                        agent, Message.user(f"{step}", id=f"{step}"), session_id=session, run_id=run
                    )
                    log.append((f"{step}", f"{step}", run))
                case "append_many":
                    ids = random.sample([f"id{n}" for n in range(8)], random.randrange(5))
                    said = {id: random.choice([id, "something else"]) for id in ids}
                    batch = [Message.user(said[id], id=id) for id in ids]
                    call = history.append_many(agent, batch, session_id=session, run_id=run)
                    known = {id: text for id, text, _ in log}
                    if any(known.get(id, said[id]) != said[id] for id in ids):
                        with pytest.raises(AlreadyExistsError):
                            await call
                    else:
                        await call
                        log += [(id, said[id], run) for id in ids if id not in known]
                case "clear" if random.random() < 0.3:
                    assert await history.clear(agent, session_id=session) == len(log)
                    log.clear()
                case "clear_run":
                    left = [one for one in log if one[2] != "r"]
                    n_gone = await history.clear_run(agent, session_id=session, run_id="r")
                    assert n_gone == len(log) - len(left)
                    log[:] = left
            found = await history.get_messages(agent, session_id=session)
            assert [(one.id, one.text) for one in found] == [one[:2] for one in log]
        for (agent, session), log in held.items():
            found = await history.get_messages(agent, session_id=session)
            assert [(one.id, one.text) for one in found] == [one[:2] for one in log]
            assert await history.count(agent, session_id=session) == len(log)
