"""Values that JSON cannot hold, as JSON, and back: what tools return, and what frameworks attach."""

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Generic, TypeVar
from uuid import UUID

from lance_context_core.errors import InvalidRequestError

T = TypeVar("T")

_TYPE = "lance_context:type"
"""The key that marks a stand-in; mappings that have it themselves are stood in for, too."""
_VALUE = "value"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeCodec(Generic[T]):
    """How values of one type, and of its subclasses, are written and made again."""

    name: str
    """What the type is called in what is stored: it must stay, or nobody reads that again."""
    python_type: type[T]
    encode: Callable[[T], Any]
    """To JSON, or to what the `JsonCodec` makes JSON of in turn."""
    decode: Callable[[Any], T]
    """The way back: gets what `encode` gave."""


class JsonCodec:
    """Turns values into JSON and back, such that they come back equal and of the same type.

    Besides what JSON has: any integer and float, tuples, sets, mappings with keys of any type, bytes,
    times, decimals, UUIDs, and what `types` adds. What JSON has stays as it is; anything else becomes
    a stand-in, an object with the name of its type. Of a subclass, the base comes back.
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

    def decode(self, value: Any) -> Any:
        """What `encode` made JSON of; a stand-in of a type that this codec has not stays as it is."""
        if isinstance(value, list):
            return [self.decode(one) for one in value]
        if not isinstance(value, dict):
            return value
        decoder = self._decoders.get(value[_TYPE]) if _is_stand_in(value) else None
        if decoder is None:
            return {key: self.decode(one) for key, one in value.items()}
        return decoder(self.decode(value[_VALUE]))

    def _encode(self, value: Any, where: str) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return int(value) if -(2**63) <= value < 2**63 else _stand_in("int", str(int(value)))
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else _stand_in("float", repr(float(value)))
        if isinstance(value, Mapping):
            return self._encode_mapping(value, where)
        if isinstance(value, list):
            return [self._encode(one, f"{where}[{index}]") for index, one in enumerate(value)]
        for one in self._types:
            if isinstance(value, one.python_type):
                return _stand_in(one.name, self._encode(one.encode(value), where))
        return self._encode(self._other(value, where), where)

    def _encode_mapping(self, value: Mapping[Any, Any], where: str) -> Any:
        if all(isinstance(key, str) for key in value) and _TYPE not in value:
            return {
                str.__str__(key): self._encode(one, f"{where}[{key!r}]")
                for key, one in value.items()
            }
        return _stand_in("mapping", self._encode([list(pair) for pair in value.items()], where))

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


def _stand_in(name: str, content: Any) -> dict[str, Any]:
    return {_TYPE: name, _VALUE: content}


def _is_stand_in(value: dict[str, Any]) -> bool:
    return value.keys() == {_TYPE, _VALUE} and isinstance(value[_TYPE], str)


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
    TypeCodec(name="tuple", python_type=tuple, encode=list, decode=tuple),
    TypeCodec(name="set", python_type=set, encode=_in_order, decode=set),
    TypeCodec(name="frozenset", python_type=frozenset, encode=_in_order, decode=frozenset),
)

_DECODERS: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "mapping": dict}
"""Of what JSON can hold some, and only the others are stood in for: see `JsonCodec._encode`."""
