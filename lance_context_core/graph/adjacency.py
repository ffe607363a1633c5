"""The entities and relations of a scope in memory, as arrays for walks.

Texts are Arrow columns; no Python object exists per entity or relation. Later writes are in a
short list next to the arrays.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._util.frozen import made_of
from lance_context_core.codecs import graph as rows
from lance_context_core.codecs.graph import ENTITY, RELATION, node_of
from lance_context_core.graph.scoped import Moment, entity_of, relation_of
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage.changes import Position
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.sql.predicates import Clause
from lance_context_core.storage.wal.entries import Entry, How
from lance_context_core.types.graph import Entity, Relation

COLUMNS = (
    *(KEY, "id", "kind", "content", "type", "weight", "node", "source_node", "target_node"),
    *("valid_from", "valid_to", "recorded_at", *SCOPE_PARTS),
)
"""The columns that the arrays need."""

_MOST_ADDED = 2_000
"""The most changes next to the arrays; after that the arrays are built anew."""

_ADDED_BYTES = 2_000
"""The approximate bytes of one change."""

_FEW_SCOPES = 32
"""In up to this many scopes an id is looked up by its nodes; in more by the ids themselves."""

_DIGITS = np.zeros(256, np.uint8)
_DIGITS[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
"""By letter, the value of a hexadecimal digit."""

_NONE = np.iinfo(np.int64).min
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN_ENTITY = r'^\{"name":"(?P<name>[^"\\]*)","type":"[^"\\]*"\}$'
_PLAIN_RELATION = r'^\{"source_id":"[^"\\]*","target_id":"[^"\\]*","type":"[^"\\]*"\}$'
"""The content of an entity without further fields."""


@dataclass(frozen=True, slots=True)
class _Things:
    """Entities or relations by number, in write order."""

    ids: pa.Array
    names: pa.Array | None
    """The names of plain entities; None for relations."""
    contents: pa.Array
    """The further columns; null where the others are complete."""
    is_plain: np.ndarray
    """For each whether its content is null, because it has no further fields."""
    types: Sequence[str]
    type_codes: np.ndarray
    """The type number of each."""
    keys: np.ndarray
    """The first 60 bits of each key: int64, in order of the numbers."""
    by_key: np.ndarray
    """The numbers in ascending order of `keys`: int32."""
    scopes: np.ndarray
    weights: np.ndarray | None
    """NaN for none; None if no row has one."""
    since: np.ndarray | None
    until: np.ndarray | None
    recorded: np.ndarray
    """Microseconds since 1970."""

    @classmethod
    def of(cls, column: Callable[[str], pa.Array], plain: str, scopes: np.ndarray) -> "_Things":
        # One column after the other, as copies of all at once take more than the table.
        content = column("content")
        told = pc.extract_regex(content, plain)
        is_plain = np.asarray(pc.is_valid(told), bool)
        names = pc.struct_field(told, "name") if "?P<name>" in plain else None
        # Not by `if_else`: its result has the room of all contents, of a plain graph half of all.
        contents = content.take(pa.array(np.arange(len(content)), mask=is_plain))
        del content, told
        keys = _key_numbers(column(KEY))
        types = column("type").dictionary_encode()
        weights = column("weight")
        return cls(
            ids=column("id"),
            names=names,
            contents=contents,
            is_plain=is_plain,
            types=types.dictionary.to_pylist(),
            type_codes=_small(types.indices.to_numpy(), len(types.dictionary)),
            keys=keys,
            by_key=np.argsort(keys, kind="stable").astype(np.int32),
            scopes=scopes,
            weights=None
            if weights.null_count == len(weights)
            else weights.to_numpy(zero_copy_only=False).astype(np.float64),
            since=_times(column("valid_from")),
            until=_times(column("valid_to")),
            recorded=_all_times(column("recorded_at")),
        )

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def n_bytes(self) -> int:
        texts = (self.ids, self.names, self.contents)
        numbers = (self.keys, self.by_key, self.scopes, self.recorded, self.is_plain)
        others = (self.type_codes, self.weights, self.since, self.until)
        return sum(int(one.nbytes) for one in (*texts, *numbers, *others) if one is not None)

    def number(self, key: int) -> int:
        """Returns the number of a key; -1 for none."""
        place = int(np.searchsorted(self.keys, key, sorter=self.by_key))
        if place < len(self.by_key) and self.keys[number := self.by_key[place]] == key:
            return int(number)
        return -1

    def fitting(self, of: np.ndarray, types: frozenset[str] | None, moment: Moment) -> np.ndarray:
        """For each of these numbers whether it has one of the types, and exists at the moment."""
        fits = np.ones(len(of), bool)
        if types is not None:
            codes = [code for code, name in enumerate(self.types) if name in types]
            fits &= np.isin(self.type_codes[of], codes)
        if moment.at is not None:
            at = _microseconds(moment.at)
            if self.since is not None:
                fits &= self.since[of] <= at  # None is before all times.
            if self.until is not None:
                until = self.until[of]
                fits &= (until == _NONE) | (until > at)
        if moment.known_at is not None:
            fits &= self.recorded[of] <= _microseconds(moment.known_at)
        return fits


@dataclass(frozen=True, slots=True)
class _Added:
    """Writes since the arrays were built."""

    entities: Mapping[int, Row] = field(default_factory=dict)
    """By node."""
    relations: Mapping[int, Row] = field(default_factory=dict)
    """By key number, in write order."""
    gone_nodes: frozenset[int] = frozenset()
    gone_relations: frozenset[int] = frozenset()
    """Numbers in the arrays that are outdated."""

    def __len__(self) -> int:
        n = len(self.entities) + len(self.relations)
        return n + len(self.gone_nodes) + len(self.gone_relations)


Link = tuple[int, int, int]
"""A relation: the nodes of both ends, and its number, which is negative for later additions."""


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The graph of a scope at one moment. Immutable; safe to share between threads."""

    state: Position
    nodes: np.ndarray
    """All nodes, ascending: int64."""
    entity_at: np.ndarray
    """For each node the number of its entity; -1 for none."""
    entities: _Things
    relations: _Things
    ends: tuple[np.ndarray, np.ndarray]
    """For each relation the positions in `nodes` of both ends: int32."""
    starts: tuple[np.ndarray, np.ndarray]
    """For each position in `nodes` the start of its outgoing relations in `order`; likewise incoming."""
    order: tuple[np.ndarray, np.ndarray]
    """The relations ordered by source; likewise by target: int32."""
    scopes: Sequence[Mapping[str, str | None]]
    added: _Added = _Added()

    @classmethod
    def of(cls, state: Position, found: pa.Table) -> "Adjacency":
        """Builds the graph of these rows, in their order; takes about a microsecond for each."""
        codes, scopes = _scopes_of(found)
        masks = [pc.equal(found["kind"], kind) for kind in (ENTITY, RELATION)]
        of_entities, of_relations = [partial(_filtered, found, mask) for mask in masks]
        scopes_of = [codes[np.asarray(mask, bool)] for mask in masks]
        entities = _Things.of(of_entities, _PLAIN_ENTITY, scopes_of[0])
        relations = _Things.of(of_relations, _PLAIN_RELATION, scopes_of[1])
        own = of_entities("node").to_numpy()
        led = [of_relations(name).to_numpy() for name in ("source_node", "target_node")]
        nodes, places = _ranked(np.concatenate([own, *led]).astype(np.int64))
        at, *ends = np.split(places, [len(own), len(own) + len(led[0])])
        entity_at = np.full(len(nodes), -1, np.int32)
        entity_at[at] = np.arange(len(own), dtype=np.int32)
        order = [np.argsort(one, kind="stable").astype(np.int32) for one in ends]
        starts = [
            np.concatenate([[0], np.cumsum(np.bincount(one, minlength=len(nodes)))]) for one in ends
        ]
        return cls(
            state=state,
            nodes=nodes,
            entity_at=entity_at,
            entities=entities,
            relations=relations,
            ends=(ends[0], ends[1]),
            starts=(starts[0].astype(np.int32), starts[1].astype(np.int32)),
            order=(order[0], order[1]),
            scopes=scopes,
        )

    @property
    def n_bytes(self) -> int:
        """The approximate bytes in memory."""
        arrays = (self.nodes, self.entity_at, *self.ends, *self.starts, *self.order)
        own = sum(one.nbytes for one in arrays) + self.entities.n_bytes + self.relations.n_bytes
        return int(own) + _ADDED_BYTES * len(self.added) + 500 * len(self.scopes)

    # Following the table

    def followed(
        self, state: Position, entries: Iterable[Entry], where: Clause
    ) -> "Adjacency | None":
        """Returns a graph with the writes since; None if too many. `where` selects the visible rows.

        Raises UnsureError if only the engine can decide which rows are visible.
        """
        changed = [entry for entry in entries if _concerns(entry)]
        if not changed:
            return replace(self, state=state)
        if len(self.added) + len(changed) > _MOST_ADDED:
            return None
        entities, links = dict(self.added.entities), dict(self.added.relations)
        gone_nodes, gone_links = set(self.added.gone_nodes), set(self.added.gone_relations)
        for entry in changed:
            number = node_of(entry.key)
            entities.pop(number, None)
            links.pop(number, None)
            if (known := self.entities.number(number)) >= 0:
                gone_nodes.add(known)
            if (known := self.relations.number(number)) >= 0:
                gone_links.add(known)
            if entry.how is How.REMOVE or not (where.holds and where.holds(entry.row)):
                continue
            if entry.row["kind"] == ENTITY:
                entities[number] = entry.row
            elif entry.row["kind"] == RELATION:
                links[number] = entry.row
        added = _Added(entities, links, frozenset(gone_nodes), frozenset(gone_links))
        return replace(self, state=state, added=added)

    # Starts of walks

    def find(self, entity_id: str) -> list[int]:
        """Returns the nodes of the entities with that id."""
        own = self._nodes_of(entity_id)
        known = self._entity_numbers(own).tolist()
        found = [node for node, number in zip(own, known, strict=True) if number >= 0]
        added = self.added.entities.items()
        return [*found, *(node for node, row in added if row["id"] == entity_id)]

    def _nodes_of(self, entity_id: str) -> list[int]:
        """Returns the possible nodes of an id."""
        if len(self.scopes) <= _FEW_SCOPES:
            return [rows.node(Scope(**parts), entity_id) for parts in self.scopes]
        found = np.flatnonzero(np.asarray(pc.equal(self.entities.ids, entity_id), bool))
        return [int(one) for one in self.entities.keys[found]]

    def nodes_of(self, types: frozenset[str] | None, moment: Moment) -> list[int]:
        """Returns the nodes of the entities of these types that exist at the moment, in write order."""
        numbers = np.arange(len(self.entities))
        if self.added.gone_nodes:
            numbers = np.setdiff1d(numbers, list(self.added.gone_nodes))
        if types is not None or moment:
            numbers = numbers[self.entities.fitting(numbers, types, moment)]
        found: list[int] = self.entities.keys[numbers].tolist()
        return found + [
            node
            for node, row in self.added.entities.items()
            if moment.holds(row) and (types is None or row["type"] in types)
        ]

    # Steps

    def step(
        self,
        frontier: Sequence[int],
        direction: str,
        types: frozenset[str] | None,
        moment: Moment,
        limit: int,
    ) -> list[Link]:
        """Returns the relations that lead on from these nodes, at most `limit`, in write order."""
        places = self._places(frontier)
        found = [
            self._led(side, places)
            for side, name in enumerate(("out", "in"))
            if direction in (name, "both")
        ]
        numbers = found[0] if len(found) == 1 else np.concatenate(found)
        # A relation between two of them was found at both ends.
        numbers = np.unique(numbers)
        if self.added.gone_relations:
            numbers = numbers[~np.isin(numbers, list(self.added.gone_relations))]
        if types is not None or moment:
            numbers = numbers[self.relations.fitting(numbers, types, moment)]
        if moment:
            numbers = numbers[self._there(numbers, moment)]
        numbers = numbers[:limit]
        ends = (self.nodes[end[numbers]].tolist() for end in self.ends)
        links: list[Link] = list(zip(*ends, numbers.tolist(), strict=True))
        if self.added.relations:
            self._add(links, set(frontier), direction, types, moment, limit)
        return links

    def _places(self, nodes: Sequence[int]) -> np.ndarray:
        asked = np.array(nodes, np.int64)
        if not len(self.nodes):
            return asked[:0]
        places = np.minimum(np.searchsorted(self.nodes, asked), len(self.nodes) - 1)
        there: np.ndarray = places[self.nodes[places] == asked]
        return there

    def _led(self, side: int, places: np.ndarray) -> np.ndarray:
        starts, order = self.starts[side], self.order[side]
        first = starts[places]
        counts = starts[places + 1] - first
        n = int(counts.sum())
        if not n:
            return order[:0]
        before = np.cumsum(counts) - counts
        led: np.ndarray = order[np.arange(n) + np.repeat(first - before, counts)]
        return led

    def _there(self, numbers: np.ndarray, moment: Moment) -> np.ndarray:
        """For each relation whether both ends existed at the moment."""
        fits = np.ones(len(numbers), bool)
        for end in self.ends:
            nodes = self.nodes[end[numbers]].tolist()
            fits &= np.fromiter((self._is_there(one, moment) for one in nodes), bool, len(nodes))
        return fits

    def _is_there(self, node: int, moment: Moment) -> bool:
        if (row := self.added.entities.get(node)) is not None:
            return moment.holds(row)
        number = self._entity(node)
        return number >= 0 and bool(self.entities.fitting(np.array([number]), None, moment)[0])

    def _add(
        self,
        links: list[Link],
        frontier: set[int],
        direction: str,
        types: frozenset[str] | None,
        moment: Moment,
        limit: int,
    ) -> None:
        for place, row in enumerate(self.added.relations.values()):
            if len(links) >= limit:
                return
            source, target = row["source_node"], row["target_node"]
            leads = (direction != "in" and source in frontier) or (
                direction != "out" and target in frontier
            )
            if not leads or (types is not None and row["type"] not in types):
                continue
            if moment and not (
                moment.holds(row)
                and self._is_there(source, moment)
                and self._is_there(target, moment)
            ):
                continue
            links.append((source, target, -1 - place))

    # Results

    def entities_of(self, nodes: Iterable[int], moment: Moment) -> dict[int, Entity]:
        """Returns the entities of these nodes that exist at the moment, in the order of the nodes."""
        asked = list(nodes)
        numbers = self._entity_numbers(asked)
        if moment:
            known = np.flatnonzero(numbers >= 0)
            gone = known[~self.entities.fitting(numbers[known], None, moment)]
            numbers[gone] = -1
        made = self._made_entities(numbers[numbers >= 0])
        if not self.added.entities and len(made) == len(asked):
            return dict(zip(asked, made, strict=True))
        found: dict[int, Entity] = {}
        rest = iter(made)
        for node, number in zip(asked, numbers.tolist(), strict=True):
            if (row := self.added.entities.get(node)) is not None:
                if moment.holds(row):
                    found[node] = entity_of(row)
            elif number >= 0:
                found[node] = next(rest)
        return found

    def relations_of(self, links: Sequence[Link], entities: Mapping[int, Entity]) -> list[Relation]:
        """Returns the relations, in this order, between these entities, by their nodes."""
        known = [one for one in links if one[2] >= 0]
        ends = [entities[one[0]].id for one in known], [entities[one[1]].id for one in known]
        made = self._made_relations(np.array([one[2] for one in known], np.int64), ends)
        if len(known) == len(links):
            return made
        rest, added = iter(made), list(self.added.relations.values())
        return [next(rest) if one >= 0 else relation_of(added[-1 - one]) for _, _, one in links]

    def _entity(self, node: int) -> int:
        """Returns the number of a node's entity if the arrays have it unchanged; else -1."""
        return int(self._entity_numbers([node])[0])

    def _entity_numbers(self, nodes: Sequence[int]) -> np.ndarray:
        asked = np.array(nodes, np.int64)
        if not len(self.nodes):
            return np.full(len(asked), -1, np.int64)
        places = np.minimum(np.searchsorted(self.nodes, asked), len(self.nodes) - 1)
        numbers = np.where(self.nodes[places] == asked, self.entity_at[places], -1).astype(np.int64)
        if self.added.gone_nodes:
            numbers[np.isin(numbers, list(self.added.gone_nodes))] = -1
        return numbers

    def _made_entities(self, numbers: np.ndarray) -> list[Entity]:
        things = self.entities
        assert things.names is not None
        columns = {**self._columns(things, numbers), "name": _texts(things.names, numbers)}
        made = made_of(Entity, len(numbers), columns)
        for place in np.flatnonzero(~things.is_plain[numbers]):
            row = self._row(things, int(numbers[place]), made[place])
            made[place] = entity_of({**row, "kind": ENTITY})
        return made

    def _made_relations(
        self, numbers: np.ndarray, ends: tuple[list[Any], list[Any]]
    ) -> list[Relation]:
        things = self.relations
        columns = {**self._columns(things, numbers), "source_id": ends[0], "target_id": ends[1]}
        made = made_of(Relation, len(numbers), columns)
        for place in np.flatnonzero(~things.is_plain[numbers]):
            row = self._row(things, int(numbers[place]), made[place])
            made[place] = relation_of({**row, "kind": RELATION})
        return made

    def _columns(self, things: "_Things", numbers: np.ndarray) -> dict[str, Iterable[Any]]:
        """Returns the common columns, by the names of their fields."""
        times: dict[int, datetime] = {}
        recorded = things.recorded[numbers].tolist()
        for one in set(recorded):
            times[one] = _EPOCH + timedelta(microseconds=one)
        scopes: list[int] = things.scopes[numbers].tolist()
        told = self.scopes
        return {
            "id": _texts(things.ids, numbers),
            "type": map(things.types.__getitem__, things.type_codes[numbers].tolist()),
            "recorded_at": map(times.__getitem__, recorded),
            **{
                part: repeat(told[0][part]) if len(told) == 1 else [told[n][part] for n in scopes]
                for part in SCOPE_PARTS
            },
        }

    def _row(self, things: "_Things", number: int, made: Entity | Relation) -> dict[str, Any]:
        """Returns the row of an entity or relation with further columns."""
        row = {name: getattr(made, name) for name in ("id", "recorded_at", *SCOPE_PARTS)}
        return {**row, "content": things.contents[number].as_py()}


