"""The framework-neutral message, and its lossless JSON form.

What one framework writes is translated into a `Message` and stored, and every other framework reads
the translation. What these classes have no word for is kept, never dropped: unknown keys of a part
in its `extra`, unknown parts as `UnknownPart`, the writing framework's own form in `native`.
"""

from lance_context_core.messages.message import (
    Message,
    MessageFields,
    parts_from_json,
    parts_to_json,
)
from lance_context_core.messages.parts import (
    MAX_NESTING,
    AudioPart,
    Content,
    DataPart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    VideoPart,
    iter_parts,
    parts_text,
)

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # The message
    "Message",
    "MessageFields",
    # Its parts
    "Part",
    "Content",
    "TextPart",
    "ReasoningPart",
    "ToolCallPart",
    "ToolResultPart",
    "DataPart",
    "UnknownPart",
    # Parts that are files
    "MediaPart",
    "ImagePart",
    "AudioPart",
    "VideoPart",
    "FilePart",
    # Going over parts
    "iter_parts",
    "parts_text",
    "parts_to_json",
    "parts_from_json",
    "MAX_NESTING",
]
