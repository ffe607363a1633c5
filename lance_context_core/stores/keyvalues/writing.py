"""Key-value items on their way into a table: checked, given vectors, and written in one commit."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from lance_context_core import _steps as steps
from lance_context_core._checks import listed, shown
from lance_context_core._embedding import embedded
from lance_context_core._resources import Resources
from lance_context_core.engine.revisions import new_revision
from lance_context_core.engine.schema import KEY
from lance_context_core.engine.table import keyed
from lance_context_core.engine.table.table import Table
from lance_context_core.errors import AlreadyExistsError, ConflictError, InvalidRequestError
from lance_context_core.protocols import ItemKey
from lance_context_core.records import Item, ItemsAppended, ItemsWritten, ItemVector
from lance_context_core.rows import items as itemrows
from lance_context_core.rows.records import refuse_duplicates
from lance_context_core.scope import Scope


class _Draft(NamedTuple):
    """An item that is about to be written."""

    item: itemrows.Checked
    row: dict[str, Any]
    """Its row, without vectors."""

    @property
    def key(self) -> ItemKey:
        """What names it in its scope."""
        return self.item.namespace, self.item.key


NOTHING_EXPECTED: Mapping[ItemKey, int | None] = MappingProxyType({})

_FEW = 8
"""More are written on the store's loop, which has time for others between them."""

_N_KEYS_AS_ONE = 8
"""A key takes that part of a record's time."""


async def append(
    table: Table, items: Sequence[Item], *, scope: Scope, resources: Resources
) -> ItemsAppended:
    """Write items without a look at what is there; see `AsyncKeyValues.append`."""
    given = await _drafted(items, "items", scope=scope, resources=resources)
    if len({one.row[KEY] for one in given}) < len(given):
        refuse_duplicates(("key", repr(one.key)) for one in given)
    rows = await _rows(table, given, resources)
    if not rows:
        version = await table.token()
        return ItemsAppended(version=version, n_items=None, grows_since=version)
    for row in rows:
        row["revision"] = new_revision()
    done = await table.append(rows)
    return ItemsAppended(version=done.token, n_items=done.n_rows, grows_since=done.grows_since)


async def put(table: Table, items: Sequence[Item], *, scope: Scope, resources: Resources) -> None:
    """Write items on top of what is there; see `AsyncKeyValues.put`."""
    drafted = {
        one.key: one for one in await _drafted(items, "items", scope=scope, resources=resources)
    }
    await _write(
        table, dict.fromkeys(drafted, keyed.PUT), drafted, scope=scope, resources=resources
    )


def put_now(table: Table, items: Sequence[Item], *, scope: Scope, resources: Resources) -> bool:
    """As `put` of a few, in any thread; False, and nothing is written, where one would have to wait."""
    if type(items) not in (list, tuple) or not 0 < len(items) <= _FEW:
        return False
    now, author = resources.clock.now(), resources.author
    rows: dict[ItemKey, dict[str, Any]] = {}
    for number, given in enumerate(items):
        item = itemrows.checked(given, f"items[{number}]")
        if item.vectors:
            return False
        row = itemrows.to_row(item, scope=scope, now=now, author=author)
        row[keyed.HOW] = keyed.PUT
        rows[item.namespace, item.key] = row
    return table.write_keyed_now([*rows.values()]) is not None


async def add(
    table: Table, items: Sequence[Item], *, scope: Scope, resources: Resources
) -> list[bool]:
    """Write the items whose keys hold nothing; see `AsyncKeyValues.add`."""
    offered = await _drafted(items, "items", scope=scope, resources=resources)
    first = {one.key: one for one in reversed(offered)}
    ways = dict.fromkeys(first, keyed.ADD)
    existed = await _write(table, ways, first, scope=scope, resources=resources)
    return [one is first[one.key] and not existed[one.key] for one in offered]


async def write(
    table: Table,
    *,
    puts: Sequence[Item],
    adds: Sequence[Item],
    deletes: Sequence[ItemKey],
    expected: Mapping[ItemKey, int | None],
    scope: Scope,
    resources: Resources,
) -> ItemsWritten:
    """Put, add and delete items in one commit; see `AsyncKeyValues.write`."""
    wanted = await _checked_expected(expected)
    gone = await _checked_keys(deletes, "deletes")
    ways = dict.fromkeys(gone, keyed.REMOVE)
    items: dict[ItemKey, _Draft] = {}
    for one in await _drafted(adds, "adds", scope=scope, resources=resources):
        if (key := one.key) in items:
            raise InvalidRequestError(f"{key!r} is to be added twice by one call: decide on one")
        items[key], ways[key] = one, keyed.RENEW if key in ways else keyed.CLAIM
    for one in await _drafted(puts, "puts", scope=scope, resources=resources):
        way = ways.get(key := one.key, keyed.PUT)
        items[key], ways[key] = one, keyed.RENEW if way == keyed.REMOVE else way
    existed = await _write(table, ways, items, expected=wanted, scope=scope, resources=resources)
    return ItemsWritten(deleted=[existed[key] for key in gone], version=await table.last_seen())


