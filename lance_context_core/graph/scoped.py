"""The part of a graph that one handle sees: its conditions and reads."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from lance_context_core._util import cooperative as steps
from lance_context_core._util.checks import check_name, check_time, loads, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs import graph as rows
from lance_context_core.codecs.graph import COLUMNS, ENTITY, MERGED
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.storage import sql
from lance_context_core.storage.database import GRAPH_TABLE
from lance_context_core.storage.lance.schema import GRAPH
from lance_context_core.storage.table import Table
from lance_context_core.stores.scoped import Scoped
from lance_context_core.types.graph import Entity, Mention, Relation

AT_ONCE = 5_000
"""The most nodes in one query: the text of the condition grows with them."""

_MOST_MERGERS = 100
"""The most mergers in a chain."""

Row = dict[str, Any]


@frozen
class Moment:
    """The selected state of a graph: when its rows hold, and when they were known."""

    at: datetime | None = None
    known_at: datetime | None = None

    @classmethod
    def of(cls, at: object, known_at: object) -> "Moment":
        """Converts the arguments of a call."""
        return cls(
            None if at is None else check_time(at, "at"),
            None if known_at is None else check_time(known_at, "known_at"),
        )

    @property
    def conditions(self) -> list[sql.Clause]:
        """The conditions on a row."""
        found = []
        if self.at is not None:
            begun = [sql.is_absent("valid_from"), sql.at_or_before("valid_from", self.at)]
            found += [sql.any_of(begun), sql.absent_or_after("valid_to", self.at)]
        if self.known_at is not None:
            found.append(sql.at_or_before("recorded_at", self.known_at))
        return found

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row meets them."""
        since, until, known = (row.get(one) for one in ("valid_from", "valid_to", "recorded_at"))
        if self.at is not None and not (
            (since is None or since <= self.at) and (until is None or until > self.at)
        ):
            return False
        return self.known_at is None or (known is not None and known <= self.known_at)

    def __bool__(self) -> bool:
        """Whether it excludes anything."""
        return self.at is not None or self.known_at is not None


@frozen
class ScopedGraph(Scoped):
    """The graph of one scope: reads and writes nothing outside."""

    @property
    def table(self) -> Table:
        """The table of the graph."""
        return self.resources.database.table(GRAPH_TABLE, GRAPH)

    # Reading

    async def read(
        self, *conditions: sql.Clause, columns: Sequence[str] = COLUMNS, limit: int | None = None
    ) -> list[Row]:
        """Returns the rows of the scope that meet the conditions, in write order."""
        where = self.where(*conditions)
        found = await self.table.slice(where, columns=columns, limit=limit)
        return await steps.each(dict, found.to_pylist(), n_as_one=10)

    async def among(
        self,
        column: str,
        values: Collection[int] | Collection[str],
        *conditions: sql.Clause,
        columns: Sequence[str] = COLUMNS,
        limit: int | None = None,
    ) -> list[Row]:
        """As `read`, for rows with one of the values, of which there may be many."""
        found: list[Row] = []
        for some in chunked(values):
            left = None if limit is None else limit - len(found)
            if left is not None and left <= 0:
                break
            named = sql.in_list(column, some)
            found += await self.read(named, *conditions, columns=columns, limit=left)
        return found

    async def entities(
        self, nodes: Collection[int], moment: Moment | None = None
    ) -> dict[int, Entity]:
        """Returns the entities of these nodes that exist; without merged ones."""
        conditions = moment.conditions if moment else []
        found = await self.among("node", nodes, *conditions, columns=[*COLUMNS, "node"])
        return {row["node"]: entity_of(row) for row in found}

    async def nodes(self, limit: int) -> list[int]:
        """Returns the nodes of the first entities."""
        found = await self.read(sql.equals("kind", ENTITY), columns=["node"], limit=limit)
        return [row["node"] for row in found]

    async def starts(self, entity_id: str, where: str) -> list[int]:
        """Returns the nodes of an entity, several if other scopes have one of the same id.

        A merged entity resolves to its target. Raises NotFoundError for none.
        """
        wanted = [check_name(entity_id, where)]
        nodes: dict[int, None] = {}
        for _ in range(_MOST_MERGERS):
            found = await self.read(
                sql.in_list("id", wanted),
                sql.in_list("kind", [ENTITY, MERGED]),
                columns=["kind", "node", "content"],
            )
            merged = []
            for row in found:
                if row["kind"] == ENTITY:
                    nodes[row["node"]] = None
                else:
                    merged.append(loads(row["content"], "content")["merged"]["into"])
            if not merged:
                break
            wanted = merged
        if not nodes:
            raise NotFoundError(f"{where}={shown(entity_id)}: no such entity: add it first")
        return list(nodes)


def entity_of(row: Mapping[str, Any]) -> Entity:
    """Returns the entity of a row."""
    made = rows.from_row(row)
    assert isinstance(made, Entity)
    return made


def relation_of(row: Mapping[str, Any]) -> Relation:
    """Returns the relation of a row."""
    made = rows.from_row(row)
    assert isinstance(made, Relation)
    return made


def mention_of(row: Mapping[str, Any]) -> Mention:
    """Returns the mention of a row."""
    made = rows.from_row(row)
    assert isinstance(made, Mention)
    return made


def names_of(types: object, where: str = "types") -> frozenset[str] | None:
    """Returns the named types, one or several; None for all."""
    if types is None:
        return None
    if isinstance(types, str):
        return frozenset((check_name(types, where),))
    if not isinstance(types, Iterable):
        raise InvalidRequestError(f"{where}={shown(types)}: give a type, or several")
    return frozenset(check_name(one, where) for one in types)


def of_types(types: object, where: str = "types") -> list[sql.Clause]:
    """Matches rows of one of these types; no condition for None."""
    named = names_of(types, where)
    return [] if named is None else [sql.in_list("type", sorted(named))]


def chunked(values: Iterable[Any], at_once: int = AT_ONCE) -> Iterator[list[Any]]:
    """Yields the values, as many at once as one query accepts."""
    given = list(values)
    for start in range(0, len(given), at_once):
        yield given[start : start + at_once]
