"""What of an answer does not fit a JSON schema: as much of the standard as models are asked with."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lance_context_core._util.checks import shown

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda one: isinstance(one, Mapping),
    "array": lambda one: isinstance(one, list | tuple),
    "string": lambda one: isinstance(one, str),
    "integer": lambda one: _is_number(one) and float(one).is_integer(),
    "number": lambda one: isinstance(one, int | float) and not isinstance(one, bool),
    "boolean": lambda one: isinstance(one, bool),
    "null": lambda one: one is None,
}

_BOUNDS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (lambda one, bound: _is_number(one) and one < bound, "is below"),
    "maximum": (lambda one, bound: _is_number(one) and one > bound, "is above"),
    "minLength": (lambda one, bound: isinstance(one, str) and len(one) < bound, "is shorter than"),
    "maxLength": (lambda one, bound: isinstance(one, str) and len(one) > bound, "is longer than"),
    "minItems": (lambda one, bound: isinstance(one, list) and len(one) < bound, "has less than"),
    "maxItems": (lambda one, bound: isinstance(one, list) and len(one) > bound, "has more than"),
}


def problem_of(value: Any, schema: Mapping[str, Any], where: str = "answer") -> str | None:
    """What does not fit, the first of it, in words; None if all does.

    Understands `type`, `enum`, `const`, `properties`, `required`, `additionalProperties: false`,
    `items`, `anyOf`, the bounds of numbers, texts and lists, and `$ref` into `$defs`; what else a
    schema says is passed over.
    """
    return _problem(value, schema, where, schema)


def _problem(value: Any, schema: Any, where: str, root: Mapping[str, Any]) -> str | None:
    if not isinstance(schema, Mapping):
        return None
    if "$ref" in schema:
        return _problem(value, _referred(schema["$ref"], root), where, root)
    if "anyOf" in schema:
        problems = [_problem(value, one, where, root) for one in schema["anyOf"]]
        if problems and None not in problems:
            return problems[0]
    for check in (_of_type, _of_choice, _of_bounds):
        if (problem := check(value, schema, where)) is not None:
            return problem
    return _inside(value, schema, where, root)


def _of_type(value: Any, schema: Mapping[str, Any], where: str) -> str | None:
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else wanted or []
    if not names or any(_TYPES.get(name, lambda _: True)(value) for name in names):
        return None
    return f"{where} is {shown(value)}, not {' or '.join(names)}"


def _of_choice(value: Any, schema: Mapping[str, Any], where: str) -> str | None:
    allowed = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else []
    if not allowed or value in allowed:
        return None
    return f"{where} is {shown(value)}, not one of {', '.join(map(str, allowed))}"


def _of_bounds(value: Any, schema: Mapping[str, Any], where: str) -> str | None:
    for name, (is_beyond, words) in _BOUNDS.items():
        if name in schema and is_beyond(value, schema[name]):
            return f"{where} {words} {schema[name]}"
    return None


def _inside(
    value: Any, schema: Mapping[str, Any], where: str, root: Mapping[str, Any]
) -> str | None:
    if isinstance(value, Mapping):
        return _of_object(value, schema, where, root)
    if isinstance(value, Sequence) and not isinstance(value, str) and "items" in schema:
        for index, one in enumerate(value):
            if problem := _problem(one, schema["items"], f"{where}[{index}]", root):
                return problem
    return None


def _of_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], where: str, root: Mapping[str, Any]
) -> str | None:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where} lacks {name!r}"
    for name, one in value.items():
        if name in properties:
            if problem := _problem(one, properties[name], f"{where}.{name}", root):
                return problem
        elif schema.get("additionalProperties") is False:
            return f"{where} has the unknown key {shown(name)}"
    return None


def _referred(path: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for name in path.removeprefix("#/").split("/"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _is_number(one: Any) -> bool:
    return _TYPES["number"](one)
