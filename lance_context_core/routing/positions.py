"""The position of an engine in the changes of a table, and what its index was made for."""

import json
from collections.abc import Collection
from dataclasses import asdict
from typing import Any, NamedTuple, Self

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.storage.changes import Changes, Position
from lance_context_core.storage.lance import indexes
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.lance.indexes import TextIndex
from lance_context_core.storage.lance.schema import VECTOR, vector_length, vector_model
from lance_context_core.storage.table import Table
from lance_context_core.storage.wal import identity

_FORMAT = 1
"""Incremented when indexes must be filled again."""


class Identity(NamedTuple):
    """The identity of a store: either part is enough to know it again."""

    uri: str
    id: str | None
    """That of its log, which a moved directory keeps; None if it has none yet."""

    @classmethod
    def of(cls, connection: Connection) -> Self:
        """The identity of the store at the connection. Reads a file."""
        root = connection.root
        return cls(connection.uri, None if root is None else identity.id_of(root))

    def is_of(self, other: "Identity") -> bool:
        """Whether both are of the same store."""
        return self.uri == other.uri or (self.id is not None and self.id == other.id)


@frozen_by_name
class Schema:
    """What the rows of an index were made for: another one needs an empty index."""

    text_index: tuple[str, str, bool] | None
    """The tokenizer, the language, and whether words are stemmed; None if only LanceDB can split
    the texts, or if the engine does not search by words."""
    dimension: int | None
    """None without a vector column, or if the engine does not search by vector."""
    model: str | None
    format: int = _FORMAT

    @classmethod
    async def of(cls, table: Table, channels: Collection[str]) -> Self | None:
        """The schema of an index for these channels; None if the table does not exist."""
        if (handle := await table.access.peek()) is None:
            return None
        schema = await handle.schema()
        settings = await indexes.text_settings(handle) if "text" in channels else None
        has_vectors = "vector" in channels and VECTOR in schema.names
        vectors = schema.field(VECTOR) if has_vectors else None
        return cls(
            text_index=None
            if settings is None
            else (settings.tokenizer, settings.language, settings.stem),
            dimension=None if vectors is None else vector_length(vectors),
            model=None if vectors is None else vector_model(vectors),
        )

    @property
    def settings(self) -> TextIndex | None:
        """The tokenization of the texts."""
        if self.text_index is None:
            return None
        tokenizer, language, stem = self.text_index
        return TextIndex(tokenizer=tokenizer, language=language, stem=stem)


@frozen_by_name
class EnginePosition:
    """The position in the changes of a table, as an engine has it: a text, with its schema."""

    store: Identity
    state: Position
    version: int
    """The version of the table at that position, with which the log's entries go."""
    schema: Schema
    lacks: tuple[str, ...] = ()
    """The channels in which some rows cannot be found by the engine."""

    def is_at(self, now: Changes) -> bool:
        """Whether the table has not changed since."""
        return now.entries is not None and not now.entries and not self.is_ahead_of(now)

    def is_ahead_of(self, now: Changes) -> bool:
        """Whether the engine has seen what the table does not have: it was restored from a copy."""
        is_same = self.state.table == now.state.table
        return is_same and self.state.token > now.state.token

    def text(self) -> str:
        """The position as an engine stores it."""
        return json.dumps(asdict(self) | {"store": [*self.store], "state": [*self.state]})

    @classmethod
    def read(cls, text: str) -> Self | None:
        """The position in a text of `text`; None if it is empty, or another release's."""
        try:
            told: dict[str, Any] = json.loads(text)
            schema = told["schema"]
            if schema["text_index"] is not None:
                schema["text_index"] = tuple(schema["text_index"])
            return cls(
                store=Identity(*told["store"]),
                state=Position(*told["state"]),
                version=told["version"],
                schema=Schema(**schema),
                lacks=tuple(told["lacks"]),
            )
        except (ValueError, KeyError, TypeError):
            return None
