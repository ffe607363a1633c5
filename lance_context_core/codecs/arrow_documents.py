"""Documents in columns of Arrow to rows of a collection, without a Python object a row."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._util.checks import shown
from lance_context_core.codecs import arrow_json
from lance_context_core.codecs.arrow_json import plain
from lance_context_core.codecs.records import key_prefix
from lance_context_core.errors import DimensionMismatchError, InvalidRequestError
from lance_context_core.scope import Scope
from lance_context_core.storage.lance.schema import KEY, SEARCH_TEXT, TIMESTAMP, VECTOR
from lance_context_core.storage.names import new_revisions


class Named(NamedTuple):
    """The columns of the caller's table that make a document."""

    id: str | None
    text: str | None
    vector: str | None
    metadata: Sequence[str]

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        *,
        id: str | None,
        text: str | None,
        vector: str | None,
        metadata: Sequence[str] | None,
    ) -> "Named":
        """The named ones, or those with the usual names; all others are metadata.

        Raises InvalidRequestError, which names the argument, for a column that is missing, that
        stands twice, or has another type.
        """
        names = schema.names
        for name in names:
            if names.count(name) > 1:
                raise InvalidRequestError(
                    f"the data has the column {shown(name)} twice: rename one"
                )
        found: dict[str, str | None] = {}
        for argument, given in (("id", id), ("text", text), ("vector", vector)):
            if given is None:
                found[argument] = argument if argument in names else None
            else:
                found[argument] = _present(given, names, argument)
        used = [one for one in found.values() if one is not None]
        if metadata is None:
            rest = [one for one in names if one not in used]
        else:
            rest = [
                _present(one, names, f"metadata[{index}]") for index, one in enumerate(metadata)
            ]
            for one in rest:
                if rest.count(one) > 1:
                    raise InvalidRequestError(f"metadata names {shown(one)} twice: name it once")
        if found["text"] is None and found["vector"] is None:
            raise InvalidRequestError(
                f"the data has neither a text nor a vector: its columns are {', '.join(names)}; "
                "name one with text= or vector="
            )
        named = cls(found["id"], found["text"], found["vector"], rest)
        named._check_types(schema)
        return named

    def _check_types(self, schema: pa.Schema) -> None:
        for argument, name in (("id", self.id), ("text", self.text)):
            if name is not None and not _is_text(type_ := schema.field(name).type):
                raise InvalidRequestError(
                    f"{argument}={name!r} is a column of {type_}: give one of texts"
                )
        if self.vector is not None:
            type_ = schema.field(self.vector).type
            if not _is_vector(type_) and not pa.types.is_null(type_):
                raise InvalidRequestError(
                    f"vector={self.vector!r} is a column of {type_}: give one of lists of floats"
                )


def _present(name: object, names: Sequence[str], argument: str) -> str:
    if not isinstance(name, str) or name not in names:
        raise InvalidRequestError(
            f"{argument}={shown(name)} is not a column of the data, which has {', '.join(names)}"
        )
    return name


def _is_text(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
    )


def _is_vector(type_: pa.DataType) -> bool:
    is_list = (
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
    )
    return bool(
        is_list
        and (pa.types.is_floating(type_.value_type) or pa.types.is_integer(type_.value_type))
    )


class Columns(NamedTuple):
    """The documents of one batch, checked."""

    ids: pa.Array
    texts: pa.Array
    vectors: pa.Array | None
    """Fixed-size lists of float32, null where a row has none; None if no row has one."""
    metadata: pa.Array
    """A JSON object for each row."""

    @property
    def dimension(self) -> int | None:
        """The length of the vectors."""
        return None if self.vectors is None else int(self.vectors.type.list_size)


def columns_of(batch: pa.RecordBatch, named: Named, first: int) -> Columns:
    """The documents of a batch whose first row is number `first` of the data.

    Raises InvalidRequestError, which names the argument, and DimensionMismatchError.
    """
    n = batch.num_rows
    ids = new_ids(n) if named.id is None else _ids(plain(batch[named.id]), named.id, first)
    texts = (
        pa.nulls(n, pa.string())
        if named.text is None
        else _valid(plain(batch[named.text]), f"text={named.text!r}")
    )
    vectors = None
    if named.vector is not None:
        vectors = _vectors(plain(batch[named.vector]), f"vector={named.vector!r}", first)
    has_none = texts.is_null()
    if vectors is not None:
        has_none = pc.and_(has_none, vectors.is_null())
    if (row := pc.index(has_none, True).as_py()) >= 0:
        raise InvalidRequestError(
            f"row {first + row} has neither a text nor a vector: give one of them"
        )
    metadata = {name: plain(batch[name]) for name in named.metadata}
    for name, column in metadata.items():
        _valid(column, f"metadata column {name!r}")
    return Columns(ids, texts, vectors, arrow_json.objects(metadata, n))


