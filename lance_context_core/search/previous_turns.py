"""The previous turn of each turn, by the order of their session across processes."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage import sql
from lance_context_core.storage.lance.reads import Found, Rows
from lance_context_core.storage.lance.schema import KEY, LINK
from lance_context_core.storage.table import Table

_SESSION = (*SCOPE_PARTS, "session_id")

_MANY = 4_096
"""This many rows are sorted in a millisecond; more of them outside the loop."""


@dataclass(frozen=True)
class Order:
    """The neighbours of turns, hidden ones too, by key."""

    before: Mapping[str, str]
    """The previous turn of each, if it exists."""

    @cached_property
    def after(self) -> Mapping[str, str]:
        """The next turn of each, if it exists."""
        return {before: key for key, before in self.before.items()}

    def linked(self, found: Found) -> Found:
        """Return the engine's rows, each with the key of the previous turn."""
        assert isinstance(found, Rows)
        return found.with_texts(LINK, [self.before.get(key) for key in found.column(KEY)])


async def order(
    table: Table,
    scope: sql.Clause | None,
    keys: Collection[str],
    sessions: Collection[str],
    *,
    steps: int = 1,
) -> Order:
    """Return the order of these turns, in these sessions, and of `steps` neighbours.

    It includes the previous turns of the outermost ones. One query, of all rows of these sessions
    in the `scope`, which contains each session as a whole or not at all.
    """
    if not keys or not sessions:
        return Order({})
    where = sql.all_of([*([scope] if scope else []), sql.in_list("session_id", sorted(sessions))])
    rows = await table.select(where, columns=[KEY, *_SESSION])
    if rows.num_rows > _MANY:
        return await asyncio.to_thread(_order, rows, keys, steps + 1)
    return _order(rows, keys, steps + 1)


def _order(rows: pa.Table, keys: Collection[str], steps: int) -> Order:
    """Return the order from the rows of whole sessions, in the order of writing."""
    codes = np.zeros(rows.num_rows, np.int64)
    for name in _SESSION:
        column = rows[name].combine_chunks().dictionary_encode("encode")
        codes = codes * (len(column.dictionary) + 1) + column.indices.to_numpy()
    by_session = codes.argsort(kind="stable")
    codes = codes[by_session]
    is_one = pc.is_in(rows[KEY], value_set=pa.array(sorted(keys), pa.string())).to_numpy()
    (these,) = is_one[by_session].nonzero()
    near = np.unique(np.add.outer(np.arange(-steps, steps + 1), these))
    near = near[(near > 0) & (near < len(codes))]
    near = near[codes[near] == codes[near - 1]]
    there, before = (rows[KEY].take(by_session[some]).to_pylist() for some in (near, near - 1))
    return Order(dict(zip(there, before, strict=True)))
