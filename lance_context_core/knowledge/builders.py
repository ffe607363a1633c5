"""The makers of knowledge: rules, a model, or both; a search never calls them."""

import inspect
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

from lance_context_core._util.checks import check_name, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError
from lance_context_core.knowledge.extracting import ModelExtractor
from lance_context_core.knowledge.policies import ModelConsolidator
from lance_context_core.knowledge.protocols import (
    AsyncParaphraser,
    Consolidator,
    Extractor,
    Paraphraser,
    SessionSummariser,
)
from lance_context_core.knowledge.rules import RuleExtractor
from lance_context_core.models import LanguageModel
from lance_context_core.models.frameworks import as_model, says_sentences

Model = LanguageModel | Callable[[str], Any] | Paraphraser | AsyncParaphraser
"""A language model, or a function of a prompt.

A language model is an object with a name and `complete`, a chat model of LangChain, or an LLM of
LlamaIndex. A function whose parameter is called `sentences` paraphrases these.
"""


@frozen
class Builders:
    """Extractor, paraphraser, consolidator and summariser of sessions."""

    extractor: Extractor = field(default_factory=RuleExtractor)
    paraphraser: Paraphraser | AsyncParaphraser | None = None
    paraphraser_name: str = ""
    consolidator: Consolidator | None = None
    summariser: SessionSummariser | None = None

    @property
    def name(self) -> str:
        """The names of all makers; results of another name are made again."""
        names = [self.extractor.name]
        names += [self.paraphraser_name] if self.paraphraser is not None else []
        names += [one.name for one in (self.consolidator, self.summariser) if one is not None]
        return "+".join(names)

    def using(
        self,
        *,
        extractor: Extractor | None,
        consolidator: Consolidator | None,
        summariser: SessionSummariser | None,
        model: Model | None,
        model_name: str,
    ) -> "Builders":
        """Return a copy with these makers. Raises InvalidRequestError for an invalid one."""
        _check("extractor", extractor, "extract")
        _check("consolidator", consolidator, "decide")
        _check("summariser", summariser, "summarise")
        _check_carries(summariser)
        paraphraser, name = self.paraphraser, self.paraphraser_name
        given: Any = model
        if callable(given) and says_sentences(given):
            paraphraser, name = given, check_name(model_name, "model_name")
        elif given is not None:
            called = check_name(model_name, "model_name")
            asked = as_model(given, name=None if called == "model" else called)
            extractor = extractor or ModelExtractor(asked)
            consolidator = consolidator or ModelConsolidator(asked)
        return replace(
            self,
            extractor=extractor or self.extractor,
            paraphraser=paraphraser,
            paraphraser_name=name,
            consolidator=consolidator or self.consolidator,
            summariser=summariser or self.summariser,
        )


RULES = Builders()
"""Rules only."""


def _check(name: str, given: object, method: str) -> None:
    if given is None:
        return
    is_named = isinstance(getattr(given, "name", None), str)
    if not is_named or not callable(getattr(given, method, None)):
        raise InvalidRequestError(f"{name} is {shown(given)}: it needs a name and {method}(…)")


def _check_carries(summariser: SessionSummariser | None) -> None:
    """Raise InvalidRequestError for a summariser that does not accept the previous summary."""
    if summariser is None:
        return
    try:
        inspect.signature(summariser.summarise).bind([], None)
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"summariser is {shown(summariser)}: summarise takes the new turns and, second, the "
            "summary so far or None"
        ) from error
