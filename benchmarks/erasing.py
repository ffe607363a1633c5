"""Wall time of erasing one message, vs. LanceDB's calls by hand.

    python -m benchmarks.erasing [--messages 2000] [--rounds 20]

By hand a row of the texts is deleted, what stays is written anew, and so is the index of words, and the older
versions are removed. Both are done in turn; medians.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median

import lancedb
from lancedb.index import FTS

from lance_context_core import ContextStore, Message


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    texts = [f"tea number {n}" for n in range(options.messages)]
    ours, theirs = list[float](), list[float]()
    with tempfile.TemporaryDirectory(prefix="erasing-") as scratch:
        place = Path(scratch)
        with ContextStore.open(place / "memory", maintenance=None) as store:
            messages = [Message.user(text, id=f"m{n}") for n, text in enumerate(texts)]
            store.history.append_many("tutor", messages, session_id="s")
            rows = [{"id": f"m{n}", "text": text} for n, text in enumerate(texts)]
            table = lancedb.connect(place / "by-hand").create_table("messages", rows)
            table.create_index("text", config=FTS())
            for n in range(options.rounds + 1):
                ours.append(_seconds(partial(store.erase, ids=[f"m{n}"])))
                theirs.append(_seconds(partial(_by_hand, table, f"m{n}")))
    one, other = (1e3 * median(took[1:]) for took in (ours, theirs))
    print("| erase | LanceDB by hand | ratio |\n|---:|---:|---:|")
    print(f"| {one:.1f} ms | {other:.1f} ms | {one / other:.2f} |")


def _by_hand(table: lancedb.table.Table, id: str) -> None:
    table.delete(f"id = '{id}'")
    table.update(where="true", values_sql={"text": "text"})
    table.create_index("text", config=FTS(), replace=True)
    table.optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)


def _seconds(do: Callable[[], object]) -> float:
    begun = time.perf_counter()
    do()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
