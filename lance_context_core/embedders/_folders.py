"""Models that are a folder on the disk: found, named, and told apart."""

import json
import os
import re
from hashlib import blake2b
from pathlib import Path
from typing import Any

from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError

_WEIGHTS = (".safetensors", ".onnx", ".bin", ".onnx_data")
_ONNX = ("onnx/model.onnx", "model.onnx", "model_optimized.onnx", "onnx/model_quantized.onnx")
_SAMPLE_BYTES = 65_536


@frozen_by_name
class Source:
    """Where a model comes from."""

    given: str
    """The name in a model hub, or the path, as the library takes it."""
    folder: Path | None
    """The folder, if it is one."""
    name: str
    """What its vectors are known by: of a folder its own name, and a digest of the weights."""


def source_of(model: str | os.PathLike[str]) -> Source:
    """The folder of that path if there is one, else the model of that name in a hub.

    Raises InvalidRequestError for an empty name, and for a path that leads nowhere.
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
            f"model={shown(given)}: there is no such folder; give one, or a name like ORG/MODEL"
        )
    return Source(given=given, folder=None, name=given)


def configuration(folder: Path, name: str) -> dict[str, Any]:
    """What a JSON file of the folder holds; nothing if there is no such file, or no object in it."""
    path = folder / name
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    return found if isinstance(found, dict) else {}


def onnx_file(folder: Path) -> str:
    """The file of a folder that is the model. Raises InvalidRequestError if none is."""
    for name in _ONNX:
        if (folder / name).is_file():
            return name
    raise InvalidRequestError(
        f"model={shown(str(folder))} has no ONNX model: give a folder with {' or '.join(_ONNX[:2])}"
    )


def pooled_dimension(folder: Path) -> int | None:
    """The length of vectors that are tokens' vectors pooled, as sentence-transformers notes it."""
    pooling = configuration(folder, "1_Pooling/config.json")
    found = pooling.get("word_embedding_dimension") or pooling.get("embedding_dimension")
    return found if isinstance(found, int) else None


def _digest(folder: Path) -> str:
    """Of the sizes, the beginnings and the ends of the weights: wherever they are copied, the same."""
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
