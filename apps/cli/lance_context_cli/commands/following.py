"""`lance-ctx tail`: the last messages of a conversation, and new ones as they arrive."""

import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from lance_context_cli.call import Call, pass_call
from lance_context_cli.commands._lines import RECORD, fields_of, record_line, text_of
from lance_context_cli.ids import session_id

if TYPE_CHECKING:
    from lance_context_core import ContextStore

_EVERY_SECONDS = 0.5
_AT_ONCE = 50
_MOST_AT_ONCE = 10_000
"""The most new messages that one look prints; of a faster writer the oldest are left out."""
_REMEMBERED = 1_000
"""The number of printed ids that are remembered, at which the next look stops."""


@click.command
@click.argument("session", required=False)
@click.option("-n", "--lines", type=click.IntRange(min=0), default=10, show_default=True,
              help="Number of messages shown first.")  # fmt: skip
@click.option(
    "-f", "--follow", is_flag=True, help="Print new messages as they arrive; Ctrl-C ends it."
)
@pass_call
def tail(call: Call, session: str | None, lines: int, follow: bool) -> None:
    """Show the last messages of SESSION, or of all that --user and --agent have said.

    With -f it prints the messages that any process adds, until Ctrl-C.
    """
    if follow and call.place.at is not None:
        raise click.UsageError(
            "--at names a past moment, to which no message is added: leave out --at or -f"
        )
    if follow and call.output.format in ("json", "arrow"):
        raise click.UsageError(f"-f has no end, and --{call.output.format} needs one: use --jsonl")
    store = call.place.reading()
    filters: dict[str, Any] = {"kind": "message"}
    if session is not None:
        filters["session_id"] = session_id(store, session)
    last = _newest(store, filters, max(lines, _AT_ONCE))
    _print(
        call,
        last[len(last) - lines :] if lines < len(last) else last,
        in_session=session is not None,
    )
    if follow:
        try:
            for found in _added(store, filters, last):
                _print(call, found, in_session=session is not None)
        except KeyboardInterrupt:  # The way to end it.
            return


def _newest(store: "ContextStore", filters: dict[str, Any], n: int) -> list[Any]:
    """The last `n` messages, the oldest first."""
    return _page(store, filters, n, 0)[::-1]


def _page(store: "ContextStore", filters: dict[str, Any], n: int, offset: int) -> list[Any]:
    return store.context().list(
        n, offset, filters, newest_first=True, include_binary=False, include_embedding=False
    )


def _added(store: "ContextStore", filters: dict[str, Any], last: list[Any]) -> Iterator[list[Any]]:
    """Yields the messages added after these, in order, without end."""
    known = deque(map(_key, last), _REMEMBERED)
    while True:
        time.sleep(_EVERY_SECONDS)
        new: list[Any] = []
        while len(new) < _MOST_AT_ONCE:
            page = _page(store, filters, _AT_ONCE, len(new))
            fresh = [one for one in page if _key(one) not in known]
            new += fresh
            if len(fresh) < len(page) or len(page) < _AT_ONCE:
                break
        known.extend(map(_key, reversed(new)))
        if new:
            yield new[::-1]


def _key(one: Any) -> tuple[object, ...]:
    return one["id"], one["session_id"], one["user_id"]


def _print(call: Call, found: list[Any], *, in_session: bool) -> None:
    if call.output.format != "people":
        call.output.rows(RECORD, map(record_line, found))
        return
    for one in found:
        said = fields_of(one)
        who = said["name"] or said["role"] or ""
        call.output.heading(who if in_session else f"{who}, {said['session_id'] or ''}",
                            said["created_at"])  # fmt: skip
        call.output.text(f"{text_of(said)}\n")


COMMANDS = (tail,)
