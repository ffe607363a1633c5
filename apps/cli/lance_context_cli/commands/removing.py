"""What shall be known no more: hidden from every read, or gone from every file."""

import json
from typing import Any

import click

from lance_context_cli.call import Call, pass_call
from lance_context_cli.commands._filters import filter_option, parsed
from lance_context_cli.ids import record_id, record_id_or_given
from lance_context_cli.place import confirm

_yes = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@click.command
@click.argument("id")
@_yes
@pass_call
def forget(call: Call, id: str, yes: bool) -> None:
    """Hide a record or a fact from every read; earlier versions still hold it."""
    from lance_context_core.errors import NotFoundError

    store = call.place.writing()
    id, context = record_id(store, id), store.context()
    if (record := context.get(id=id)) is not None:
        told = f"{record['kind']} {id}: {record['text'] or record['content_type']}"
    elif (fact := store.knowledge.get(id)) is not None:
        told = f"{fact.kind} {id}: {fact.text}"
    else:
        raise NotFoundError(f"no record {id!r} here")
    call.output.note(told)
    confirm("Forget it?", is_sure=yes)
    if record is None:
        store.knowledge.delete(id)
        is_forgotten = True
    else:
        is_forgotten = context.forget(id=id)
    call.output.fields({"forgotten": is_forgotten})


@click.command
@click.argument("ids", nargs=-1)
@filter_option
@click.option("--keep-derived", is_flag=True, help="Keep derived knowledge.")
@click.option("--dry-run", is_flag=True, help="Dry run: report the changes without making them.")
@_yes
@pass_call
def erase(
    call: Call,
    ids: tuple[str, ...],
    filter_json: str | None,
    keep_derived: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Erase records, and knowledge derived from them, from every file and version.

    Without IDS and --filter: all data of --tenant, --user and --agent.
    """
    what: dict[str, Any] = {"derived": not keep_derived}
    if (filter := parsed(filter_json)) is not None:
        what["filter"] = filter
    store = call.place.writing()
    if ids:
        what["ids"] = [record_id_or_given(store, one) for one in ids]
    found = store.erase(**what, dry_run=True)
    if dry_run:
        call.output.fields(_counts(found))
        return
    if not yes:
        call.output.note(f"It takes {json.dumps(_told(found))} out of every version and file.")
    confirm("Erase this for good?", is_sure=yes)
    call.output.fields(_counts(store.erase(**what)))


def _counts(erasure: Any) -> dict[str, Any]:
    return {name: getattr(erasure, name) for name in erasure.__dataclass_fields__}


def _told(erasure: Any) -> dict[str, Any]:
    return {name: one for name, one in _counts(erasure).items() if one}


COMMANDS = (forget, erase)
