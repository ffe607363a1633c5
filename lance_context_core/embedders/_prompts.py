"""What a model wants to stand before a question and before a document."""

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
    """What is put before texts, as a model was trained with it; empty for nothing."""

    query: str = ""
    """Before a question."""
    document: str = ""
    """Before a text that is kept."""

    def __post_init__(self) -> None:
        for name in ("query", "document"):
            if not isinstance(value := getattr(self, name), str):
                raise InvalidRequestError(f"{name}={shown(value)}: give a text, such as 'query: '")


class Prompted(ABC):
    """An embedder that puts what its model was trained with before each text."""

    _prompts: Prompts

    def embed_documents(self, texts: Sequence[str]) -> VectorArray:
        """See `Embedder.embed_documents`. Raises EmbeddingError for what is not vectors."""
        return self._embedded(texts, self._prompts.document)

    def embed_query(self, text: str) -> VectorArray:
        """See `Embedder.embed_query`. Raises EmbeddingError for what is not a vector."""
        vector: VectorArray = self._embedded([text], self._prompts.query)[0]
        return vector

    @abstractmethod
    def _embedded(self, texts: Sequence[str], prompt: str) -> VectorArray:
        """The vectors of the texts, each with the prompt before it."""


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
"""By what is in a model's name, the first that is; from the models' own descriptions."""

_DOCUMENT_NAMES = ("document", "passage", "corpus")


def chosen(name: str, folder: Path | None, given: Prompts | None) -> tuple[Prompts, str]:
    """The prompts of a model, the given ones before its own, and what its vectors are known by.

    Other prompts before documents make other vectors: the name says so.
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
    """Those that the folder's configuration has, else those known for the name, else none."""
    if folder is not None:
        path = folder / "config_sentence_transformers.json"
        if path.is_file():
            own = _own(json.loads(path.read_text(encoding="utf-8")).get("prompts"))
            if own is not None:
                return own
    lowered = name.lower()
    return next((one for part, one in _KNOWN if re.search(part, lowered)), Prompts())


def _own(configured: Any) -> Prompts | None:
    """Those of a model's configuration, by their names there; None if it has none."""
    if not isinstance(configured, Mapping):
        return None
    query = configured.get("query") or ""
    document = next((said for name in _DOCUMENT_NAMES if (said := configured.get(name))), "")
    return Prompts(query=query, document=document) if query or document else None
