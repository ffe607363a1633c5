"""What came of the pairs, as a page of the documentation and on the terminal."""

from textwrap import fill

from proofs.matrix.limits import ASPECTS, LIMITS, TITLES, marks

_PAGE = """\
# Cross-framework matrix

Each framework reads the conversations, memories and documents that another one wrote. This page shows the result for every pair, in {n_names} processes and environments
over one directory: {n_ok} of {n_checks} checks hold.

```bash
make matrix
```

prints this table, and fails if a check fails or this page differs. Each process has one framework and its adapter. All
write at once; then each reads the data of every other one, continues it, and deletes some of it. Messages are compared after
the reader's adapter converted them, as an application sees them.

A cell is the number of checks that hold, of {n_aspects}. A capital letter marks checks that the pair does not support, a
small one a field of the conversation that one of the two cannot represent; both are explained below. A check that holds although a letter
excludes it is a fault, too. Faults are marked with ✗.

{table}

## Limits of translation

The store keeps it: the framework that wrote it reads it again, even after all others continued the conversation. `history`, `goes on` and
`forget` check that a framework's own messages read back equal.

{limits}

Checkpoints and items of LangGraph, states of agents, indexes and caches belong to their framework. The core reads
them as [key-value items](../kv.md).

## Checks

{aspects}

The conversation has a system message, texts in four scripts with emoji, tabs, quotes and line breaks, an image with a caption, reasoning, two
calls of tools in one step with arguments of every JSON type, and their results, one of them a failure. All use the same embedder, which knows
six groups of words.
"""


def page(outcomes):
    """The page of the documentation."""
    n_checks, n_broken = _counted(outcomes)
    names = _names(outcomes)
    rows = [
        [
            f"**{TITLES[writer]}**",
            *(_cell(outcomes[writer, reader], _raised(writer, reader)) for reader in names),
        ]
        for writer in names
    ]
    limits = [[mark, limit.reason, _between(limit)] for mark, limit in LIMITS.items()]
    return _PAGE.format(
        n_checks=n_checks,
        n_ok=n_checks - n_broken,
        n_aspects=len(ASPECTS),
        n_names=len(names),
        table=_table(["writes ↓ reads →", *(TITLES[one] for one in names)], rows),
        limits=_table(["", "limit", "where"], limits),
        aspects=_table(
            ["check", "holds if"], [[f"`{name}`", said] for name, said in ASPECTS.items()]
        ),
    )


def printed(outcomes):
    """The table as text, with its notes and whatever is broken."""
    names = _names(outcomes)
    head = ["writes / reads", *(TITLES[one].replace("AgentScope", "AS") for one in names)]
    rows = [
        [
            TITLES[writer],
            *(_cell(outcomes[writer, reader], "".join(marks(writer, reader))) for reader in names),
        ]
        for writer in names
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, ["-" * width for width in widths], *rows)
    ]
    shown = [mark for mark in LIMITS if any(mark in marks(*pair) for pair in outcomes)]
    notes = [
        fill(LIMITS[mark].reason, 100, initial_indent=f"{mark}  ", subsequent_indent="   ")
        for mark in shown
    ]
    n_checks, n_broken = _counted(outcomes)
    count = f"{n_checks - n_broken} of {n_checks} checks hold, of {len(outcomes)} pairs."
    return "\n".join([*lines, "", *notes, "", *_faults(outcomes), count])


def _names(outcomes):
    """The frameworks that took part, in order."""
    return list(dict.fromkeys(writer for writer, _ in outcomes))


def _cell(outcome, letters):
    n_broken = len(outcome.broken)
    cell = f"{len(outcome.problems) - n_broken} {letters}".rstrip()
    return f"{cell} ✗{n_broken}" if n_broken else cell


def _raised(writer, reader):
    letters = "".join(marks(writer, reader))
    return f"<sup>{letters}</sup>" if letters else ""


def _between(limit):
    writers, readers = (
        ", ".join(TITLES[one] for one in side) for side in (limit.writers, limit.readers)
    )
    if writers == readers:
        return f"{writers} writes or reads"
    return "; ".join(
        f"{side} {verb}" for side, verb in ((writers, "writes"), (readers, "reads")) if side
    )


def _faults(outcomes):
    for (writer, reader), outcome in outcomes.items():
        for aspect, problem in outcome.broken.items():
            yield f"✗ {TITLES[writer]} → {TITLES[reader]}, {aspect}: {problem}"


def _counted(outcomes):
    """How many checks there were, and how many of them do not hold."""
    n_checks = sum(len(outcome.problems) for outcome in outcomes.values())
    return n_checks, sum(len(outcome.broken) for outcome in outcomes.values())


def _table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
