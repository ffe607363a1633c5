"""Evaluates expressions of Cypher: null where a value is unknown, as in openCypher."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from lance_context_core._util.checks import dumps, shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.types.graph import Entity, Relation

Row = Mapping[Any, Any]
"""The values of names, and of aggregates."""

ANY_ENTITY, ANY_RELATION = "Entity", "Relation"
"""The common name of all of them in a query."""

AGGREGATES = frozenset(("count", "sum", "avg", "min", "max", "collect"))

_OWN = {
    Entity: ("id", "name", "type", "valid_from", "valid_to", "recorded_at"),
    Relation: ("id", "type", "weight", "valid_from", "valid_to", "recorded_at"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """An aggregate of the rows of a group."""

    name: str
    about: "Expression | None"
    """None is `count(*)`."""
    is_distinct: bool

    def of(self, rows: Sequence[Row]) -> Any:
        """Returns the aggregate's value."""
        if self.about is None:
            return len(rows)
        values = [value for row in rows if (value := self.about.of(row)) is not None]
        if self.is_distinct:
            values = list({identity(value): value for value in values}.values())
        match self.name:
            case "count":
                return len(values)
            case "collect":
                return values
            case "min" | "max":
                chosen = min if self.name == "min" else max
                return chosen(values, key=order_of, default=None)
        for value in values:
            if not _is_number(value):
                raise InvalidRequestError(
                    f"query has {self.name}() of {shown(value)}: give numbers"
                )
        if self.name == "sum":
            return sum(values)
        return sum(values) / len(values) if values else None


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A value that depends on the bound names."""

    of: Callable[[Row], Any]
    names: frozenset[str] = frozenset()
    """The names that it reads outside of aggregates."""
    aggregates: tuple[Aggregate, ...] = ()
    fixes: Mapping[str, Any] = field(default_factory=dict)
    """By name, the id that its value must have for this to hold."""
    id_of: str | None = None
    """The name whose id this is."""


class _Function(NamedTuple):
    counts: tuple[int, int]
    of: Callable[..., Any]


def constant(value: Any) -> Expression:
    """An expression with a constant value."""
    return Expression(lambda _: value)


def looked_up(name: str, key: str | None = None) -> Expression:
    """The value of a name, or a property of it."""
    if key is None:
        return Expression(lambda row: row[name], frozenset((name,)))
    is_id = name if key == "id" else None
    return Expression(lambda row: property_of(row[name], key), frozenset((name,)), id_of=is_id)


def with_label(name: str, labels: Sequence[str]) -> Expression:
    """Whether a node has one of the labels, or a relationship one of the types."""

    def of(row: Row) -> bool | None:
        one = row[name]
        return None if one is None else is_labelled(one, labels)

    return Expression(of, frozenset((name,)))


def aggregated(one: Aggregate) -> Expression:
    """The value of an aggregate."""
    return Expression(lambda row: row[one], aggregates=(one,))


def listed_of(some: Sequence[Expression]) -> Expression:
    """A list of values."""
    return _made(some, lambda *values: list(values))


def called(name: str, given: Sequence[Expression]) -> Expression:
    """A function of values."""
    return _made(given, FUNCTIONS[name].of)


def operated(sign: str, *given: Expression) -> Expression:
    """An operator between values."""
    made = _made(given, _OPERATORS[sign])
    if sign == "AND":
        fixed = {**given[0].fixes, **given[1].fixes}
        return Expression(made.of, made.names, made.aggregates, fixed)
    return made


def chained(operands: Sequence[Expression], signs: Sequence[str]) -> Expression:
    """Chained comparisons: all must hold."""
    if not signs:
        return operands[0]
    made = operated(signs[0], operands[0], operands[1])
    if signs == ["="]:
        fixed = _fixed(*operands) or _fixed(*reversed(operands))
        made = Expression(made.of, made.names, made.aggregates, fixed)
    for place, sign in enumerate(signs[1:], 1):
        made = operated("AND", made, operated(sign, operands[place], operands[place + 1]))
    return made


def _fixed(one: Expression, other: Expression) -> Mapping[str, Any]:
    if one.id_of is None or other.names or other.aggregates:
        return {}
    return {one.id_of: other.of({})}


def _made(given: Sequence[Expression], of: Callable[..., Any]) -> Expression:
    return Expression(
        lambda row: of(*(one.of(row) for one in given)),
        frozenset().union(*(one.names for one in given)),
        tuple(each for one in given for each in one.aggregates),
    )


# Values


def property_of(one: Any, key: str) -> Any:
    """Returns a property of an entity or a relation; null if absent."""
    if one is None:
        return None
    if not isinstance(one, Entity | Relation):
        raise InvalidRequestError(
            f"query has .{key} of {shown(one)}, which is not a node or relationship"
        )
    if key in _OWN[type(one)]:
        return getattr(one, key)
    if key == "properties":
        return dumps(dict(one.properties)) if one.properties else None
    return one.properties.get(key)


def is_labelled(one: Any, labels: Sequence[str]) -> bool:
    """Whether it has one of these types, by the common name or its own."""
    everything = ANY_ENTITY if isinstance(one, Entity) else ANY_RELATION
    return any(label in (one.type, everything) for label in labels)


def identity(value: Any) -> Any:
    """Returns the key by which DISTINCT and grouping compare values."""
    if isinstance(value, list | tuple):
        return "list", tuple(map(identity, value))
    if isinstance(value, Entity | Relation):
        return type(value), value.tenant, value.user_id, value.agent_id, value.id
    if isinstance(value, Mapping):
        return "map", tuple(sorted((key, identity(one)) for key, one in value.items()))
    if isinstance(value, float) and math.isnan(value):
        return ("nan",)
    # True is 1 to Python.
    return (isinstance(value, bool), value)


def order_of(value: Any) -> Any:
    """Returns the sort key of values of any types: null is last."""
    if isinstance(value, Mapping):
        return (0, dumps(dict(value)))
    if isinstance(value, Entity):
        return (1, value.id)
    if isinstance(value, Relation):
        return (2, value.id)
    if isinstance(value, list):
        return (3, [order_of(one) for one in value])
    if isinstance(value, datetime):
        return (4, value)
    if isinstance(value, str):
        return (5, value)
    if isinstance(value, bool):
        return (6, value)
    if value is not None:
        return (7, math.isnan(value), value)
    return (8,)


def is_equal(one: Any, other: Any) -> bool | None:
    """Whether two values are equal; null if unknown."""
    if one is None or other is None:
        return None
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return False
        answers = [is_equal(*pair) for pair in zip(one, other, strict=True)]
        return False if False in answers else None if None in answers else True
    _check_times(one, other)
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, Entity | Relation):
        return type(one) is type(other) and identity(one) == identity(other)
    return bool(one == other)


def _compared(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool | None]:
    def of(one: Any, other: Any) -> bool | None:
        _check_times(one, other)
        for kinds in (str, bool, datetime):
            if isinstance(one, kinds) and isinstance(other, kinds):
                return bool(holds(one, other))
        if _is_number(one) and _is_number(other):
            return bool(holds(one, other))
        if isinstance(one, list) and isinstance(other, list):
            raise InvalidRequestError(
                f"query orders {shown(one)} and {shown(other)}, which is not supported: docs/graph.md lists the functions: "
                "compare lists with = or IN"
            )
        return None

    return of


def _check_times(one: Any, other: Any) -> None:
    """Raises for a time compared with a text or a number: never true, and so a mistake."""
    kinds = [isinstance(value, datetime) for value in (one, other)]
    if kinds[0] is not kinds[1] and None not in (one, other):
        raise InvalidRequestError(
            f"query compares {shown(one)} and {shown(other)}: compare a time with another property, "
            "or pass at= and known_at="
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _truth(value: Any, sign: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise InvalidRequestError(f"query has {sign} of {shown(value)}: give true, false or null")
    return value


def _and(one: Any, other: Any) -> bool | None:
    both = _truth(one, "AND"), _truth(other, "AND")
    return False if False in both else None if None in both else True


def _or(one: Any, other: Any) -> bool | None:
    both = _truth(one, "OR"), _truth(other, "OR")
    return True if True in both else None if None in both else False


def _xor(one: Any, other: Any) -> bool | None:
    both = _truth(one, "XOR"), _truth(other, "XOR")
    return None if None in both else both[0] is not both[1]


def _not(one: Any) -> bool | None:
    return None if _truth(one, "NOT") is None else not one


def _in(one: Any, many: Any) -> bool | None:
    if many is None:
        return None
    if not isinstance(many, list):
        raise InvalidRequestError(f"query has IN {shown(many)}: give a list")
    return _any([is_equal(one, each) for each in many])


def _any(answers: list[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False


def _of_texts(holds: Callable[[str, str], bool]) -> Callable[[Any, Any], bool | None]:
    def of(one: Any, other: Any) -> bool | None:
        return holds(one, other) if isinstance(one, str) and isinstance(other, str) else None

    return of


def _of_numbers(sign: str, work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def of(one: Any, other: Any) -> Any:
        if one is None or other is None:
            return None
        if sign == "+" and isinstance(one, str) and isinstance(other, str):
            return one + other
        if sign == "+" and isinstance(one, list) and isinstance(other, list):
            return one + other
        if not _is_number(one) or not _is_number(other):
            raise InvalidRequestError(
                f"query has {shown(one)} {sign} {shown(other)}, which is not supported: docs/graph.md lists the functions: give numbers"
            )
        try:
            return work(one, other)
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            raise InvalidRequestError(
                f"query has {shown(one)} {sign} {shown(other)}: {error}"
            ) from error

    return of


def _divided(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int):
        whole = abs(one) // abs(other)
        return whole if (one < 0) is (other < 0) else -whole
    return one / other


def _rest(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int):
        return one - other * _divided(one, other)
    return math.fmod(one, other)


def _negated(one: Any) -> Any:
    if one is not None and not _is_number(one):
        raise InvalidRequestError(f"query has -{shown(one)}: give a number")
    return None if one is None else -one


def _unlike(one: Any, other: Any) -> bool | None:
    return _not(is_equal(one, other))


_OPERATORS: Mapping[str, Callable[..., Any]] = {
    "AND": _and,
    "OR": _or,
    "XOR": _xor,
    "NOT": _not,
    "=": is_equal,
    "<>": _unlike,
    "<": _compared(operator.lt),
    "<=": _compared(operator.le),
    ">": _compared(operator.gt),
    ">=": _compared(operator.ge),
    "IN": _in,
    "CONTAINS": _of_texts(operator.contains),
    "STARTS WITH": _of_texts(str.startswith),
    "ENDS WITH": _of_texts(str.endswith),
    "IS NULL": lambda one: one is None,
    "IS NOT NULL": lambda one: one is not None,
    "+": _of_numbers("+", operator.add),
    "-": _of_numbers("-", operator.sub),
    "*": _of_numbers("*", operator.mul),
    "/": _of_numbers("/", _divided),
    "%": _of_numbers("%", _rest),
    "negated": _negated,
}


def _for(kinds: Any, name: str, work: Callable[[Any], Any]) -> _Function:
    """Returns a function of one value of these kinds; null for null."""

    def of(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise InvalidRequestError(
                f"query has {name}() of {shown(value)}, which is not supported: docs/graph.md lists the functions"
            )
        return work(value)

    return _Function((1, 1), of)


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


FUNCTIONS: Mapping[str, _Function] = {
    "id": _for(Entity | Relation, "id", operator.attrgetter("id")),
    "labels": _for(Entity, "labels", lambda one: [one.type]),
    "type": _for(Relation, "type", operator.attrgetter("type")),
    "size": _for(str | list, "size", len),
    "tolower": _for(str, "toLower", str.lower),
    "toupper": _for(str, "toUpper", str.upper),
    "trim": _for(str, "trim", str.strip),
    "abs": _for(int | float, "abs", abs),
    "coalesce": _Function((1, 100), _first),
}
"""The functions by lower-case name, with their numbers of arguments."""
