"""Selects the turns of an agent's messages, and formats recalled ones."""

from collections.abc import Iterable, Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from lance_context_core import ContextRecord
from lance_context_core.adapting import content_of, encodable, says_something
from lance_context_core.results import SearchHit
from langchain_lance_context._blocks import to_parts

_MADE_BY = "lc_source"
"""LangChain's key for messages that middleware made, such as a summary."""


def last_turn(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The user's messages since the last answer but one, and the last answer, in order.

    Without intermediate steps: tools, their calls, summaries and empty messages. Empty without a
    message of the user.
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
    """The user's last text, for a search; empty if there is none."""
    texts = (str(one.text).strip() for one in reversed(messages) if _is_said(one))
    return str(encodable(next(filter(None, texts), "")))


def as_list(hits: Iterable[SearchHit[ContextRecord]], *, max_chars: int) -> str:
    """Hits as a list with dates and speakers, in order.

    The texts have `max_chars` in all: the one that exceeds it is cut, and later ones are left out.
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
    """Without line breaks that would make one text look like several."""
    return "\n  ".join(text.splitlines())
