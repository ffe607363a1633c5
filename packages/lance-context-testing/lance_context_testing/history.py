"""Conformance tests of `HistoryProvider`."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, product
from random import Random
from typing import ClassVar

import pytest

from lance_context_core.errors import AlreadyExistsError
from lance_context_core.messages import ImagePart, Message
from lance_context_core.protocols import HistoryProvider
from lance_context_testing._contract import Contract, assert_has_the_methods
from lance_context_testing.samples import METADATA, NAMES, NATIVE, PARTS, TEXTS


class HistoryProviderTests(Contract):
    """Give the fixture `history`: an empty `HistoryProvider`, another one for each test."""

    hooks: ClassVar = {"history": "an empty HistoryProvider"}

    def test_it_has_the_methods_of_the_protocol(self, history: HistoryProvider) -> None:
        assert_has_the_methods(history, HistoryProvider)

    # Order

    async def test_messages_come_back_in_the_order_of_their_appends(
        self, history: HistoryProvider
    ) -> None:
        await history.append("a", Message.user("0"), session_id="s")
        await history.append_many("a", numbered(1, 4), session_id="s")
        await history.append("a", Message.user("4"), session_id="s", run_id="r")
        await history.append_many("a", [Message.user(f"{n}") for n in (5, 6)], session_id="s")
        found = await history.get_messages("a", session_id="s")
        assert texts(found) == [f"{n}" for n in range(7)]
        assert await history.count("a", session_id="s") == 7

    async def test_their_own_times_do_not_change_their_order(
        self, history: HistoryProvider
    ) -> None:
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        times = [noon, noon - timedelta(days=1), noon + timedelta(days=9_999)]
        written = [Message.user(f"{time}", created_at=time) for time in times]
        for message in [*written, Message.user("last")]:
            await history.append("a", message, session_id="s")
        found = await history.get_messages("a", session_id="s")
        assert texts(found) == [*texts(written), "last"]

    async def test_limit_offset_and_last_take_what_slices_of_a_list_would(
        self, history: HistoryProvider
    ) -> None:
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

    async def test_a_chat_can_be_read_backwards_page_by_page(
        self, history: HistoryProvider
    ) -> None:
        await history.append_many("a", numbered(0, 8), session_id="s")
        read: list[str] = []
        for n_expected in (3, 3, 2, 0):
            page = await history.get_messages("a", session_id="s", last=3, offset=len(read))
            assert len(page) == n_expected
            read = [*texts(page), *read]
        assert read == [f"{n}" for n in range(8)]

    async def test_appends_at_the_same_time_lose_nothing_and_keep_batches_together(
        self, history: HistoryProvider
    ) -> None:
        batches = [[Message.user(f"{n}") for _ in range(3)] for n in range(8)]
        await asyncio.gather(
            *(history.append_many("a", batch, session_id="s") for batch in batches)
        )
        found = texts(await history.get_messages("a", session_id="s"))
        runs = [(text, len(list(run))) for text, run in groupby(found)]
        assert sorted(runs) == [(f"{n}", 3) for n in range(8)]

    # Content

    async def test_a_message_with_parts_of_every_kind_comes_back_equal(
        self, history: HistoryProvider
    ) -> None:
        parts = [part for parts in PARTS for part in parts]
        created = datetime(2026, 1, 1, tzinfo=UTC)
        given = Message.assistant(
            parts, id="m", name="Ann", metadata=METADATA[5], native=NATIVE, created_at=created
        )
        await history.append("a", given, session_id="s")
        assert await history.get_messages("a", session_id="s") == [given]

    async def test_every_message_comes_back_equal(self, history: HistoryProvider) -> None:
        roles = ("system", "tool", "developer", "ai", "Owner's role")
        messages = [
            *(Message.assistant(parts) for parts in PARTS),
            *(Message.user("hi", metadata=metadata) for metadata in METADATA),
            *(Message.user(text) for text in TEXTS),
            *(Message.user("hi", name=name) for name in NAMES),
            *(Message.of(role, "hi") for role in roles),
        ]
        created = datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
        given = [
            replace(message, id=f"{n}", created_at=created + timedelta(microseconds=n))
            for n, message in enumerate(messages)
        ]
        ids = await history.append_many("a", given, session_id="s")
        assert ids == [message.id for message in given]
        found = await history.get_messages("a", session_id="s")
        assert len(found) == len(given)
        for read, message in zip(found, given, strict=True):
            assert read == message

    async def test_a_message_without_a_time_is_given_one(self, history: HistoryProvider) -> None:
        await history.append("a", Message.user("0"), session_id="s")
        (found,) = await history.get_messages("a", session_id="s")
        assert found.created_at is not None

    async def test_changing_what_was_given_or_found_changes_nothing_that_is_kept(
        self, history: HistoryProvider
    ) -> None:
        batch = [Message.user("0", id="m", metadata={"list": [1]})]
        await history.append_many("a", batch, session_id="s")
        batch[0].metadata["list"].append(2)
        batch.append(Message.user("1"))
        (found,) = await history.get_messages("a", session_id="s")
        found.metadata["list"].append(3)
        (again,) = await history.get_messages("a", session_id="s")
        assert again.metadata == {"list": [1]}

    # Ids

    async def test_a_message_without_an_id_is_given_one_of_its_own(
        self, history: HistoryProvider
    ) -> None:
        same = Message.user("again")
        ids = [await history.append("a", same, session_id="s") for _ in range(2)]
        ids += await history.append_many("a", [same, same], session_id="s")
        found = await history.get_messages("a", session_id="s")
        assert [message.id for message in found] == ids
        assert len(set(ids)) == 4

    async def test_a_retry_changes_nothing(self, history: HistoryProvider) -> None:
        batch = numbered(0, 3)
        first = await history.append_many("a", batch, session_id="s", run_id="r")
        await history.append("a", Message.user("3"), session_id="s")
        before = await history.get_messages("a", session_id="s")
        assert await history.append_many("a", batch, session_id="s", run_id="r") == first
        assert await history.append("a", batch[1], session_id="s", run_id="r") == "m1"
        assert await history.get_messages("a", session_id="s") == before

    async def test_a_known_id_that_says_something_else_is_refused_and_nothing_is_written(
        self, history: HistoryProvider
    ) -> None:
        await history.append("a", Message.user("old", name="Ann", id="m"), session_id="s")
        others = [
            Message.user("new", name="Ann", id="m"),
            Message.user("old", name="Ben", id="m"),
            Message.assistant("old", name="Ann", id="m"),
            Message.user(["old", ImagePart(data=b"\0")], name="Ann", id="m"),
        ]
        for other in others:
            for batch in ([other], [Message.user("1", id="m1"), other], [other, Message.user("2")]):
                with pytest.raises(AlreadyExistsError):
                    await history.append_many("a", batch, session_id="s")
        assert texts(await history.get_messages("a", session_id="s")) == ["old"]

    async def test_a_batch_with_some_known_ids_adds_the_others_at_the_end(
        self, history: HistoryProvider
    ) -> None:
        await history.append_many("a", numbered(1, 3), session_id="s")
        ids = await history.append_many("a", numbered(0, 5), session_id="s")
        assert ids == ["m0", "m1", "m2", "m3", "m4"]
        found = await history.get_messages("a", session_id="s")
        assert texts(found) == ["1", "2", "0", "3", "4"]

    async def test_one_id_names_a_message_per_agent_and_session(
        self, history: HistoryProvider
    ) -> None:
        places = [(a, s) for a in ("", "a", "b", "None", "null") for s in ("s", "t", "None")]
        for agent, session in places:
            message = Message.user(f"{agent} in {session}", id="m")
            assert await history.append(agent, message, session_id=session) == "m"
        for agent, session in places:
            found = await history.get_messages(agent, session_id=session)
            assert texts(found) == [f"{agent} in {session}"]

    async def test_any_text_can_name_a_message_and_a_session(
        self, history: HistoryProvider
    ) -> None:
        batch = [Message.user(name, id=name) for name in NAMES]
        assert await history.append_many("a", batch, session_id="all") == NAMES
        found = await history.get_messages("a", session_id="all")
        assert [message.id for message in found] == NAMES
        # A few of the most similar names: each costs a write.
        sessions = ["a", "A", "a ", " a", "ä", "a\u0308", "'", "%", "../a", "None"]
        for name in sessions:
            await history.append("a", Message.user(name), session_id=name)
        for name in sessions:
            assert texts(await history.get_messages("a", session_id=name)) == [name]

    # Missing sessions

    async def test_an_unknown_session_has_no_messages(self, history: HistoryProvider) -> None:
        async def assert_nothing() -> None:
            assert await history.get_messages("a", session_id="s") == []
            assert await history.get_messages("a", session_id="s", last=3) == []
            assert await history.count("a", session_id="s") == 0
            assert await history.clear("a", session_id="s") == 0
            assert await history.clear_run("a", session_id="s", run_id="r") == 0

        await assert_nothing()
        await history.append("a", Message.user("0"), session_id="another")
        await history.append("another", Message.user("0"), session_id="s")
        await assert_nothing()

    async def test_nothing_to_append_changes_nothing(self, history: HistoryProvider) -> None:
        assert await history.append_many("a", [], session_id="s") == []
        assert await history.count("a", session_id="s") == 0

    # Deleting

    async def test_clear_forgets_one_session_and_nothing_else(
        self, history: HistoryProvider
    ) -> None:
        for agent, session in product(["", "a", "b"], ["s", "t"]):
            await history.append_many(agent, numbered(0, 2), session_id=session)
        assert await history.clear("a", session_id="s") == 2
        assert await history.clear("a", session_id="s") == 0
        assert await history.get_messages("a", session_id="s") == []
        for agent, session in product(["", "a", "b"], ["s", "t"]):
            left = 0 if (agent, session) == ("a", "s") else 2
            assert await history.count(agent, session_id=session) == left

    async def test_clear_run_forgets_one_run_of_one_session_and_nothing_else(
        self, history: HistoryProvider
    ) -> None:
        for session, run in product(["s", "t"], ["", "r", "q"]):
            message = Message.user(f"{session}{run}")
            await history.append("a", message, session_id=session, run_id=run)
        assert await history.clear_run("a", session_id="s", run_id="r") == 1
        assert texts(await history.get_messages("a", session_id="s")) == ["s", "sq"]
        assert texts(await history.get_messages("a", session_id="t")) == ["t", "tr", "tq"]

    async def test_a_cleared_session_can_be_written_again_with_the_same_ids(
        self, history: HistoryProvider
    ) -> None:
        await history.append_many("a", numbered(0, 3), session_id="s")
        await history.clear("a", session_id="s")
        again = [*numbered(2, 3), *numbered(0, 1)]
        await history.append_many("a", again, session_id="s")
        assert texts(await history.get_messages("a", session_id="s")) == ["2", "0"]

    # State machine

    @pytest.mark.parametrize("seed", range(3), ids="seed {}".format)
    async def test_any_sequence_of_calls_leaves_what_lists_would_hold(
        self, history: HistoryProvider, seed: int
    ) -> None:
        random = Random(seed)
        held: dict[tuple[str, str], list[tuple[str, str, str]]] = {
            place: [] for place in product(("", "a", "None"), ("s", "t"))
        }
        for step in range(40):
            (agent, session), run = random.choice(list(held)), random.choice(["", "r", "q"])
            log = held[agent, session]
            match random.choice(["append", "append_many", "append_many", "clear", "clear_run"]):
                case "append":
                    message = Message.user(f"{step}", id=f"{step}")
                    await history.append(agent, message, session_id=session, run_id=run)
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


def numbered(start: int, stop: int) -> list[Message]:
    """Messages with their number as text and in their ids."""
    return [Message.user(f"{n}", id=f"m{n}") for n in range(start, stop)]


def texts(messages: Sequence[Message]) -> list[str]:
    """Their texts."""
    return [message.text for message in messages]
