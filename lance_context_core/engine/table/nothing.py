"""No rows, in the shape in which a read gives rows."""

from collections.abc import Sequence

import pyarrow as pa

from lance_context_core.engine.schema import VECTOR


class Nothings:
    """Empty tables of a schema; each is made once."""

    def __init__(self, schema: pa.Schema) -> None:
        """Of some of these columns."""
        self._schema = schema
        self._known: dict[frozenset[str], pa.Table] = {}

    def of(self, columns: Sequence[str], score: str | None = None) -> pa.Table:
        """No rows, with these columns, a `_rowid`, and the `score` of a search channel."""
        names = frozenset([*columns, *([score] if score else [])])
        if names not in self._known:
            fields = [field for field in self._schema if field.name in names]
            fields.append(pa.field("_rowid", pa.uint64()))
            fields += [pa.field(score, pa.float32())] if score else []
            self._known[names] = pa.schema(fields).empty_table()
        return self._known[names]

    def beside(self, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
        """As `of`, with the vectors that a table of that `schema` has, if they are among the columns."""
        nothing = self.of(columns)
        if VECTOR in columns and VECTOR in schema.names:
            field = schema.field(VECTOR)
            return nothing.append_column(field, pa.array([], field.type))
        return nothing
