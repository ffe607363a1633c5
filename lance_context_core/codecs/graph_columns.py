"""Many entities or relations to columns at once: checked, keyed and written without a row of each.

A column is checked as a whole. Where one value needs a closer look, there are no columns, and the
things are taken one by one (`codecs.graph`), which refuses bad values by name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import datetime
from hashlib import blake2b
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._util.checks import (
    check_json_object,
    check_name,
    check_names,
    check_time,
    dumps,
)
from lance_context_core._util.frozen import frozen, made_of
from lance_context_core.codecs import graph as rows
from lance_context_core.codecs.graph import ENTITY, KINDS, RELATION, name_key
from lance_context_core.codecs.records import key_prefix
from lance_context_core.errors import InvalidRequestError
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage.lance.schema import KEY, TIMESTAMP
from lance_context_core.storage.names import new_revisions
from lance_context_core.types.graph import Entity, Relation

T = TypeVar("T", Entity, Relation)

Values = dict[str, list[Any]]
"""Values by field, one for each thing."""

_TEXTS: Mapping[type, tuple[str, ...]] = {
    Entity: ("name", "type"),
    Relation: ("source_id", "target_id", "type"),
}
_ENDS: Mapping[type, tuple[str, ...]] = {Entity: (), Relation: ("source_id", "target_id")}
_WORDS = ("name", "type")
"""The texts that have at least one letter."""


@frozen
class Columns:
    """Checked entities or relations of one scope, in order."""

    sort: type
    scope: Scope
    values: Values
    """By field; a field that no thing has is missing."""
    keys: Sequence[str]
    given: Sequence[Any] | None = None
    """The things themselves, if they already are what is stored."""

    def __len__(self) -> int:
        """The number of things."""
        return len(self.keys)

    @property
    def kind(self) -> str:
        """The kind of their rows."""
        return KINDS[self.sort]

    def things(self) -> list[Any]:
        """Returns them as values, with their ids and their scope."""
        if self.given is not None:
            return [*self.given]
        told = {name: [one] * len(self) for name, one in self.scope.parts().items()}
        return made_of(self.sort, len(self), {**self.values, **told})

    def named(self) -> dict[str, str]:
        """Returns the ids of the entities that they name, each with the field."""
        found: dict[str, str] = {}
        for name in reversed(_ENDS[self.sort]):
            found |= dict.fromkeys(self.values[name], f"{self.sort.__name__}.{name}")
        return found

    def distinct(self) -> "Columns":
        """Returns those with different ids: of several with one, the last, where the first was."""
        last = dict(zip(self.keys, range(len(self)), strict=True))
        return self if len(last) == len(self) else self.at([*last.values()])

    def at(self, places: Sequence[int]) -> "Columns":
        """Returns those at these places."""
        values = {name: [some[n] for n in places] for name, some in self.values.items()}
        return Columns(self.sort, self.scope, values, [self.keys[n] for n in places])

    def parts(self, most: int) -> Iterator["Columns"]:
        """Yields them in order, up to so many at a time."""
        for start in range(0, len(self), most):
            span = slice(start, start + most)
            values = {name: some[span] for name, some in self.values.items()}
            yield Columns(self.sort, self.scope, values, self.keys[span])

    def table(self, nodes: Mapping[str, int], *, now: datetime, author: str | None) -> pa.Table:
        """Returns their rows, as those of `rows.to_row` for new things; `nodes` are of their ends."""
        values, n = self.values, len(self)
        moments = pa.repeat(pa.scalar(now, TIMESTAMP), n)
        recorded = values.get("recorded_at")
        columns: dict[str, Any] = {
            KEY: pa.array(self.keys, pa.string()),
            "id": pa.array(values["id"], pa.string()),
            "created_at": moments,
            "updated_at": moments,
            "revision": pa.array(new_revisions(n)),
            "kind": pa.repeat(pa.scalar(self.kind), n),
            "type": pa.array(values["type"], pa.string()),
            "content": pa.array(_contents(self.sort, values), pa.string()),
            "recorded_at": moments
            if recorded is None
            else pa.array([one or now for one in recorded], TIMESTAMP),
        }
        for name, one in {**self.scope.parts(), "author": author}.items():
            if one is not None:
                columns[name] = pa.repeat(pa.scalar(one), n)
        if "source_ids" in values:
            told = [list(one) or None for one in values["source_ids"]]
            columns["source_ids"] = pa.array(told, pa.list_(pa.string()))
        for name in ("valid_from", "valid_to"):
            if name in values:
                columns[name] = pa.array(values[name], TIMESTAMP)
        if self.sort is Entity:
            columns["name_key"] = pa.array(map(name_key, values["name"]), pa.string(), size=n)
            columns["node"] = pa.array(nodes_of(self.keys))
        else:
            for name, column in (("source_id", "source_node"), ("target_id", "target_node")):
                columns[column] = pa.array(map(nodes.__getitem__, values[name]), pa.int64(), size=n)
            if "weight" in values:
                columns["weight"] = pa.array(values["weight"], pa.float64())
        return pa.table(columns)


def columns_of(given: Sequence[T] | pa.Table, sort: type[T], scope: Scope) -> Columns | None:
    """Returns these things as columns, as a handle of that scope writes them.

    Returns None if one value has to be looked at for itself: it may be refused, or belong to
    another scope than the others.
    """
    try:
        values = _read(given, sort) if isinstance(given, pa.Table) else _got(given, sort)
        if values is None:
            return None
        before = dict(values)
        whose = _owner(values, scope)
        if whose is None or not _are_sound(values, sort):
            return None
    except (InvalidRequestError, TypeError, ValueError, pa.ArrowException):
        return None
    own = values.get("id")
    if own is None or None in own:
        made = _made_ids(sort, values)
        values["id"] = made if own is None else [a or b for a, b in zip(own, made, strict=True)]
    # Copies of a hundred thousand values take as long as all else together.
    is_same = not isinstance(given, pa.Table) and _are_same(values, before, whose)
    keys = _keys(whose, KINDS[sort], values["id"])
    return Columns(sort, whose, values, keys, given if is_same else None)


def things_of(given: pa.Table, sort: type[Any]) -> list[Any]:
    """Returns the rows of a table as values, unchecked."""
    values = _read(given, sort)
    return [sort(**{name: some[n] for name, some in values.items()}) for n in range(len(given))]


def nodes_of(keys: Sequence[str]) -> np.ndarray:
    """As `rows.node_of`, of many keys: int64."""
    # A key has 32 hexadecimal digits, of which a node is the first 15.
    halves = np.frombuffer(bytes.fromhex("".join(keys)), ">u8")[::2]
    return (halves >> np.uint64(64 - 4 * rows.NODE_DIGITS)).astype(np.int64)


def entity_keys(scope: Scope, ids: Iterable[str]) -> list[str]:
    """The keys of many entities, in order."""
    return _keys(scope, ENTITY, list(ids))


# From values, and from a table


def _got(things: Sequence[T], sort: type[T]) -> Values | None:
    """Returns the fields that any of the things has; None for things of another class."""
    if set(map(type, things)) != {sort}:
        return None
    values: Values = {}
    for one in fields(sort):
        some = list(map(attrgetter(one.name), things))
        if not _is_default(some, _default(one)):
            values[one.name] = some
    return values


def _read(given: pa.Table, sort: type) -> Values:
    """Returns the columns of a table by field. Raises InvalidRequestError for an unknown one."""
    known = {one.name: one for one in fields(sort)}
    for name in given.column_names:
        if name not in known:
            raise InvalidRequestError(
                f"column {name!r}: {sort.__name__} has {', '.join(known)}: rename it or leave it out"
            )
    for name, one in known.items():
        if (
            one.default is MISSING
            and one.default_factory is MISSING
            and name not in given.schema.names
        ):
            raise InvalidRequestError(f"a table of {sort.__name__} needs a column {name!r}: add it")
    values: Values = {}
    for name in given.column_names:
        some = given[name].to_pylist()
        default = _default(known[name])
        if default is not None:
            some = [default if one is None else one for one in some]
        if name == "source_ids":
            some = [tuple(one) for one in some]
        if name == "properties":
            some = [_properties(one) for one in some]
        if name in _TEXTS[sort] or not _is_default(some, default):
            values[name] = some
    return values


def _properties(given: Any) -> Any:
    """Returns a map, or a struct, in which each row has all fields: null ones are absent."""
    if isinstance(given, list):
        return dict(given)
    return {name: one for name, one in given.items() if one is not None}


def _default(one: Any) -> Any:
    if one.default_factory is not MISSING:
        return one.default_factory()
    return None if one.default is MISSING else one.default


def _is_default(values: list[Any], default: Any) -> bool:
    if default is None:
        return values.count(None) == len(values)
    is_empty = default in ((), {})
    return is_empty and set(map(type, values)) == {type(default)} and not any(values)


# Checks


def _owner(values: Values, scope: Scope) -> Scope | None:
    """Returns the one scope of all things; None if there are several."""
    parts: dict[str, str | None] = {}
    for part in SCOPE_PARTS:
        told = set(values.pop(part, ())) or {None}
        if (own := getattr(scope, part)) is not None:
            if not told <= {own, None}:
                return None
            parts[part] = own
        elif len(told) > 1:
            return None
        else:
            (one,) = told
            parts[part] = None if one is None else check_name(one, part)
    return Scope(**parts)


def _are_same(values: Values, before: Values, whose: Scope) -> bool:
    """Whether the checks have changed no value, and each thing already has its id and its scope."""
    if any(value is not before.get(name) for name, value in values.items()):
        return False
    return all(set(before.get(name, [None])) == {one} for name, one in whose.parts().items())


def _are_sound(values: Values, sort: type) -> bool:
    """Whether all values may be stored; replaces them by plain ones."""
    if not all(name in values and _are_names(values[name]) for name in _TEXTS[sort]):
        return False
    if any(one.isspace() for name in _WORDS if name in values for one in set(values[name])):
        return False
    if (ids := values.get("id")) is not None and not _are_names(
        [one for one in ids if one is not None]
    ):
        return False
    for name, check in _CHECKS.items():
        if name in values:
            values[name] = check(values[name])
    since, until = values.get("valid_from"), values.get("valid_to")
    if since is not None and until is not None:
        pairs = zip(since, until, strict=True)
        return not any(a is not None and b is not None and a >= b for a, b in pairs)
    return True


def _are_names(values: Sequence[Any]) -> bool:
    """Whether these are plain texts, not empty, without NUL."""
    if not set(map(type, values)) <= {str}:
        return False
    told = pa.array(values, pa.string())  # raises ValueError for lone surrogates
    if not len(told):
        return True
    is_short = pc.min(pc.binary_length(told)).as_py() < 1
    return not is_short and b"\0" not in memoryview(told.buffers()[2]).tobytes()


def _weights(values: list[Any]) -> list[Any]:
    if not set(map(type, values)) <= {float, int, type(None)}:
        raise ValueError
    told = np.array([0.0 if one is None else one for one in values], np.float64)
    if not (np.isfinite(told) & (told >= 0)).all():
        raise ValueError
    if int not in set(map(type, values)):
        return values
    return [None if one is None else float(one) for one in values]


def _sources(values: list[Any]) -> list[Any]:
    known = {one: tuple(dict.fromkeys(check_names(one, "source_ids"))) for one in set(values)}
    if all(one == told and set(map(type, one)) <= {str} for one, told in known.items()):
        return values
    return [known[one] for one in values]


def _each(check: Callable[[Any, str], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [None if one is None else check(one, "") for one in values]


_CHECKS: Mapping[str, Callable[[list[Any]], list[Any]]] = {
    "weight": _weights,
    "source_ids": _sources,
    "properties": lambda values: [check_json_object(one, "") for one in values],
    **dict.fromkeys(("valid_from", "valid_to", "recorded_at"), _each(check_time)),
}


# Ids, keys and contents, as in `codecs.graph`


def _made_ids(sort: type, values: Values) -> list[str]:
    quoted = rows.quoted
    if sort is Entity:
        of_type = {one: quoted(name_key(one)) for one in set(values["type"])}
        names = map(quoted, map(name_key, values["name"]))
        told = [
            f'["{ENTITY}",{of_type[type]},{name}]'
            for type, name in zip(values["type"], names, strict=True)
        ]
    else:
        of_type = {one: quoted(one) for one in set(values["type"])}
        ends = zip(map(quoted, values["source_id"]), map(quoted, values["target_id"]), strict=True)
        since = values.get("valid_from")
        if since is None:
            told = [
                f'["{RELATION}",{a},{of_type[type]},{b},null]'
                for (a, b), type in zip(ends, values["type"], strict=True)
            ]
        else:
            told = [
                f'["{RELATION}",{a},{of_type[type]},{b},'
                f"{'null' if moment is None else quoted(moment.isoformat())}]"
                for (a, b), type, moment in zip(ends, values["type"], since, strict=True)
            ]
    kind = KINDS[sort]
    return [f"{kind}-{blake2b(one.encode(), digest_size=12).hexdigest()}" for one in told]


def _keys(scope: Scope, kind: str, ids: Sequence[str]) -> list[str]:
    begun = blake2b(key_prefix(scope, kind), digest_size=16)
    keys = []
    for one in map(str.encode, ids):
        key = begun.copy()
        key.update(b"%d:%b" % (len(one), one))
        keys.append(key.hexdigest())
    return keys


def _contents(sort: type, values: Values) -> list[str]:
    names = [name for name in rows.PACKED[sort] if name in values and name not in _TEXTS[sort]]
    quoted, of_type = rows.quoted, {one: rows.quoted(one) for one in set(values["type"])}
    if not names and sort is Relation:
        ends = zip(map(quoted, values["source_id"]), map(quoted, values["target_id"]), strict=True)
        return [
            f'{{"source_id":{a},"target_id":{b},"type":{of_type[type]}}}'
            for (a, b), type in zip(ends, values["type"], strict=True)
        ]
    if not names:
        return [
            f'{{"name":{name},"type":{of_type[type]}}}'
            for name, type in zip(map(quoted, values["name"]), values["type"], strict=True)
        ]
    taken = [name for name in rows.PACKED[sort] if name in values]
    return [
        dumps(rows.packed(dict(zip(taken, one, strict=True))))
        for one in zip(*(values[name] for name in taken), strict=True)
    ]
