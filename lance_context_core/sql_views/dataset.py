"""A view as a dataset of Arrow's: it is read as it is asked for, with its conditions where they can be."""

import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lance_context_core._loop import begin
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.errors import ContextStoreError
from lance_context_core.storage import sql

# What of a condition of Arrow's the engine can be asked itself, so that its indexes answer it.

_LINE = re.compile(r"(\w+): '(\w*)'")

_SIGNS = {
    "equal": sql.equals,
    "greater": sql.after,
    "greater_equal": sql.at_or_after,
    "less": sql.before,
    "less_equal": sql.at_or_before,
}


@frozen
class Pushed:
    """What becomes of a condition."""

    where: sql.Clause
    """What every row that meets it meets, too; empty if nothing is known."""
    columns: frozenset[str] | None
    """The columns that it is about; None if that is not known, which may be all."""


@dataclass(slots=True)
class _Node:
    """A part of a condition: a call, a column, or a value."""

    call: str | None = None
    column: str | None = None
    value: Any = None
    arguments: "list[_Node]" = field(default_factory=list)
    options: Mapping[str, Any] = field(default_factory=dict)


def pushed(condition: pc.Expression, names: Mapping[str, str]) -> Pushed:
    """What the engine is asked instead of the condition, which is to be asked of its answer again.

    `names` are the columns that the engine may be asked about, and what they are called there.
    """
    try:
        tree = _tree(condition)
    except _UnknownFormError:
        return Pushed(sql.all_of([]), None)
    return Pushed(sql.all_of(_implied(tree, names)), frozenset(_columns(tree)))


class _UnknownFormError(Exception):
    """Arrow has written the condition in a way that is not known here."""


def _tree(condition: pc.Expression) -> _Node:
    """The condition, taken apart: Arrow writes one out as a list of steps, with the values in a row."""
    try:
        batch = pa.ipc.open_file(condition.__reduce__()[1][0]).get_batch(0)
        told = batch.schema.to_string(show_schema_metadata=True, truncate_metadata=False)
        steps = told.split("-- schema metadata --\n", 1)[1].splitlines()
        root = _Node()
        open_ = [root]
        for step in steps:
            if (found := _LINE.fullmatch(step)) is None:
                raise _UnknownFormError
            _take(found[1], found[2], open_, batch)
    except (AttributeError, IndexError, TypeError, ValueError, pa.ArrowException) as error:
        raise _UnknownFormError from error
    if len(open_) != 1 or len(root.arguments) != 1:
        raise _UnknownFormError
    return root.arguments[0]


def _take(step: str, what: str, open_: list[_Node], batch: pa.RecordBatch) -> None:
    """Go one step further; `open_` are the calls whose end has not come, the innermost last."""
    match step:
        case "call":
            open_[-1].arguments.append(node := _Node(call=what))
            open_.append(node)
        case "end" if len(open_) > 1 and open_[-1].call == what:
            open_.pop()
        case "field_ref":
            open_[-1].arguments.append(_Node(column=what))
        case "literal":
            open_[-1].arguments.append(_Node(value=batch.column(int(what))[0].as_py()))
        case "options":
            open_[-1].options = batch.column(int(what))[0].as_py()
        case _:  # A field of a field, or what came later.
            raise _UnknownFormError


def _columns(node: _Node) -> set[str]:
    mine = set() if node.column is None else {node.column}
    return mine.union(*map(_columns, node.arguments))


def _implied(node: _Node, names: Mapping[str, str]) -> list[sql.Clause]:
    """Of what all must hold, those that the engine understands."""
    if node.call in ("and", "and_kleene"):
        return [clause for one in node.arguments for clause in _implied(one, names)]
    clause = _same(node, names)
    return [] if clause is None else [clause]


def _same(node: _Node, names: Mapping[str, str]) -> sql.Clause | None:
    """What holds of a row if and only if the condition does; None if that cannot be said."""
    match node.call, node.arguments:
        case ("and" | "and_kleene" | "or" | "or_kleene") as which, parts:
            clauses = [_same(one, names) for one in parts]
            said = [one for one in clauses if one is not None]
            if len(said) < len(clauses):
                return None
            return sql.all_of(said) if which.startswith("and") else sql.any_of(said)
        case "is_valid", [_Node(column=str() as name)] if name in names:
            return sql.is_present(names[name])
        case "is_null", [_Node(column=str() as name)] if name in names:
            return sql.is_absent(names[name])
        case "if_else", [
            _Node(call="is_valid"),
            _Node(call="is_in") as among,
            _Node() as other,
        ] if other == _Node():
            return _same(among, names)
        case "is_in", [_Node(column=str() as name)] if name in names:
            values = node.options["value_set"]
            if all(isinstance(one, str) for one in values):
                return sql.in_list(names[name], values)
        case ((str() as sign), [_Node(column=str() as name), _Node(value=value)]):
            if sign in _SIGNS and name in names and (bound := _bound(value)) is not None:
                return _SIGNS[sign](names[name], bound)
    return None


def _bound(value: Any) -> str | int | datetime | None:
    """The value, if the engine compares it as the columns of ours are compared."""
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.utcoffset() is not None else None
    if isinstance(value, str):
        return value if "\x00" not in value else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


Batches = AsyncGenerator[pa.RecordBatch]
Read = Callable[[sql.Clause, Sequence[str]], Batches]
"""The rows that match, with these columns, in this order."""


@frozen_by_name
class View:
    """What can be asked for."""

    schema: pa.Schema
    read: Read
    askable: Mapping[str, str]
    """The columns that the engine can be asked about, and what they are called there."""
    close: Callable[[], None] = lambda: None
    """Lets go of what it is read from."""


class ViewDataset(ds.Dataset):  # type: ignore[misc] # Arrow has no types
    """A view, as whoever scans datasets takes it; only to be scanned, in any thread but the store's."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.failures: list[ContextStoreError] = []
        """The errors of the store that ended a scan: whoever scans makes errors of its own of them."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the view."""
        return self._view.schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> ds.Scanner:
        """What reads these columns of the rows that meet the condition."""
        names = self.schema.names
        wanted = [one for one in names if columns is None or one in columns]
        where, asked = sql.all_of([]), wanted
        if filter is not None:
            meant = pushed(filter, self._view.askable)
            where = meant.where
            also = meant.columns
            asked = [one for one in names if also is None or one in also or one in wanted]
        schema = pa.schema([self.schema.field(one) for one in asked])
        found = _pulled(self._view.read(where, asked), self.failures)
        rows = pa.RecordBatchReader.from_batches(schema, found)
        return ds.Scanner.from_batches(rows, columns=columns or wanted, filter=filter)


def _pulled(batches: Batches, failures: list[ContextStoreError]) -> Iterator[pa.RecordBatch]:
    """The batches, each of which is read while the one before is worked on."""

    async def following() -> pa.RecordBatch | None:
        return await anext(batches, None)

    async def done() -> None:
        await batches.aclose()

    waiting = begin(following())
    try:
        while (batch := waiting.result()) is not None:
            waiting = begin(following())
            yield batch
    except ContextStoreError as error:
        failures.append(error)
        raise
    finally:
        if not waiting.cancel():  # Else that ends the reading, too.
            begin(done())
