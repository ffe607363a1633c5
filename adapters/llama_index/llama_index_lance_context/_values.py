"""Values that JSON cannot hold, as JSON, and back: metadata, what tools answer, whole nodes."""

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
    """The node as LlamaIndex's document stores write it, and what these leave out or cannot write.

    Those are the bytes of its media, and metadata that is no JSON. Raises InvalidRequestError for
    metadata that cannot be stored.
    """
    dumped = _dumped(node)
    return {
        DATA_KEY: encode(dumped[DATA_KEY], f"node {node.node_id!r:.80}"),
        TYPE_KEY: dumped[TYPE_KEY],
    }


def node_from_json(content: Mapping[str, Any]) -> BaseNode:
    """The node that `node_to_json`, or LlamaIndex itself, wrote."""
    return json_to_doc({DATA_KEY: decode(content[DATA_KEY]), TYPE_KEY: content[TYPE_KEY]})


def _dumped(node: BaseNode) -> dict[str, Any]:
    content = node.model_dump()
    for name in _RESOURCES:
        if content.get(name) is not None and (data := getattr(node, name).data) is not None:
            # LlamaIndex keeps bytes in base64, and out of its own JSON.
            content[name]["data"] = data.decode("ascii")
    if content["embedding"] is not None:
        content["embedding"] = [float(one) for one in content["embedding"]]
    return {DATA_KEY: content, TYPE_KEY: str.__str__(node.get_type())}


def _plain(value: object) -> Any:
    """Models of pydantic and members of an enumeration as LlamaIndex serialises them anywhere."""
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
