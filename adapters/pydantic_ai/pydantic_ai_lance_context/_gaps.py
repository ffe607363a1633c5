"""A history without some of its messages: what has lost its other half goes with them.

Providers refuse a call without a result, and a result without a call; and Pydantic AI would run a
call without a result again if it is the last.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pydantic_ai import messages as ai

from lance_context_core import Item
from pydantic_ai_lance_context._chains import Link
from pydantic_ai_lance_context._conversation_items import calls_of, message_ids, value_of
from pydantic_ai_lance_context._messages import with_parts

Gaps = Mapping[str, tuple[Item | None, Collection[str | None]]]
"""The items of entries that lack messages, and the ids of the messages that are left, by entry."""


def mended(
    links: Sequence[Link], messages: Sequence[ai.ModelMessage | None], gaps: Gaps
) -> list[ai.ModelMessage | None]:
    """The messages without calls whose results are gone, and results whose calls are gone.

    A call that was never answered stays, as that of a run that waits. A message of which nothing is
    left but thoughts is gone, too.
    """
    callers: dict[str, int] = {}
    torn: dict[int, set[str]] = defaultdict(set)
    for number, (link, message) in enumerate(zip(links, messages, strict=True)):
        item, left = gaps.get(link.id, (None, ()))
        told = value_of(item)
        callers |= dict.fromkeys(calls_of(message) if message else told.get("calls", ()), number)
        gone = [
            call
            for call, id in zip(
                told.get("answers", ()), message_ids(item) if item else (), strict=False
            )
            if call and id not in left
        ]
        for call in gone:
            if call in callers:
                torn[callers[call]].add(call)
        for call in _answered(message):
            if call in callers and messages[callers[call]] is None:
                torn[number].add(call)
    return [
        _without(message, torn[number]) if message and number in torn else message
        for number, message in enumerate(messages)
    ]


def begins_torn(messages: Iterable[ai.ModelMessage]) -> bool:
    """Whether a part of a history has a result whose call is before it."""
    called: set[str] = set()
    for message in messages:
        called |= calls_of(message).keys()
        if any(call not in called for call in _answered(message)):
            return True
    return False


def _answered(message: ai.ModelMessage | None) -> Iterator[str]:
    """The calls that a request answers."""
    for part in message.parts if isinstance(message, ai.ModelRequest) else ():
        if isinstance(part, ai.ToolReturnPart) or (
            isinstance(part, ai.RetryPromptPart) and part.tool_name is not None
        ):
            yield part.tool_call_id


def _without(message: ai.ModelMessage, calls: Collection[str]) -> ai.ModelMessage | None:
    halves = (ai.ToolCallPart, ai.ToolReturnPart, ai.RetryPromptPart)
    parts = [
        one for one in message.parts if not (isinstance(one, halves) and one.tool_call_id in calls)
    ]
    # A provider that signs its thoughts takes them with what they led to alone.
    is_empty = all(isinstance(one, ai.ThinkingPart) for one in parts)
    return None if is_empty else with_parts(message, parts)
