"""A store to look at, and `lance-ctx` to look at it with."""

import shutil
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from core.conformance.doubles import ManualClock
from lance_context_cli import main

from lance_context_core import ContextStore, Message


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self):
        """The cells of what was printed."""
        return [line.split("\t") for line in self.out.splitlines()]


@pytest.fixture
def place(tmp_path, written):
    """A store of one's own in which a tutor talked with Ada."""
    return shutil.copytree(written, tmp_path / "memory")


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A store in which a tutor talked with Ada, and a branch on which more is known of her."""
    clock = ManualClock(datetime(2026, 5, 4, 9, tzinfo=UTC))
    place = tmp_path_factory.mktemp("written") / "memory"
    with ContextStore.open(place, clock=clock) as store:

        def say(message):
            clock.advance(minutes=1)
            store.history.append("tutor", message, session_id="monday")

        say(Message.user("Ada is allergic to nuts.", id="nuts"))
        say(Message.assistant("I shall remember that.", id="yes"))
        store.memory.add([Message.user("Prefers trains to planes", id="trains")], user_id="ada")
        store.tag("before-lunch")
        say(Message.user("Lunch was great, Ada had soup.", id="lunch"))
        store.create_branch("try")
        store.branch("try").memory.add([Message.user("Likes soup", id="soup")], user_id="ada")
    return place


@pytest.fixture
def ctx(place, monkeypatch, capsys):
    """`lance-ctx` with these arguments, about the store unless they name another one."""
    monkeypatch.setenv("LANCE_CONTEXT_STORE", str(place))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["lance-ctx", *arguments])
        code = main._ended()
        return Ended(code, *capsys.readouterr())

    return run
