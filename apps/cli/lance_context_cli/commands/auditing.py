"""Who did what, and whether anything is amiss with what tells it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lance_context_cli import exits
from lance_context_cli.call import Call, pass_call
from lance_context_cli.ids import record_id_or_given
from lance_context_cli.output import Line, plain

if TYPE_CHECKING:
    from lance_context_core.results import AuditEntry


@click.command
@click.argument("id", required=False)
@click.option("--seal", "is_sealing", is_flag=True, help="Record the writes since the last --seal.")
@click.option(
    "--verify", "is_verifying", is_flag=True, help="Check the chain; ends with 1 if it breaks."
)
@click.option(
    "--head", metavar="N:HASH", help="With --verify: the value that --seal printed earlier."
)
@click.option(
    "--export", "goal", type=click.Path(path_type=Path), help="Write the whole log as JSONL."
)
@pass_call
def audit(
    call: Call,
    id: str | None,
    is_sealing: bool,
    is_verifying: bool,
    head: str | None,
    goal: Path | None,
) -> None:
    """Show who wrote, changed, merged, erased and read what: in the store, or in the record ID.

    Recording begins with the first --seal.
    """
    chosen = [name for name, one in (("--seal", is_sealing), ("--verify", is_verifying),
                                     ("--export", goal), ("ID", id)) if one]  # fmt: skip
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} do not go together: give one of them")
    if head is not None and not is_verifying:
        raise click.UsageError("--head is for --verify")
    if is_sealing:
        done = call.place.writing().audit.seal()
        call.output.fields({"n": done.n, "hash": done.hash})
    elif is_verifying:
        _verify(call, head)
    elif goal is not None:
        n = call.place.whole().audit.export(goal)
        call.output.note(f"{n} entries were written to {goal}")
    else:
        _list(call, id)


def _list(call: Call, id: str | None) -> None:
    store = call.place.whole()
    audit = store.audit
    id = None if id is None else record_id_or_given(store, id)
    lines = []
    for entry in audit.entries() if id is None else audit.of(id):
        done = ", ".join(f"{n} {did}" for did, n in entry.counts.items())
        who = sorted({row.author for row in entry.rows if row.author})
        where = entry.table or ""
        if id is not None:
            done = ", ".join(row.did for row in entry.rows)
        lines.append(Line((entry.n, entry.at, entry.action, where, done, who), _plain(entry)))
    call.output.rows(("n", "at", "action", "table", "rows", "by"), lines)


def _plain(entry: "AuditEntry") -> dict[str, object]:
    return {**plain(entry), "rows": [row._asdict() for row in entry.rows]}


def _verify(call: Call, head: str | None) -> None:
    from lance_context_core.results import AuditHead

    kept = None
    if head is not None:
        n, _, hash = head.partition(":")
        if not (n.isdigit() and hash):
            raise click.BadParameter(
                f"{head!r} is not N:HASH, such as 12:9f86d0…", param_hint="--head"
            )
        kept = AuditHead(n=int(n), hash=hash)
    found = call.place.whole().audit.verify(head=kept)
    if call.output.format != "people":
        call.output.fields({"is_whole": found.is_whole, **plain(found)})
    else:
        call.output.rows(
            ("kind", "where", "what"),
            (Line((one.kind, one.where, one.what), one) for one in found.problems),
        )
        well = "all is well" if found.is_whole else "see above"
        call.output.note(
            f"{found.n_entries} entries about {found.n_rows} rows were checked: {well}"
        )
        if found.n_unsealed:
            call.output.note(
                f"{found.n_unsealed} versions are not noted yet: lance-ctx audit --seal"
            )
    if not found.is_whole:
        raise click.exceptions.Exit(exits.NO)


COMMANDS = (audit,)
