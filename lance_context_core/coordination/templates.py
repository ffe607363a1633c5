"""Versioned prompt templates with variables."""

import builtins
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, get_args

from lance_context_core._handle import handle
from lance_context_core._resources import Resources
from lance_context_core._util.checks import (
    check_count,
    check_json_object,
    check_name,
    check_names,
    check_text,
    shown,
)
from lance_context_core._util.extras import importing
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.coordination.changes import Written, best, changed
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.scope import Scope
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.types import Item

# Rendering of a text: one pass for `{{name}}`, or Jinja that sees only the values.

TemplateSyntax = Literal["plain", "jinja"]
"""The template syntax.

`plain` replaces each `{{name}}`, and writes braces for `{{'{{'}}` and `{{'}}'}}`; `jinja` has
conditions, loops and filters, too.
"""

_PLACE = re.compile(
    r"""\{\{\s*(?:(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)|(?P<quote>['"])(?P<braces>\{\{|\}\})(?P=quote))\s*\}\}"""
)
"""A variable, or literal braces, as in Jinja."""
_BRACED = re.compile(rf"{_PLACE.pattern}|\{{\{{(?P<other>[^{{}}\n]*)\}}\}}")
_LONGEST = 10_000_000
"""Maximum characters of a text made by an operation within a template."""


def checked_syntax(syntax: object) -> TemplateSyntax:
    """Return the syntax. Raises InvalidRequestError for an unknown one."""
    syntaxes: tuple[TemplateSyntax, ...] = get_args(TemplateSyntax)
    for one in syntaxes:
        if syntax == one:
            return one
    raise InvalidRequestError(
        f"syntax={shown(syntax)}: use one of {', '.join(get_args(TemplateSyntax))}"
    )


def variables_of(text: str, syntax: TemplateSyntax) -> tuple[str, ...]:
    """Return the variables, in order. Raises InvalidRequestError for an invalid template."""
    if syntax == "plain":
        names = {place["name"] for place in _PLACE.finditer(text)}
        return tuple(sorted(name for name in names if name is not None))
    return tuple(sorted(_jinja().variables(text)))


def check_template(text: str, syntax: TemplateSyntax) -> None:
    """Raise InvalidRequestError for a text with an impossible variable."""
    variables_of(text, syntax)
    others = (place["other"] for place in _BRACED.finditer(text) if syntax == "plain")
    if (other := next((one for one in others if one is not None), None)) is not None:
        raise InvalidRequestError(
            f"text has {shown('{{' + other + '}}')}, which cannot be filled in: a name is made of "
            "letters, digits and _. Write {{'{{'}} and {{'}}'}} for the braces themselves, or pass "
            "syntax='jinja'"
        )


def rendered(text: str, syntax: TemplateSyntax, values: Mapping[str, Any], *, what: str) -> str:
    """Return the text with its variables replaced; all are required, other values are ignored.

    Values are JSON; their contents are never parsed as a template.
    """
    given = check_json_object(values, "values")
    missing = [name for name in variables_of(text, syntax) if name not in given]
    if missing and syntax == "plain":
        raise InvalidRequestError(f"{what} lacks values for {', '.join(missing)}: give them all")
    if syntax == "jinja":
        return _jinja().render(text, given, what)
    return _PLACE.sub(
        lambda place: place["braces"] or _written(given[place["name"]], place["name"]), text
    )


def braced(text: str) -> str:
    """Convert a plain template for `str.format`: `{name}` for `{{name}}`, other braces doubled."""
    parts, end = list[str](), 0
    for place in _PLACE.finditer(text):
        parts.append(_doubled(text[end : place.start()]))
        parts.append(f"{{{place['name']}}}" if place["name"] else _doubled(place["braces"]))
        end = place.end()
    return "".join((*parts, _doubled(text[end:])))


def _doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


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
    """Jinja's sandbox, in which an undefined name is an error and nothing can be changed."""

    def __init__(self) -> None:
        with importing("jinja2", extra="templates", by="A template of the syntax 'jinja'"):
            from jinja2 import StrictUndefined, exceptions, meta
            from jinja2.sandbox import ImmutableSandboxedEnvironment

        class Environment(ImmutableSandboxedEnvironment):
            """Limits the texts that operations make, so that none fills the memory."""

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


# A template and its number of uses.


@frozen_by_name
class Template:
    """One version of a prompt with variables."""

    name: str
    version: int
    """From 1, one more than that of the previous version."""
    text: str
    syntax: TemplateSyntax = "plain"
    description: str = ""
    category: str | None = None
    tags: tuple[str, ...] = ()
    created_at: datetime
    """The time of the first version."""
    updated_at: datetime
    """The time of this version."""
    n_uses: int = 0
    """Number of times that the store rendered it, in all its versions."""
    last_used_at: datetime | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The required variables, in order."""
        return variables_of(self.text, self.syntax)

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the text with its variables replaced, all required; does not count as a use.

        Values are JSON, only texts and numbers in a plain template; their contents are never
        rendered, and unknown names are ignored. Raises InvalidRequestError.
        """
        return rendered(self.text, self.syntax, values, what=f"template {self.name!r}")

    def as_format(self) -> str:
        """Convert the text for `str.format` and f-strings: `{name}`, and other braces doubled.

        Raises InvalidRequestError for the syntax `jinja`, which it cannot express.
        """
        if self.syntax != "plain":
            raise InvalidRequestError(
                f"template {self.name!r} is of the syntax {self.syntax!r}: only a plain one can be "
                "written for str.format"
            )
        return braced(self.text)


# The templates of a store, with all versions.

NAME = "lance_context.templates"
"""The name of the key-value store of templates."""

