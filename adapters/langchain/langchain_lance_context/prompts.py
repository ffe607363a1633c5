"""Templates of a store as LangChain's prompts."""

from typing import Any, Self

from langchain_core.prompts import StringPromptTemplate
from pydantic import Field

from lance_context_core import ContextStore, InvalidRequestError
from lance_context_core.results import Template


class LanceContextPromptTemplate(StringPromptTemplate):
    """A template of the store as a prompt, rendered as the store renders it.

    Use it like LangChain's `PromptTemplate`: before a model in a chain, or as the `prompt` of a
    `HumanMessagePromptTemplate` in a `ChatPromptTemplate`. It does not change: a later save is
    another version. Rendering does not count as a use of the template. In a plain template a value
    that is not a text is written as LangChain writes it; in a Jinja template it is JSON.
    """

    template: Template = Field(exclude=True)

    def __init__(self, template: Template, **fields: Any) -> None:
        """From the result of `store.templates.get` or `save`. `fields` are a `PromptTemplate`'s."""
        if not isinstance(template, Template):
            raise InvalidRequestError(
                f"template is {template!r:.80}: give what store.templates.get(name) returns"
            )
        given = fields.get("partial_variables") or {}
        asked = [name for name in template.variables if name not in given]
        metadata = {
            "lance_context_template": template.name,
            "lance_context_version": template.version,
            **(fields.pop("metadata", None) or {}),
        }
        super().__init__(
            **{"input_variables": asked, **fields, "template": template, "metadata": metadata}
        )

    @classmethod
    def from_store(
        cls, store: ContextStore, name: str, *, version: int | None = None, **fields: Any
    ) -> Self:
        """The latest version of a template, or the given one.

        Raises NotFoundError if it does not exist.
        """
        return cls(store.templates.get(name, version=version), **fields)

    @property
    def _prompt_type(self) -> str:
        return "lance_context"

    def format(self, **kwargs: Any) -> str:
        """The rendered text. Raises InvalidRequestError for a missing variable."""
        given = self._merge_partial_and_user_variables(**kwargs)
        values = {name: given[name] for name in self.template.variables if name in given}
        if self.template.syntax == "plain":
            values = {name: str(value) for name, value in values.items()}
        return self.template.render(values)
