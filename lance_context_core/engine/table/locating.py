"""Which file of a table cannot be read, where the engine does not tell."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_OFFSETS = 32
"""The upper bits of a row's address are the number of its fragment."""


async def unreadable(handle: Any, files: Mapping[int, Sequence[Path]]) -> Sequence[Path]:
    """The files of the first fragment of which the engine cannot read all rows; none if it can.

    `files` are those of each fragment of the version that the handle is at.
    """
    for fragment, some in files.items():
        begin, end = fragment << _OFFSETS, (fragment + 1) << _OFFSETS
        query = handle.query().where(f"_rowaddr >= {begin} AND _rowaddr < {end}")
        try:
            async for _ in await query.to_batches():
                pass
        except Exception:  # noqa: BLE001 - whatever the engine says of it
            return some
    return ()
