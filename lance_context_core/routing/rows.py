"""Rows of a table, as a search engine indexes them."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from lance_context_core.engines import FIELDS, EngineRow
from lance_context_core.memory_index.bm25 import words_of
from lance_context_core.routing.positions import Schema
from lance_context_core.storage.lance.schema import KEY, SEARCH_TEXT, VECTOR

COLUMNS = (KEY, "revision", SEARCH_TEXT, VECTOR, *FIELDS)
"""The columns that are read of a row; a table may lack some."""

_LONGEST_WORD = 255
"""In bytes; engines limit the length of words."""


class Made(NamedTuple):
    """The rows for an engine."""

    rows: list[EngineRow]
    lacks: set[str]
    """The channels in which the engine cannot find some of them."""


def made(rows: Sequence[Mapping[str, Any]], schema: Schema, *, max_words_bytes: int) -> Made:
    """Convert rows of a table. A text that is too long has no words then."""
    done, lacks = [], set[str]()
    for row in rows:
        words = split(schema, row.get(SEARCH_TEXT) or "")
        if len(" ".join(words).encode()) > max_words_bytes:
            words = []
            lacks.add("text")
        has_vector = schema.dimension is not None and row.get(VECTOR) is not None
        vector = np.asarray(row[VECTOR], np.float32) if has_vector else None
        if vector is not None and not vector.any():
            # It has no direction: LanceDB finds it after all others, an engine does not.
            vector = None
            lacks.add("vector")
        done.append(
            EngineRow(
                key=row[KEY],
                revision=row["revision"],
                words=words,
                vector=None if vector is None else vector.tolist(),
                fields={name: row.get(name) for name in FIELDS},
            )
        )
    return Made(done, lacks)


def split(schema: Schema, text: str) -> list[str]:
    """The words of a text or of a query; none if only LanceDB can split it."""
    settings = schema.settings
    words = None if settings is None else words_of(settings)
    return [] if words is None else [_short(word) for word in words(text)]


def _short(word: str) -> str:
    """The word, or the hash of one that is too long."""
    if len(word) <= _LONGEST_WORD // 4 or len(written := word.encode()) <= _LONGEST_WORD:
        return word
    return blake2b(written, digest_size=16).hexdigest()
