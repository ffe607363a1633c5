"""How long event loops stand still while the store is at work."""

from benchmarks.bench import STORE, Bench
from benchmarks.processes import SideError
from benchmarks.registry import Row, Target, figure

_ROUNDS = 3
_MOST_MS = 20
_NOTE = (
    "by the clock, and as the loop's own thread worked between two ticks, by the clock of its CPU: "
    "what others took of a busy machine is not in that, nor what it waited for"
)

_COLLECTING = "Python looks through all objects for garbage"
_OF_PYTHON = (
    "whole collections of garbage are left out above: no thread of a process runs meanwhile, and most of "
    "what is looked through is what `import lancedb` leaves, which gc.freeze() after the imports takes out"
)


@figure(
    "stalls",
    f"Longest stall of an event loop while the store is at work, least of {_ROUNDS} rounds",
)
def loop_stalls(bench: Bench) -> list[Row]:
    """By how much a clock on the caller's loop, and one on the store's own, was late at most.

    The least of some rounds: what blocks a loop does so in each, what else the machine does not.
    """
    try:
        rounds = [
            bench.start(STORE).ask("loops", uri=str(bench.folder / f"stalls-{number}"))
            for number in range(_ROUNDS)
        ]
    except SideError as error:
        return [Row(what="stall", unit="ms", notes=(bench.failed(STORE, error),))]
    collecting = [one.pop(_COLLECTING)["longest"] for one in rounds]
    rows = []
    for work, loops in rounds[0].items():
        least = {loop: min(one[work][loop] for one in rounds) * 1_000 for loop in loops}
        for loop in ("caller", "store"):
            rows += [
                _row(f"{work}: the {loop}'s loop", least[loop]),
                _row("CPU time of its thread", least[f"{loop}, at work"]),
            ]
    most = max(collecting) * 1_000
    return [*rows, Row(what=_COLLECTING, unit="ms", values={STORE: most}, notes=(_OF_PYTHON,))]


def _row(what: str, ms: float) -> Row:
    return Row(
        what=what,
        unit="ms",
        values={STORE: ms},
        judged=ms,
        target=Target(at_most=_MOST_MS),
        notes=(_NOTE,),
    )