_LATEST, _VERSIONS, _USES = "latest", "versions", "uses"


@handle
class AsyncTemplates:
    """The templates of a store, by name."""

    _resources: Resources
    _scope: Scope

    # Reading

    async def get(self, name: str, *, version: int | None = None) -> Template:
        """Return the latest version of a template, or another. Raises NotFoundError if absent."""
        name = check_name(name, "name")
        key = _latest(name)
        if version is not None:
            key = _version(name, check_count(version, "version"))
        item, uses = await self._items.get([key, _uses(name)])
        if item is None:
            which = f"template {name!r}" + ("" if version is None else f" of version {version}")
            raise NotFoundError(f"no {which}")
        return _template(item, uses)

    async def list(
        self, *, category: str | None = None, tag: str | None = None
    ) -> builtins.list[Template]:
        """Return the latest version of each template, most used first, then by name.

        All, or those of a category, or with a tag.
        """
        latest = await self._items.list(namespace=(_LATEST,))
        uses = {one.key: one for one in await self._items.list(namespace=(_USES,))}
        found = [_template(one, uses.get(one.key)) for one in latest]
        wanted = [
            one
            for one in found
            if category in (None, one.category) and (tag is None or tag in one.tags)
        ]
        return sorted(wanted, key=lambda one: (-one.n_uses, one.name))

    async def search(self, query: str, *, limit: int = 10) -> builtins.list[Template]:
        """Return the templates with words of `query`, most of them first.

        Searches the name, the tags, the description, the category and the text; of equal ones,
        earlier fields come first.
        """
        return best(query, await self.list(), _searched, limit=limit)

    async def versions(self, name: str) -> builtins.list[Template]:
        """Return all versions of a template, latest first; empty if absent."""
        name = check_name(name, "name")
        (uses,) = await self._items.get([_uses(name)])
        rows = await self._items.list(namespace=(_VERSIONS, name), reverse=True)
        return [_template(one, uses) for one in rows]

    # Changing

    async def save(
        self,
        name: str,
        text: str,
        *,
        syntax: TemplateSyntax = "plain",
        description: str = "",
        category: str | None = None,
        tags: Sequence[str] = (),
    ) -> Template:
        """Save a template, as a new version if the name exists; returns it.

        If it equals the latest version, no version is added. `syntax="jinja"` needs the extra
        `templates`. Raises InvalidRequestError for an invalid template, or a name in double braces
        that no value can have.
        """
        name, text = check_name(name, "name"), check_text(text, "text")
        given: dict[str, Any] = {
            "text": text,
            "syntax": checked_syntax(syntax),
            "description": check_text(description, "description"),
            "category": None if category is None else check_name(category, "category"),
            "tags": builtins.list(dict.fromkeys(check_names(tags, "tags"))),
        }
        if not text.strip():
            raise InvalidRequestError("text is blank: give what is to be filled in")
        check_template(text, given["syntax"])

        async def decide(before: Mapping[str, Any] | None) -> tuple[Written, None]:
            old = before or {}
            if {key: old.get(key) for key in given} == given:
                return Written(), None
            now = self._resources.clock.now().isoformat()
            number = old.get("version", 0) + 1
            value = {
                **given,
                "version": number,
                "created_at": old.get("created_at", now),
                "updated_at": now,
            }
            (space, key), (versions, of) = _latest(name), _version(name, number)
            puts = [
                Item(namespace=space, key=key, value=value),
                Item(namespace=versions, key=of, value=value),
            ]
            return Written(puts=puts), None

        await changed(self._items, _latest(name), decide, what=f"template {name!r}")
        return await self.get(name)

    async def render(
        self, name: str, values: Mapping[str, Any], *, version: int | None = None
    ) -> str:
        """Render a template, which counts as a use; see `Template.render`."""
        text = (await self.get(name, version=version)).render(values)

        async def decide(before: Mapping[str, Any] | None) -> tuple[Written, None]:
            space, key = _uses(name)
            now = self._resources.clock.now().isoformat()
            value = {"n": (before or {}).get("n", 0) + 1, "at": now}
            return Written(puts=[Item(namespace=space, key=key, value=value)]), None

        await changed(self._items, _uses(name), decide, what=f"the uses of template {name!r}")
        return text

    async def delete(self, name: str) -> bool:
        """Delete a template with all its versions; returns whether it existed."""
        name = check_name(name, "name")
        rows = await self._items.keys(namespace=(_VERSIONS, name))
        return any(await self._items.delete([_latest(name), _uses(name), *rows]))

    # Helpers

    @property
    def _items(self) -> AsyncKeyValues:
        return AsyncKeyValues(NAME, self._resources, self._scope)


def _latest(name: str) -> tuple[tuple[str, ...], str]:
    return (_LATEST,), name


def _uses(name: str) -> tuple[tuple[str, ...], str]:
    return (_USES,), name


def _version(name: str, number: int) -> tuple[tuple[str, ...], str]:
    return (_VERSIONS, name), f"{number:012d}"


def _template(item: Item, uses: Item | None) -> Template:
    value = dict(item.value or {})
    used = {} if uses is None else dict(uses.value or {})
    at = used.get("at")
    name = item.key if item.namespace == (_LATEST,) else item.namespace[1]
    value |= {
        "tags": tuple(value["tags"]),
        "created_at": datetime.fromisoformat(value["created_at"]),
        "updated_at": datetime.fromisoformat(value["updated_at"]),
    }
    template = Template(name=name, **value)
    last = None if at is None else datetime.fromisoformat(at)
    return replace(template, n_uses=used.get("n", 0), last_used_at=last)


def _searched(one: Template) -> list[str]:
    return [one.name, " ".join(one.tags), one.description, one.category or "", one.text]
