"""Encodes values that JSON lacks, and decodes them: results of tools, metadata."""

import base64
import dataclasses
import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Generic, TypeVar
from uuid import UUID

import numpy as np

from lance_context_core._util.checks import dumps, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core._util.json_tags import TYPE, VALUE, is_stand_in, order_of, stand_in
from lance_context_core.errors import InvalidRequestError
from lance_context_core.types import ContextRecord

T = TypeVar("T")

_AS_THEY_ARE = frozenset((str, bool, type(None)))
"""The types that JSON has, subclasses excluded."""

_TYPE_KEY = f'"{TYPE}"'
"""The key of stand-ins in a JSON text."""


@frozen_by_name
class TypeCodec(Generic[T]):
    """Encodes and decodes values of one type and its subclasses."""

    name: str
    """The stored name of the type: it must not change, or stored values cannot be decoded."""
    python_type: type[T]
    encode: Callable[[T], Any]
    """Converts to JSON, or to values that the `JsonCodec` encodes in turn."""
    decode: Callable[[Any], T]
    """Converts the result of `encode` back."""


class JsonCodec:
    """Encodes values as JSON and decodes them, equal and of the same type.

    Besides JSON's types: any integer and float, tuples, sets, mappings with keys of any type,
    bytes, times, decimals, UUIDs, paths, and the types of `types`. Values of JSON's types stay
    unchanged; any other becomes a stand-in, an object with the name of its type. Subclasses decode
    as their base, NumPy's numbers as Python's, and time zones as their offset.

    Filters compare encoded numbers, times and UUIDs in metadata as Python does, and treat tuples
    and sets as lists: see `lance_context_core.filters.Comparison`.
    """

    def __init__(
        self,
        types: Sequence[TypeCodec[Any]] = (),
        *,
        default: Callable[[Any], Any] | None = None,
    ) -> None:
        """Supports the types of Python's library that are named above, and those of the arguments.

        - `types`: more types; they are tried first, in this order, but never for texts,
          numbers, mappings or lists.
        - `default`: as that of `json.dumps`: called for unknown values, it returns
          another value to encode, or raises TypeError. The original value is not restored.
        """
        self._types = (*types, *_TYPES)
        self._decoders = {**_DECODERS, **{one.name: one.decode for one in reversed(self._types)}}
        self._default = default

    def encode(self, value: Any, where: str) -> Any:
        """Encodes `value` as JSON that `decode` makes equal to it again.

        Raises InvalidRequestError, which names it `where`, for a value that contains another type,
        or itself.
        """
        try:
            return self._encode(value, where)
        except RecursionError:
            raise InvalidRequestError(
                f"{where} holds itself, or is nested too deep to be stored: flatten it"
            ) from None

    def encode_text(self, value: Any, where: str) -> str:
        """Encodes `value` as JSON text, whose parsed value `decode` makes equal to it again.

        Most values are JSON as they are, and their text is written in C. Raises as `encode` does.
        """
        try:
            text = dumps(value)
            # Tuples and keys that are no texts come back as something else.
            if _TYPE_KEY not in text and json.loads(text) == value:
                return text
        except (TypeError, ValueError, RecursionError):
            pass
        return dumps(self.encode(value, where))

    def encode_object(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """As `encode` for each of the values: for metadata, whose keys stay usable in filters.

        Raises InvalidRequestError, as `encode` does, and for anything but a mapping with text keys.
        """
        if type(values) is not dict and not isinstance(values, Mapping):
            raise InvalidRequestError(f"{where} must be a mapping, not {shown(values)}")
        encoded = {}
        for key, value in values.items():
            if not isinstance(key, str):
                raise InvalidRequestError(f"{where} has the key {shown(key)}: keys must be texts")
            encoded[str.__str__(key)] = (
                value if type(value) in _AS_THEY_ARE else self.encode(value, f"{where}[{key!r}]")
            )
        return encoded

    def decode_object(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Decodes the result of `encode_object`."""
        return {key: self.decode(value) for key, value in values.items()}

    def decode(self, value: Any) -> Any:
        """Decodes the result of `encode`.

        A stand-in of a type unknown to this codec, or without a valid value, stays as it is.
        """
        if isinstance(value, list):
            return [self.decode(one) for one in value]
        if not isinstance(value, dict):
            return value
        plain = {key: self.decode(one) for key, one in value.items()}
        decoder = self._decoders.get(value[TYPE]) if is_stand_in(value) else None
        if decoder is None:
            return plain
        try:
            return decoder(plain[VALUE])
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return plain

    def _encode(self, value: Any, where: str) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if type(value) is dict:  # as most containers are
            return self._encode_mapping(value, where)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return int(value) if -(2**63) <= value < 2**63 else _ordered("int", int(value))
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else _ordered("float", float(value))
        if isinstance(value, list):  # before mappings, whose check is far slower
            return [self._encode(one, f"{where}[{index}]") for index, one in enumerate(value)]
        if isinstance(value, Mapping):
            return self._encode_mapping(value, where)
        for one in self._types:
            if isinstance(value, one.python_type):
                content = self._encode(one.encode(value), where)
                return stand_in(one.name, content, order=order_of(value))
        if isinstance(value, np.bool_ | np.integer | np.floating) and value.itemsize <= 8:
            return self._encode(value.item(), where)
        return self._encode(self._other(value, where), where)

    def _encode_mapping(self, value: Mapping[Any, Any], where: str) -> Any:
        if all(isinstance(key, str) for key in value) and TYPE not in value:
            return {
                # Tracking the position of each costs more than encoding it.
                str.__str__(key): one
                if type(one) in _AS_THEY_ARE
                else self._encode(one, f"{where}[{key!r}]")
                for key, one in value.items()
            }
        return stand_in("mapping", self._encode([list(pair) for pair in value.items()], where))

    def _other(self, value: Any, where: str) -> Any:
        """Returns the stand-in of a value without a codec."""
        try:
            if self._default is not None:
                return self._default(value)
        except TypeError:
            pass
        raise InvalidRequestError(
            f"{where} is a {type(value).__qualname__}, which cannot be stored: make it JSON first"
        )


def _ordered(name: str, number: float) -> dict[str, Any]:
    return stand_in(name, repr(number), order=order_of(number))


def _in_order(members: Iterable[Any]) -> list[Any]:
    """Returns a set's members in the same order in every process."""
    return sorted(members, key=repr)


_TYPES: tuple[TypeCodec[Any], ...] = (
    TypeCodec(
        name="bytes",
        python_type=bytes,
        encode=lambda value: b64encode(value).decode(),
        decode=b64decode,
    ),
    # A datetime is a date, so it comes first.
    TypeCodec(
        name="datetime",
        python_type=datetime,
        encode=datetime.isoformat,
        decode=datetime.fromisoformat,
    ),
    TypeCodec(name="date", python_type=date, encode=date.isoformat, decode=date.fromisoformat),
    TypeCodec(name="time", python_type=time, encode=time.isoformat, decode=time.fromisoformat),
    TypeCodec(
        name="timedelta",
        python_type=timedelta,
        encode=lambda value: [value.days, value.seconds, value.microseconds],
        decode=lambda parts: timedelta(*parts),
    ),
    TypeCodec(name="decimal", python_type=Decimal, encode=str, decode=Decimal),
    TypeCodec(name="uuid", python_type=UUID, encode=str, decode=UUID),
    TypeCodec(name="path", python_type=Path, encode=str, decode=Path),
    TypeCodec(name="pure path", python_type=PurePath, encode=str, decode=PurePath),
    TypeCodec(name="tuple", python_type=tuple, encode=list, decode=tuple),
    TypeCodec(name="set", python_type=set, encode=_in_order, decode=set),
    TypeCodec(name="frozenset", python_type=frozenset, encode=_in_order, decode=frozenset),
)

_DECODERS: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "mapping": dict}
"""Types of which JSON holds some values; only the others become stand-ins: see `JsonCodec._encode`."""


# The fields of a found record for a framework.


def content_of(record: ContextRecord) -> str:
    """Returns the record's text, else its images' captions, a line each; empty without both."""
    return record.text or "\n".join(record.captions)


def facts_of(record: ContextRecord) -> dict[str, Any]:
    """Returns a record's fields besides its content and metadata, as JSON.

    These are its kind, role and name, its owner, session and run, and its creation time; absent
    ones are left out.
    """
    known = {
        "kind": record.kind,
        "role": record.role,
        "name": record.name,
        "tenant": record.tenant,
        "user_id": record.user_id,
        "agent_id": record.agent_id,
        "session_id": record.session_id,
        "run_id": record.run_id,
        "created_at": record.created_at.isoformat(),
    }
    return {name: value for name, value in known.items() if value is not None}


# Results of calls, in the types of JSON.


def plain(value: Any) -> Any:
    """Converts a value of the store to JSON types; returns other values unchanged.

    Dataclasses become objects of their fields, namespaces that are keys become their segments
    joined by slashes, times ISO 8601, bytes base64.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, date):  # A datetime is one, too.
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return value.value if isinstance(value, Enum) else value


def _key(name: object) -> str:
    return "/".join(map(str, name)) if isinstance(name, tuple) else str(name)


# Texts that UTF-8 cannot hold, as a framework's caller may pass them.


def encodable(value: Any) -> Any:
    """Replaces each lone surrogate in `value` by "?"; returns `value` itself without one.

    A lone surrogate is half of an emoji that was cut in two, which UTF-8, and so the store, cannot
    hold. Searches dicts, lists, tuples and models with a `model_copy`, and copies those with a
    replacement; other values stay unchanged, and so does anything nested deeper than 100.
    """
    return _encodable(value, 100)


def _encodable(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _text(value)
    if depth == 0:
        return value
    if isinstance(value, Mapping):
        pairs = [(_encodable(k, depth - 1), _encodable(v, depth - 1)) for k, v in value.items()]
        is_same = all(
            k is was and v is value[was] for (k, v), was in zip(pairs, value, strict=True)
        )
        return value if is_same else dict(pairs)
    if isinstance(value, list | tuple):
        items = [_encodable(one, depth - 1) for one in value]
        is_same = all(one is was for one, was in zip(items, value, strict=True))
        return value if is_same else items if isinstance(value, list) else tuple(items)
    if hasattr(value, "model_copy") and not isinstance(value, type):
        found = {name: (one, _encodable(one, depth - 1)) for name, one in value}
        changed = {name: new for name, (one, new) in found.items() if new is not one}
        return value.model_copy(update=changed) if changed else value
    return value


def _text(text: str) -> str:
    if text.isascii():
        return text
    replaced = text.encode(errors="replace").decode()
    return text if replaced == text else replaced
