"""What an audit costs: the same writes in a store that notes who did what, and in one that does not.

    python -m benchmarks.auditing [--turns 2000] [--rounds 5]

Both are written in turn, each round into new directories; medians of CPU of all threads.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from lance_context_core import ContextStore, Message


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    took: dict[tuple[str, bool], list[float]] = {}
    for _ in range(options.rounds):
        for is_audited in (False, True):
            with tempfile.TemporaryDirectory(prefix="auditing-") as scratch:
                for what, figure in _of_one(
                    Path(scratch), options.turns, is_audited=is_audited
                ).items():
                    took.setdefault((what, is_audited), []).append(figure)
    print("| what | without | with an audit |\n|---|---:|---:|")
    for what in dict.fromkeys(what for what, _ in took):
        one, other = (median(took.get((what, each), [0.0])) for each in (False, True))
        print(f"| {what} | {one:,.3g} | {other:,.3g} |")


def _of_one(scratch: Path, n_turns: int, *, is_audited: bool) -> dict[str, float]:
    found = {}
    with ContextStore.open(scratch / "memory", author="tutor", maintenance=None) as store:
        store.history.append("tutor", Message.user("begin"), session_id="s")
        store.flush()
        if is_audited:
            store.audit.seal()
        spent = _cpu(
            lambda: [
                store.history.append("tutor", Message.user(f"turn {n}"), session_id="s")
                for n in range(n_turns)
            ]
        )
        found["an append, us"] = spent / n_turns * 1e6
        found["folding them, ms"] = _cpu(store.flush) * 1e3
        if is_audited:
            found["sealing them, ms"] = _cpu(store.audit.seal) * 1e3
            found["verifying the chain, ms"] = _cpu(store.audit.verify) * 1e3
        files = [one.stat().st_size for one in (scratch / "memory").rglob("*") if one.is_file()]
        found["bytes on the disk by the turn"] = sum(files) / n_turns
    return found


def _cpu(do: Callable[[], object]) -> float:
    begun = time.process_time()
    do()
    return time.process_time() - begun


if __name__ == "__main__":
    main()