def _texts(column: pa.Array, numbers: np.ndarray) -> list[Any]:
    # As `to_pylist`, which makes an object of Arrow's of each value.
    values: list[Any] = column.take(pa.array(numbers)).to_numpy(zero_copy_only=False).tolist()
    return values


def _concerns(entry: Entry) -> bool:
    # The kind of a removed row is unknown.
    return entry.how is How.REMOVE or entry.row["kind"] not in (rows.MENTION, rows.STATEMENT)


# Columns to arrays


def _one(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        joined = pa.concat_arrays(joined.chunks) if joined.num_chunks else pa.array([], column.type)
    return joined


def _filtered(found: pa.Table, mask: pa.ChunkedArray, name: str) -> pa.Array:
    return _one(found[name].filter(mask))


def _scopes_of(found: pa.Table) -> tuple[np.ndarray, list[Mapping[str, str | None]]]:
    """Returns the scope number of each row, and the scopes by number."""
    codes = np.zeros(found.num_rows, np.int64)
    for part in SCOPE_PARTS:
        coded = _one(found[part]).dictionary_encode(null_encoding="encode")
        codes = codes * (len(coded.dictionary) or 1) + coded.indices.to_numpy()
    _, first, numbers = np.unique(codes, return_index=True, return_inverse=True)
    told = found.select(SCOPE_PARTS).take(pa.array(first)).to_pylist()
    return _small(numbers, len(told)), told


def _ranked(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the distinct values, ascending, and for each value its place there: int32."""
    # As `np.unique`, which sorts all of them, or takes several times as long by its own hashes.
    coded = pa.array(values).dictionary_encode()
    distinct = coded.dictionary.to_numpy()
    order = np.argsort(distinct)
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    return distinct[order], ranks[coded.indices.to_numpy()]


def _small(numbers: np.ndarray, end: int) -> np.ndarray:
    """Returns the numbers, all in [0, end), in as few bytes as they need."""
    return numbers.astype(np.min_scalar_type(end))


def _key_numbers(keys: pa.Array) -> np.ndarray:
    """As `node_of`, of many keys."""
    if not len(keys):
        return np.zeros(0, np.int64)
    width = len(keys[0].as_py())
    bounds = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset :][: len(keys) + 1]
    data = np.frombuffer(keys.buffers()[2], np.uint8)[bounds[0] : bounds[-1]]
    # Sixteen digits are eight bytes; as one number they have a digit too many.
    values = _DIGITS[data.reshape(len(keys), width)[:, :16]]
    halves = (values[:, ::2] << 4 | values[:, 1::2]).view(">u8")[:, 0]
    return (halves >> np.uint64(64 - 4 * rows.NODE_DIGITS)).astype(np.int64)


def _times(column: pa.Array) -> np.ndarray | None:
    return None if column.null_count == len(column) else _all_times(column)


def _all_times(column: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), int(_NONE)), np.int64)


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
