"""Converts values that JSON cannot hold: metadata, items, tool results."""

from langchain_core.documents import Document

from lance_context_core.adapting import JsonCodec, TypeCodec

_FIELDS = ("id", "metadata", "page_content")

_CODEC = JsonCodec(
    [
        TypeCodec(
            name="document",
            python_type=Document,
            encode=lambda document: {name: getattr(document, name) for name in _FIELDS},
            decode=lambda fields: Document(**fields),
        )
    ]
)
encode, decode = _CODEC.encode, _CODEC.decode
encode_object, decode_object = _CODEC.encode_object, _CODEC.decode_object
