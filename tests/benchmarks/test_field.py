"""The table of the field hides nothing: who fails, lacks something or answers wrongly is seen to."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.field.data import QUICK, make_data
from benchmarks.field.killing import TASK as KILL
from benchmarks.field.killing import killed
from benchmarks.field.page import made_part
from benchmarks.field.peers import PEERS, Peer
from benchmarks.field.running import Outcome, run, titles
from benchmarks.processes import SideError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evidence" / "by_subject.md"
OURS = Peer(name="ours", group="g", script="", is_ours=True, how="")
THEIRS = Peer(name="theirs", group="g", script="", how="")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data(QUICK, tmp_path_factory.mktemp("field"))


class Right:
    """A peer that answers everything as it should, in no process of its own."""

    def __init__(self, data):
        self.data = data
        self.held = []

    def ask(self, op, **asked):
        return getattr(self, op)(**asked)

    def close(self):
        pass

    def open(self, **_):
        return "right 1.0"

    def fill(self, *, count, **_):
        self.held += range(count)

    def append(self, *, start, count, told=None):
        for number in range(start, start + count):
            self.held.append(number)
            if told:
                with Path(told).open("a", encoding="ascii") as file:
                    file.write(f"{number}\n")
        return {"seconds": [0.001] * count}

    def turn(self, *, start, count, size):
        self.held += range(start, start + count * size)
        return {"seconds": [0.001] * count}

    def memory(self):
        return 100.0

    def last(self, *, session, limit):
        return self.found(self.of_session(session)[-limit:])

    def whole(self, *, session):
        return self.found(self.of_session(session))

    def search(self, *, how, limit, text="", vector=(), topic=""):
        return self.found(getattr(self, how)(text=text, vector=vector, topic=topic)[:limit])

    def vector(self, *, vector, **_):
        return self.near(vector, self.held)

    def words(self, *, text, **_):
        return self.containing(text)

    def hybrid(self, *, text, vector, **_):
        return list(dict.fromkeys([*self.containing(text), *self.near(vector, self.held)]))

    def filter(self, *, vector, topic, **_):
        return self.near(vector, [n for n in self.held if self.data.topics[n] == topic])

    def containing(self, text):
        return [n for n in self.held if all(f" {w}" in self.data.texts[n] for w in text.split())]

    def near(self, vector, numbers):
        far = np.linalg.norm(self.data.vectors[numbers] - np.array(vector), axis=1)
        return [numbers[place] for place in np.argsort(far)]

    def of_session(self, session):
        return [n for n in self.held if self.data.sessions[n] == session]

    def found(self, numbers):
        return {"seconds": 0.001, "texts": [self.data.texts[n] for n in numbers]}


class Dying(Right):
    def fill(self, **_):
        raise SideError("fill: it ended: out of memory")


class Raising(Right):
    def words(self, **_):
        raise SideError("search: ValueError: no such column")


class Lacking(Right):
    def search(self, *, how, **asked):
        return (
            {"lacks": "no hybrid search"} if how == "hybrid" else super().search(how=how, **asked)
        )


class Refusing(Right):
    """Keeps two messages, and no third one."""

    def append(self, *, start, count, told=None):
        return {**super().append(start=start, count=min(count, 2)), "error": "OSError: full"}


class Shuffling(Right):
    def whole(self, *, session):
        return self.found(self.of_session(session)[::-1])


class Late(Right):
    """Does not find what was said last."""

    def last(self, *, session, limit):
        return self.found(self.of_session(session)[:-1][-limit:])


class Far(Right):
    def vector(self, *, vector, **_):
        return self.near(vector, self.held)[3:]


class FilteringAfterwards(Right):
    def filter(self, *, vector, topic, **_):
        near = self.near(vector, self.held)[:10]
        return [n for n in near if self.data.topics[n] == topic]


class NotFiltering(Right):
    def filter(self, *, vector, **_):
        return self.near(vector, self.held)


class Deaf(Right):
    """A hybrid search that is one by vectors only."""

    def hybrid(self, *, vector, **_):
        return self.near(vector, self.held)


class Repeating(Right):
    def words(self, *, text, **_):
        return [n for n in super().words(text=text) for _ in range(2)]


class Inventing(Right):
    def last(self, **asked):
        found = super().last(**asked)
        return {**found, "texts": [*found["texts"], "never said"]}


FLAWS = {
    Raising: ("words", "fails", "search: ValueError: no such column"),
    Lacking: ("hybrid", "lacks", "no hybrid search"),
    Refusing: ("append", "fails", "OSError: full"),
    Shuffling: ("whole", "wrong", "in another order"),
    Late: ("last", "wrong", "4 of 4 sessions"),
    Far: ("vector", "wrong", "70% of the right hits"),
    FilteringAfterwards: ("filter", "wrong", "where 10.0 were to be had"),
    NotFiltering: ("filter", "wrong", "do not match the filter"),
    Deaf: ("hybrid", "wrong", "misses the nearest, or the word, in 4 of 4"),
    Repeating: ("words", "wrong", "50% of the right hits"),
    Inventing: ("last", "wrong", "4 of 4 sessions"),
}


class Slow(Right):
    def append(self, **asked):
        return {"seconds": [11.0 for _ in super().append(**asked)["seconds"]]}


def outcomes_of(theirs, data, folder):
    sides = {"ours": Right(data), "theirs": theirs(data)}
    return run([OURS, THEIRS], data, start=lambda peer: sides[peer.name], folder=folder)


def row_of(name, text):
    """The cells of a peer's row, without its name."""
    table = text.partition("## ")[0]
    [row] = [line for line in table.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in row.split("|")[2:-1]]


