"""Embedders: turn texts into vectors; those of this package, and adapters for other ones."""

from lance_context_core.embedders._adapt import AnyEmbedder, as_embedder
from lance_context_core.embedders._callable import AsyncCallableEmbedder, CallableEmbedder
from lance_context_core.embedders._e5 import E5Embedder
from lance_context_core.embedders._fastembed import FastEmbedEmbedder
from lance_context_core.embedders._local import LocalEmbedder, Model2VecEmbedder
from lance_context_core.embedders._openai import OpenAIEmbedder
from lance_context_core.embedders._prompts import Prompts
from lance_context_core.embedders._protocol import AsyncEmbedder, Embedder, VectorArray
from lance_context_core.embedders._sentence_transformers import SentenceTransformersEmbedder

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # Embedders
    "LocalEmbedder",
    "E5Embedder",
    "Model2VecEmbedder",
    "FastEmbedEmbedder",
    "SentenceTransformersEmbedder",
    "OpenAIEmbedder",
    "Prompts",
    "CallableEmbedder",
    "AsyncCallableEmbedder",
    "as_embedder",
    # Custom embedders
    "Embedder",
    "AsyncEmbedder",
    "AnyEmbedder",
    "VectorArray",
]
