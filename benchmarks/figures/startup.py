"""Start-up: what an import costs."""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from subprocess import CalledProcessError

from benchmarks.bench import LANCE_CONTEXT, LANCEDB, STORE, Bench, ratio
from benchmarks.environments import python_of
from benchmarks.registry import Row, Target, figure

_TIMES = 21


@figure("import", "Import, as a whole process")
def import_time(bench: Bench) -> list[Row]:
    """Start Python, import the package, end."""
    # LanceDB's import is timed in the store's own environment: the same interpreter, the same files.
    commands = {
        STORE: (Path(sys.executable), "import lance_context_core"),
        LANCEDB: (Path(sys.executable), "import lancedb"),
    }
    notes = []
    try:
        commands[LANCE_CONTEXT] = (python_of(LANCE_CONTEXT), "import lance_context")
    except CalledProcessError as error:
        notes.append(bench.failed(LANCE_CONTEXT, error))
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(_TIMES + 1):
        order = sorted(seconds, reverse=bool(turn % 2))
        for name in order:
            python, code = commands[name]
            start = time.perf_counter()
            done = subprocess.run([str(python), "-c", code], check=False, capture_output=True)
            if done.returncode:
                last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
                notes.append(bench.failed(name, RuntimeError(last)))
                del seconds[name]
                continue
            seconds[name].append(time.perf_counter() - start)
    values = {name: median(given[1:]) * 1_000 for name, given in seconds.items()}
    return [
        Row(
            what="time, vs. `import lancedb`",
            unit="ms",
            values=values,
            judged=ratio(values),
            target=Target(at_most=1.2),
            notes=tuple(notes),
        )
    ]
