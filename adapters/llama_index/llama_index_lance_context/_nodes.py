"""Converts LlamaIndex's nodes to documents of the store, and back."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from llama_index.core.schema import BaseNode, ImageNode, IndexNode, MetadataMode, Node, TextNode

from lance_context_core import Document, InvalidRequestError
from llama_index_lance_context._values import (
    decode,
    decode_object,
    encode,
    encode_object,
    encode_text,
)

NATIVE = "_llama_index"
"""The metadata key of the fields that restore a node."""

CLASS_NAME = "type"
"""Below `NATIVE`: the name of the node's class."""

SOURCE_ID = "ref_doc_id"
"""Below `NATIVE`: the id of the node's source document, or null."""

_CONTENT = "node"
"""Below `NATIVE`: the JSON text of the node without its text and vector, and without the parts
that `_shorten` omits."""

_METADATA = "metadata"

_OTHER_METADATA = "other_metadata"
"""In a related node: its metadata where it differs from the node's own."""

_USUAL: Mapping[str, Mapping[str, Any]] = {
    "TextNode": {
        "metadata_template": "{key}: {value}",
        "metadata_separator": "\n",
        "text": "",
        "mimetype": "text/plain",
        "start_char_idx": None,
        "end_char_idx": None,
        "text_template": "{metadata_str}\n\n{content}",
        "class_name": "TextNode",
    }
}
"""Default values that are omitted, by class. Stored nodes rely on them: add classes, but change
none."""

_EMBEDDED_WITHOUT, _SHOWN_WITHOUT = "excluded_embed_metadata_keys", "excluded_llm_metadata_keys"

_ENCODER = json.JSONEncoder(ensure_ascii=False)

_PLAIN = (str, int, bool, type(None))

_RESOURCES = ("text_resource", "image_resource", "audio_resource", "video_resource")

_CLASSES: dict[str, type[BaseNode]] = {
    "ImageDocument": Node,
    "ImageNode": ImageNode,
    "IndexNode": IndexNode,
    "Node": Node,
}
"""The class for reading a node, by its original class; others, documents too, are read as
TextNode."""


def to_documents(nodes: Iterable[BaseNode]) -> list[Document]:
    """The stored form of nodes; the last one of an id."""
    return [to_document(node) for node in {node.node_id: node for node in nodes}.values()]


def to_document(node: BaseNode) -> Document:
    """The stored form, with the node's own text, vector and metadata, readable by all frameworks.

    Raises InvalidRequestError for a node whose metadata has the key `NATIVE`, or cannot be stored.
    """
    where = f"node {node.node_id!r:.80}"
    if NATIVE in node.metadata:
        raise InvalidRequestError(
            f"{where} has the metadata key {NATIVE!r}, which is taken: rename it"
        )
    metadata = encode_object(node.metadata, f"the metadata of {where}")
    content = node.model_dump(exclude={"embedding", "metadata"})
    _keep_data(content, node)
    _set_text(content, "")
    _shorten(content, node)
    native = {
        CLASS_NAME: node.class_name(),
        SOURCE_ID: node.ref_doc_id,
        _CONTENT: _written(content, _kept(metadata), where),
    }
    return Document(
        id=node.node_id,
        text=node.get_content(metadata_mode=MetadataMode.NONE),
        embedding=node.embedding,
        metadata={**metadata, NATIVE: native},
    )


def to_node(document: Document) -> BaseNode:
    """The stored node; a document of another framework becomes a TextNode."""
    metadata = dict(document.metadata)
    native = metadata.pop(NATIVE, None)
    vector = None if document.embedding is None else list(document.embedding)
    if native is None:
        return TextNode(
            id_=document.id or "",
            text=document.text or "",
            metadata=decode_object(metadata),
            embedding=vector,
        )
    content = {
        **_USUAL.get(native[CLASS_NAME], {}),
        "id_": document.id,
        **json.loads(native[_CONTENT]),
    }
    content.setdefault(_SHOWN_WITHOUT, content[_EMBEDDED_WITHOUT])
    _set_text(content, document.text or "")
    kept = content.pop(_METADATA)
    # Another framework may have changed it since.
    if isinstance(kept, list):
        kept = {key: metadata[key] for key in kept if key in metadata}
    kept = kept if kept == metadata else metadata
    for related in _related(content):
        if (other := related.pop(_OTHER_METADATA, None)) is not None:
            related[_METADATA] = {**kept, **other}
    content = decode(content)
    content[_METADATA] = decode_object(kept)
    node_class = _CLASSES.get(native[CLASS_NAME], TextNode)
    if node_class is TextNode and content.get("text_resource", content) is None:
        # A document without a text, which a TextNode cannot represent.
        del content["text_resource"]
    return node_class.from_dict({**content, "embedding": vector})


def _written(content: dict[str, Any], kept: dict[str, Any] | list[str], where: str) -> str:
    if isinstance(kept, list):
        return encode_text({**content, _METADATA: kept}, where)
    return _ENCODER.encode({**encode(content, where), _METADATA: kept})


def _shorten(content: dict[str, Any], node: BaseNode) -> None:
    """Omits redundant and default fields from the JSON of a node.

    The metadata of related nodes is often that of the node itself.
    """
    del content["id_"]
    for name, value in _USUAL.get(node.class_name(), {}).items():
        if content.get(name, ...) == value:
            del content[name]
    if content[_SHOWN_WITHOUT] == content[_EMBEDDED_WITHOUT]:
        del content[_SHOWN_WITHOUT]
    own = node.metadata
    for related in _related(content):
        metadata = related[_METADATA]
        if metadata and list(metadata) == list(own):
            del related[_METADATA]
            related[_OTHER_METADATA] = {
                key: value
                for key, value in metadata.items()
                if type(value) not in _PLAIN
                or type(own[key]) is not type(value)
                or own[key] != value
            }


def _related(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The JSON of each related node in the JSON of a node."""
    for related in content["relationships"].values():
        yield from related if isinstance(related, list) else [related]


def _kept(metadata: dict[str, Any]) -> dict[str, Any] | list[str]:
    """The part of the metadata to store as text: the order of its keys, or all of it.

    The order of keys is that of the prompt. The store's JSON keeps neither it, nor that of nested
    mappings, nor whether a number without a fraction was a float.
    """
    return list(metadata) if all(map(_stays_as_it_is, metadata.values())) else metadata


def _stays_as_it_is(value: Any) -> bool:
    if isinstance(value, float):
        return not value.is_integer()
    if isinstance(value, list):
        return all(map(_stays_as_it_is, value))
    return not isinstance(value, dict)


def _keep_data(content: dict[str, Any], node: BaseNode) -> None:
    """Adds the bytes of a node's media, in base64, which LlamaIndex's JSON omits."""
    for name in _RESOURCES:
        if content.get(name) is None:
            continue
        resource = getattr(node, name)
        if resource.data is not None:
            content[name]["data"] = resource.data.decode("ascii")


def _set_text(content: dict[str, Any], text: str) -> None:
    """Replaces the text in the JSON of a node, if it has one."""
    place = content if "text" in content else content.get("text_resource")
    if place is not None and place["text"] is not None:
        place["text"] = text