def to_rows(
    columns: Columns,
    *,
    search_texts: pa.Array,
    scope: Scope,
    now: datetime,
    author: str | None,
    more: Mapping[str, pa.Array],
) -> pa.RecordBatch:
    """The rows of new documents, as `to_row` makes one, with the JSON as text, and `more` columns."""
    n = len(columns.ids)
    moment = pa.repeat(pa.scalar(now, TIMESTAMP), n)
    made: dict[str, Any] = {
        KEY: keys_of(scope, columns.ids),
        "id": columns.ids,
        **{part: pa.repeat(pa.scalar(one), n) for part, one in scope.parts().items()},
        "created_at": moment,
        "updated_at": moment,
        "revision": pa.array(new_revisions(n)),
        "text": columns.texts,
        SEARCH_TEXT: search_texts,
        "metadata": columns.metadata,
    }
    if author is not None:
        made["author"] = pa.repeat(pa.scalar(author), n)
    if columns.vectors is not None:
        made[VECTOR] = columns.vectors
    return pa.RecordBatch.from_pydict({**made, **more})


def keys_of(scope: Scope, ids: pa.Array) -> pa.Array:
    """`key_of(scope, "document", id)` of each id."""
    offsets, data = _parts(ids)
    hashed, prefix = hashlib.blake2b, key_prefix(scope, "document")
    ends = offsets.tolist()
    digests = [
        hashed(b"%b%d:%b" % (prefix, end - start, data[start:end]), digest_size=16).digest()
        for start, end in pairwise(ends)
    ]
    return _hexadecimal(b"".join(digests))


def new_ids(n: int) -> pa.Array:
    """As `new_id`, `n` times."""
    numbers = np.frombuffer(bytearray(os.urandom(16 * n)), np.uint8).reshape(n, 16)
    numbers[:, 6] = numbers[:, 6] & 0x0F | 0x40
    numbers[:, 8] = numbers[:, 8] & 0x3F | 0x80
    return _hexadecimal(numbers.tobytes())


def _hexadecimal(digests: bytes) -> pa.Array:
    """16 bytes each as a text of 32 digits."""
    offsets = np.arange(0, 2 * len(digests) + 1, 32, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(digests.hex().encode())]
    return pa.Array.from_buffers(pa.string(), len(digests) // 16, buffers)


def _parts(texts: pa.Array) -> tuple[np.ndarray, bytes]:
    """The offsets of texts, and the bytes that they count."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1]
    return bounds, b"" if data is None else data.to_pybytes()


def _valid(column: pa.Array, what: str) -> pa.Array:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidRequestError(f"{what} cannot be read: {error}") from error
    return column


def _ids(ids: pa.Array, name: str, first: int) -> pa.Array:
    _valid(ids, f"id={name!r}")
    for is_bad, problem in (
        (ids.is_null(), "has no id: give each document one, or leave the column out"),
        (pc.equal(ids, ""), "has an empty id: give it at least one character"),
        (pc.match_substring(ids, "\0"), "has an id with a NUL character: remove it"),
    ):
        if (row := pc.index(is_bad, True).as_py()) >= 0:
            raise InvalidRequestError(f"id={name!r}: row {first + row} {problem}")
    return ids


def _vectors(column: pa.Array, what: str, first: int) -> pa.Array | None:
    if column.null_count == len(column):
        return None
    lengths = pc.list_value_length(column)
    span = pc.min_max(lengths).as_py()
    if span["min"] != span["max"]:
        row = first + pc.index(pc.not_equal(lengths, span["max"]), True).as_py()
        raise DimensionMismatchError(
            f"{what}: vectors of lengths {span['min']} and {span['max']}, row {row} has one of "
            "them: one table holds one length"
        )
    if span["max"] == 0:
        raise InvalidRequestError(f"{what}: the vectors have no numbers")
    numbers = column.flatten()
    if numbers.null_count:
        raise InvalidRequestError(f"{what}: a vector has a null among its numbers")
    with np.errstate(over="ignore"):
        flat = numbers.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    if not np.isfinite(flat).all():
        row = int(np.flatnonzero(~np.isfinite(flat))[0]) // span["max"]
        raise InvalidRequestError(
            f"{what}: vector {row} of those from row {first} on holds a number that is NaN or "
            "infinite"
        )
    if not column.null_count:
        return pa.FixedSizeListArray.from_arrays(pa.array(flat), span["max"])
    return spread(flat.reshape(-1, span["max"]), column.is_valid().to_numpy(zero_copy_only=False))


def spread(vectors: np.ndarray, places: np.ndarray) -> pa.Array:
    """The vectors at the places that are true, null at the others."""
    whole = np.zeros((len(places), vectors.shape[1]), np.float32)
    whole[places] = vectors
    return pa.FixedSizeListArray.from_arrays(
        pa.array(whole.ravel()), vectors.shape[1], mask=pa.array(~places)
    )
