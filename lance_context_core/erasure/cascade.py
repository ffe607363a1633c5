"""References to erased records in other rows: derived records and relationships."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import pyarrow as pa

from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs import records
from lance_context_core.codecs.graph import LEADING, without_sources
from lance_context_core.codecs.records import JOB, KNOWLEDGE, OF_ALL, SUMMARIES, with_values
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage import sql
from lance_context_core.storage.lance import purge
from lance_context_core.storage.lance.purge import TableRef
from lance_context_core.storage.lance.schema import KEY, LINK, VECTOR
from lance_context_core.storage.names import next_revision
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode, WriteBatch

ScopeValues = tuple[str | None, ...]
"""The context, tenant, user and agent of a record; absent parts do not restrict."""

Within = tuple[str | None, ...]
"""These, and the session: the range within which an id is unique."""

_STATE = (KEY, "id", "context", *SCOPE_PARTS, "session_id", "kind")
_POINTERS = ("supersedes_id", "superseded_by_id")
_LINKS = ("source_ids", "relationships", *_POINTERS, LINK)
_LINKED = sql.any_of(
    [
        sql.is_not_empty("source_ids"),
        sql.is_not_empty("relationships"),
        *(sql.is_present(pointer) for pointer in _POINTERS),
    ]
)


class State(NamedTuple):
    """The values that identify a record."""

    key: str
    id: str
    context: str | None
    tenant: str | None
    user_id: str | None
    agent_id: str | None
    session_id: str | None
    kind: str | None

    @property
    def scope_values(self) -> ScopeValues:
        """The range of its id."""
        return self.context, self.tenant, self.user_id, self.agent_id

    @property
    def means_within(self) -> Within:
        """The range within which the id denotes it."""
        return *self.scope_values, self.session_id

    @property
    def named_within(self) -> Within:
        """The range of the ids that it names."""
        context = None if self.context in OF_ALL else self.context
        # Turns of two sessions may have the same id, and these name those of their own.
        is_of_one = self.context == SUMMARIES or (self.context == KNOWLEDGE and self.kind == JOB)
        session_id = self.session_id if is_of_one else None
        return context, self.tenant, self.user_id, self.agent_id, session_id


class Link(NamedTuple):
    """A current or former reference of a record to others."""

    state: State
    sources: frozenset[str]
    """The records that it was derived from."""
    mentions: frozenset[str]
    before: str | None
    """The key of the record before it, if it names one."""
    is_present: bool
    """Whether it still names them, on some ref."""


class Names:
    """Ids of erased records, and their ranges."""

    def __init__(self) -> None:
        """Starts empty."""
        self._by_id: dict[str, set[Within]] = defaultdict(set)

    def add(self, id: str, within: Within) -> None:
        """Adds an `id` of an erased record within that range."""
        self._by_id[id].add(within)

    def update(self, other: "Names") -> None:
        """Adds all ids of the others."""
        for id in other.ids:
            self._by_id[id] |= other.within(id)

    def within(self, id: str) -> set[Within]:
        """Returns the ranges within which the id denotes one."""
        return self._by_id.get(id, set())

    @property
    def ids(self) -> Collection[str]:
        """Returns all ids."""
        return self._by_id.keys()

    def mean(self, ids: Iterable[str], within: Within) -> bool:
        """Whether one of `ids`, in a record with that range, denotes an erased one."""
        return any(compatible(within, one) for id in ids for one in self._by_id.get(id, ()))


def compatible(one: Sequence[str | None], other: Sequence[str | None]) -> bool:
    """Whether both may be in one scope: each part is the same, or absent in one."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


@frozen
class Found:
    """The matches in all versions of one ref."""

    states: set[State]
    """The matching records in any of them."""
    links: set[Link]
    """The references in any of them."""
    is_shown: bool
    """Whether the newest one has a matching record."""


async def found(ref: TableRef, where: str, scope_condition: str | None, main: Any) -> Found:
    """Returns matching records in any version of the ref, and the references there.

    References within the scope; none for None, as of tables without references. `main` is a handle
    of the table on main.
    """
    states: set[State] = set()
    links: set[Link] = set()
    is_shown = False
    asked: list[tuple[str, Sequence[str]]] = [(where, _STATE)]
    if scope_condition is not None:
        asked.append((sql.all_of([scope_condition, _LINKED]), [*_STATE, *_LINKS]))
    async for is_present, (matching, *linked) in purge.past(ref, asked, main):
        states.update(_states(matching))
        is_shown |= is_present and matching.num_rows > 0
        for rows in linked:
            for state, row in zip(_states(rows), rows.to_pylist(), strict=True):
                sources = frozenset(row.get("source_ids") or ())
                mentions = frozenset(_mentioned(row))
                links.add(Link(state, sources, mentions, row.get(LINK), is_present))
    return Found(states, links, is_shown)


async def shown(ref: TableRef, where: str) -> list[State]:
    """Returns matching records in the newest version of the ref."""
    return _states(await purge.present(ref.table, where, _STATE))


def derived(links: Iterable[Link], names: Names, erased: set[str]) -> set[State]:
    """Returns the keys of records derived from erased ones, transitively; their ids join `names`.

    `erased` are the keys of already erased ones.
    """
    waiting = [link for link in links if link.sources and link.state.key not in erased]
    further: set[State] = set()
    while new := [one for one in waiting if names.mean(one.sources, one.state.named_within)]:
        keys = {link.state.key for link in new}
        for link in waiting:
            if link.state.key in keys:
                names.add(link.state.id, link.state.means_within)
                further.add(link.state)
        waiting = [link for link in waiting if link.state.key not in keys]
    return further


