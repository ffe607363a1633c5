"""Long lists, converted in steps between which others have their turn on the event loop."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pyarrow as pa

T = TypeVar("T")
R = TypeVar("R")

_STEP = 32
"""To check a record, to write it out or to read it back takes 0.05 to 0.2 ms."""


async def each(convert: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """What `convert` makes of each of the items, in their order. Raises what it raises."""
    done: list[R] = []
    for item in items:
        done.append(convert(item))
        if len(done) % _STEP == 0:
            await asyncio.sleep(0)
    return done


async def each_row(convert: Callable[[dict[str, Any]], R], table: pa.Table) -> list[R]:
    """As `each`, of the rows of a table, each with its values by column."""
    done: list[R] = []
    for start in range(0, table.num_rows, _STEP):
        if start:
            await asyncio.sleep(0)
        done += map(convert, table.slice(start, _STEP).to_pylist())
    return done
