"""The processes of a soak: each another framework, in its own environment."""

import json
import os
import random
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from proofs.soak.journal import notes

ROOT = Path(__file__).parents[3]

_PATIENCE_SECONDS = 900
"""How long a process may take to begin or to end: it may share the machine with others."""


class CrewError(Exception):
    """A process did not begin, or did not end well; the message has what it said."""


class Member:
    """A process, and those that it took the place of."""

    def __init__(self, role, framework, python, place, directory):
        self.role = role
        self.name = framework if role == "writer" else role
        self.journal = directory / f"{self.name}.journal"
        self.n_kills = 0
        self._command = [python, "-m", "proofs.soak.worker", role, framework, json.dumps(place)]
        self._command.append(str(self.journal))
        self._directory = directory
        self._log = directory / f"{self.name}.log"
        self._start()

    def _start(self):
        self._n_seen = len(notes(self.journal))
        with self._log.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._directory,  # where frameworks may leave what they log
                env={**os.environ, "PYTHONPATH": _path(), "PYTHONUTF8": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
            )

    def is_at_work(self):
        """Whether it has done something since it was started. Raises CrewError if it has ended."""
        if self._process.poll() is not None:
            raise CrewError(f"{self.name} has ended by itself; it said:\n{self._said()}")
        return any(one["what"] in ("done", "maintained") for one in self._new_notes())

    def _new_notes(self):
        return notes(self.journal)[self._n_seen :]

    def await_work(self):
        """Return once it has done something."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self.is_at_work():
            if time.monotonic() > deadline:
                raise CrewError(f"{self.name} does not begin; it said:\n{self._said()}")
            time.sleep(0.1)

    def kill_and_restart(self):
        """SIGKILL, and another one goes on."""
        self.stop()
        self.n_kills += 1
        self._start()

    def tell_to_stop(self):
        """Have it finish what it is at."""
        with suppress(BrokenPipeError):
            self._process.stdin.write("stop\n")
            self._process.stdin.flush()

    def await_stop(self):
        """Return once a writer writes no more."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not any(one["what"] == "over" for one in self._new_notes()):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise CrewError(f"{self.name} does not stop; it said:\n{self._said()}")
            time.sleep(0.1)

    def asked(self, **question):
        """What a writer that has stopped sees; it ends with that."""
        return json.loads(self.end(f"{json.dumps(question)}\n"))

    def end(self, last_word=""):
        """Wait until it ends; returns what it answers."""
        try:
            answer, _ = self._process.communicate(last_word, _PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise CrewError(f"{self.name} does not end; it said:\n{self._said()}") from None
        if self._process.returncode:
            raise CrewError(f"{self.name} has failed; it said:\n{self._said()}")
        return answer

    def stop(self):
        """End it at once, if it still runs."""
        with suppress(BrokenPipeError), self._process:
            self._process.kill()

    def _said(self):
        return self._log.read_text(encoding="utf-8", errors="replace")[-3_000:]


def torment(members, *, seconds, chance: random.Random, mean_pause_seconds):
    """Kill one after the other, each at a random moment, while they work; returns how many."""
    deadline = time.monotonic() + seconds
    n_kills = 0
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, chance.uniform(0.2, 1.8) * mean_pause_seconds))
        ready = [one for one in members if one.is_at_work()]
        if ready and time.monotonic() < deadline:
            chance.choice(ready).kill_and_restart()
            n_kills += 1
    return n_kills


def _path():
    """Where `soak` is, before whatever else is on the path."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(
        [str(ROOT / "tests"), *(str(Path(one).absolute()) for one in given if one)]
    )
