"""Parses read-only Cypher into clauses; unsupported clauses are refused by name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from lance_context_core._util.checks import shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph.cypher_values import (
    AGGREGATES,
    FUNCTIONS,
    Aggregate,
    Expression,
    aggregated,
    called,
    chained,
    constant,
    listed_of,
    looked_up,
    operated,
    with_label,
)

MAX_STEPS = 20
"""The longest path of a pattern of variable length."""

_MOST_TOKENS = 1_000
"""The deepest nesting of values: the most operators in a row."""

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<quoted>`(?:[^`]|``)+`)
  | (?P<number>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+(?!\w))
  | (?P<name>[^\W\d]\w*)
  | (?P<parameter>\$\w+)
  | (?P<sign><>|<=|>=|=~|\.\.|\+=|[-<>=(){}\[\],:|.*+/%^;&!])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WRITES = frozenset(
    ["CREATE", "MERGE", "DELETE", "DETACH", "SET", "REMOVE", "DROP", "CALL", "LOAD", "FOREACH"]
)
_UNKNOWN = frozenset(["OPTIONAL", "WITH", "UNWIND", "UNION", "USE", "CASE", "EXISTS"])
_RESERVED = frozenset(
    [
        "MATCH",
        "WHERE",
        "RETURN",
        "DISTINCT",
        "ORDER",
        "BY",
        "SKIP",
        "LIMIT",
        "AND",
        "OR",
        "XOR",
        "NOT",
        "IN",
        "IS",
        "NULL",
        "TRUE",
        "FALSE",
    ]
)


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a pattern."""

    name: str
    """An unnamed node has a name that no query can write."""
    labels: tuple[tuple[str, ...], ...]
    """Alternatives for each of several required labels."""
    properties: Mapping[str, Expression]


@dataclass(frozen=True, slots=True)
class Related:
    """A relationship of a pattern."""

    name: str
    types: tuple[str, ...]
    direction: str
    """`out` from left to right, `in`, or `both`."""
    least: int
    most: int
    is_long: bool
    """Whether a length was given."""
    properties: Mapping[str, Expression]


