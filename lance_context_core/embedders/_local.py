"""The embedder without network or service: a static model inside an installed package."""

import json
import logging
import os
import re
import threading
from collections.abc import Sequence
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from lance_context_core._util.checks import shown
from lance_context_core._util.extras import Loaded, importing, require
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.embedders._callable import checked_dimension
from lance_context_core.embedders._prompts import Prompted, Prompts, chosen
from lance_context_core.embedders._protocol import VectorArray, batches, well_formed
from lance_context_core.embedders._vectors import checked_vectors, no_vectors
from lance_context_core.errors import InvalidRequestError

_TEXTS_AT_ONCE = 256
_CHARS_AT_ONCE = 1_000_000
_INSTANT_CHARS = 1_000
_loading = threading.Lock()


class LocalEmbedder:
    """wordllama's 256-d static model, which the extra `local` installs with its weights.

    A text's vector is the mean of its tokens' vectors, independent of other texts. Texts are
    lower-cased first: each spelling of a word has its own tokens, so "Vase" would be nearly
    unrelated to "vase". Tokens take about 100 bytes per character while they are counted, for a
    million characters at a time or for one longer text. The model is loaded at the first call, once
    per process: about a second, 33 MB. It never opens a connection. Raises MissingExtraError, at
    construction, without the extra.
    """

    model = "wordllama-l2-supercat-256-lower"
    """Not the bare name of the weights: other programs with these weights compute other vectors."""
    dimension = 256

    def __init__(self) -> None:
        require("wordllama", extra="local", by="LocalEmbedder")

    def embed_documents(self, texts: Sequence[str]) -> VectorArray:
        """See `Embedder.embed_documents`. A text without tokens, such as an empty one, is zeros."""
        model = _load()
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        rows = iter(vectors)
        for batch in batches(texts, max_texts=_TEXTS_AT_ONCE, max_chars=_CHARS_AT_ONCE):
            for tokens in model.tokens([well_formed(text).lower() for text in batch]):
                next(rows)[:] = model.mean(tokens)
        return vectors

    def embed_query(self, text: str) -> VectorArray:
        """See `Embedder.embed_query`; a query is embedded like a document."""
        model = _load()
        encoded = model.tokenizer.encode(well_formed(text).lower(), add_special_tokens=False)
        return model.mean(encoded.ids)

    def is_instant(self, text: str) -> bool:
        """Whether embedding a text is faster than handing it to another thread."""
        return len(text) <= _INSTANT_CHARS and _load_once.cache_info().currsize > 0

    def __repr__(self) -> str:
        return "LocalEmbedder()"


@frozen
class _Model:
    matrix: VectorArray
    """Of shape (vocabulary, dimension)."""
    tokenizer: Any

    def tokens(self, texts: list[str]) -> list[list[int]]:
        encoded = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encoded]

    def mean(self, tokens: list[int]) -> VectorArray:
        # wordllama's own pooling pads every text to the longest of its batch: one long document
        # among short texts takes gigabytes. Counting first bounds the rows by the vocabulary.
        counts = dict.fromkeys(sorted(tokens), 0)
        for id in tokens:
            counts[id] += 1
        times = np.array([*counts.values()], np.float32)
        total: VectorArray = times @ self.matrix.take(np.array([*counts], np.intp), axis=0)
        return total / np.float32(max(len(tokens), 1))


def _load() -> _Model:
    """Returns the model of this process; concurrent threads wait for one load."""
    with _loading:
        return _load_once()


@cache
def _load_once() -> _Model:
    # Importing wordllama calls logging.basicConfig, which would reconfigure the root logger of
    # the application; it leaves a logger alone that has a handler.
    guard = logging.NullHandler()
    logging.getLogger().addHandler(guard)
    try:
        with importing("wordllama", extra="local", by="LocalEmbedder"):
            import wordllama
    finally:
        logging.getLogger().removeHandler(guard)
    inference = wordllama.WordLlama.load(
        cache_dir=Path(wordllama.__file__).parent,
        dim=LocalEmbedder.dimension,
        disable_download=True,
    )
    inference.tokenizer.no_padding()
    return _Model(inference.embedding, inference.tokenizer)


# Models in a folder: found, named, and identified.

_WEIGHTS = (".safetensors", ".onnx", ".bin", ".onnx_data")
_ONNX = ("onnx/model.onnx", "model.onnx", "model_optimized.onnx", "onnx/model_quantized.onnx")
_SAMPLE_BYTES = 65_536


@frozen_by_name
class Source:
    """The source of a model."""

    given: str
    """The name in a model hub, or the path, in the library's format."""
    folder: Path | None
    """The folder, if it is one."""
    name: str
    """The recorded name of its vectors: for a folder its name, and a digest of the weights."""


