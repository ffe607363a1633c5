"""The templates of a store: each version of each is kept."""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lance_context_core._handle import handle
from lance_context_core._resources import Resources
from lance_context_core._util.checks import check_count, check_name, check_names, check_text
from lance_context_core.coordination.changing import Written, changed
from lance_context_core.coordination.matching import best
from lance_context_core.coordination.templates.rendering import (
    TemplateSyntax,
    checked_syntax,
    variables_of,
)
from lance_context_core.coordination.templates.values import Template
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.scope import Scope
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.types import Item

NAME = "lance_context.templates"
"""What the items are called in which templates are kept."""

_LATEST, _VERSIONS, _USES = "latest", "versions", "uses"


@handle
class AsyncTemplates:
    """The templates of a store, by name."""

    _resources: Resources
    _scope: Scope

    # Reading

    async def get(self, name: str, *, version: int | None = None) -> Template:
        """The latest version of a template, or another one. Raises NotFoundError if there is none."""
        name = check_name(name, "name")
        key = _latest(name)
        if version is not None:
            key = _version(name, check_count(version, "version"))
        item, uses = await self._items.get([key, _uses(name)])
        if item is None:
            which = f"template {name!r}" + ("" if version is None else f" of version {version}")
            raise NotFoundError(f"there is no {which}")
        return _template(item, uses)

    async def list(
        self, *, category: str | None = None, tag: str | None = None
    ) -> builtins.list[Template]:
        """The latest version of each template, the most used first, then by name.

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
        """The templates that have words of `query`, most of them first.

        In the name, the tags, the description, the category or the text, of equals in this order.
        """
        return best(query, await self.list(), _searched, limit=limit)

    async def versions(self, name: str) -> builtins.list[Template]:
        """All versions of a template, the latest first; empty if there is none."""
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
        """Keep a template, as a new version if there is one of that name; returns it.

        One that is the same as the latest version is that version. `syntax="jinja"` needs the extra
        `templates`. Raises InvalidRequestError for a text that is no template.
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
        variables_of(text, given["syntax"])

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
        """A template with its variables filled in, which counts as a use; see `Template.render`."""
        text = (await self.get(name, version=version)).render(values)

        async def decide(before: Mapping[str, Any] | None) -> tuple[Written, None]:
            space, key = _uses(name)
            now = self._resources.clock.now().isoformat()
            value = {"n": (before or {}).get("n", 0) + 1, "at": now}
            return Written(puts=[Item(namespace=space, key=key, value=value)]), None

        await changed(self._items, _uses(name), decide, what=f"the uses of template {name!r}")
        return text

    async def delete(self, name: str) -> bool:
        """Forget a template with all its versions; returns whether there was one."""
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