async def row_keys(scope: Scope, keys: Sequence[ItemKey]) -> list[str]:
    """The primary keys of items. Raises InvalidRequestError for what is no key."""
    return await steps.each(
        lambda one: _row_key(scope, *one), enumerate(listed(keys, "keys")), n_as_one=_N_KEYS_AS_ONE
    )


def row_keys_at_once(scope: Scope, keys: Sequence[ItemKey]) -> list[str]:
    """As `row_keys`, of a few."""
    return [_row_key(scope, number, key) for number, key in enumerate(keys)]


async def _write(
    table: Table,
    ways: Mapping[ItemKey, str],
    items: Mapping[ItemKey, _Draft],
    *,
    expected: Mapping[ItemKey, int | None] = NOTHING_EXPECTED,
    scope: Scope,
    resources: Resources,
) -> dict[ItemKey, bool]:
    """Write checked items, each key in its way; for each key whether it held one."""
    now = resources.clock.now()
    if not items and (not (ways or expected) or not await table.exists()):
        # There need not be a table for nothing to be in it.
        for key, revision in expected.items():
            if revision is not None:
                raise _unexpected(key, revision, None)
        return dict.fromkeys(ways, False)
    made = await _rows(table, [*items.values()], resources)
    by_key = dict(zip(items, made, strict=True))
    rows = {}
    for key in [*ways, *(one for one in expected if one not in ways)]:
        row = by_key.get(key) or {KEY: itemrows.row_key(scope, key), "updated_at": now}
        rows[key] = row | {keyed.HOW: ways.get(key, keyed.LEAVE)}
        if key in expected:
            rows[key][keyed.EXPECTED] = expected[key]
    named = {row[KEY]: key for key, row in rows.items()}
    try:
        existed = await table.write_keyed([*rows.values()])
    except keyed.Taken as error:
        raise _taken(named[error.args[0]]) from None
    except keyed.Unexpected as error:
        key, revision, found = error.args
        raise _unexpected(named[key], revision, found) from None
    return dict(zip(rows, existed, strict=True))


async def _rows(
    table: Table, given: Sequence[_Draft], resources: Resources
) -> list[dict[str, Any]]:
    """The rows of checked items, with vectors for their texts."""
    flat = [one for draft in given for one in draft.item.vectors]
    if not flat:
        return [draft.row for draft in given]
    left = iter(await _vectors(table, flat, resources))
    return await steps.each(
        lambda one: itemrows.with_vectors(
            one.row, one.item, [next(left) for _ in one.item.vectors]
        ),
        given,
    )


async def _vectors(
    table: Table, flat: Sequence[ItemVector], resources: Resources
) -> list[np.ndarray | None]:
    if resources.embeddings is None and any(one.text is not None for one in flat):
        raise InvalidRequestError(
            "a vector of an item has only a text: open the store with an embedder, or pass vector="
        )
    return await embedded(
        table,
        resources,
        given=[one.vector for one in flat],
        texts=[one.text if (one.text or "").strip() else None for one in flat],
        # The texts are not kept: later there would be nothing to make a vector of.
        even_if_deferred=True,
    )


def _taken(key: ItemKey) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"{key!r} is to be added, and is taken: nothing was written. Put it, or leave it out"
    )


def _unexpected(key: ItemKey, expected: int | None, found: int | None) -> ConflictError:
    there = "is not there" if found is None else f"has revision {found}"
    wanted = "not there" if expected is None else f"of revision {expected}"
    return ConflictError(
        f"{key!r} is expected to be {wanted}, and {there}: nothing was written. Get it again, and "
        "decide anew on what it is now"
    )


async def _checked_expected(expected: Mapping[ItemKey, int | None]) -> dict[ItemKey, int | None]:
    if not isinstance(expected, Mapping):
        raise InvalidRequestError(
            f"expected is {shown(expected)}: give revisions, or None, by namespace and key"
        )
    keys = await _checked_keys(list(expected), "expected")
    for key, revision in zip(keys, expected.values(), strict=True):
        if revision is not None and type(revision) is not int:
            raise InvalidRequestError(
                f"expected[{key!r}] is {shown(revision)}: give the revision of an item that was "
                "read, or None for a key that is to hold nothing"
            )
    return dict(zip(keys, expected.values(), strict=True))


def _row_key(scope: Scope, number: int, key: ItemKey) -> str:
    return itemrows.row_key(scope, itemrows.checked_key(key, f"keys[{number}]"))


async def _checked_keys(keys: Sequence[ItemKey], where: str) -> list[ItemKey]:
    return await steps.each(
        lambda one: itemrows.checked_key(one[1], f"{where}[{one[0]}]"),
        enumerate(listed(keys, where)),
        n_as_one=_N_KEYS_AS_ONE,
    )


async def _drafted(
    items: Sequence[Item], where: str, *, scope: Scope, resources: Resources
) -> list[_Draft]:
    """The items, checked, and their rows."""
    given = listed(items, where)
    now, author = resources.clock.now(), resources.author

    def draft(number: int) -> _Draft:
        item = itemrows.checked(given[number], f"{where}[{number}]")
        return _Draft(item, itemrows.to_row(item, scope=scope, now=now, author=author))

    return await steps.each(draft, range(len(given)))
