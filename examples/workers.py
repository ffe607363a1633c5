"""Three processes work on one plan: one is killed, another takes over, a lock protects their file.

    python examples/workers.py            in a directory that is removed in the end
    python examples/workers.py my-store   in one that is kept

No model is needed: what the workers do is to wait a moment, and to write a line.
"""

import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from lance_context_core import ContextStore
from lance_context_core.results import TaskBoard

PLAN = """# A report

What three sources say, side by side: gathered, read, compared, written down.
"""
TASKS = (
    ("gather", "Gather the sources", ()),
    ("read 1", "Read the first", ("gather",)),
    ("read 2", "Read the second", ("gather",)),
    ("read 3", "Read the third", ("gather",)),
    ("compare", "Compare them", ("read 1", "read 2", "read 3")),
    ("write", "Write the report", ("compare",)),
)
WORKERS = ("ann", "ben", "eve")
KILLED = "read 2"
"""Whoever begins this first does not end it."""


def main() -> None:
    """Watch the workers, or be one of them."""
    if len(sys.argv) == 4 and sys.argv[1] == "--worker":
        work(sys.argv[2], sys.argv[3])
    elif len(sys.argv) == 2:
        watch(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            watch(Path(directory) / "store")


def work(directory: str, name: str) -> None:
    """Take one task after the other until none is left, and write a line for each into one file."""
    with ContextStore.open(directory) as store:
        board = store.plans.tasks("report")
        while board.progress() < 1:
            if (task := board.claim(name)) is None:
                time.sleep(0.05)
                continue
            if task.id == KILLED and task.attempt == 1:
                time.sleep(3600)  # until it is killed
            time.sleep(0.2)
            with store.locks.acquire("report.txt", lease=timedelta(seconds=30)):
                report = Path(directory) / "report.txt"
                lines = report.read_text(encoding="utf-8") if report.exists() else ""
                report.write_text(f"{lines}{task.title}, by {name}\n", encoding="utf-8")
            board.complete(task.id, attempt=task.attempt)


def watch(directory: Path) -> None:
    """Make the plan, start the workers, kill one of them, and tell who did what."""
    console = Console()
    with ContextStore.open(directory) as store:
        store.plans.delete("report")
        store.plans.add(PLAN, id="report")
        store.plans.set_status("report", "active")
        board = store.plans.tasks("report")
        for id, title, depends_on in TASKS:
            board.add(title, id=id, depends_on=depends_on)
        workers = {name: start(directory, name) for name in WORKERS}
        victim = None
        try:
            with Live(drawn(board), console=console, auto_refresh=False) as live:
                while board.progress() < 1:
                    if all(worker.poll() is not None for worker in workers.values()):
                        raise SystemExit(
                            "all workers have ended, and there is something left to do"
                        )
                    task = board.get(KILLED)
                    if victim is None and task.status == "in_progress" and task.assigned_to:
                        victim = task.assigned_to
                        workers[victim].kill()
                    live.update(drawn(board), refresh=True)
                    time.sleep(0.05)
                live.update(drawn(board), refresh=True)
        finally:
            for name, worker in workers.items():
                if board.progress() < 1 or name == victim:
                    worker.kill()
                worker.wait()
        console.print(f"\n{victim} was killed at {KILLED!r}. History:", highlight=False)
        tell(board, console)
        store.plans.set_status("report", "completed")
        console.print(f"\nThe plan, {store.plans.get('report').status}:\n", highlight=False)
        console.print(store.plans.markdown("report"), highlight=False, markup=False)
        report = (directory / "report.txt").read_text(encoding="utf-8")
        console.print(f"\nThe report has {len(report.splitlines())} lines.", highlight=False)


def drawn(board: TaskBoard) -> Text:
    """The board with who is at what; no task of this plan has subtasks."""
    lines = [
        f"{line}, {task.assigned_to} is at it" if task.status == "in_progress" else line
        for line, task in zip(board.tree().split("\n"), board.list(), strict=True)
    ]
    return Text("\n".join(lines))


def start(directory: Path, name: str) -> subprocess.Popen[bytes]:
    """A worker, as a process of its own."""
    return subprocess.Popen([sys.executable, __file__, "--worker", str(directory), name])  # noqa: S603


def tell(board: TaskBoard, console: Console) -> None:
    """The history of each task."""
    for id, _, _ in TASKS:
        changes = [
            f"{one.by} {'began' if one.after == 'in_progress' else one.after}"
            if one.after != "pending"
            else f"given back, {one.note}"
            for one in board.history(id)
            if one.by is not None
        ]
        console.print(f"  {id}: {', '.join(changes)}", highlight=False)


if __name__ == "__main__":
    main()
