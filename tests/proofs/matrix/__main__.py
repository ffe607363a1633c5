"""Has every framework read what every other one wrote? `PYTHONPATH=tests python -m proofs.matrix`.

It prints a table of all pairs, and ends with an exit code other than 0 if one of them breaks, or if
docs/evidence/matrix.md says something else. Each framework runs in its environment of tests/environments.py,
which is made if it is missing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import environments
from proofs.matrix.judging import WorkerError, judged
from proofs.matrix.limits import ALL, OLDER
from proofs.matrix.page import page, printed

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "evidence" / "matrix.md"

ENVIRONMENTS = {
    "langchain": "langchain-newest",
    "llama_index": "llama-index-newest",
    "openai_agents": "openai-agents",
    "runtime0": "agentscope-context",
    "runtime1": "agentscope-runtime1",
    "agentscope1": "agentscope1",
    "agentscope2": "agentscope2",
    "pydantic_ai": "pydantic-ai-newest",
    "google_adk": "google-adk",
    "agent_framework": "agent-framework",
    "crewai": "crewai",
}
"""Where each framework is; the core is wherever this runs."""


def main():
    """Run the matrix; returns the exit code."""
    arguments = _arguments()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="matrix-") as scratch, ExitStack() as stack:
        pythons = environments.interpreters(arguments, ENVIRONMENTS)
        workers = {
            name: stack.enter_context(Worker(name, python, Path(scratch)))
            for name, python in pythons.items()
        }
        outcomes = judged(workers)
    _say(f"{printed(outcomes)} They took {time.monotonic() - started:.0f} s.")
    is_good = not any(outcome.broken for outcome in outcomes.values())
    if arguments.only != list(ALL):
        return 0 if is_good else 1
    made = page(outcomes)
    if arguments.output:
        arguments.output.write_text(made, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != made:
        _say(
            "✗ docs/evidence/matrix.md says something else: write it with --output docs/evidence/matrix.md"
        )
        is_good = False
    return 0 if is_good else 1


class Worker:
    """A framework in a process of its own, over the store in a directory; call it to ask it."""

    def __init__(self, name, python, directory):
        self._name = name
        self._log = directory / f"{name}.log"
        self._asking = threading.Lock()
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [python, "-m", "proofs.matrix.worker", name, str(directory / "memory")],
                cwd=directory,  # where frameworks may leave what they log
                env={**os.environ, "PYTHONPATH": _path(), "PYTHONUTF8": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
            )

    def __call__(self, verb, *arguments):
        """What it finds. Raises WorkerError if it raises, or is no more."""
        with self._asking:
            try:
                self._process.stdin.write(f"{json.dumps([verb, arguments])}\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
            except BrokenPipeError:
                line = ""
        if not line:
            said = self._log.read_text(encoding="utf-8", errors="replace")
            raise WorkerError(f"the process of {self._name} has ended; it said:\n{said[-3_000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self._name}, {verb}{arguments!r:.200}:\n{answer['error']}")
        return answer["found"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self._process, suppress(BrokenPipeError):
            self._process.stdin.close()


def _say(text):
    sys.stdout.write(f"{text}\n")


def _path():
    """Where `matrix` is, before whatever else is on the path."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(
        [str(ROOT / "tests"), *(str(Path(one).absolute()) for one in given if one)]
    )


def _arguments():
    parser = argparse.ArgumentParser(prog="matrix", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the page")
    parser.add_argument(
        "--newest", action="store_true", help="leave out the older lines of AgentScope"
    )
    environments.add_options(parser, ALL)
    arguments = parser.parse_args()
    if arguments.newest:
        arguments.only = [one for one in arguments.only if one not in OLDER]
    return arguments


if __name__ == "__main__":
    sys.exit(main())
