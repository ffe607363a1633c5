"""Commits that are being made, and versions that are being removed: never both at a time.

The engine tells a commit what others committed since the version that it was begun on by looking at
the versions in between. If these are removed before it looks, it takes nothing for a conflict: rows
that were moved meanwhile are there twice afterwards, and rows that it deletes stay. Versions that
are old enough nobody is on any more; an erasure removes them at once.

On an object store there are no locks: who erases beside others waits before it removes anything.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from lance_context_core.engine.files.locks import locked

T = TypeVar("T")

_GRACE_SECONDS = 2
"""For how long nobody is at a commit, where that cannot be known."""


class InFlight:
    """Keeps the commits to one table and the removal of its versions apart, on all its branches."""

    def __init__(self, uri: str, name: str) -> None:
        """Of the table `name` of the database at `uri`."""
        table = Path(uri) / f"{name}.lance"
        # Two locks, since one that is shared without a pause is never free.
        self._gate, self._room = table, table / "_versions"
        self._is_remote = "://" in uri and not uri.startswith("memory://")

    @asynccontextmanager
    async def committing(self) -> AsyncIterator[None]:
        """Commit in here: versions that others commit meanwhile stay."""
        # Whoever waits to remove some goes first.
        async with locked(self._room, shared=True, behind=self._gate):
            yield

    def guarded(
        self, work: Callable[[Any], Awaitable[T]]
    ) -> Callable[[Any], Coroutine[Any, Any, T]]:
        """`work`, which is one commit to the table of its argument, done as `committing`."""

        async def guarded(handle: Any) -> T:
            async with self.committing():
                return await work(handle)

        return guarded

    @asynccontextmanager
    async def removing(self) -> AsyncIterator[None]:
        """Remove versions in here: nobody is at a commit, and who begins one waits."""
        if self._is_remote:
            await asyncio.sleep(_GRACE_SECONDS)
        async with locked(self._gate, self._room):
            yield
