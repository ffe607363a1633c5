"""Writes key-value items: checks them, adds vectors, and commits them at once."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from lance_context_core._embedding import embedded
from lance_context_core._resources import Resources
from lance_context_core._util import cooperative as steps
from lance_context_core._util.calls import check_options
from lance_context_core._util.checks import check_span, listed, shown
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.codecs import items as itemrows
from lance_context_core.codecs.items import check_segment, encoded
from lance_context_core.codecs.records import refuse_duplicates
from lance_context_core.errors import AlreadyExistsError, ConflictError, InvalidRequestError
from lance_context_core.filters import ITEM_FIELDS
from lance_context_core.protocols import CONDITIONS, LISTING, ItemKey, ItemOrder
from lance_context_core.scope import Scope
from lance_context_core.storage import put_if, sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.names import new_revision
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.types import Item, ItemsAppended, ItemsWritten, ItemVector, Progress


class _Draft(NamedTuple):
    """An item to be written."""

    item: itemrows.Checked
    row: dict[str, Any]
    """Its row, without vectors."""

    @property
    def key(self) -> ItemKey:
        """Its key in its scope."""
        return self.item.namespace, self.item.key


Telling = Callable[[Progress], object] | None
"""Called as texts are embedded."""

NOTHING_EXPECTED: Mapping[ItemKey, int | None] = MappingProxyType({})


class _Keyed(NamedTuple):
    """The writes by key."""

    ways: Mapping[ItemKey, str]
    """How each key is written."""
    items: Mapping[ItemKey, _Draft]
    """The items of the keys that are not deleted."""
    expected: Mapping[ItemKey, int | None] = NOTHING_EXPECTED
    """The expected revisions of keys."""


@frozen
class Changes:
    """The arguments of `AsyncKeyValues.write`."""

    puts: Sequence[Item]
    adds: Sequence[Item]
    deletes: Sequence[ItemKey]
    expected: Mapping[ItemKey, int | None]

    def __len__(self) -> int:
        """The number of writes."""
        return len(self.puts) + len(self.adds) + len(self.deletes)


_FEW = 8
"""More are written on the store's loop, which serves others in between."""

_N_KEYS_AS_ONE = 8
"""Number of keys that take the time of one record."""


async def append(
    table: Table,
    items: Sequence[Item],
    *,
    scope: Scope,
    resources: Resources,
    progress: Telling = None,
) -> ItemsAppended:
    """Write items without a lookup of existing ones; see `AsyncKeyValues.append`."""
    given = await _drafted(items, "items", scope=scope, resources=resources)
    if len({one.row[KEY] for one in given}) < len(given):
        refuse_duplicates(("key", repr(one.key)) for one in given)
    rows = await _rows(table, given, resources, progress)
    if not rows:
        version = await table.token()
        return ItemsAppended(version=version, n_items=None, grows_since=version)
    for row in rows:
        row["revision"] = new_revision()
    done = await table.write(WriteBatch(rows))
    return ItemsAppended(version=done.token, n_items=done.n_rows, grows_since=done.grows_since)


async def put(
    table: Table,
    items: Sequence[Item],
    *,
    scope: Scope,
    resources: Resources,
    progress: Telling = None,
) -> None:
    """Write items, replacing existing ones; see `AsyncKeyValues.put`."""
    drafted = {
        one.key: one for one in await _drafted(items, "items", scope=scope, resources=resources)
    }
    meant = _Keyed(dict.fromkeys(drafted, put_if.PUT), drafted)
    await _write(table, meant, scope=scope, resources=resources, progress=progress)


def put_now(table: Table, items: Sequence[Item], *, scope: Scope, resources: Resources) -> bool:
    """As `put` for few items, in any thread; False without writing, instead of waiting."""
    if not _is_few(items):
        return False
    drafted = {
        one.key: one for one in _drafted_now(items, "items", scope=scope, resources=resources)
    }
    meant = _Keyed(dict.fromkeys(drafted, put_if.PUT), drafted)
    return _write_now(table, meant, scope=scope, resources=resources) is not None


async def add(
    table: Table,
    items: Sequence[Item],
    *,
    scope: Scope,
    resources: Resources,
    progress: Telling = None,
) -> list[bool]:
    """Write the items whose keys do not exist; see `AsyncKeyValues.add`."""
    offered = await _drafted(items, "items", scope=scope, resources=resources)
    first = {one.key: one for one in reversed(offered)}
    meant = _Keyed(dict.fromkeys(first, put_if.ADD), first)
    existed = await _write(table, meant, scope=scope, resources=resources, progress=progress)
    return _added(offered, first, existed)


