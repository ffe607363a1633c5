"""Two processes change what is known of the same thing at once: one decides, the other one writes before it."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from core.knowledge.test_fold import Life, check

from lance_context_core.jobs import commits

TEA, OSLO, ROME = "likes tea", "home Oslo", "home Rome"


def tell(session, day, text):
    return lambda life: life.tell(session, day, text)


def note(session, day, text):
    return lambda life: life.tell(session, day, text, is_heard=False)


def undo(n):
    return lambda life: life.undo(n)


def clear(session):
    return lambda life: life.clear(session)


def retract(n):
    return lambda life: life.retract(n)


def erase(n):
    return lambda life: life.erase(n)


def distill(life):
    life.distill()


def propose(life):
    life.propose()


def merge(life):
    life.merge()


def proposed_and_read(life):
    """One job of a proposal has read a turn, and so has another one."""
    note("a", 1, OSLO)(life)
    propose(life)
    life.memory.schedule()
    life.memory.jobs.run_due()


AT_ONCE = {
    "two values of a slot that had none": ([], tell("a", 0, OSLO), tell("b", 1, ROME)),
    "one statement twice": ([], tell("a", 0, TEA), tell("b", 1, TEA)),
    "two values before the first one": (
        [tell("a", 5, OSLO)],
        tell("a", 0, "home Bergen"),
        tell("b", 1, ROME),
    ),
    "a conflict and what comes after both": (
        [tell("a", 5, OSLO)],
        tell("b", 5, "home Bergen"),
        tell("b", 6, ROME),
    ),
    "a value that another process has undone": ([tell("a", 0, OSLO)], tell("b", 1, OSLO), undo(0)),
    "an undo, and a value before what it uncovers": (
        [tell("a", 5, OSLO), tell("b", 6, ROME)],
        undo(1),
        tell("c", 0, ROME),
    ),
    "an undo of an undo, and a value": (
        [tell("a", 0, OSLO), undo(0)],
        undo(1),
        tell("b", 1, ROME),
    ),
    "a session that is cleared, and what it said": (
        [tell("a", 0, OSLO), tell("b", 1, ROME)],
        clear("b"),
        tell("c", 0, ROME),
    ),
    "what is said, and its session that is cleared": (
        [tell("b", 1, ROME)],
        tell("c", 2, OSLO),
        clear("b"),
    ),
    "a correction, and what is said": ([tell("a", 5, OSLO)], retract(0), tell("b", 0, ROME)),
    "an erasure, and what is said": (
        [tell("a", 5, OSLO), tell("b", 6, ROME)],
        erase(1),
        tell("c", 0, ROME),
    ),
    "a distillation, and what is said": (
        [note("a", 0, OSLO)],
        distill,
        tell("b", 1, ROME),
    ),
    "an undo, and a merge of what has read the same turn": ([proposed_and_read], undo(0), merge),
    "a merge, and what is said between": (
        [note("a", 0, OSLO), propose, tell("b", 5, ROME)],
        merge,
        tell("c", 2, "home Bergen"),
    ),
}
IN_COMMITS = ["one statement twice", "an undo, and a value before what it uncovers"]
CASES = [*((name, "log") for name in AT_ONCE), *((name, "commits") for name in IN_COMMITS)]


@pytest.mark.parametrize(("name", "place"), CASES)
def test_what_is_stored_is_the_fold_also_of_what_came_between(
    tmp_path, request, monkeypatch, name, place
):
    if place == "commits":
        request.getfixturevalue("each_write_commits")
    before, first, between = AT_ONCE[name]
    with Life(tmp_path / "store", tmp_path / "store") as life:
        for n, happen in enumerate(before):
            happen(life)
            life.clock.advance(seconds=n + 1)
        real, came = commits.write, []

        def come():
            life.turn_to(1)
            between(life)

        async def write(*args, basis=None, **named):
            if basis is not None and (args[1] or args[2]) and not came:
                came.append(True)
                await asyncio.to_thread(come)
            return await real(*args, basis=basis, **named)

        monkeypatch.setattr(commits, "write", write)
        first(life)
        assert came
        for n in range(2):
            life.turn_to(n)
            check(life)


def test_of_many_threads_that_say_what_one_user_has_one_of_each_is_heard(tmp_path):
    """None gives up because the others are faster."""
    with Life(tmp_path / "store") as life:
        homes = ["home Oslo", "home Rome", "home Bergen"]

        def talk(n):
            for day in range(5 * n, 5 * n + 5):
                life.tell(f"s{n}", day, homes[day % 3])

        with ThreadPoolExecutor(8) as pool:
            [*pool.map(talk, range(8))]
        assert len(life.counted()) == 40
        check(life)
