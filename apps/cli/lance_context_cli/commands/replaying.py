"""What would have been recalled then, in another way."""

from typing import Any

import click

from lance_context_cli.call import Call, pass_call
from lance_context_cli.ids import session_id
from lance_context_cli.output import Line


@click.command
@click.argument("words", nargs=-1)
@click.option(
    "--session",
    metavar="ID",
    help="Repeat the questions of users in this session, each as of its time.",
)
@click.option(
    "--mode", type=click.Choice(["hybrid", "vector", "text"]), help="The other search mode."
)
@click.option("--other", metavar="NAME", help="With this embedder, whose vectors are recomputed.")
@click.option("--neighbours", type=click.FloatRange(0, 1), help="The weight of neighbouring turns.")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=10, show_default=True)
@pass_call
def replay(
    call: Call,
    words: tuple[str, ...],
    session: str | None,
    mode: Any,
    other: str | None,
    neighbours: float | None,
    limit: int,
) -> None:
    """Repeat searches as usual and with other options, and compare the results.

    With --at, as of that moment.
    """
    from lance_context_core.settings import SearchOptions

    after: dict[str, Any] = {} if mode is None else {"mode": mode}
    if other is not None:
        after["embedder"] = other
    if neighbours is not None:
        after["options"] = SearchOptions(neighbours=neighbours)
    store = call.place.reading()
    session = None if session is None else session_id(store, session)
    found = store.replay(
        " ".join(words) if words else None, session_id=session, after=after, limit=limit
    )
    lines = (
        Line(
            (one.id, one.question, one.gained, one.lost),
            {
                "id": one.id,
                "question": one.question,
                "asked_at": one.asked_at,
                "before": [hit.record.id for hit in one.before],
                "after": [hit.record.id for hit in one.after],
                "gained": one.gained,
                "lost": one.lost,
            },
        )
        for one in found.questions
    )
    call.output.rows(("turn", "question", "gained", "lost"), lines)
    told = f"{found.n_gained} gained, {found.n_lost} lost, {found.n_changed} questions changed"
    call.output.note(told)


COMMANDS = (replay,)
