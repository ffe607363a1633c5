"""When the versions of a ref were made, told by the files of a directory.

The engine reads the manifests of all versions to tell the time of one. On an object store, and in
memory, there is no other way.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from lance_context_core._util.frozen import frozen
from lance_context_core.engine.files import manifests


@frozen
class Moments:
    """The versions whose manifests are in one directory."""

    directory: Path

    async def numbers(self) -> list[int]:
        """The numbers of the versions, ascending; no file is read for it."""
        return await asyncio.to_thread(manifests.versions, self.directory)

    async def of(self, numbers: Sequence[int]) -> dict[int, datetime]:
        """When these versions were made; without those that are gone meanwhile."""
        return await asyncio.to_thread(self._of, numbers)

    async def last_before(self, moment: datetime, numbers: Sequence[int]) -> int | None:
        """The last of these versions, which are ascending, that was made by then.

        A few of them are read: each was made after the one before. 0 if none was; None if one of
        those that were read is gone meanwhile.
        """
        return await asyncio.to_thread(self._last_before, moment, numbers)

    def _of(self, numbers: Sequence[int]) -> dict[int, datetime]:
        found = {}
        for number in numbers:
            if (moment := manifests.created_at(self.directory, number)) is not None:
                found[number] = moment
        return found

    def _last_before(self, moment: datetime, numbers: Sequence[int]) -> int | None:
        def made(number: int) -> datetime:
            if (at := manifests.created_at(self.directory, number)) is None:
                raise FileNotFoundError
            return at

        try:
            place = bisect_right(numbers, moment, key=made)
        except FileNotFoundError:
            return None
        return numbers[place - 1] if place else 0


async def of_ref(handle: Any, ref: str | None) -> Moments | None:
    """The versions of a ref of the table of `handle`, if they are in a directory."""
    root = Path(await handle.uri())
    if not root.is_absolute():
        return None
    return Moments(root if ref is None else root / "tree" / ref)
