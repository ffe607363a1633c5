"""Values that JSON cannot hold, as JSON, and back: metadata, what tools answer, whole nodes."""

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

from llama_index.core.bridge.pydantic import AnyUrl, BaseModel
from llama_index.core.constants import DATA_KEY, TYPE_KEY
from llama_index.core.schema import BaseNode
from llama_index.core.storage.docstore.utils import json_to_doc

from lance_context_core import InvalidRequestError

_TYPE = "lance_context:type"
"""The key that marks a stand-in; mappings that have it themselves are stood in for, too."""
_VALUE = "value"

_RESOURCES = ("text_resource", "image_resource", "audio_resource", "video_resource")


def node_to_json(node: BaseNode) -> dict[str, Any]:
    """The node as LlamaIndex's document stores write it, and what these leave out or cannot write.

    Those are the bytes of its media, and metadata that is no JSON. Raises InvalidRequestError for
    metadata that cannot be stored.
    """
    content = node.model_dump()
    for name in _RESOURCES:
        resource = getattr(node, name, None)
        if resource is not None and resource.data is not None:
            # LlamaIndex keeps bytes in base64, and out of its own JSON.
            content[name]["data"] = resource.data.decode("ascii")
    embedding = content.pop("embedding")
    content = encode(content, f"node {node.node_id!r:.80}")
    data = content | {"embedding": None if embedding is None else [float(x) for x in embedding]}
    return {DATA_KEY: data, TYPE_KEY: str.__str__(node.get_type())}


def node_from_json(content: Mapping[str, Any]) -> BaseNode:
    """The node that `node_to_json`, or LlamaIndex itself, wrote."""
    return json_to_doc({DATA_KEY: decode(content[DATA_KEY]), TYPE_KEY: content[TYPE_KEY]})


def encode(value: Any, where: str) -> Any:
    """`value` as JSON that `decode` makes equal to it again.

    Besides what JSON has: any integer and float, tuples, sets, mappings with keys of any kind, bytes,
    times, decimals, UUIDs, paths, URLs and nodes. Other models of pydantic become mappings and the
    members of an enumeration their values, as they do wherever LlamaIndex serialises them. Raises
    InvalidRequestError, which calls it `where`, for everything else.
    """
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else _stand_in("int", str(int(value)))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _stand_in("float", repr(float(value)))
    if isinstance(value, Mapping):
        return _encode_mapping(value, where)
    if isinstance(value, list):
        return [encode(one, f"{where}[{index}]") for index, one in enumerate(value)]
    for name, (type_, there, _) in _SCALARS.items():
        if isinstance(value, type_):
            return _stand_in(name, there(value))
    if isinstance(value, tuple | set | frozenset):
        return _stand_in(_name_of(value), encode(list(value), where))
    if isinstance(value, BaseModel):
        return encode(value.model_dump(), where)
    raise InvalidRequestError(
        f"{where} is a {type(value).__qualname__}, which cannot be stored: make it JSON first"
    )


def decode(value: Any) -> Any:
    """What `encode` made JSON of."""
    if isinstance(value, list):
        return [decode(one) for one in value]
    if not isinstance(value, dict):
        return value
    if _TYPE not in value:
        return {key: decode(one) for key, one in value.items()}
    name, content = value[_TYPE], value[_VALUE]
    if name in _SCALARS:
        return _SCALARS[name][2](content)
    return _DECODERS[name](decode(content))


def _encode_mapping(value: Mapping[Any, Any], where: str) -> Any:
    if all(isinstance(key, str) for key in value) and _TYPE not in value:
        return {str.__str__(key): encode(one, f"{where}[{key!r}]") for key, one in value.items()}
    return _stand_in("mapping", encode([list(pair) for pair in value.items()], where))


def _name_of(value: tuple[Any, ...] | set[Any] | frozenset[Any]) -> str:
    return next(one.__name__ for one in (tuple, set, frozenset) if isinstance(value, one))


def _stand_in(name: str, content: Any) -> dict[str, Any]:
    return {_TYPE: name, _VALUE: content}


_SCALARS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bytes": (bytes, lambda value: b64encode(value).decode(), b64decode),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (
        timedelta,
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: timedelta(*parts),
    ),
    "decimal": (Decimal, str, Decimal),
    "uuid": (UUID, str, UUID),
    "path": (PurePath, str, Path),
    "url": (AnyUrl, str, AnyUrl),
    "node": (BaseNode, node_to_json, node_from_json),
}
"""By name: the type, and the ways there and back. A datetime is a date, so that it comes first."""

_DECODERS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "int": int,
    "float": float,
    "mapping": dict,
}
