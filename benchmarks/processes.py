"""A side as the harness sees it: a process that is asked, waited for, and ended."""

import json
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environments import python_of

_ROOT = Path(__file__).parents[1]


class SideError(Exception):
    """A side could not do what it was asked; the message is what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a side runs, and where."""

    script: str
    """A module of `benchmarks.sides`."""
    environment: str | None = None
    """One of `benchmarks.environments`; None means the one that this runs in."""

    def start(self, log: Path, *, is_here: bool = False) -> "Side":
        """A new process; with `is_here` it runs in this environment whatever it asks for.

        Raises SideError if its environment cannot be made.
        """
        python = Path(sys.executable)
        if self.environment is not None and not is_here:
            try:
                python = python_of(self.environment)
            except subprocess.CalledProcessError as error:
                raise SideError(f"installing it ended with status {error.returncode}") from error
        return Side(python, f"benchmarks.sides.{self.script}", log)


class Side:
    """A running side."""

    def __init__(self, python: Path, module: str, log: Path) -> None:
        self._log = log
        with log.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                [str(python), "-m", module],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def ask(self, op: str, *, timeout_seconds: float = 600, **arguments: Any) -> Any:
        """The side's answer. Raises SideError if it reports a failure, dies, or takes too long.

        A side that took too long is ended; what it is asked later fails.
        """
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        assert pipe_in is not None
        assert pipe_out is not None
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            self._process.kill()

        timer = threading.Timer(timeout_seconds, expire)
        timer.start()
        try:
            pipe_in.write(json.dumps({"op": op, **arguments}) + "\n")
            pipe_in.flush()
            line = pipe_out.readline()
        except OSError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            reason = f"no answer within {timeout_seconds:g} s" if expired.is_set() else self._last()
            raise SideError(f"{op}: {reason}")
        answer = json.loads(line)
        if "error" in answer:
            raise SideError(f"{op}: {answer['error']}")
        return answer["result"]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # A request that a dead process did not read is flushed here, and fails again.
                with suppress(OSError):
                    pipe.close()

    def _last(self) -> str:
        """The last thing that a process which died had to say."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f"it ended: {said[-1] if said else 'without a word'}"
