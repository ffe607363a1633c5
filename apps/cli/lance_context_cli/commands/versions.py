"""The store in time: what was when, what differs, and ways that part and come together."""

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal

import click

from lance_context_cli import exits
from lance_context_cli.call import Call, pass_call
from lance_context_cli.commands._lines import fields_of, text_of
from lance_context_cli.output import Line, plain
from lance_context_cli.place import confirm, ref


@click.command
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--stat", is_flag=True, help="Count what each version added, changed and removed.")
@pass_call
def log(call: Call, limit: int, stat: bool) -> None:
    """List the versions, newest first, with their tags and commits."""
    store = call.place.reading()
    newest_first = store.versions(limit=limit + 1)[::-1]
    before = [one.number for one in newest_first[1:]]

    def lines() -> Iterator[Line]:
        for one, last in zip_longest(newest_first[:limit], before[:limit]):
            found = None if last is None else store.diff(last, one.number)
            counts = {} if found is None or not stat else _counts(found)
            did = _done(found)
            plain = {"number": one.number, "created_at": one.created_at, "tags": one.tags}
            cells = (one.number, one.created_at, one.tags)
            figures = tuple(counts.get(name) for name in _CHANGES) if stat else ()
            yield Line((*cells, *figures, did), plain | counts | {"did": did})

    figures = _CHANGES if stat else ()
    call.output.rows(("version", "created", "tags", *figures, "did"), lines())


@click.command
@click.argument("before")
@click.argument("after", required=False)
@click.option("--quiet", is_flag=True, help="Print nothing; end with 1 if they differ.")
@click.option(
    "--word", "by_word", is_flag=True, help="Of changed texts, mark [-old-] {+new+} words."
)
@pass_call
def diff(call: Call, before: str, after: str | None, quiet: bool, by_word: bool) -> None:
    """Show the records that differ between two versions, tags or moments; else with now."""
    found = call.place.reading().diff(ref(before), ref(after) if after is not None else None)
    if quiet:
        raise click.exceptions.Exit(exits.NO if any(_counts(found).values()) else exits.OK)
    lines = [_difference("-", "removed", one) for one in found.removed]
    lines += [_change(one, by_word=by_word) for one in found.changed]
    lines += [_difference("+", "added", one) for one in found.added]
    call.output.rows(("change", "id", "kind", "session", "text", "fields"), lines)


@click.command
@click.argument("name", required=False)
@click.argument("version", required=False)
@click.option("-d", "--delete", is_flag=True, help="Delete the tag; the version is unchanged.")
@pass_call
def tag(call: Call, name: str | None, version: str | None, delete: bool) -> None:
    """List the tags; or tag the current or another version."""
    if name is None:
        tags = sorted(call.place.reading().tags().items(), key=lambda one: (one[1], one[0]))
        call.output.rows(
            ("tag", "version"),
            (Line((tag, number), {"tag": tag, "version": number}) for tag, number in tags),
        )
    elif delete:
        _deleted("tag", name, was_there=call.place.whole().delete_tag(name))
        call.output.fields({"deleted": name})
    else:
        number = call.place.whole().tag(name, version=ref(version) if version is not None else None)
        call.output.fields({"tag": name, "version": number})


