"""The vectors of a table, of one length and model; the first creates their column."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lance_context_core.errors import (
    ConflictError,
    DimensionMismatchError,
    EmbeddingModelMismatchError,
)
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.schema import (
    VECTOR,
    vector_field,
    vector_length,
    vector_model,
)
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.lance.writes import add_column


class Vectors:
    """The vectors that a table accepts."""

    def __init__(self, access: TableHandle) -> None:
        """Those of the table of `access`."""
        self._access = access
        self.column: pa.Field | None = None
        """As last seen; a write notices a change."""
        self._is_asked_for_model = False

    async def require_room(self, *, dimension: int | None = None, model: str | None = None) -> None:
        """Raise as `ensure` if the table was built for other vectors; None for any.

        Checked once: another process may have changed it meanwhile, which a write notices.
        """
        if self._has_room(dimension, model):
            return
        schema = await self._access.schema()
        if VECTOR in schema.names:
            self.check(schema, dimension or vector_length(schema.field(VECTOR)), model)
            self.column = schema.field(VECTOR)

    async def model(self) -> str | None:
        """The model of the table's vectors; None if it has none, or callers' own.

        Read once, as in `require_room`.
        """
        if self.column is None and not self._is_asked_for_model:
            schema = await self._access.schema()
            self.column = schema.field(VECTOR) if VECTOR in schema.names else None
        self._is_asked_for_model = True
        return None if self.column is None else vector_model(self.column)

    async def ensure(self, dimension: int, model: str | None) -> None:
        """Make sure that the table accepts vectors of that length from that model.

        Raises DimensionMismatchError or EmbeddingModelMismatchError if it was built for others.
        """

        async def add(handle: Any) -> pa.Schema:
            if VECTOR in (schema := await handle.schema()).names:
                return schema
            is_many = self._access.spec.has_many_vectors
            schema = await add_column(handle, vector_field(dimension, model, is_many=is_many))
            if VECTOR not in schema.names:
                raise ConflictError(f"{self._access.label} has just been restored: try again")
            return schema

        if self._has_room(dimension, model):
            return
        handle = await self._access.writer()
        action = f"add a vector column to {self._access.label}"
        schema = await self._access.commits.commit(action, handle, add)
        self.check(schema, dimension, model)
        self.column = schema.field(VECTOR)

    async def empty(self, dimension: int, model: str) -> None:
        """Replace the vector column by an empty one for that model.

        Two commits; after a crash between them the table has none, as before the first vector.
        """

        async def drop(handle: Any) -> None:
            if VECTOR in (await handle.schema()).names:
                await handle.drop_columns([VECTOR])

        handle = await self._access.writer()
        self.column = None
        await self._access.commits.commit(
            f"empty the vectors of {self._access.label}", handle, drop
        )
        await self.ensure(dimension, model)

    def check(self, schema: pa.Schema, dimension: int, model: str | None) -> None:
        """Raise unless vectors of that length and model fit a table of this schema."""
        if VECTOR not in schema.names:
            return
        field = schema.field(VECTOR)
        built_with = vector_model(field)
        if model and built_with and model != built_with:
            raise EmbeddingModelMismatchError(
                f"embedder model={model!r}, but the vectors in {self._access.label} were made by "
                f"{built_with!r}: open the store with that embedder, or use another store"
            )
        if dimension != vector_length(field):
            raise DimensionMismatchError(
                f"embedding of length {dimension}, but the vectors in {self._access.label} have "
                f"{vector_length(field)} numbers: use the same embedder for all of them",
                stored=vector_length(field),
                given=dimension,
            )

    # Helpers

    def _has_room(self, dimension: int | None, model: str | None) -> bool:
        if self.column is None:
            return False
        built_with = vector_model(self.column)
        return dimension in (None, vector_length(self.column)) and (
            not (model and built_with) or model == built_with
        )


def vectors_of(rows: Sequence[Row]) -> list[Sequence[float]]:
    """The vectors of the rows; one each of those that have several."""
    vectors = [row[VECTOR] for row in rows if row.get(VECTOR) is not None]
    return [one[0] if np.ndim(one) == 2 else one for one in vectors if len(one)]
