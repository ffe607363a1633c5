"""What came of the pairs, as a page of the documentation and on the terminal."""

from textwrap import fill

from proofs.matrix.limits import ASPECTS, LIMITS, TITLES, marks

_PAGE = """\
# Cross-framework matrix

What one framework writes, each of the others reads. Here every pair of them was asked to prove it, in {n_names} processes and as many environments,
over one directory: {n_checks} checks, of which {n_ok} hold.

```bash
make matrix
```

prints this table, and fails if one of the checks does, or if this page says anything else. Each process has one framework and its adapter. All
of them write at once; then each reads what every other has written, goes on with it, and forgets some of it. What is read is compared with what
was to be said: first made the reader's own messages by its adapter, then looked at as an application looks at them.

A cell is the number of checks that hold, of {n_aspects}. A capital letter beside it stands for checks that are not to be had between the two, a
small one for something in the conversation that one of them has no word for. Each is explained below, and nothing else is missing: if
something is there although a letter says that it is not, that is a fault, too. Faults are marked with ✗.

{table}

## What cannot be translated

It is kept: the framework that wrote it reads it again, even after all others have gone on with the conversation. That a framework's own
messages come back equal to what it wrote is part of `history`, `goes on` and `forget`.

{limits}

What a framework keeps under keys is for itself: the checkpoints and items of LangGraph, states of agents, indexes and caches. The core reads
it as [key-value items](../kv.md).

## What is checked

{aspects}

The conversation has a system message, texts in four scripts with emoji, tabs, quotes and line breaks, an image with a caption, reasoning, two
calls of tools in one step with arguments of every JSON type, and their results, one of them a failure. Meaning is a toy, the same for all: an
embedder that knows six groups of words.
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
        limits=_table(["", "what", "where"], limits),
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