def add_now(
    table: Table, items: Sequence[Item], *, scope: Scope, resources: Resources
) -> list[bool] | None:
    """As `add` for few items, in any thread; None without writing, instead of waiting."""
    if not _is_few(items):
        return None
    offered = _drafted_now(items, "items", scope=scope, resources=resources)
    first = {one.key: one for one in reversed(offered)}
    meant = _Keyed(dict.fromkeys(first, put_if.ADD), first)
    done = _write_now(table, meant, scope=scope, resources=resources)
    return None if done is None else _added(offered, first, done[0])


async def write(
    table: Table,
    changes: Changes,
    *,
    scope: Scope,
    resources: Resources,
    progress: Telling = None,
) -> ItemsWritten:
    """Put, add and delete items in one commit; see `AsyncKeyValues.write`."""
    wanted = await _checked_expected(changes.expected)
    gone = await _checked_keys(changes.deletes, "deletes")
    added = await _drafted(changes.adds, "adds", scope=scope, resources=resources)
    put = await _drafted(changes.puts, "puts", scope=scope, resources=resources)
    meant = _meant(gone, added, put, wanted)
    existed = await _write(table, meant, scope=scope, resources=resources, progress=progress)
    return ItemsWritten(deleted=[existed[key] for key in gone], version=await table.last_seen())


def write_now(
    table: Table,
    changes: Changes,
    *,
    scope: Scope,
    resources: Resources,
) -> ItemsWritten | None:
    """As `write` for few items, in any thread; None without writing, instead of waiting."""
    puts, adds = changes.puts, changes.adds
    deletes, expected = changes.deletes, changes.expected
    if not isinstance(expected, Mapping) or not _is_few(puts, adds, deletes, [*expected]):
        return None
    wanted = {
        itemrows.checked_key(key, f"expected[{n}]"): _checked_revision(key, revision)
        for n, (key, revision) in enumerate(expected.items())
    }
    gone = [itemrows.checked_key(key, f"deletes[{n}]") for n, key in enumerate(deletes)]
    added = _drafted_now(adds, "adds", scope=scope, resources=resources)
    put = _drafted_now(puts, "puts", scope=scope, resources=resources)
    meant = _meant(gone, added, put, wanted)
    done = _write_now(table, meant, scope=scope, resources=resources)
    if done is None:
        return None
    existed, token = done
    return ItemsWritten(deleted=[existed[key] for key in gone], version=token)


async def row_keys(scope: Scope, keys: Sequence[ItemKey]) -> list[str]:
    """Return the primary keys of items. Raises InvalidRequestError for an invalid key."""
    return await steps.each(
        lambda one: _row_key(scope, *one), enumerate(listed(keys, "keys")), n_as_one=_N_KEYS_AS_ONE
    )


def row_keys_at_once(scope: Scope, keys: Sequence[ItemKey]) -> list[str]:
    """As `row_keys`, for few items."""
    return [_row_key(scope, number, key) for number, key in enumerate(keys)]


def _is_few(*lists: Sequence[object]) -> bool:
    """Whether it is not empty, and few enough to be written in a caller's thread."""
    if any(type(one) not in (list, tuple) for one in lists):
        return False
    return 0 < sum(map(len, lists)) <= _FEW


def _meant(
    gone: Iterable[ItemKey],
    added: Iterable[_Draft],
    put: Iterable[_Draft],
    expected: Mapping[ItemKey, int | None],
) -> _Keyed:
    """Combine keys to delete, items to add, and items to put, in this order."""
    ways = dict.fromkeys(gone, put_if.REMOVE)
    items: dict[ItemKey, _Draft] = {}
    for one in added:
        if (key := one.key) in items:
            raise InvalidRequestError(f"{key!r} is to be added twice by one call: decide on one")
        items[key], ways[key] = one, put_if.RENEW if key in ways else put_if.CLAIM
    for one in put:
        way = ways.get(key := one.key, put_if.PUT)
        items[key], ways[key] = one, put_if.RENEW if way == put_if.REMOVE else way
    return _Keyed(ways, items, expected)


def _added(
    offered: Iterable[_Draft], first: Mapping[ItemKey, _Draft], existed: Mapping[ItemKey, bool]
) -> list[bool]:
    return [one is first[one.key] and not existed[one.key] for one in offered]


