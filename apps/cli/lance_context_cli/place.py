"""Which memory a command is about: where it is, when, on which branch, and whose."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lance_context_cli import exits

if TYPE_CHECKING:
    from lance_context_core import ContextStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A store as the options before the command name it."""

    uri: str | None = None
    at: str | None = None
    branch: str | None = None
    tenant: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    embedder: str | None = None
    read_only: bool = False

    def reading(self) -> "ContextStore":
        """The store, or a view of it at a moment; nothing that is called on it writes.

        Raises NotFoundError where there is none: a place that is mistyped is not made.
        """
        store = self._now()
        return store.checkout(ref(self.at)) if self.at is not None else store

    def writing(self) -> "ContextStore":
        """The store as it is now, or a branch of it. Raises UsageError for a moment."""
        if self.at is not None:
            raise click.UsageError("--at names a moment that has been, which no command changes")
        return self._now()

    def making(self) -> "ContextStore":
        """As `writing`, of a place that may not be there yet: it is made by the first write."""
        if self.at is not None:
            raise click.UsageError("--at names a moment that has been, which no command changes")
        return self._now(must_exist=False)

    def whole(self) -> "ContextStore":
        """As `writing`, of all users: what is done to a version is done to everybody's.

        Raises UsageError with a scope.
        """
        if self.tenant is not None or self.user_id is not None or self.agent_id is not None:
            raise click.UsageError(
                "versions are those of everybody: leave out --tenant, --user and --agent"
            )
        return self.writing()

    def _now(self, *, must_exist: bool = True) -> "ContextStore":
        with importing():
            from lance_context_core import ContextStore
            from lance_context_core.errors import NotFoundError

        if self.uri is None:
            raise click.UsageError("no store is named: -C PLACE, or LANCE_CONTEXT_STORE=PLACE")
        if must_exist and Path(self.uri).exists() and not Path(self.uri).is_dir():
            raise NotFoundError(f"{self.uri!r} is a file, and no store: -C names another place")
        store = ContextStore.open(
            self.uri, embedder=self.embedder, maintenance=None, read_only=self.read_only
        )
        click.get_current_context().call_on_close(store.close)
        if must_exist and not store.stats().tables:
            raise NotFoundError(f"no store at {store.uri!r}: -C names another place")
        if self.branch is not None:
            store = store.branch(self.branch)
        return store.scope(tenant=self.tenant, user_id=self.user_id, agent_id=self.agent_id)


@contextmanager
def importing() -> Iterator[None]:
    """A block that imports the store: what is imported is no garbage, and none is looked for."""
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.freeze()
            gc.enable()


def ref(text: str) -> int | str | datetime:
    """A version's number, a moment in ISO 8601, or else the name of a tag."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment if moment.tzinfo else moment.astimezone()


def confirm(question: str, *, is_sure: bool) -> None:
    """Ask a person before what cannot be undone; ends the command where no one says yes."""
    if is_sure:
        return
    try:
        is_sure = click.confirm(question, err=True)
    except click.Abort:  # Nobody is there to ask.
        click.echo("\nnot confirmed: --yes says that you are sure", err=True)
    if not is_sure:
        raise click.exceptions.Exit(exits.REFUSED)
