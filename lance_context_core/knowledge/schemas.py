"""What a profile has: the fields of a dataclass, or of a JSON schema, and how their values are read."""

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, Literal

from lance_context_core._util.checks import check_json_object, check_name, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError
from lance_context_core.models import problem_of

ProfileSchema = type | Mapping[str, Any]
"""A dataclass, a Pydantic model, or a JSON schema with `properties`."""

_YES = ("true", "yes", "y", "1")
_NO = ("false", "no", "n", "0")
_TYPES: Mapping[Any, Mapping[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    date: {"type": "string", "format": "date"},
    datetime: {"type": "string", "format": "date-time"},
}


@frozen
class Wanted:
    """A field that a profile shall have."""

    name: str
    slot: str
    """What its facts are called: the name, in words."""
    schema: Mapping[str, Any]

    def read(self, text: str) -> Any:
        """The value that a text says. Raises ValueError for one of another type."""
        value = _read(text, self.schema)
        if (problem := problem_of(value, self.schema, "it")) is not None:
            raise ValueError(problem)
        return value


def wanted(schema: ProfileSchema) -> list[Wanted]:
    """The fields of a schema, in its order. Raises InvalidRequestError for what is none."""
    if isinstance(schema, type) and dataclasses.is_dataclass(schema):
        hints = typing.get_type_hints(schema)
        return [
            Wanted(one.name, _slot(one.metadata.get("slot"), one.name), _schema_of(hints[one.name]))
            for one in dataclasses.fields(schema)
            if one.init
        ]
    if callable(of_model := getattr(schema, "model_json_schema", None)):
        schema = of_model()
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        raise InvalidRequestError(
            f"schema is {shown(schema)}: pass a dataclass, or a JSON schema with properties"
        )
    root = check_json_object(schema, "schema")
    return [
        Wanted(check_name(name, "schema"), _slot(_property(one, name), name), _resolved(one, root))
        for name, one in root["properties"].items()
    ]


def slot_name(name: str) -> str:
    """A name as facts have it: small, in words."""
    return " ".join(re.findall(r"[^\W_]+", name.casefold()))


def instance(schema: ProfileSchema, values: Mapping[str, Any]) -> Any:
    """The dataclass or the model of these values; None if one that it needs is missing."""
    if not isinstance(schema, type):
        return None
    if dataclasses.is_dataclass(schema):
        needed = {
            one.name
            for one in dataclasses.fields(schema)
            if one.init
            and one.default is dataclasses.MISSING
            and one.default_factory is dataclasses.MISSING
        }
        return schema(**values) if needed <= values.keys() else None
    try:
        return schema(**values)
    except ValueError:
        return None


def _slot(given: object, name: str) -> str:
    return slot_name(given if isinstance(given, str) else name)


def _property(one: object, name: str) -> object:
    if not isinstance(one, Mapping):
        raise InvalidRequestError(f"schema has the property {name!r}, {shown(one)}: pass a schema")
    return one.get("slot")


def _resolved(one: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    return {**one, "$defs": root.get("$defs", {})}


def _schema_of(hint: Any) -> Mapping[str, Any]:
    """The JSON schema of a type; anything, for one that says nothing to us."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in _TYPES:
        return _TYPES[hint]
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (typing.Union, types.UnionType):
        some = [one for one in inner if one is not types.NoneType]
        return _schema_of(some[0]) if len(some) == 1 else {"anyOf": [_schema_of(o) for o in some]}
    if origin in (list, tuple, set, frozenset) or hint in (list, tuple):
        return {"type": "array", "items": _schema_of(inner[0]) if inner else {}}
    return {}


def _read(text: str, schema: Mapping[str, Any]) -> Any:
    for one in (*schema.get("anyOf", ()), schema):
        kinds = one.get("type", ())
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            if kind in _READERS and (value := _READERS[kind](text, one)) is not None:
                return value
    for one in schema.get("enum", ()):
        if str(one).casefold() == text.strip().casefold():
            return one
    return text


def _number(text: str, kind: type) -> Any:
    try:
        return kind(text.replace(",", "").strip())
    except ValueError:
        return None


def _boolean(text: str) -> bool | None:
    said = text.strip().casefold()
    return True if said in _YES else False if said in _NO else None


def _array(text: str, schema: Mapping[str, Any]) -> list[Any]:
    parts = [one.strip() for one in re.split(r",|;|\band\b", text) if one.strip()]
    return [_read(one, schema.get("items") or {}) for one in parts]


def _string(text: str, schema: Mapping[str, Any]) -> Any:
    kind = {"date": date, "date-time": datetime}.get(schema.get("format", ""))
    if kind is None:
        return text
    kind.fromisoformat(text.strip())
    return text.strip()


_READERS: Mapping[str, Callable[[str, Mapping[str, Any]], Any]] = {
    "integer": lambda text, _: _number(text, int),
    "number": lambda text, _: _number(text, float),
    "boolean": lambda text, _: _boolean(text),
    "array": _array,
    "string": _string,
}
