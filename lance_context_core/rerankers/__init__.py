"""What reads a question and a text together, and says how well they fit: cross-encoders."""

from lance_context_core.rerankers._endpoint import EndpointReranker
from lance_context_core.rerankers._fastembed import FastEmbedReranker
from lance_context_core.rerankers._sentence_transformers import SentenceTransformersReranker
from lance_context_core.rerankers._texts import TextReranker

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    "FastEmbedReranker",
    "SentenceTransformersReranker",
    "EndpointReranker",
    "TextReranker",
]
