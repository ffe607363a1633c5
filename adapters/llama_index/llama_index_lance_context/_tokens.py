"""Counts the tokens of messages, tool calls included."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    BaseContentBlock,
    BaseRecursiveContentBlock,
    ChatMessage,
    ToolCallBlock,
)

from lance_context_core.adapting import countable_text
from llama_index_lance_context._blocks import to_parts

_CALLS = "tool_calls"
"""LlamaIndex's key in `additional_kwargs` for tool calls in OpenAI's form."""


def count_tokens(
    messages: Iterable[ChatMessage | BaseContentBlock],
    *,
    tokenizer: Callable[[str], Sequence[Any]],
    media: Mapping[str, int],
) -> int:
    """The tokens of all that a model receives of messages, or of blocks.

    Counts texts, reasoning, tool calls, citations and `additional_kwargs`; a call in both
    `additional_kwargs` and the blocks counts once. Images, audio, video and documents count by
    `media`, by type of block.
    """
    return sum(_tokens(one, tokenizer, media) for one in messages)


def _tokens(
    one: ChatMessage | BaseContentBlock,
    tokenizer: Callable[[str], Sequence[Any]],
    media: Mapping[str, int],
) -> int:
    blocks = list(_leaves(one))
    # A block with a fixed count is not read.
    words = [block for block in blocks if _kind(block) not in media and _kind(block) != "cache"]
    texts = [countable_text(to_parts(words))]
    if isinstance(one, ChatMessage):
        texts.append(_beside(one.additional_kwargs, blocks))
    return sum(media.get(_kind(block), 0) for block in blocks) + sum(
        len(tokenizer(text)) for text in texts if text
    )


def _leaves(one: BaseContentBlock) -> Iterator[BaseContentBlock]:
    """The leaf blocks, in order."""
    if not isinstance(one, BaseRecursiveContentBlock):
        yield one
        return
    for block in one.nested_blocks:
        yield from _leaves(block)


def _beside(more: Mapping[str, Any], blocks: Iterable[BaseContentBlock]) -> str:
    """The parts of `additional_kwargs` that the blocks lack, as LlamaIndex counts them."""
    known = {block.tool_call_id for block in blocks if isinstance(block, ToolCallBlock)} - {None}
    calls = more.get(_CALLS)
    if known and isinstance(calls, list | tuple):
        others = [call for call in calls if _id_of(call) not in known]
        more = {key: one for key, one in {**more, _CALLS: others}.items() if one or key != _CALLS}
    return str(more) if more else ""


def _id_of(call: Any) -> Any:
    return call.get("id") if isinstance(call, Mapping) else getattr(call, "id", None)


def _kind(block: BaseContentBlock) -> str:
    return str(getattr(block, "block_type", ""))
