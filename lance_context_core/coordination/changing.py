"""Changing one item by what it holds: of those who do so at once, each sees what the other has made."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from lance_context_core._util.retry import retried
from lance_context_core.errors import ConflictError
from lance_context_core.protocols import ItemKey
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.types import Item

T = TypeVar("T")

ATTEMPTS = 200
"""Each loss is somebody else's change of the same item."""


class ChangedMeanwhileError(ConflictError):
    """Somebody else changed it: look again."""


class Written(NamedTuple):
    """What is to be there after a change."""

    puts: Sequence[Item] = ()
    deletes: Sequence[ItemKey] = ()
    expected: Mapping[ItemKey, int | None] = MappingProxyType({})
    """The revisions of what else was looked at."""


async def changed(
    items: AsyncKeyValues,
    key: ItemKey,
    decide: Callable[[Mapping[str, Any] | None], Awaitable[tuple[Written, T]]],
    *,
    what: str,
) -> T:
    """Write what `decide` makes of the value under `key`, None if there is none, in one commit.

    It is asked again where that value was changed meanwhile. Returns what it returns beside it.
    """

    async def once() -> T:
        (item,) = await items.get([key])
        written, outcome = await decide(None if item is None else item.value or {})
        if not written.puts and not written.deletes:
            return outcome
        try:
            await items.write(
                puts=written.puts,
                deletes=written.deletes,
                expected={**written.expected, key: None if item is None else item.revision},
            )
        except ConflictError as error:
            raise ChangedMeanwhileError(f"{what} kept being changed: try again") from error
        return outcome

    return await retried(once, on=ChangedMeanwhileError, attempts=ATTEMPTS)