@click.command
@click.argument("name", required=False)
@click.option(
    "--from", "start", metavar="REF", help="The version to branch from; default: the current one."
)
@click.option("-d", "--delete", is_flag=True, help="Delete the branch and its own changes.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_call
def branch(call: Call, name: str | None, start: str | None, delete: bool, yes: bool) -> None:
    """List the branches; or create one."""
    if name is None:
        call.output.rows(
            ("branch", "of", "from version"),
            (
                Line((one.name, one.parent, one.forked_at), one)
                for one in call.place.reading().branches()
            ),
        )
    elif delete:
        store = call.place.whole()
        confirm(f"Drop the branch {name!r} with all that is on it alone?", is_sure=yes)
        _deleted("branch", name, was_there=store.delete_branch(name))
        call.output.fields({"deleted": name})
    else:
        call.place.whole().create_branch(name, at=ref(start) if start is not None else None)
        call.output.fields({"branch": name})


@click.command
@click.argument("source")
@click.option(
    "--policy",
    type=click.Choice(["newest", "ours", "theirs"]),
    default="newest",
    show_default=True,
    help="The side that wins where both changed the same.",
)
@click.option("--dry-run", is_flag=True, help="Dry run: report the changes without making them.")
@pass_call
def merge(
    call: Call, source: str, policy: Literal["newest", "ours", "theirs"], dry_run: bool
) -> None:
    """Merge the branch SOURCE into main, or into --branch."""
    report = call.place.whole().merge(source, policy=policy, dry_run=dry_run)
    call.output.rows(
        ("table", "added", "updated", "deleted", "kept"),
        (
            Line(
                (name, one.added, one.updated, one.deleted, one.kept), {"table": name} | plain(one)
            )
            for name, one in report.tables.items()
        ),
    )
    for one in report.conflicts:
        call.output.note(f"conflict: {one.conflict.table} {one.conflict.id}: {one.reason}")


@click.command
@click.argument("version")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_call
def restore(call: Call, version: str, yes: bool) -> None:
    """Restore a version, tag or moment, as a new version."""
    store = call.place.whole()
    confirm(f"Make {store.uri} what it was at {version!r}?", is_sure=yes)
    call.output.fields({"version": store.restore(ref(version))})


_CHANGES = ("added", "changed", "removed")


def _counts(found: Any) -> dict[str, int]:
    return {name: len(getattr(found, name)) for name in _CHANGES}


def _done(found: Any) -> str:
    """What a version did, in words; `found` is what differs from the version before it, if one is kept."""
    if found is None:
        return "the first version that is kept"
    changed = [one.after for one in found.changed]
    parts = [
        f"{what} {_kinds(records)}"
        for what, records in zip(_CHANGES, (found.added, changed, found.removed), strict=True)
        if records
    ]
    return "; ".join(parts) or "changed no record"


def _kinds(records: Sequence[Any]) -> str:
    """How many records there are of each kind, such as `2 messages, 1 memory`."""
    return ", ".join(
        f"{n:,} {kind if n == 1 else _plural(kind)}"
        for kind, n in Counter(one.kind for one in records).items()
    )


def _plural(kind: str) -> str:
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def _difference(sign: str, change: str, record: Any, fields: tuple[str, ...] = ()) -> Line:
    value = fields_of(record)
    cells = (sign, value["id"], value["kind"], value["session_id"], text_of(value), fields)
    return Line(cells, {"change": change, "record": value})


def _change(change: Any, *, by_word: bool) -> Line:
    line = _difference("~", "changed", change.after, change.fields)
    before = {"before": fields_of(change.before), "fields": change.fields}
    cells = list(line.cells)
    if by_word:
        cells[4] = _words(text_of(before["before"]), str(cells[4]))
    return Line(tuple(cells), {"change": "changed", "record": fields_of(change.after)} | before)


def _words(before: str, after: str) -> str:
    """The words of both texts: those that went in `[-…-]`, those that came in `{+…+}`."""
    old, new = before.split(), after.split()
    told: list[str] = []
    for what, start, end, first, last in SequenceMatcher(None, old, new, False).get_opcodes():
        if what == "equal":
            told += old[start:end]
            continue
        if start < end:
            told.append(f"[-{' '.join(old[start:end])}-]")
        if first < last:
            told.append(f"{{+{' '.join(new[first:last])}+}}")
    return " ".join(told)


def _deleted(kind: str, name: str, *, was_there: bool) -> None:
    from lance_context_core.errors import NotFoundError

    if not was_there:
        raise NotFoundError(f"no {kind} {name!r}")


COMMANDS = (log, diff, tag, branch, merge, restore)