def region(page):
    """What the command has put into a page."""
    return page.split("<!-- made by python -m benchmarks.field -->")[1].split("<!-- end of")[0]


def made(outcomes, data):
    return made_part([OURS, THEIRS], outcomes, data, command="run", load="0")


@pytest.mark.parametrize("flawed", FLAWS)
def test_a_flaw_is_in_the_table_in_its_place_and_nowhere_else(flawed, data, tmp_path):
    task, kind, says = FLAWS[flawed]
    outcomes = outcomes_of(flawed, data, tmp_path)
    assert {cell.kind for cell in outcomes["ours"].cells.values()} == {"measured"}
    cells = outcomes["theirs"].cells
    assert {name for name, cell in cells.items() if cell.kind != "measured"} == {task}
    assert cells[task].kind == kind
    assert says in cells[task].says
    text = made(outcomes, data)
    shown = row_of("theirs", text)[list(titles(data)).index(task)]
    assert shown == (says if kind == "lacks" else f"**{kind}**")
    assert kind == "lacks" or says in text.partition("## What failed")[2]


def test_a_slow_peer_is_cut_short_and_said_to_be(data, tmp_path):
    outcomes = outcomes_of(Slow, data, tmp_path)
    assert {cell.kind for cell in outcomes["theirs"].cells.values()} == {"measured"}
    text = made(outcomes, data)
    assert row_of("theirs", text)[0] == "11,000 (11,000×)"  # noqa: RUF001 - times
    assert "- theirs, append (4 times): cut short" in text


def test_a_peer_that_never_begins_is_a_row_of_failures(data, tmp_path):
    outcomes = outcomes_of(Dying, data, tmp_path)
    text = made(outcomes, data)
    assert set(row_of("theirs", text)[:-1]) == {"**fails**"}
    assert "fill: it ended: out of memory" in text


class Losing(Right):
    """Its three last appends, of forty, are gone in the next process."""

    kept = ()

    def open(self, **_):
        self.held = type(self).kept = list(self.kept[:-3])

    def append(self, *, start, count, told=None):
        answer = super().append(start=start, count=min(count, 40), told=told)
        type(self).kept = self.held
        return answer


class LosingInVectors(Losing):
    def whole(self, **_):
        return {"lacks": "no history"}


@pytest.mark.parametrize("losing", [Losing, LosingInVectors])
def test_what_a_kill_takes_is_in_the_table(losing, data, tmp_path):
    cell = killed(THEIRS, data, start=lambda _: losing(data), folder=tmp_path)
    assert (cell.kind, cell.says) == ("wrong", "3 of 40 lost")
    outcomes = {"ours": Outcome(), "theirs": Outcome(cells={KILL: cell})}
    assert row_of("theirs", made(outcomes, data))[-1] == "**wrong**"


def test_a_wrong_answer_has_no_ratio_and_a_right_one_has(data, tmp_path):
    outcomes = outcomes_of(Far, data, tmp_path)
    far = dict(zip(titles(data), row_of("theirs", made(outcomes, data)), strict=False))
    assert far["vector"] == "**wrong**"
    assert far["words"] == "1 (1×)"  # noqa: RUF001 - times


def test_the_command_measures_who_is_here_and_shows_who_is_not(tmp_path):
    page = tmp_path / "by_subject.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.field", "--quick", "--output", str(page)]
    done = subprocess.run(
        [*command, "--only", "store_conversations", "chroma"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    shown = region(text)
    ours = row_of("**lance-context-core**", shown)
    assert len(ours) == 11
    assert all(re.fullmatch(r"[\d.,]+", cell) for cell in ours[:-1])
    assert re.fullmatch(r"0 of [1-9]\d+", ours[-1])
    assert set(row_of("Chroma", shown)) == {"**fails**"}
    assert "ModuleNotFoundError: No module named 'chromadb'" in shown
    before = PAGE.read_text(encoding="utf-8")
    assert text.replace(shown, "") == before.replace(region(before), "")


def test_the_page_has_a_row_for_every_peer_or_says_that_it_has_no_figures():
    shown = region(PAGE.read_text(encoding="utf-8"))
    if "There are no figures" in shown:
        assert "|" not in shown
        return
    for peer in PEERS:
        row = row_of(f"**{peer.name}**" if peer.is_ours else peer.name, shown)
        assert len(row) == 11
        assert "not asked" not in row
