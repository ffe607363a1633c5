"""A template, and how often it was used."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.coordination.templates.rendering import (
    TemplateSyntax,
    braced,
    rendered,
    variables_of,
)
from lance_context_core.errors import InvalidRequestError


@frozen_by_name
class Template:
    """A prompt with variables, in one of its versions."""

    name: str
    version: int
    """From 1, one more than that of the version before."""
    text: str
    syntax: TemplateSyntax = "plain"
    description: str = ""
    category: str | None = None
    tags: tuple[str, ...] = ()
    created_at: datetime
    """When the first version was saved."""
    updated_at: datetime
    """When this one was."""
    n_uses: int = 0
    """How often the store filled it in, in all its versions."""
    last_used_at: datetime | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The names that are to be given, in order."""
        return variables_of(self.text, self.syntax)

    def render(self, values: Mapping[str, Any]) -> str:
        """The text with its variables filled in, each of which must be given; it counts as no use.

        Values are JSON, texts and numbers alone in a plain template; what they hold is never filled
        in itself, and what no variable names is ignored. Raises InvalidRequestError.
        """
        return rendered(self.text, self.syntax, values, what=f"template {self.name!r}")

    def as_format(self) -> str:
        """The text as `str.format` and f-strings have it: `{name}`, and other braces doubled.

        Raises InvalidRequestError for one of the syntax `jinja`, which says more than that.
        """
        if self.syntax != "plain":
            raise InvalidRequestError(
                f"template {self.name!r} is of the syntax {self.syntax!r}: only a plain one can be "
                "written for str.format"
            )
        return braced(self.text)
