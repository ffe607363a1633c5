"""Parses filters written as SQL conditions into the same tree as all others.

The text never reaches the engine: only conditions that the tree supports are accepted.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from lance_context_core._util.checks import shown
from lance_context_core.errors import FilterError
from lance_context_core.filters.tree import MAX_DEPTH, And, Field, Filter, Or

Truth: TypeAlias = Callable[[bool], Filter]
"""The filter that matches where a condition is true, and the one where it is false.

Neither matches where SQL's result is unknown: where the field is absent.
"""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+"|`[^`]+`)
      | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<word>[^\W\d][\w$]*)
      | (?P<sign><=|>=|<>|!=|==|[=<>(),.])
    )""",
    re.VERBOSE,
)
_COMPARISONS = {"=": "eq", "==": "eq", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
_CONSTANTS = {"TRUE": True, "FALSE": False}


def parse_sql(text: str, *, place: Callable[[str], Field], literal: Callable[..., Field]) -> Filter:
    """Parses a condition such as `minutes < 30 AND (color IN ('red', 'blue') OR cook IS NULL)`.

    Supports `=`, `<>`, `<`, `<=`, `>`, `>=`, `IN`, `BETWEEN`, `IS NULL`, `LIKE '%part%'` (`ILIKE`
    for any case), `AND`, `OR`, `NOT` and parentheses; texts, numbers, `TRUE`, `FALSE` and
    `TIMESTAMP '…'`. As in SQL, only `IS NULL` matches absent values. `place` resolves a plain name,
    `literal` one with quoted keys. Raises FilterError for everything else.
    """
    parser = _Parser(text, _tokens(text), place, literal)
    condition = parser.either(0)
    if parser.position != len(parser.tokens):
        raise parser.surprised("the end, AND or OR")
    return condition(True)


@dataclass(slots=True)
class _Parser:
    """A recursive descent parser; each method is one rule of the grammar."""

    text: str
    tokens: list[tuple[str, str]]
    place: Callable[[str], Field]
    literal: Callable[..., Field]
    position: int = 0

    def either(self, depth: int) -> Truth:
        """Parses conditions joined by OR."""
        if depth > MAX_DEPTH:
            raise FilterError(f"the filter is nested more than {MAX_DEPTH} deep: flatten it")
        found = [self.both(depth)]
        while self.skip("OR"):
            found.append(self.both(depth))
        return found[0] if len(found) == 1 else _joined(found, is_or=True)

    def both(self, depth: int) -> Truth:
        """Parses conditions joined by AND."""
        found = [self.negated(depth)]
        while self.skip("AND"):
            found.append(self.negated(depth))
        return found[0] if len(found) == 1 else _joined(found, is_or=False)

    def negated(self, depth: int) -> Truth:
        """Parses a condition, optionally with NOT before it, or in parentheses."""
        if self.skip("NOT"):
            if depth >= MAX_DEPTH:
                raise FilterError(f"the filter is nested more than {MAX_DEPTH} deep: flatten it")
            return _not(self.negated(depth + 1))
        if self.skip("("):
            inside = self.either(depth + 1)
            self.expect(")")
            return inside
        return self.condition()

    def condition(self) -> Truth:
        """Parses a condition on one field."""
        field = self.field()
        kind, sign = self.tokens[self.position] if self.position < len(self.tokens) else ("", "")
        if kind == "sign" and sign in _COMPARISONS:
            self.position += 1
            return _leaf(field, getattr(field, _COMPARISONS[sign])(self.value()))
        if kind == "sign" and sign in {"<>", "!="}:
            self.position += 1
            return _not(_leaf(field, field.eq(self.value())))
        if self.skip("IS"):
            is_there = self.skip("NOT")
            self.expect("NULL")
            return lambda truth: field.exists() if truth is is_there else field.eq(None)
        is_negated = self.skip("NOT")
        said = self.said_by_word(field)
        return _not(said) if is_negated else said

    def said_by_word(self, field: Field) -> Truth:
        """Parses a condition whose operator is a word."""
        if self.skip("IN"):
            self.expect("(")
            values = [self.value()]
            while self.skip(","):
                values.append(self.value())
            self.expect(")")
            return _leaf(field, field.is_in(values))
        if self.skip("BETWEEN"):
            low = self.value()
            self.expect("AND")
            least, most = field.gte(low), field.lte(self.value())
            return _joined([_leaf(field, least), _leaf(field, most)], is_or=False)
        if self.skip("LIKE"):
            return _leaf(field, self.like(field, field.contains))
        if self.skip("ILIKE"):
            return _leaf(field, self.like(field, field.text))
        raise self.surprised("an operator such as =, IN, BETWEEN, LIKE or IS NULL")

    def like(self, field: Field, contains: Callable[[str], Filter]) -> Filter:
        """Parses a pattern with % at both ends and no other wildcards."""
        pattern = self.value()
        inside = pattern[1:-1] if isinstance(pattern, str) else ""
        is_plain = not re.search(r"[%_\\]", inside)
        if inside and is_plain and pattern[0] == pattern[-1] == "%":
            return contains(inside)
        raise FilterError(
            f"LIKE on {str(field)!r} takes '%part%' without other wildcards, not {shown(pattern)}"
        )

    def field(self) -> Field:
        """Parses a name, with dots between its keys; quoted keys are literal."""
        names, is_plain = [], True
        while True:
            kind, text = self.take("a name", kinds=("word", "quoted"))
            is_plain = is_plain and kind == "word"
            names.append(text if kind == "word" else _unquoted(text))
            if not self.skip("."):
                break
        return self.place(".".join(names)) if is_plain else self.literal(*names)

    def value(self) -> Any:
        """Parses a literal."""
        kind, text = self.take(
            "a text in '…', a number, TRUE or FALSE", kinds=("text", "number", "word")
        )
        if kind == "text":
            return _unquoted(text)
        if kind == "number":
            return float(text) if re.search(r"[.eE]", text) else int(text)
        if text.upper() in _CONSTANTS:
            return _CONSTANTS[text.upper()]
        if text.upper() == "TIMESTAMP":
            _, moment = self.take("a time in '…'", kinds=("text",))
            try:
                return datetime.fromisoformat(_unquoted(moment))
            except ValueError as error:
                raise FilterError(
                    f"TIMESTAMP {moment} is not an ISO 8601 time: use '2026-05-08T12:00:00+00:00'"
                ) from error
        self.position -= 1
        raise self.surprised("a text in '…', a number, TRUE or FALSE")

    def take(self, wanted: str, *, kinds: tuple[str, ...]) -> tuple[str, str]:
        """Consumes the next token, which must be of one of those kinds; returns it."""
        if self.position == len(self.tokens) or self.tokens[self.position][0] not in kinds:
            raise self.surprised(wanted)
        self.position += 1
        return self.tokens[self.position - 1]

    def skip(self, text: str) -> bool:
        """Consumes the next token if it is that word or sign; returns whether it was."""
        if self.position == len(self.tokens):
            return False
        kind, token = self.tokens[self.position]
        is_it = kind in {"word", "sign"} and token.upper() == text
        self.position += is_it
        return is_it

    def expect(self, text: str) -> None:
        """As `skip`, for a required token."""
        if not self.skip(text):
            raise self.surprised(text)

    def surprised(self, wanted: str) -> FilterError:
        """Returns the error for an unexpected token."""
        rest = self.tokens[self.position :]
        found = rest[0][1] if rest else "the end"
        return FilterError(f"filter {shown(self.text)}: {wanted} was expected, not {shown(found)}")


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, end = [], len(text.rstrip())
    position = 0
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise FilterError(
                f"filter {shown(text)}: cannot be read from {shown(text[position:])} on"
            )
        tokens.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return tokens


def _unquoted(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0])


def _leaf(field: Field, true: Filter) -> Truth:
    return lambda truth: true if truth else And((field.exists(), ~true))


def _not(one: Truth) -> Truth:
    return lambda truth: one(not truth)


def _joined(some: list[Truth], *, is_or: bool) -> Truth:
    def joined(truth: bool) -> Filter:  # noqa: FBT001 - whether it shall be true is all it takes
        filters = tuple(one(truth) for one in some)
        # De Morgan gives the members of a negation.
        return Or(filters) if is_or is truth else And(filters)

    return joined
