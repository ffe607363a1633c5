"""Values that JSON cannot hold, as JSON, and back: what tools return, and what frameworks attach."""

import base64
import dataclasses
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

from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core._util.json_tags import TYPE, VALUE, is_stand_in, order_of, stand_in
from lance_context_core.errors import InvalidRequestError
from lance_context_core.types import ContextRecord

T = TypeVar("T")

_AS_THEY_ARE = frozenset((str, bool, type(None)))
"""The types of what JSON has just so, subclasses excluded."""


@frozen_by_name
class TypeCodec(Generic[T]):
    """How values of one type, and of its subclasses, are written and made again."""

    name: str
    """What the type is called in what is stored: it must not change, or stored values cannot be read again."""
    python_type: type[T]
    encode: Callable[[T], Any]
    """To JSON, or to what the `JsonCodec` makes JSON of in turn."""
    decode: Callable[[Any], T]
    """The way back: gets what `encode` gave."""


class JsonCodec:
    """Turns values into JSON and back, such that they come back equal and of the same type.

    Besides what JSON has: any integer and float, tuples, sets, mappings with keys of any type, bytes,
    times, decimals, UUIDs, paths, and what `types` adds. What JSON has stays as it is; anything else
    becomes a stand-in, an object with the name of its type. Of a subclass, the base comes back, of
    NumPy's numbers Python's own, and of a time zone its offset.

    Filters compare numbers, times and UUIDs that stand in metadata as Python would, and tuples and
    sets are lists to them: see `lance_context_core.filters.Comparison`.
    """

    def __init__(
        self,
        types: Sequence[TypeCodec[Any]] = (),
        *,
        default: Callable[[Any], Any] | None = None,
    ) -> None:
        """Without arguments, for the types of Python's own library that are named above.

        - `types`: more of them; they are asked first, in this order, but never about what is text, a
          number, a mapping or a list.
        - `default`: as that of `json.dumps`: called for whatever nothing else knows, it returns
          something else to encode, or raises TypeError. It does not come back as what it was.
        """
        self._types = (*types, *_TYPES)
        self._decoders = {**_DECODERS, **{one.name: one.decode for one in reversed(self._types)}}
        self._default = default

    def encode(self, value: Any, where: str) -> Any:
        """`value` as JSON that `decode` makes equal to it again.

        Raises InvalidRequestError, which calls it `where`, for what holds anything of another type, or
        itself.
        """
        try:
            return self._encode(value, where)
        except RecursionError:
            raise InvalidRequestError(
                f"{where} holds itself, or is nested too deep to be stored: flatten it"
            ) from None

    def encode_object(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """As `encode` for each of the values: metadata, whose keys remain what filters can name.

        Raises InvalidRequestError, as `encode` does, and for what is no mapping with texts as keys.
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
        """What `encode_object` made JSON of."""
        return {key: self.decode(value) for key, value in values.items()}

    def decode(self, value: Any) -> Any:
        """What `encode` made JSON of.

        A stand-in of a type that this codec has not, or of which no value can be made, stays as it
        is.
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
        if type(value) is dict:  # as most are that hold others
            return self._encode_mapping(value, where)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return int(value) if -(2**63) <= value < 2**63 else _ordered("int", int(value))
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else _ordered("float", float(value))
        if isinstance(value, list):  # before mappings, as to ask whether one is takes far longer
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
                # To say where each stands costs more than to encode it.
                str.__str__(key): one
                if type(one) in _AS_THEY_ARE
                else self._encode(one, f"{where}[{key!r}]")
                for key, one in value.items()
            }
        return stand_in("mapping", self._encode([list(pair) for pair in value.items()], where))

    def _other(self, value: Any, where: str) -> Any:
        """What stands for a value that has no codec."""
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
    """Those of a set, in the same order in every process."""
    return sorted(members, key=repr)


_TYPES: tuple[TypeCodec[Any], ...] = (
    TypeCodec(
        name="bytes",
        python_type=bytes,
        encode=lambda value: b64encode(value).decode(),
        decode=b64decode,
    ),
    # A datetime is a date, so that it comes first.
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
"""Of what JSON can hold some, and only the others are stood in for: see `JsonCodec._encode`."""


# What a framework is told of a record that was found.


def content_of(record: ContextRecord) -> str:
    """The record's text, or else what its images show, a line each; empty if there is neither."""
    return record.text or "\n".join(record.captions)


def facts_of(record: ContextRecord) -> dict[str, Any]:
    """What the store knows of a record beside its content and metadata, as JSON.

    Its kind, its role and name, whose and of which session and run it is, and when it was made; what
    is absent is left out.
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


# What calls return, in the types that JSON has.


def plain(value: Any) -> Any:
    """The value in what JSON knows, and a value that is none of the store's as it is.

    Dataclasses become objects of their fields, a namespace that is a key its segments with slashes
    between them, moments ISO 8601, bytes base64.
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


# Texts that UTF-8 cannot hold, as a framework's caller may hand them over.


def encodable(value: Any) -> Any:
    """`value` with each lone surrogate in its texts replaced by "?"; itself if there is none.

    A lone surrogate is half of an emoji that was cut in two, which UTF-8, and so the store, cannot
    hold. Dicts, lists, tuples and models with a `model_copy` are looked through, and copied where
    something is replaced; other values stay as they are. Anything nested deeper than 100 stays, too.
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