async def scrub(
    table: Table, names: Names, keys: Collection[str], scope_condition: str, *, sources: bool
) -> None:
    """Removes references to `names`, and to those `keys`, from the records of one ref.

    Also from their sources, if requested.
    """
    columns = [*table.spec.schema.names, VECTOR]
    attempts = Attempts("the same records kept being changed by others")
    while True:
        attempts.begin()
        linked = await purge.present(table, sql.all_of([scope_condition, _LINKED]), columns)
        rows = linked.to_pylist()
        changed = [
            scrubbed
            for state, row in zip(_states(linked), rows, strict=True)
            if (scrubbed := _scrubbed(row, state.named_within, names, keys, sources=sources))
            is not None
        ]
        if not changed or (await table.write(WriteBatch(changed, Mode.REPLACE))).is_done:
            return


def _scrubbed(
    row: Mapping[str, Any],
    within: Within,
    names: Names,
    keys: Collection[str],
    *,
    sources: bool,
) -> dict[str, Any] | None:
    """Returns the row without the names; None if it has none of them."""

    def means(id: str | None) -> bool:
        return id is not None and names.mean([id], within)

    changes: dict[str, Any] = {name: None for name in _POINTERS if means(row.get(name))}
    if "superseded_by_id" in changes and row["lifecycle_status"] in records.VISIBLE_STATUSES:
        # A superseded row stays hidden, though its successor's name is removed.
        changes["lifecycle_status"] = records.SUPERSEDED
    edges = row.get("relationships") or []
    if any(means(edge["target_id"]) for edge in edges):
        changes["relationships"] = [edge for edge in edges if not means(edge["target_id"])] or None
    if sources and any(means(one) for one in row.get("source_ids") or ()):
        changes["source_ids"] = [one for one in row["source_ids"] if not means(one)] or None
    is_behind = row.get(LINK) in keys
    if not changes and not is_behind:
        return None
    own = {LINK: None} if is_behind else {}
    scrubbed = with_values(row, changes) if changes else dict(row)
    return scrubbed | own | {"revision": scrubbed_revision(row["revision"])}


def scrubbed_revision(revision: int) -> int:
    """Returns the next revision, the same on every ref: equal rows on two refs stay equal."""
    digest = blake2b(b"%d" % revision, digest_size=4).digest()
    own = int.from_bytes(digest, "little") >> 1
    return next_revision(revision) % 2**31 | own << 31


def _mentioned(row: Mapping[str, Any]) -> Iterable[str]:
    yield from (edge["target_id"] for edge in row.get("relationships") or ())
    yield from (id for name in _POINTERS if (id := row.get(name)) is not None)


def _states(rows: pa.Table) -> list[State]:
    return [State(*(row.get(name) for name in _STATE)) for row in rows.to_pylist()]


# The graph's rows from erased sources: unsupported ones go, the rest lose the sources.

_FEW = 1_000
"""Up to this many sources are queried by name; for more, all rows with sources are read."""

_AT_ONCE = 5_000
_SUPPORT = (KEY, "source_ids", "node", *SCOPE_PARTS)


async def was_named(ref: TableRef, names: Names, scope_condition: str, main: Any) -> bool:
    """Whether any version of the ref has a row with an erased source."""
    asked = [(_supported(names, scope_condition), _SUPPORT)]
    async for _, (found,) in purge.past(ref, asked, main):
        if any(_meant(row, names) for row in found.to_pylist()):
            return True
    return False


async def is_named(table: Table, names: Names, scope_condition: str) -> bool:
    """Whether the newest version has a row with an erased source."""
    found = await purge.present(table, _supported(names, scope_condition), _SUPPORT)
    return any(_meant(row, names) for row in found.to_pylist())


async def unsupported(table: Table, names: Names, scope_condition: str) -> set[str]:
    """Returns the keys of rows with erased sources alone, and of all rows that refer to such entities."""
    found = await purge.present(table, _supported(names, scope_condition), _SUPPORT)
    gone = [row for row in found.to_pylist() if len(_meant(row, names)) == len(row["source_ids"])]
    keys = {row[KEY] for row in gone}
    for some in _chunks(sorted({row["node"] for row in gone if row["node"] is not None})):
        ends = sql.any_of([sql.in_list(column, some) for column in LEADING])
        led = await purge.present(table, sql.all_of([scope_condition, ends]), [KEY])
        keys |= set(led[KEY].to_pylist())
    return keys


async def scrub_graph(
    table: Table, names: Names, scope_condition: str, *, all_of_them: bool
) -> None:
    """Removes erased sources from rows with others, and from rows without others if they are to stay."""
    attempts = Attempts("the same part of the graph kept being changed by others")
    while True:
        attempts.begin()
        found: pa.Table = await purge.present(
            table, _supported(names, scope_condition), [*table.spec.schema.names]
        )
        changed = []
        for row in found.to_pylist():
            meant = _meant(row, names)
            if meant and (all_of_them or len(meant) < len(row["source_ids"])):
                kept = without_sources(row, meant.__contains__)
                changed.append(kept | {"revision": scrubbed_revision(row["revision"])})
        if not changed or (await table.write(WriteBatch(changed, Mode.REPLACE))).is_done:
            return


def _supported(names: Names, scope_condition: str) -> str:
    few = len(names.ids) <= _FEW
    named = sql.has_any("source_ids", [*names.ids]) if few else sql.is_not_empty("source_ids")
    return sql.all_of([named, scope_condition])


def _meant(row: Mapping[str, Any], names: Names) -> set[str]:
    """Returns the erased ones among the sources of a row."""
    within = (None, *(row.get(part) for part in SCOPE_PARTS), None)
    return {one for one in row.get("source_ids") or () if names.mean([one], within)}


def _chunks(nodes: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(nodes), _AT_ONCE):
        yield nodes[start : start + _AT_ONCE]