async def _write(
    table: Table, meant: _Keyed, *, scope: Scope, resources: Resources, progress: Telling
) -> dict[ItemKey, bool]:
    """Write checked items; returns for each key whether it existed."""
    ways, items, expected = meant
    now = resources.clock.now()
    if not items and (not (ways or expected) or not await table.exists()):
        # An absent table contains no item.
        for key, revision in expected.items():
            if revision is not None:
                raise _unexpected(key, revision, None)
        return dict.fromkeys(ways, False)
    written = await _rows(table, [*items.values()], resources, progress)
    made = dict(zip(items, written, strict=True))
    rows = _keyed_rows(meant, made, scope=scope, now=now)
    try:
        done = await table.write(WriteBatch([*rows.values()], Mode.ITEM))
    except (put_if.Taken, put_if.Unexpected) as error:
        raise _meaning(error, rows) from None
    return dict(zip(rows, done.existed, strict=True))


def _write_now(
    table: Table, meant: _Keyed, *, scope: Scope, resources: Resources
) -> tuple[dict[ItemKey, bool], int] | None:
    """As `_write`, in any thread, with a version that shows it; None instead of waiting."""
    if any(one.item.vectors for one in meant.items.values()):
        return None
    made = {key: one.row for key, one in meant.items.items()}
    rows = _keyed_rows(meant, made, scope=scope, now=resources.clock.now())
    try:
        done = table.write_now(WriteBatch([*rows.values()], Mode.ITEM))
    except (put_if.Taken, put_if.Unexpected) as error:
        raise _meaning(error, rows) from None
    return None if done is None else (dict(zip(rows, done.existed, strict=True)), done.token)


def _keyed_rows(
    meant: _Keyed, made: Mapping[ItemKey, dict[str, Any]], *, scope: Scope, now: datetime
) -> dict[ItemKey, dict[str, Any]]:
    """Return the rows for the table: those `made` of items, and those of keys alone."""
    ways, expected = meant.ways, meant.expected
    rows = {}
    for key in [*ways, *(one for one in expected if one not in ways)]:
        row = made.get(key) or {KEY: itemrows.row_key(scope, key), "updated_at": now}
        row[put_if.HOW] = ways.get(key, put_if.LEAVE)
        if key in expected:
            row[put_if.EXPECTED] = expected[key]
        rows[key] = row
    return rows


def _meaning(
    error: put_if.Taken | put_if.Unexpected, rows: Mapping[ItemKey, Mapping[str, Any]]
) -> AlreadyExistsError | ConflictError:
    named = {row[KEY]: key for key, row in rows.items()}
    if isinstance(error, put_if.Taken):
        return _taken(named[error.args[0]])
    key, revision, found = error.args
    return _unexpected(named[key], revision, found)


async def _rows(
    table: Table, given: Sequence[_Draft], resources: Resources, progress: Telling
) -> list[dict[str, Any]]:
    """Return the rows of checked items, with vectors for their texts."""
    flat = [one for draft in given for one in draft.item.vectors]
    if not flat:
        return [draft.row for draft in given]
    left = iter(await _vectors(table, flat, resources, progress))
    return await steps.each(
        lambda one: itemrows.with_vectors(
            one.row, one.item, [next(left) for _ in one.item.vectors]
        ),
        given,
    )


async def _vectors(
    table: Table, flat: Sequence[ItemVector], resources: Resources, progress: Telling
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
        # The texts are not stored: no vector could be made of them later.
        even_if_deferred=True,
        progress=progress,
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
        "decide again"
    )


async def _checked_expected(expected: Mapping[ItemKey, int | None]) -> dict[ItemKey, int | None]:
    if not isinstance(expected, Mapping):
        raise InvalidRequestError(
            f"expected is {shown(expected)}: give revisions, or None, by namespace and key"
        )
    keys = await _checked_keys(list(expected), "expected")
    pairs = zip(keys, expected.values(), strict=True)
    return {key: _checked_revision(key, revision) for key, revision in pairs}


def _checked_revision(key: ItemKey, revision: object) -> int | None:
    if revision is None or type(revision) is int:
        return revision
    raise InvalidRequestError(
        f"expected[{key!r}] is {shown(revision)}: give the revision of an item that was "
        "read, or None for a key that must be absent"
    )


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
    """Return the checked items, and their rows."""
    given = listed(items, where)
    draft = _drafting(given, where, scope=scope, resources=resources)
    return await steps.each(draft, range(len(given)))


def _drafted_now(
    items: Sequence[Item], where: str, *, scope: Scope, resources: Resources
) -> list[_Draft]:
    """As `_drafted`, for few items."""
    return [*map(_drafting(items, where, scope=scope, resources=resources), range(len(items)))]


def _drafting(
    given: Sequence[Item], where: str, *, scope: Scope, resources: Resources
) -> Callable[[int], _Draft]:
    now, author = resources.clock.now(), resources.author

    def draft(number: int) -> _Draft:
        item = itemrows.checked(given[number], f"{where}[{number}]")
        return _Draft(item, itemrows.to_row(item, scope=scope, now=now, author=author))

    return draft


