"""Processes run verbs that concern the whole store: `PYTHONPATH=tests python -m proofs.crash.verbs`.

While two of them append, four draw verbs at random, and name, merge, restore, thin, erase, copy and
verify beside each other. Nothing that was acknowledged is lost, what was erased is in no version and
in no file, the store is whole, and nobody is refused for what others did, but with a ConflictError.
"""

import argparse
import json
import multiprocessing
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random

from lance_context_core import ContextStore, Message
from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    ContextStoreError,
    InvalidRequestError,
    NotFoundError,
)
from lance_context_core.settings import IndexPolicy, VersionRetention

AGENT = "agent"
MERGED, RESTORED, TAGS = ("m0", "m1"), ("r0", "r1"), ("t0", "t1", "t2")
"""The names of branches that are merged, of those that are restored, and of tags. All share them."""

_N_WRITERS, _N_WORKERS = 2, 4
_ROUNDS_A_STORE = 10
_PATIENCE_SECONDS = 600
_SMALL = IndexPolicy(scalar_rows=20, vector_rows=40)
_NONE = VersionRetention(all_for=timedelta(0), hourly_for=timedelta(0), daily_for=timedelta(0))
_MARKER = re.compile(rb"zq([a-z0-9-]+)vx")
_OFTEN = ("fork", "write_on_a_branch", "merge", "erase")
"""What others need, or stands in their way: it is done so much more often."""

# The server that forks the processes has loaded the engine, but never run it.
warnings.filterwarnings("ignore", message="lancedb fork support is experimental")


@dataclass(slots=True)
class Tally:
    """What was seen over all rounds."""

    n_written: int = 0
    n_erased: int = 0
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """With an error that names what the caller named: somebody else has it, or has removed it."""
    conflicts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Told:
    """What the processes of one store were told so far."""

    written: list[str] = field(default_factory=list)
    """The ids of what was acknowledged on main, each writer's in order."""
    erased: set[str] = field(default_factory=set)
    perhaps: set[str] = field(default_factory=set)
    """What somebody began to erase."""


def main(arguments: Sequence[str]) -> int:
    """Run the rounds that `arguments` ask for; returns 1 at the first broken promise."""
    parser = argparse.ArgumentParser(prog="PYTHONPATH=tests python -m proofs.crash.verbs")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbs", type=int, default=12, help="verbs of each process in a round")
    options = parser.parse_args(arguments)
    tally, began = Tally(), time.monotonic()
    for first in range(0, options.rounds, _ROUNDS_A_STORE):
        folder = Path(tempfile.mkdtemp(prefix="verbs-"))
        told = Told()
        for number in range(first, min(first + _ROUNDS_A_STORE, options.rounds)):
            seed = options.seed + number
            broken = _round(folder, seed, options.verbs, told, tally)
            if broken is not None:
                print(f"round {number}, store kept at {folder}:\n{broken}")
                return 1
        shutil.rmtree(folder)
        print(f"{number + 1} of {options.rounds} rounds", file=sys.stderr)
    print(summary(tally, n_rounds=options.rounds, seconds=time.monotonic() - began))
    return 0


def summary(tally: Tally, *, n_rounds: int, seconds: float) -> str:
    """The rounds in numbers, as Markdown."""
    return "\n".join(
        [
            (
                f"{n_rounds} rounds in {seconds / 60:.0f} minutes: {tally.n_written} messages were "
                f"acknowledged, {tally.n_erased} erased. Lost, back, or not whole: 0."
            ),
            "",
            "| verb | done | refused by its name | conflicts |",
            "|---|---|---|---|",
            *(
                f"| {one} | {tally.done[one]} | {tally.refused[one]} | {tally.conflicts[one]} |"
                for one in VERBS
            ),
        ]
    )


# One round