@dataclass(frozen=True, slots=True)
class Chain:
    """A pattern: nodes, and the relationships between each and the next."""

    nodes: tuple[Node, ...]
    related: tuple[Related, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """The patterns and conditions of one MATCH."""

    chains: tuple[Chain, ...]
    where: Expression | None


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query."""

    matches: tuple[Match, ...]
    is_distinct: bool
    items: tuple[tuple[str, Expression], ...]
    order: tuple[tuple[Expression, bool], ...]
    """The sort keys, and whether each descends."""
    skip: int
    limit: int | None


def parsed(text: str, parameters: Mapping[str, Any]) -> Query:
    """Parses the clauses of a query. Raises InvalidRequestError for unsupported ones, naming them."""
    parser = _Parser(text, parameters)
    if parser.n_tokens > _MOST_TOKENS:
        raise InvalidRequestError(
            f"query has {parser.n_tokens} words and signs, which is more than {_MOST_TOKENS}: give lists as "
            "parameters"
        )
    try:
        return parser.query()
    except RecursionError as error:
        raise InvalidRequestError("query is nested too deeply: write it in fewer levels") from error


class _Parser:
    def __init__(self, text: str, parameters: Mapping[str, Any]) -> None:
        self._text, self._parameters = text, parameters
        self._tokens: list[tuple[str, str, int, int]] = []
        self._at = 0
        self._n_unnamed = 0
        self._nodes: set[str] = set()
        self._related: set[str] = set()
        self._aliases: set[str] = set()
        place = 0
        while place < len(text):
            if (found := _TOKEN.match(text, place)) is None:
                raise InvalidRequestError(
                    f"query has {shown(text[place])} at {place}, which is not supported; see docs/graph.md"
                )
            if found.lastgroup != "space":
                assert found.lastgroup is not None
                self._tokens.append((found.lastgroup, found[0], place, found.end()))
            place = found.end()

    @property
    def n_tokens(self) -> int:
        """The number of words and signs in the query."""
        return len(self._tokens)

    # Clauses

    def query(self) -> Query:
        matches = []
        while self._takes_word("MATCH"):
            chains = [self._chain()]
            while self._takes(","):
                chains.append(self._chain())
            where = self._expression() if self._takes_word("WHERE") else None
            if where is not None and where.aggregates:
                self._refuse("an aggregate in WHERE")
            self._check_known(where)
            matches.append(Match(tuple(chains), where))
        if not matches or not self._takes_word("RETURN"):
            self._refuse_here("MATCH … RETURN is expected")
        is_distinct = self._takes_word("DISTINCT")
        items = [self._item()]
        while self._takes(","):
            items.append(self._item())
        names = [name for name, _ in items]
        for name in names:
            if names.count(name) > 1:
                self._refuse(f"two columns that are called {shown(name)}: name one of them by AS")
        self._aliases = set(names)
        order: list[tuple[Expression, bool]] = []
        if self._takes_word("ORDER"):
            self._expect_word("BY")
            order.append(self._ordered(items, is_distinct=is_distinct))
            while self._takes(","):
                order.append(self._ordered(items, is_distinct=is_distinct))
        skip = self._count("SKIP") or 0
        limit = self._count("LIMIT")
        self._takes(";")
        if self._at < len(self._tokens):
            self._refuse_here("the end of the query is expected")
        return Query(tuple(matches), is_distinct, tuple(items), tuple(order), skip, limit)

    def _item(self) -> tuple[str, Expression]:
        start = self._at
        if self._sees("*"):
            self._refuse("RETURN *: name the columns")
        made = self._expression()
        self._check_known(made)
        if made.aggregates and made.names:
            self._refuse(
                f"{shown(self._written(start))}, which mixes an aggregate with other values: return them apart"
            )
        if self._takes_word("AS"):
            return self._name("a name after AS", is_variable=True), made
        return self._written(start), made

    def _ordered(
        self, items: list[tuple[str, Expression]], *, is_distinct: bool
    ) -> tuple[Expression, bool]:
        start = self._at
        made = self._expression()
        written = self._written(start)
        if written in self._aliases:
            made = looked_up(written)
        elif is_distinct or any(one.aggregates for _, one in items):
            # Grouped rows have only the columns.
            if not made.names <= self._aliases or made.aggregates:
                self._refuse(f"ORDER BY {shown(written)}: order by a column that is returned")
        elif made.aggregates:
            self._refuse(
                f"ORDER BY {shown(written)}: return the aggregate, and order by its column"
            )
        else:
            self._check_known(made, self._aliases)
        descends = self._takes_word("DESC") or self._takes_word("DESCENDING")
        if not descends:
            _ = self._takes_word("ASC") or self._takes_word("ASCENDING")
        return made, descends

    def _count(self, word: str) -> int | None:
        if not self._takes_word(word):
            return None
        made = self._expression()
        value = None if made.names or made.aggregates else made.of({})
        if type(value) is not int or value < 0:
            self._refuse(f"{word} {shown(value)}: give a whole number, 0 or more")
        return value

    # Patterns

    def _chain(self) -> Chain:
        if self._peek()[0] in ("name", "quoted") and self._peek(1)[1] == "=":
            self._refuse(f"the path variable {shown(self._peek()[1])}")
        if self._peek()[0] == "name" and self._peek(1)[1] == "(":
            self._refuse(f"the function {shown(self._peek()[1])} in MATCH")
        nodes, related = [self._node()], []
        while self._sees("-") or self._sees("<"):
            related.append(self._relationship())
            nodes.append(self._node())
        return Chain(tuple(nodes), tuple(related))

    def _node(self) -> Node:
        self._expect("(")
        name = self._variable()
        if name in self._related:
            self._refuse(f"{shown(name)} for a node and a relationship")
        self._nodes.add(name)
        labels = []
        while self._takes(":"):
            labels.append(self._alternatives("a label"))
        properties = self._properties()
        self._expect(")")
        return Node(name, tuple(labels), properties)

    def _relationship(self) -> Related:
        is_back = self._takes("<")
        self._expect("-")
        name, types, properties = self._unnamed(), tuple[str, ...](), dict[str, Expression]()
        least = most = 1
        is_long = False
        if self._takes("["):
            name = self._variable()
            if self._takes(":"):
                types = self._alternatives("a type")
            if self._takes("*"):
                least, most = self._length()
                is_long = True
            properties = self._properties()
            self._expect("]")
        self._expect("-")
        is_forth = self._takes(">")
        if name in self._related or name in self._nodes:
            self._refuse(
                f"{shown(name)} for two parts of the patterns: name each relationship once"
            )
        if is_long and not name.startswith(" "):
            self._refuse(f"{shown(name)} for a relationship of variable length: leave the name out")
        self._related.add(name)
        direction = "both" if is_back is is_forth else "in" if is_back else "out"
        return Related(name, types, direction, least, most, is_long, properties)

    def _length(self) -> tuple[int, int]:
        least = int(self._next()[1]) if self._peek()[0] == "number" else None
        if self._takes(".."):
            most = int(self._next()[1]) if self._peek()[0] == "number" else None
            least = 1 if least is None else least
        else:
            most = least
        if most is None or most > MAX_STEPS:
            self._refuse(f"a length without an end of at most {MAX_STEPS}: write *1..3")
        if least is None or least > most:
            self._refuse(f"the length *{least}..{most}")
        return least, most

    def _alternatives(self, what: str) -> tuple[str, ...]:
        names = [self._name(what)]
        while self._takes("|"):
            self._takes(":")
            names.append(self._name(what))
        if self._sees("&") or self._sees("!"):
            self._refuse(f"{self._peek()[1]} in a label: name alternatives by |")
        return tuple(names)

    def _variable(self) -> str:
        if self._peek()[0] in ("name", "quoted"):
            return self._name("a name", is_variable=True)
        return self._unnamed()

    def _unnamed(self) -> str:
        self._n_unnamed += 1
        return f" {self._n_unnamed}"

    def _properties(self) -> dict[str, Expression]:
        if self._peek()[0] == "parameter":
            self._refuse("a parameter for all properties of a pattern: write {name: $name}")
        if not self._takes("{"):
            return {}
        found: dict[str, Expression] = {}
        while not self._takes("}"):
            if found:
                self._expect(",")
            name = self._name("the name of a property")
            self._expect(":")
            found[name] = self._expression()
            if found[name].names or found[name].aggregates:
                self._refuse(f"{{{name}:…}} by another part of the query: compare in WHERE")
        return found

    # Expressions, the weakest operators first

    def _expression(self) -> Expression:
        made = self._xor()
        while self._takes_word("OR"):
            made = operated("OR", made, self._xor())
        return made

    def _xor(self) -> Expression:
        made = self._and()
        while self._takes_word("XOR"):
            made = operated("XOR", made, self._and())
        return made

    def _and(self) -> Expression:
        made = self._not()
        while self._takes_word("AND"):
            made = operated("AND", made, self._not())
        return made

    def _not(self) -> Expression:
        if self._takes_word("NOT"):
            return operated("NOT", self._not())
        return self._comparison()

    def _comparison(self) -> Expression:
        operands, signs = [self._sum()], []
        while True:
            sign = self._peek()[1]
            if sign == "=~":
                self._refuse("=~: compare by CONTAINS, STARTS WITH or ENDS WITH")
            if self._peek()[0] != "sign" or sign not in ("=", "<>", "<", "<=", ">", ">="):
                break
            self._next()
            signs.append(sign)
            operands.append(self._sum())
        return chained(operands, signs)

    def _sum(self) -> Expression:
        made = self._product()
        while self._sees("+") or self._sees("-"):
            made = operated(self._next()[1], made, self._product())
        return made

    def _product(self) -> Expression:
        made = self._power()
        while self._sees("*") or self._sees("/") or self._sees("%"):
            made = operated(self._next()[1], made, self._power())
        return made

    def _power(self) -> Expression:
        if self._takes("-"):
            return operated("negated", self._power())
        if self._takes("+"):
            return self._power()
        made = self._predicate()
        if self._sees("^"):
            self._refuse("^")
        return made

    def _predicate(self) -> Expression:
        made = self._atom()
        while True:
            if self._takes_word("IS"):
                is_not = self._takes_word("NOT")
                self._expect_word("NULL")
                made = operated("IS NOT NULL" if is_not else "IS NULL", made)
            elif self._takes_word("IN"):
                made = operated("IN", made, self._sum())
            elif self._takes_word("CONTAINS"):
                made = operated("CONTAINS", made, self._sum())
            elif self._takes_word("STARTS"):
                self._expect_word("WITH")
                made = operated("STARTS WITH", made, self._sum())
            elif self._takes_word("ENDS"):
                self._expect_word("WITH")
                made = operated("ENDS WITH", made, self._sum())
            else:
                return made

    def _atom(self) -> Expression:
        kind, word, *_ = self._peek()
        if kind == "text":
            self._next()
            return constant(_unescaped(word))
        if kind == "number":
            self._next()
            return constant(float(word) if re.search("[.eE]", word) else int(word))
        if kind == "parameter":
            self._next()
            if word[1:] not in self._parameters:
                raise InvalidRequestError(
                    f"query names {word}, which parameters lacks: add it there"
                )
            return constant(self._parameters[word[1:]])
        if self._takes("("):
            made = self._expression()
            self._expect(")")
            if self._sees("-") and self._peek(1)[1] in ("-", "["):
                self._refuse("a pattern in an expression: write it in MATCH")
            return made
        if self._takes("["):
            some: list[Expression] = []
            while not self._takes("]"):
                if some:
                    self._expect(",")
                some.append(self._expression())
                if self._sees("|"):
                    self._refuse("a list comprehension")
            return listed_of(some)
        if kind == "name" and word.upper() in ("CASE", "EXISTS") and self._peek(1)[0] == "name":
            self._refuse(word.upper())
        if kind == "name" and word.upper() in ("TRUE", "FALSE", "NULL"):
            self._next()
            return constant({"TRUE": True, "FALSE": False}.get(word.upper()))
        if kind == "name" and self._peek(1)[1] == "(":
            return self._call()
        if kind in ("name", "quoted"):
            return self._property()
        return self._refuse_here("a value is expected")

    def _property(self) -> Expression:
        name = self._name("a value", is_variable=True)
        if self._takes("."):
            key = self._name("the name of a property")
            if self._sees("["):
                self._refuse("[…] after a value")
            return looked_up(name, key)
        if self._takes(":"):
            return with_label(name, self._alternatives("a label"))
        if self._sees("["):
            self._refuse("[…] after a value")
        return looked_up(name)

    def _call(self) -> Expression:
        word = self._next()[1]
        name = word.lower()
        self._expect("(")
        if name in AGGREGATES:
            if name == "count" and self._takes("*"):
                self._expect(")")
                return aggregated(Aggregate(name, None, is_distinct=False))
            is_distinct = self._takes_word("DISTINCT")
            about = self._expression()
            if about.aggregates:
                self._refuse(f"an aggregate in {word}()")
            self._check_known(about)
            self._expect(")")
            return aggregated(Aggregate(name, about, is_distinct=is_distinct))
        if name not in FUNCTIONS:
            self._refuse(f"the function {word}()")
        given: list[Expression] = []
        while not self._takes(")"):
            if given:
                self._expect(",")
            given.append(self._expression())
        least, most = FUNCTIONS[name].counts
        if not least <= len(given) <= most:
            self._refuse(f"{word}() of {len(given)} values")
        return called(name, given)

    # Tokens

    def _check_known(
        self, made: Expression | None, more: frozenset[str] | set[str] = frozenset()
    ) -> None:
        for name in () if made is None else sorted(made.names):
            if name not in self._nodes and name not in self._related and name not in more:
                raise InvalidRequestError(
                    f"query names {shown(name)}, which no earlier MATCH binds: add it to a pattern"
                )

    def _peek(self, further: int = 0) -> tuple[str, str, int, int]:
        place = self._at + further
        end = len(self._text)
        return self._tokens[place] if place < len(self._tokens) else ("end", "", end, end)

    def _next(self) -> tuple[str, str, int, int]:
        found = self._peek()
        self._at += 1
        return found

    def _sees(self, sign: str) -> bool:
        return self._peek()[:2] == ("sign", sign)

    def _takes(self, sign: str) -> bool:
        found = self._sees(sign)
        self._at += found
        return found

    def _takes_word(self, word: str) -> bool:
        kind, written, *_ = self._peek()
        found = kind == "name" and written.upper() == word
        self._at += found
        return found

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            self._refuse_here(f"{sign} is expected")

    def _expect_word(self, word: str) -> None:
        if not self._takes_word(word):
            self._refuse_here(f"{word} is expected")

    def _name(self, what: str, *, is_variable: bool = False) -> str:
        kind, word, *_ = self._peek()
        if kind == "quoted":
            self._next()
            return word[1:-1].replace("``", "`")
        if kind != "name" or (is_variable and word.upper() in _RESERVED):
            self._refuse_here(f"{what} is expected")
        self._next()
        return word

    def _written(self, start: int) -> str:
        return self._text[self._tokens[start][2] : self._tokens[self._at - 1][3]]

    def _refuse_here(self, why: str) -> NoReturn:
        kind, word, place, _ = self._peek()
        if kind == "name" and word.upper() in _WRITES:
            raise InvalidRequestError(
                f"query has {word.upper()}: it may only read, by MATCH; write by add, "
                "delete_entity and delete_relation"
            )
        if kind == "name" and word.upper() in _UNKNOWN:
            self._refuse(word.upper())
        there = f"{shown(word)} at {place}" if word else "its end"
        raise InvalidRequestError(
            f"query cannot be answered: {why}, not {there}; docs/graph.md lists the supported clauses"
        )

    def _refuse(self, what: str) -> NoReturn:
        what, _, way_out = what.partition(": ")
        raise InvalidRequestError(
            f"query has {what}, which is not supported: "
            f"{way_out or 'docs/graph.md lists the supported clauses'}"
        )


def _unescaped(literal: str) -> str:
    def one(match: re.Match[str]) -> str:
        told = match[1]
        return chr(int(told[1:], 16)) if len(told) > 1 else _ESCAPES.get(told, told)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, literal[1:-1], flags=re.DOTALL)
