"""Key-value items on their way into a table: checked, given vectors, and written in one commit."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lance_context_core import _steps as steps
from lance_context_core._checks import listed
from lance_context_core._embedding import embedded
from lance_context_core._resources import Resources
from lance_context_core.engine.revisions import new_revision
from lance_context_core.engine.schema import KEY
from lance_context_core.engine.table import keyed
from lance_context_core.engine.table.table import Table
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError
from lance_context_core.protocols import ItemKey
from lance_context_core.records import Item, ItemsAppended, ItemsWritten
from lance_context_core.rows import items as itemrows
from lance_context_core.rows.records import refuse_duplicates
from lance_context_core.scope import Scope

_N_KEYS_AS_ONE = 8
"""A key takes that part of a record's time."""


async def append(
    table: Table, items: Sequence[Item], *, scope: Scope, resources: Resources
) -> ItemsAppended:
    """Write items without a look at what is there; see `AsyncKeyValues.append`."""
    given = await _checked(items, "items")
    refuse_duplicates(("key", repr(_key(one))) for one in given)
    rows = await _rows(table, given, scope=scope, resources=resources, now=resources.clock.now())
    if not rows:
        version = await table.token()
        return ItemsAppended(version=version, n_items=None, grows_since=version)
    done = await table.append([row | {"revision": new_revision()} for row in rows])
    return ItemsAppended(version=done.token, n_items=done.n_rows, grows_since=done.grows_since)


async def add(
    table: Table, items: Sequence[Item], *, scope: Scope, resources: Resources
) -> list[bool]:
    """Write the items whose keys hold nothing; see `AsyncKeyValues.add`."""
    offered = await _checked(items, "items")
    first = {_key(one): one for one in reversed(offered)}
    given = {keyed.ADD: [*first.values()]}
    existed = await _write(table, given, [], scope=scope, resources=resources)
    return [one is first[_key(one)] and not existed[_key(one)] for one in offered]


async def write(
    table: Table,
    *,
    puts: Sequence[Item],
    adds: Sequence[Item],
    deletes: Sequence[ItemKey],
    scope: Scope,
    resources: Resources,
) -> ItemsWritten:
    """Put, add and delete items in one commit; see `AsyncKeyValues.write`."""
    put = {_key(one): one for one in await _checked(puts, "puts")}
    add = await _checked(adds, "adds")
    gone = await _checked_keys(deletes, "deletes")
    ways = Counter([*put, *map(_key, add), *dict.fromkeys(gone)])
    if twice := [key for key, n_ways in ways.items() if n_ways > 1]:
        raise InvalidRequestError(
            f"{min(twice)!r} is to be written in two ways by one call: decide on one of them"
        )
    existed = await _write(
        table,
        {keyed.PUT: [*put.values()], keyed.CLAIM: add},
        list(dict.fromkeys(gone)),
        scope=scope,
        resources=resources,
    )
    return ItemsWritten(deleted=[existed[key] for key in gone], version=await table.last_seen())


async def row_keys(scope: Scope, keys: Sequence[ItemKey]) -> list[str]:
    """The primary keys of items. Raises InvalidRequestError for what is no key."""
    return await steps.each(
        lambda one: itemrows.row_key(scope, itemrows.checked_key(one[1], f"keys[{one[0]}]")),
        enumerate(listed(keys, "keys")),
        n_as_one=_N_KEYS_AS_ONE,
    )


async def _write(
    table: Table,
    given: Mapping[str, Sequence[Item]],
    gone: Sequence[ItemKey],
    *,
    scope: Scope,
    resources: Resources,
) -> dict[ItemKey, bool]:
    """Write checked items, by how they are to be written; for each key whether it held one."""
    now = resources.clock.now()
    hows = [how for how, some in given.items() for _ in some]
    some = [one for some in given.values() for one in some]
    if not some and (not gone or not await table.exists()):
        # There need not be a table for nothing to be in it.
        return dict.fromkeys(gone, False)
    rows = await _rows(table, some, scope=scope, resources=resources, now=now)
    rows = [row | {keyed.HOW: how} for row, how in zip(rows, hows, strict=True)]
    rows += [
        {KEY: itemrows.row_key(scope, key), "updated_at": now, keyed.HOW: keyed.REMOVE}
        for key in gone
    ]
    keys = [*map(_key, some), *gone]
    try:
        existed = await table.write_keyed(rows)
    except keyed.Taken as error:
        key = next(key for key, row in zip(keys, rows, strict=True) if row[KEY] == error.args[0])
        raise AlreadyExistsError(
            f"{key!r} is to be added, and is taken: nothing was written. Put it, or leave it out"
        ) from None
    return dict(zip(keys, existed, strict=True))


async def _rows(
    table: Table, given: Sequence[Item], *, scope: Scope, resources: Resources, now: datetime
) -> list[dict[str, Any]]:
    """The rows of checked items, with vectors for their texts."""
    flat = [one for item in given for one in item.vectors]
    if resources.embeddings is None and any(one.text is not None for one in flat):
        raise InvalidRequestError(
            "a vector of an item has only a text: open the store with an embedder, or pass vector="
        )
    vectors = iter(
        await embedded(
            table,
            resources,
            given=[one.vector for one in flat],
            texts=[one.text if (one.text or "").strip() else None for one in flat],
            # The texts are not kept: later there would be nothing to make a vector of.
            even_if_deferred=True,
        )
    )
    return await steps.each(
        lambda item: itemrows.to_row(
            item, [next(vectors) for _ in item.vectors], scope=scope, now=now
        ),
        given,
    )


def _key(item: Item) -> ItemKey:
    return item.namespace, item.key


async def _checked_keys(keys: Sequence[ItemKey], where: str) -> list[ItemKey]:
    return await steps.each(
        lambda one: itemrows.checked_key(one[1], f"{where}[{one[0]}]"),
        enumerate(listed(keys, where)),
        n_as_one=_N_KEYS_AS_ONE,
    )


async def _checked(items: Sequence[Item], where: str) -> list[Item]:
    return await steps.each(
        lambda one: itemrows.checked(one[1], f"{where}[{one[0]}]"), enumerate(listed(items, where))
    )
