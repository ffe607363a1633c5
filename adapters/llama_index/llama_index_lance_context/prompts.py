"""Templates of a store as LlamaIndex's prompts."""

from collections.abc import Callable, Mapping
from typing import Any, Self

from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.prompts import PromptTemplate
from llama_index.core.prompts.prompt_type import PromptType
from llama_index.core.types import BaseOutputParser

from lance_context_core import ContextStore, InvalidRequestError
from lance_context_core.results import Template


class LanceContextPromptTemplate(PromptTemplate):
    """A template of the store as a prompt, rendered as the store renders it.

    Use it like LlamaIndex's `PromptTemplate`, such as for `text_qa_template`. It does not change: a
    later save is another version. Rendering does not count as a use. In a plain template a value
    that is not a text is written as LlamaIndex writes it; in a Jinja template it is JSON.
    """

    stored: Template

    def __init__(
        self,
        template: Template,
        prompt_type: str = PromptType.CUSTOM,
        output_parser: BaseOutputParser | None = None,
        metadata: Mapping[str, Any] | None = None,
        template_var_mappings: Mapping[str, str] | None = None,
        function_mappings: Mapping[str, Callable[..., Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        """From the result of `store.templates.get` or `save`; the rest as a `PromptTemplate`'s."""
        if not isinstance(template, Template):
            raise InvalidRequestError(
                f"template is {template!r:.80}: give what store.templates.get(name) returns"
            )
        fields: dict[str, Any] = {
            "stored": template,
            "template": template.text,
            "template_vars": [*template.variables],
            "kwargs": kwargs,
            "metadata": {
                "prompt_type": prompt_type,
                "lance_context_template": template.name,
                "lance_context_version": template.version,
                **(metadata or {}),
            },
            "output_parser": output_parser,
            "template_var_mappings": dict(template_var_mappings or {}),
            "function_mappings": dict(function_mappings or {}),
        }
        # Bypasses `PromptTemplate`'s check, which expects variables of another syntax.
        super(PromptTemplate, self).__init__(**fields)

    @classmethod
    def from_store(
        cls, store: ContextStore, name: str, *, version: int | None = None, **fields: Any
    ) -> Self:
        """The latest version of a template, or the given one. Raises NotFoundError if missing."""
        return cls(store.templates.get(name, version=version), **fields)

    def format(
        self,
        llm: BaseLLM | None = None,
        completion_to_prompt: Callable[[str], str] | None = None,
        **kwargs: Any,
    ) -> str:
        """The rendered text. Raises InvalidRequestError for a missing variable."""
        del llm  # It is filled in the same way for each.
        # An LLM also passes arguments that the template lacks, such as its own functions.
        given = self._map_all_vars({**self.kwargs, **kwargs})
        values = {name: given[name] for name in self.stored.variables if name in given}
        if self.stored.syntax == "plain":
            values = {name: str(value) for name, value in values.items()}
        text = self.stored.render(values)
        if self.output_parser is not None:
            text = self.output_parser.format(text)
        return text if completion_to_prompt is None else completion_to_prompt(text)
