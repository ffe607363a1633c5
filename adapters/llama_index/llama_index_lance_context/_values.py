"""Converts values that JSON cannot hold: metadata, tool results, whole nodes."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from llama_index.core.bridge.pydantic import AnyUrl, BaseModel
from llama_index.core.constants import DATA_KEY, TYPE_KEY
from llama_index.core.schema import BaseNode
from llama_index.core.storage.docstore.utils import json_to_doc

from lance_context_core.adapting import JsonCodec, TypeCodec

_RESOURCES = ("text_resource", "image_resource", "audio_resource", "video_resource")


def node_to_json(node: BaseNode) -> dict[str, Any]:
    """The JSON of LlamaIndex's document stores, with the fields that those lose.

    These are the bytes of media, and metadata that is not JSON. Raises InvalidRequestError for
    metadata that cannot be stored.
    """
    dumped = _dumped(node)
    return {
        DATA_KEY: encode(dumped[DATA_KEY], f"node {node.node_id!r:.80}"),
        TYPE_KEY: dumped[TYPE_KEY],
    }


def node_from_json(content: Mapping[str, Any]) -> BaseNode:
    """The node of `node_to_json`, or of LlamaIndex's own JSON."""
    return json_to_doc({DATA_KEY: decode(content[DATA_KEY]), TYPE_KEY: content[TYPE_KEY]})


def _dumped(node: BaseNode) -> dict[str, Any]:
    content = node.model_dump()
    for name in _RESOURCES:
        if content.get(name) is not None and (data := getattr(node, name).data) is not None:
            # LlamaIndex keeps bytes in base64, and omits them from its JSON.
            content[name]["data"] = data.decode("ascii")
    if content["embedding"] is not None:
        content["embedding"] = [float(one) for one in content["embedding"]]
    return {DATA_KEY: content, TYPE_KEY: str.__str__(node.get_type())}


def _plain(value: object) -> Any:
    """Pydantic models and enum members, serialized as LlamaIndex does everywhere."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, Enum):
        return value.value
    raise TypeError


_CODEC = JsonCodec(
    [
        TypeCodec(name="url", python_type=AnyUrl, encode=str, decode=AnyUrl),
        TypeCodec(name="node", python_type=BaseNode, encode=_dumped, decode=json_to_doc),
    ],
    default=_plain,
)
encode, encode_text, decode = _CODEC.encode, _CODEC.encode_text, _CODEC.decode
encode_object, decode_object = _CODEC.encode_object, _CODEC.decode_object