def source_of(model: str | os.PathLike[str]) -> Source:
    """Returns the folder of that path if it exists, else the model of that name in a hub.

    Raises InvalidRequestError for an empty name, and for a path that does not exist.
    """
    if not isinstance(model, str | os.PathLike) or not str(model).strip():
        raise InvalidRequestError(f"model={shown(model)}: give a model's name, or a folder")
    given = os.fspath(model)
    path = Path(given).expanduser()
    if path.is_dir():
        folder = path.resolve()
        return Source(given=str(folder), folder=folder, name=f"{folder.name}@{_digest(folder)}")
    if not isinstance(model, str) or re.match(r"[./~\\]|[A-Za-z]:[\\/]|.*/.*/", given):
        raise InvalidRequestError(
            f"model={shown(given)}: no such folder; give one, or a name like ORG/MODEL"
        )
    return Source(given=given, folder=None, name=given)


def configuration(folder: Path, name: str) -> dict[str, Any]:
    """Returns the object in a JSON file of the folder; empty without such a file or object."""
    path = folder / name
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    return found if isinstance(found, dict) else {}


def onnx_file(folder: Path) -> str:
    """Returns the model file of a folder. Raises InvalidRequestError if there is none."""
    for name in _ONNX:
        if (folder / name).is_file():
            return name
    raise InvalidRequestError(
        f"model={shown(str(folder))} has no ONNX model: give a folder with {' or '.join(_ONNX[:2])}"
    )


def pooled_dimension(folder: Path) -> int | None:
    """Returns the length of pooled token vectors, from the sentence-transformers configuration."""
    pooling = configuration(folder, "1_Pooling/config.json")
    found = pooling.get("word_embedding_dimension") or pooling.get("embedding_dimension")
    return found if isinstance(found, int) else None


def _digest(folder: Path) -> str:
    """Returns a digest of the sizes, starts and ends of the weights: the same for each copy."""
    digest = blake2b(digest_size=4)
    weights = [one for one in folder.rglob("*") if one.suffix in _WEIGHTS and one.is_file()]
    for path in sorted(weights, key=lambda one: one.relative_to(folder).as_posix()):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()}\0{size}\0".encode())
        with path.open("rb") as file:
            digest.update(file.read(_SAMPLE_BYTES))
            file.seek(max(0, size - _SAMPLE_BYTES))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


# Static models of model2vec: as fast as the local one, in more sizes and languages.

_encoding = threading.Lock()
"""model2vec sets its tokenizer up anew in each call: only one thread may use it at a time."""


class Model2VecEmbedder(Prompted):
    """A static model of model2vec, which the extra `model2vec` installs without a model.

    `model` is a folder, or a name such as `minishlab/potion-base-8M`, whose model is downloaded at
    the first call unless it is cached. A text's vector is made of all its tokens, at any length;
    that of a text without tokens known to the model is zeros. `dimension` truncates vectors to so
    many numbers. Raises MissingExtraError, at construction, without the extra.
    """

    max_concurrency = 1

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        dimension: int | None = None,
        prompts: Prompts | None = None,
    ) -> None:
        require("model2vec", extra="model2vec", by="Model2VecEmbedder")
        source = source_of(model)
        self._prompts, self.model = chosen(source.name, source.folder, prompts)
        self.dimension = checked_dimension(dimension) or _dimension_of(source.folder)
        self._loaded = Loaded(partial(_load_static, source, checked_dimension(dimension)))

    def __repr__(self) -> str:
        return f"Model2VecEmbedder({self.model!r})"

    def _embedded(self, texts: Sequence[str], prompt: str) -> VectorArray:
        if not texts:
            return no_vectors(self.dimension)
        model, rows = self._loaded.get(), []
        given = [f"{prompt}{well_formed(text)}" for text in texts]
        for batch in batches(given, max_texts=_TEXTS_AT_ONCE, max_chars=_CHARS_AT_ONCE):
            with _encoding:
                rows += list(model.encode(batch, max_length=None, use_multiprocessing=False))
        return checked_vectors(rows, texts, model=self.model, dimension=self.dimension)


def _load_static(source: Source, dimension: int | None) -> Any:
    with importing("model2vec", extra="model2vec", by="Model2VecEmbedder"):
        from model2vec import StaticModel
    return StaticModel.from_pretrained(source.given, dimensionality=dimension, force_download=False)


def _dimension_of(folder: Path | None) -> int | None:
    """Returns the width of the matrix from the head of the file: nothing is loaded."""
    path = None if folder is None else folder / "model.safetensors"
    if path is None or not path.is_file():
        return None
    with path.open("rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    shape = head.get("embeddings", {}).get("shape")
    return int(shape[1]) if shape else None
