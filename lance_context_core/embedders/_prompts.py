"""Prompts that a model expects before queries and documents."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.embedders._protocol import VectorArray
from lance_context_core.errors import InvalidRequestError


@frozen_by_name
class Prompts:
    """The prefixes of texts that a model was trained with; empty for none."""

    query: str = ""
    """Before a query."""
    document: str = ""
    """Before a document."""

    def __post_init__(self) -> None:
        for name in ("query", "document"):
            if not isinstance(value := getattr(self, name), str):
                raise InvalidRequestError(f"{name}={shown(value)}: give a text, such as 'query: '")


class Prompted(ABC):
    """An embedder that prefixes each text with its model's prompt."""

    _prompts: Prompts

    def embed_documents(self, texts: Sequence[str]) -> VectorArray:
        """See `Embedder.embed_documents`. Raises EmbeddingError for invalid vectors."""
        return self._embedded(texts, self._prompts.document)

    def embed_query(self, text: str) -> VectorArray:
        """See `Embedder.embed_query`. Raises EmbeddingError for an invalid vector."""
        vector: VectorArray = self._embedded([text], self._prompts.query)[0]
        return vector

    @abstractmethod
    def _embedded(self, texts: Sequence[str], prompt: str) -> VectorArray:
        """Returns the vectors of the texts, each with the prompt before it."""


_SEARCH = "Represent this sentence for searching relevant passages: "
_INSTRUCT = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)
_KNOWN = (
    (r"e5.*instruct|e5-mistral", Prompts(query=f"{_INSTRUCT} ")),
    (r"\be5-", Prompts(query="query: ", document="passage: ")),
    (r"\bbge-(small|base|large)-en", Prompts(query=_SEARCH)),
    (r"\bbge-(small|base|large)-zh", Prompts(query="为这个句子生成表示以用于检索相关文章：")),  # noqa: RUF001 - as it was trained
    (r"\bmxbai-embed-(large|xsmall)", Prompts(query=_SEARCH)),
    (r"\bsnowflake-arctic-embed-.*v2", Prompts(query="query: ")),
    (r"\bsnowflake-arctic-embed", Prompts(query=_SEARCH)),
    (r"\bnomic-embed-text", Prompts(query="search_query: ", document="search_document: ")),
    (
        r"\bembeddinggemma",
        Prompts(query="task: search result | query: ", document="title: none | text: "),
    ),
    (r"\bqwen3-embedding", Prompts(query=_INSTRUCT)),
)
"""Prompts by a part of the model's name, the first match; from the models' own descriptions."""

_DOCUMENT_NAMES = ("document", "passage", "corpus")


def chosen(name: str, folder: Path | None, given: Prompts | None) -> tuple[Prompts, str]:
    """Returns the prompts of a model, given ones first, and the recorded name of its vectors.

    Other prompts before documents make other vectors: the name contains them.
    """
    usual = prompts_of(name, folder)
    if given is None or given == usual:
        return usual, name
    if not isinstance(given, Prompts):
        raise InvalidRequestError(
            f"prompts={shown(given)}: give Prompts(query='query: ', document='passage: ')"
        )
    is_usual = given.document == usual.document
    return given, name if is_usual else f"{name}+{given.document!r}"


def prompts_of(name: str, folder: Path | None = None) -> Prompts:
    """Returns the prompts of the folder's configuration, else those known for the name, else none."""
    if folder is not None:
        path = folder / "config_sentence_transformers.json"
        if path.is_file():
            own = _own(json.loads(path.read_text(encoding="utf-8")).get("prompts"))
            if own is not None:
                return own
    lowered = name.lower()
    return next((one for part, one in _KNOWN if re.search(part, lowered)), Prompts())


def _own(configured: Any) -> Prompts | None:
    """Returns the prompts of a model's configuration by name; None if it has none."""
    if not isinstance(configured, Mapping):
        return None
    query = configured.get("query") or ""
    document = next((said for name in _DOCUMENT_NAMES if (said := configured.get(name))), "")
    return Prompts(query=query, document=document) if query or document else None