# Selects key-value items: conditions on their namespaces, keys and values.

_ORDERS: dict[ItemOrder, tuple[str, ...]] = {
    "key": ("namespace", "id"),
    "created": ("created_at", "namespace", "id"),
    "updated": ("updated_at", "namespace", "id"),
}

# Literal characters that are special in a regular expression.
_SPECIAL, _ESCAPED = re.compile(r"[\\.+*?()|\[\]{}^$]"), r"\\\g<0>"


@frozen_by_name
class Selection:
    """A checked `ItemListing`; of `ItemConditions` alone, all items in the usual order."""

    clauses: tuple[sql.Clause, ...]
    within: tuple[sql.Clause, ...]
    """The conditions on the namespace."""
    order: tuple[str, ...]
    """The sort columns."""
    reverse: bool
    limit: int | None
    offset: int

    @classmethod
    def of(cls, given: Mapping[str, Any], known: Mapping[str, Any] = CONDITIONS) -> "Selection":
        """Check the keyword arguments. Raises InvalidRequestError for any outside `known`."""
        check_options(given, known, "what selects items")
        which = {**LISTING, **given}
        order, limit, offset = which["order"], which["limit"], which["offset"]
        check_span(offset=offset, limit=limit, last=None)
        if order not in _ORDERS:
            raise InvalidRequestError(f"order={shown(order)}: use one of {', '.join(_ORDERS)}")
        within = _namespaces(which)
        return cls(
            clauses=(*within, *_clauses(which)),
            within=tuple(within),
            order=_ORDERS[order],
            reverse=bool(which["reverse"]),
            limit=limit,
            offset=offset,
        )


def _namespaces(which: Mapping[str, Any]) -> list[sql.Clause]:
    clauses = [
        *_beginning(_pattern(which["prefix"], "prefix")),
        *_ending(_pattern(which["suffix"], "suffix")),
    ]
    if (namespace := which["namespace"]) is not None:
        clauses.append(_whole(_pattern(namespace, "namespace")))
    return clauses


def _clauses(which: Mapping[str, Any]) -> list[sql.Clause]:
    clauses = []
    if key_prefix := check_segment(which["key_prefix"], "key_prefix"):
        clauses.append(sql.starts_with("id", key_prefix))
    if (bound := which["after"]) is not None:
        clauses.append(sql.after("id", check_segment(bound, "after")))
    if (bound := which["before"]) is not None:
        clauses.append(sql.before("id", check_segment(bound, "before")))
    if named := sql.filtered(which["filter"], columns=ITEM_FIELDS):
        clauses.append(named)
    return clauses


def _pattern(segments: Any, where: str) -> list[str | None]:
    """Return the segments of a path in plain types; None matches any segment."""
    return [
        None if one is None else check_segment(one, f"{where}[{index}]")
        for index, one in enumerate(listed(segments, where))
    ]


def _beginning(pattern: Sequence[str | None]) -> list[sql.Clause]:
    literal = encoded(head := _head(pattern))
    # All keys with this beginning are between these bounds, so that an index can be used.
    clauses = (
        [
            sql.at_or_after("namespace", literal),
            sql.before("namespace", literal[:-1] + chr(1)),
        ]
        if head
        else []
    )
    if len(head) < len(pattern):
        clauses.append(sql.matches("namespace", f"^{_regex(pattern)}"))
    return clauses


def _ending(pattern: Sequence[str | None]) -> list[sql.Clause]:
    if not pattern:
        return []
    if len(_head(pattern)) < len(pattern):
        return [sql.matches("namespace", rf"(?:^|\x00){_regex(pattern)}", to_end=True)]
    literal = encoded([one for one in pattern if one is not None])
    return [
        sql.any_of(
            [
                sql.equals("namespace", literal),
                sql.ends_with("namespace", chr(0) + literal),
            ]
        )
    ]


def _whole(pattern: Sequence[str | None]) -> sql.Clause:
    if len(head := _head(pattern)) == len(pattern):
        return sql.equals("namespace", encoded(head))
    named = sql.matches("namespace", f"^{_regex(pattern)}", to_end=True)
    return sql.all_of([*_beginning(head), named])


def _head(pattern: Sequence[str | None]) -> list[str]:
    """Return the segments before the first wildcard."""
    head = []
    for segment in pattern:
        if segment is None:
            break
        head.append(segment)
    return head


def _regex(pattern: Sequence[str | None]) -> str:
    return "".join(
        r"[^\x00]*\x00" if one is None else rf"{_SPECIAL.sub(_ESCAPED, one)}\x00" for one in pattern
    )
