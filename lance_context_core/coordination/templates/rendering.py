"""Filling in a text: once through it for `{{name}}`, or by Jinja where nothing but its values is seen."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, get_args

from lance_context_core._util.checks import check_json_object, check_name, shown
from lance_context_core._util.extras import importing
from lance_context_core.errors import InvalidRequestError

TemplateSyntax = Literal["plain", "jinja"]
"""`plain` fills in each `{{name}}`, `jinja` has conditions, loops and filters, too."""

_PLACE = re.compile(r"\{\{\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*\}\}")
_LONGEST = 10_000_000
"""Characters that an operation within a template may make of a text."""


def checked_syntax(syntax: object) -> TemplateSyntax:
    """The syntax. Raises InvalidRequestError for one that there is not."""
    syntaxes: tuple[TemplateSyntax, ...] = get_args(TemplateSyntax)
    for one in syntaxes:
        if syntax == one:
            return one
    raise InvalidRequestError(
        f"syntax={shown(syntax)}: there are {', '.join(get_args(TemplateSyntax))}"
    )


def variables_of(text: str, syntax: TemplateSyntax) -> tuple[str, ...]:
    """The names that are filled in, in order. Raises InvalidRequestError for a text that is no template."""
    if syntax == "plain":
        return tuple(sorted(set(_PLACE.findall(text))))
    return tuple(sorted(_jinja().variables(text)))


def rendered(text: str, syntax: TemplateSyntax, values: Mapping[str, Any], *, what: str) -> str:
    """The text with its variables filled in, of which each must be given; what else is given is ignored.

    Values are JSON; what they hold is never taken for a part of the template.
    """
    given = check_json_object(values, "values")
    missing = [name for name in variables_of(text, syntax) if name not in given]
    if missing and syntax == "plain":
        raise InvalidRequestError(f"{what} lacks values for {', '.join(missing)}: give them all")
    if syntax == "jinja":
        return _jinja().render(text, given, what)
    return _PLACE.sub(lambda place: _written(given[place[1]], place[1]), text)


def braced(text: str) -> str:
    """A plain template as one of Python's `str.format`: `{name}` for `{{name}}`, other braces doubled."""
    parts = _PLACE.split(text)
    for index, part in enumerate(parts):
        is_name = index % 2
        parts[index] = f"{{{part}}}" if is_name else part.replace("{", "{{").replace("}", "}}")
    return "".join(parts)


def _written(value: Any, name: str) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool | list | dict):
        raise InvalidRequestError(
            f"{check_name(name, 'name')}={shown(value)}: a plain template takes texts and numbers; "
            "write it as a text"
        )
    return str(value)


class _Jinja:
    """Jinja's sandbox, in which a name that is not given is an error and nothing can be changed."""

    def __init__(self) -> None:
        with importing("jinja2", extra="templates", by="A template of the syntax 'jinja'"):
            from jinja2 import StrictUndefined, exceptions, meta
            from jinja2.sandbox import ImmutableSandboxedEnvironment

        class Environment(ImmutableSandboxedEnvironment):
            """Where an operation cannot make a text that fills the memory."""

            intercepted_binops = frozenset({"*", "**", "%"})

            def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
                if any(isinstance(one, str | list | tuple) for one in (left, right)):
                    sizes = [
                        one if isinstance(one, int) else len(str(one)) for one in (left, right)
                    ]
                    if operator == "%" or sizes[0] * sizes[1] > _LONGEST:
                        raise exceptions.SecurityError("it would make too long a text")
                elif operator == "**" and abs(right) > 100:
                    raise exceptions.SecurityError("it would make too large a number")
                return super().call_binop(context, operator, left, right)

        self._environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
        self._meta = meta
        self._refused: tuple[type[Exception], ...] = (
            exceptions.TemplateError,
            *(TypeError, ValueError, ArithmeticError, LookupError, RecursionError),
        )

    def variables(self, text: str) -> set[str]:
        tree = self._tried(lambda: self._environment.parse(text), "the template")
        if others := list(self._meta.find_referenced_templates(tree)):
            raise InvalidRequestError(
                f"the template refers to another one, {shown(others[0])}: put its text here instead"
            )
        return set(self._meta.find_undeclared_variables(tree))

    def render(self, text: str, values: Mapping[str, Any], what: str) -> str:
        return str(self._tried(lambda: self._environment.from_string(text).render(values), what))

    def _tried(self, work: Callable[[], Any], what: str) -> Any:
        try:
            return work()
        except self._refused as error:
            line = getattr(error, "lineno", None)
            where = f", line {line}" if line else ""
            raise InvalidRequestError(f"{what} cannot be filled in{where}: {error}") from error


@lru_cache(maxsize=1)
def _jinja() -> _Jinja:
    return _Jinja()