def _round(folder: Path, seed: int, n_verbs: int, told: Told, tally: Tally) -> str | None:
    """Let the processes work to their end; returns what promise was broken, or None."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["proofs.crash.verbs"])
    place = str(folder / "store")
    with ContextStore.open(place) as store:
        store.memory.add([Message.user("the first")], user_id="u")
        if seed % 4 == 0:
            store.audit.seal()  # From now on verbs note what they did.
    crew = [
        context.Process(target=target, args=(place, f"{seed}-{number}", n_verbs), daemon=True)
        for number, target in enumerate([write] * _N_WRITERS + [work] * _N_WORKERS)
    ]
    for process in crew:
        process.start()
    until = time.monotonic() + _PATIENCE_SECONDS
    for process in crew:
        process.join(max(until - time.monotonic(), 0))
    if any(process.is_alive() for process in crew):
        for process in crew:
            process.kill()
        return f"not done after {_PATIENCE_SECONDS} seconds"
    for path in sorted(folder.glob("*.told")):
        if (broken := _hear(path, told, tally)) is not None:
            return broken
        path.unlink()
    if failed := [number for number, process in enumerate(crew) if process.exitcode]:
        return f"ended by an error: process {failed}"
    return _broken(place, told, Random(seed))


def _hear(path: Path, told: Told, tally: Tally) -> str | None:
    """Note what one process was told; returns an error that it should not have met."""
    for word, *said in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        match word:
            case "written":
                told.written.append(said[0])
                tally.n_written += 1
            case "erasing":
                told.perhaps.update(said[0])
            case "erased":
                told.erased.update(said[0])
                tally.n_erased += len(said[0])
            case "broken":
                return f"{said[0]}: {said[1]}"
            case _:
                getattr(tally, word)[said[0]] += 1
    return None


def _broken(place: str, told: Told, random: Random) -> str | None:
    with ContextStore.open(place) as store:
        shown = _shown(store)
        if len(shown) != len({*shown}):
            return f"there twice: {[one for one, n in Counter(shown).items() if n > 1][:5]}"
        expected = [one for one in told.written if one not in told.perhaps]
        if lost := {*expected}.difference(shown):
            return f"{len(lost)} lost, such as {min(lost)}"
        if _by_writer(expected) != _by_writer(one for one in shown if one in {*expected}):
            return "not in the order in which they were acknowledged"
        for name, view in _views(store, random):
            if back := told.erased.intersection(_shown(view)):
                return f"{len(back)} erased ones on {name}, such as {min(back)}"
        if not (verified := store.verify()).is_whole:
            return f"not whole: {verified.problems[:3]}"
        if told.erased:
            # What somebody was about to commit may be left beside them.
            store.erase(ids=sorted(told.erased), sole_writer=True)
    found = {
        one.decode()
        for file in Path(place).rglob("*")
        if file.is_file()
        for one in _MARKER.findall(file.read_bytes())
    }
    if back := told.erased & found:
        return f"{len(back)} erased ones in files, such as {min(back)}"
    if expected and not found:
        return "no text can be found in the files, so none of the erased ones could be"
    return None


def _views(store: ContextStore, random: Random) -> Iterator[tuple[str, ContextStore]]:
    yield "main", store
    for branch in store.branches():
        yield branch.name, store.branch(branch.name)
    for tag in store.tags():
        yield tag, store.checkout(tag)
    versions = store.versions()
    for version in random.sample(versions, min(5, len(versions))):
        yield f"version {version.number}", store.checkout(version.number)


def _shown(store: ContextStore) -> list[str]:
    messages = store.context().list(include_expired=True, include_retired=True)
    return [str(one["id"]) for one in messages if "-w-" in str(one["id"])]


def _by_writer(ids: Sequence[str] | Iterator[str]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for one in ids:
        found[one.rpartition("-w-")[0]].append(one)
    return dict(found)


# What the processes do


class _Notes:
    """What a process was told, a line each."""

    def __init__(self, place: str, name: str) -> None:
        self._file = Path(place).with_name(f"{name}.told").open("a", encoding="utf-8")

    def note(self, *said: object) -> None:
        self._file.write(json.dumps(said) + "\n")
        self._file.flush()


def write(place: str, name: str, n_verbs: int) -> None:
    """Append messages to main, and fold them now and then."""
    random, notes = Random(name), _Notes(place, name)
    with ContextStore.open(place) as store:
        for number in range(4 * n_verbs):
            id = f"{name}-w-{number}"
            store.history.append(AGENT, _message(id), session_id=name)
            notes.note("written", id)
            if random.random() < 0.2:
                store.flush()
            time.sleep(0.4 * random.random())


def work(place: str, name: str, n_verbs: int) -> None:
    """Draw verbs, and note how each ended."""
    random, notes = Random(name), _Notes(place, name)
    with ContextStore.open(place) as store:
        for number in range(n_verbs):
            verb = random.choice([*VERBS, *2 * _OFTEN])
            one = _Verb(store, random, notes, f"{name}-b-{number}")
            try:
                VERBS[verb](one)
            except ConflictError as error:
                notes.note("conflicts", verb)
                del error
            except (NotFoundError, AlreadyExistsError, InvalidRequestError) as error:
                if any(text in str(error) for text in one.named):
                    notes.note("refused", verb)
                else:
                    notes.note("broken", verb, f"{error!r}, and {one.named} were named")
            except ContextStoreError as error:
                notes.note("broken", verb, repr(error))
            except Exception as error:  # noqa: BLE001 - none of ours: that is what is looked for
                notes.note("broken", verb, f"not one of ours: {error!r}")
            else:
                notes.note("done", verb)


def _message(id: str) -> Message:
    return Message.user(f"zq{id}vx", id=id)


class _Verb:
    """One thing that a worker does."""

    def __init__(self, store: ContextStore, random: Random, notes: _Notes, id: str) -> None:
        self.store = store
        self.random = random
        self.notes = notes
        self.id = id
        self.named: list[str] = []
        """What it may be refused for, as errors quote it."""

    def name(self, *names: str) -> str:
        """One of these names, which others have or remove meanwhile."""
        chosen = self.random.choice(names)
        self.named.append(repr(chosen))
        return chosen

    def version(self, store: ContextStore) -> int:
        """The number of one of the newest versions, which others remove meanwhile."""
        numbers = [one.number for one in store.versions(limit=10)]
        number = self.random.choice(numbers)
        self.named.append(f"version {number}")
        return number

    def tag(self) -> None:
        self.store.tag(self.name(*TAGS))

    def tag_a_version(self) -> None:
        self.store.tag(self.name(*TAGS), version=self.version(self.store))

    def untag(self) -> None:
        self.store.delete_tag(self.name(*TAGS))

    def fork(self) -> None:
        self.store.create_branch(self.name(*MERGED, *RESTORED))

    def fork_a_version(self) -> None:
        self.store.create_branch(self.name(*RESTORED), at=self.version(self.store))

    def drop(self) -> None:
        self.store.delete_branch(self.name(*MERGED, *RESTORED))

    def write_on_a_branch(self) -> None:
        branch = self.store.branch(self.name(*MERGED, *RESTORED))
        branch.history.append(AGENT, Message.user(f"on a branch {self.id}"), session_id=self.id)
        branch.sessions.create(self.id, title="on a branch")

    def merge(self) -> None:
        self.store.merge(self.name(*MERGED))

    def merge_into_a_branch(self) -> None:
        self.store.branch(self.name(*MERGED)).merge("main")

    def restore(self) -> None:
        branch = self.store.branch(self.name(*RESTORED))
        branch.restore(self.version(branch))

    def erase(self) -> None:
        shown = _shown(self.store)
        ids = self.random.sample(shown, min(len(shown), self.random.randint(1, 3)))
        self.notes.note("erasing", ids)
        self.store.erase(ids=ids)
        self.notes.note("erased", ids)

    def erase_dry(self) -> None:
        self.store.erase(ids=_shown(self.store)[:2], dry_run=True)

    def thin(self) -> None:
        self.store.thin(retention=_NONE)

    def thin_dry(self) -> None:
        self.store.thin(dry_run=True)

    def maintain(self) -> None:
        self.store.maintain(policy=_SMALL)

    def compare(self) -> None:
        self.store.diff(self.version(self.store), self.version(self.store))

    def compare_with_a_tag(self) -> None:
        self.store.diff(self.name(*TAGS, *MERGED))

    def check_out(self) -> None:
        view = self.store.checkout(self.name(*TAGS, *RESTORED))
        self.named.append("was pruned")
        _shown(view)
        view.sessions.list()

    def verify(self) -> None:
        if not (found := self.store.verify()).is_whole:
            self.notes.note("broken", "verify", f"not whole: {found.problems[:3]}")

    def list(self) -> None:
        self.store.branches()
        self.store.tags()
        self.store.versions()
        self.store.stats()
        self.store.sql("SELECT count(*) FROM records")

    def copy(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.store.copy(f"{folder}/copy")
            with ContextStore.open(f"{folder}/copy") as copy:
                if not (found := copy.verify()).is_whole:
                    self.notes.note("broken", "copy", f"not whole: {found.problems[:3]}")


VERBS: dict[str, Callable[[_Verb], None]] = {
    name: verb for name, verb in vars(_Verb).items() if not name.startswith("_")
}
for _helper in ("name", "version"):
    del VERBS[_helper]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
