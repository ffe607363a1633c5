"""What of an agent's messages is a turn, and how what is remembered of earlier ones is told."""

from collections.abc import Iterable, Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from lance_context_core import ContextRecord
from lance_context_core.adapting import content_of, encodable, says_something
from lance_context_core.results import SearchHit
from langchain_lance_context._blocks import to_parts

_MADE_BY = "lc_source"
"""Where LangChain keeps that a message was made by middleware, such as a summary."""


def last_turn(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What the user said since the last answer but one, and the last answer, in order.

    Without what was only thought or looked up on the way: tools, their calls, summaries, and what
    says nothing. Empty if no one said anything.
    """
    asked: list[BaseMessage] = []
    answer: list[BaseMessage] = []
    for message in reversed(messages):
        if _is_said(message):
            asked.append(message)
        elif _is_answer(message):
            if asked:
                break
            answer = answer or [message]
    return [*reversed(asked), *answer]


def last_question(messages: Sequence[BaseMessage]) -> str:
    """The text that the user said last, which can be searched for; empty if there is none."""
    texts = (str(one.text).strip() for one in reversed(messages) if _is_said(one))
    return str(encodable(next(filter(None, texts), "")))


def as_list(hits: Iterable[SearchHit[ContextRecord]], *, max_chars: int) -> str:
    """A list of what was found, each with its date and with who said it, in the order of the hits.

    Texts of `max_chars` in all: the one that goes beyond is cut, and those after it are left out.
    """
    lines = []
    for hit in hits:
        text = content_of(hit.record).strip()
        if max_chars <= 0:
            break
        if text:
            shown = text if len(text) <= max_chars else f"{text[:max_chars].rstrip()} …"
            lines.append(f"- {_about(hit.record)}: {_indented(shown)}")
            max_chars -= len(text)
    return "\n".join(lines)


def _is_said(message: BaseMessage) -> bool:
    is_human = isinstance(message, HumanMessage) and not message.additional_kwargs.get(_MADE_BY)
    return is_human and says_something(to_parts(encodable(message)))


def _is_answer(message: BaseMessage) -> bool:
    is_last = isinstance(message, AIMessage) and not message.tool_calls
    return is_last and says_something(to_parts(encodable(message)))


def _about(record: ContextRecord) -> str:
    date = f"{record.created_at:%Y-%m-%d}"
    return f"{date}, {record.role}" if record.kind == "message" else date


def _indented(text: str) -> str:
    """Without line breaks at which a text could pass for several."""
    return "\n  ".join(text.splitlines())
