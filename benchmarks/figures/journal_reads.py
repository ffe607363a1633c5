"""Cost of reads with a journal, vs. the same store without one."""

import random
from collections.abc import Mapping
from typing import Any

from benchmarks.bench import NO_JOURNAL, STORE, Bench, in_turn, ratio
from benchmarks.corpus import SESSIONS
from benchmarks.processes import SideError
from benchmarks.registry import Row, Target, figure

_LAST = 50
_IN_THE_JOURNAL = 200
_NO_SLOWER = 1.0


@figure("journal-reads", "Reads of what is in the tables, with a journal and without")
def reads(bench: Bench) -> list[Row]:
    """A record by its id and by its external id, and the end of a session, at rest."""
    try:
        sides = {name: bench.start(name) for name in (STORE, NO_JOURNAL)}
        for name, side in sides.items():
            side.ask(
                "load",
                uri=str(bench.folder / f"journal-reads-{name == STORE}"),
                corpus=str(bench.corpus.path),
                rows=bench.rows,
                has_journal=name == STORE,
                timeout_seconds=900,
            )
            side.ask("turn", has_id=False, count=_IN_THE_JOURNAL)
    except SideError as error:
        return [Row(what="reads", unit="ms", notes=(bench.failed(STORE, error),))]
    draw = random.Random(6)
    rows = []
    for what, request in (
        ("get by id", lambda: {"op": "get", "by": "id", "value": f"r{draw.randrange(bench.rows)}"}),
        (
            "get by external id",
            lambda: {"op": "get", "by": "external_id", "value": f"x{draw.randrange(bench.rows)}"},
        ),
        (
            f"the last {_LAST} of a session",
            lambda: {"op": "last", "session": f"s{draw.randrange(SESSIONS)}", "limit": _LAST},
        ),
    ):
        asked: list[Mapping[str, Any]] = [request() for _ in range(2 * bench.repeats)]
        turns = in_turn(bench, sides, asked)
        ms = turns.medians_ms()
        rows.append(
            Row(
                what=what,
                unit="ms",
                values=ms,
                judged=ratio(ms, of=STORE, to=NO_JOURNAL),
                target=Target(at_most=_NO_SLOWER),
                notes=(
                    f"{bench.rows:,} records are in the tables",
                    f"{_IN_THE_JOURNAL} turns were written since, into the journal or into the tables",
                    *turns.notes,
                ),
            )
        )
    return rows
