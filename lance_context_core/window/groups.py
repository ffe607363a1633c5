"""Groups of a conversation: a message, or a tool call with its results.

A group is kept or dropped as one. No provider accepts a result without its call, and few a call
without its result. So a conversation is shortened by whole groups; histories that break the rules
(orphans, duplicates, interrupted calls, unanswered calls) are repaired here, once, for all
dialects.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.messages import Message, Part, ReasoningPart, TextPart, UnknownPart
from lance_context_core.messages.message import stored_message
from lance_context_core.messages.parts import ToolCallPart, ToolResultPart

GroupKind = Literal["system", "user", "assistant", "call", "compaction"]
"""The kind: instruction, turn, call with its results, or a provider's own summary."""

NO_RESULT = "[no result was recorded]"
"""Replaces the result of a call that was unanswered when the conversation went on."""

NAMELESS = "unnamed_tool"
"""The name of a tool that is unknown, since providers require one."""


@frozen_by_name
class Group:
    """Messages that are kept in a window or dropped as one."""

    kind: GroupKind
    messages: tuple[Message, ...]
    """In an order that providers accept: results directly after their calls."""
    ids: tuple[str, ...]
    """The ids of its stored messages, in their order."""
    is_open: bool = False
    """Whether it waits for results, which only the last group may."""
    notes: tuple[str, ...] = ()
    """Repairs, such as `result_added`."""

    @property
    def is_user_turn(self) -> bool:
        """Whether it contains a message of a user."""
        return self.kind == "user"


@frozen_by_name
class Grouped:
    """A conversation in groups, and the rejected messages."""

    groups: tuple[Group, ...]
    rejected: tuple[tuple[Message, str], ...] = ()
    """Messages of which nothing is left, with the reason.

    One of `orphan_result`, `duplicate_result`, `reasoning_alone` or `empty`.
    """

    @property
    def messages(self) -> list[Message]:
        """All messages of the groups, in order."""
        return [message for group in self.groups for message in group.messages]


@dataclass(slots=True)
class _Call:
    """A call group under construction."""

    message: Message
    calls: list[ToolCallPart]
    """As stored, since results refer to these ids."""
    call_ids: list[str]
    """Their ids in the window, each unique."""
    before: list[Message]
    """Reasoning messages that led to it."""
    ids: list[str]
    results: dict[int, tuple[ToolResultPart, Message]] = field(default_factory=dict)
    """By the index of the call: the result, and its message."""
    notes: list[str] = field(default_factory=list)

    def name_of(self, index: int) -> str:
        """Return the tool's name, from the call or else its result."""
        told = self.results[index][0].name if index in self.results else None
        return self.calls[index].name or told or NAMELESS

    def open_index(self, result: ToolResultPart) -> int | None:
        """Return the index of the unanswered call that the result answers."""
        for index, call in enumerate(self.calls):
            is_named = call.call_id == result.call_id
            if result.call_id is None or call.call_id is None:
                is_named = None in (result.call_id, call.call_id) and result.name in (
                    None,
                    call.name,
                )
            if is_named and index not in self.results:
                return index
        return None


def groups_of(messages: Iterable[Message]) -> Grouped:
    """Split a conversation into groups, in order.

    Results are moved behind their calls; a second result of one call, and one without a call, are
    rejected; an unanswered call gets a placeholder result, unless only other results follow: then
    it is open. Calls with a duplicate id, or none, get ids of their own.
    """
    return _Grouping().run(messages)


class _Grouping:
    def __init__(self) -> None:
        self._made: list[Group | _Call] = []
        self._rejected: list[tuple[Message, str]] = []
        self._thoughts: list[Message] = []
        """Messages of reasoning alone, which belong to the model's next message."""
        self._taken: set[str] = set()
        """The ids of calls in the window so far."""
        self._stored: set[str | None] = set()
        """The stored ids of calls so far."""
        self._open = _Waiting()

    def run(self, messages: Iterable[Message]) -> Grouped:
        for message in messages:
            self._take(message)
        self._flush()
        last = self._made[-1] if self._made else None
        groups = [
            _closed(one, is_last=one is last) if isinstance(one, _Call) else one
            for one in self._made
        ]
        return Grouped(groups=tuple(groups), rejected=tuple(self._rejected))

    def _take(self, message: Message) -> None:
        results = [part for part in message.parts if isinstance(part, ToolResultPart)]
        if results and any(isinstance(part, ToolCallPart) for part in message.parts):
            # Some frameworks store all messages of a step in one.
            for one in _steps(message):
                self._take(one)
            return
        if results:
            self._answer(message, results)
            rest = tuple(part for part in message.parts if not isinstance(part, ToolResultPart))
            if message.role == "tool" or not _says_something(rest):
                return
            message = replaced(message, parts=rest)
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        if calls:
            self._call(message)
        elif not _says_something(message.parts):
            self._rejected.append((message, "empty"))
        elif message.role in ("system", "developer"):
            self._flush()
            self._add("system", message)
        elif message.role in ("assistant", "ai", "model"):
            if all(_is_thought(part) for part in message.parts):
                self._thoughts.append(message)
            elif any(is_compaction(part) for part in message.parts):
                self._add("compaction", message)
            else:
                self._add("assistant", message)
        else:
            self._flush()
            # A tool that answers in text alone has no call to name: its answer is quoted as data.
            self._add("user", message)

    def _add(self, kind: GroupKind, message: Message) -> None:
        messages = (*self._thoughts, message)
        self._thoughts = []
        self._made.append(Group(kind=kind, messages=messages, ids=_ids(messages)))

    def _flush(self) -> None:
        """Reject reasoning without an answer: no provider accepts it alone."""
        self._rejected += [(thought, "reasoning_alone") for thought in self._thoughts]
        self._thoughts = []

    def _call(self, message: Message) -> None:
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        notes, call_ids = [], []
        for index, call in enumerate(calls):
            id = call.call_id
            if not id or id in self._taken:
                notes.append("call_id_changed" if id else "call_id_made")
                id = _new_id(message, index, self._taken)
            self._taken.add(id)
            call_ids.append(id)
        before, self._thoughts = self._thoughts, []
        ids = list(_ids([*before, message]))
        made = _Call(message, calls, call_ids, before, ids, notes=notes)
        self._made.append(made)
        self._open.add(made)
        self._stored |= {call.call_id for call in calls}

    def _answer(self, message: Message, results: Sequence[ToolResultPart]) -> None:
        """Move results behind the latest open calls that they answer."""
        for result in results:
            call = self._open.latest(result)
            index = None if call is None else call.open_index(result)
            if call is None or index is None:
                is_second = result.call_id is not None and result.call_id in self._stored
                reason = "duplicate_result" if is_second else "orphan_result"
                self._rejected.append((replaced(message, parts=(result,)), reason))
                continue
            call.results[index] = (result, message)
            if (ids := _ids([message])) and ids[0] not in call.ids:
                call.ids += ids
            if self._made[-1] is not call:
                call.notes.append("result_moved")


class _Waiting:
    """Calls that wait for results, indexed by everything that a result may name."""

    def __init__(self) -> None:
        self._n = 0
        self._by: dict[tuple[str, str | None], list[tuple[int, _Call]]] = {}

    def add(self, made: _Call) -> None:
        """Add an unanswered call, the latest one."""
        self._n += 1
        keys: dict[tuple[str, str | None], None] = {("any", None): None}
        for call in made.calls:
            named = ("id", call.call_id) if call.call_id is not None else ("nameless", call.name)
            keys |= dict.fromkeys([named, ("name", call.name)])
            if call.call_id is None:
                keys["nameless", None] = None
        for key in keys:
            self._by.setdefault(key, []).append((self._n, made))

    def latest(self, result: ToolResultPart) -> _Call | None:
        """Return the latest call that the result may answer."""
        if result.call_id is not None:
            keys = [("id", result.call_id), ("nameless", result.name)]
        else:
            keys = [("any" if result.name is None else "name", result.name)]
        found = [one for key in keys if (one := self._last(key, result)) is not None]
        return max(found, key=lambda one: one[0])[1] if found else None

    def _last(
        self, key: tuple[str, str | None], result: ToolResultPart
    ) -> tuple[int, _Call] | None:
        waiting = self._by.get(key, [])
        # A call with all its results never waits again.
        while waiting and waiting[-1][1].open_index(result) is None:
            waiting.pop()
        return waiting[-1] if waiting else None


def _closed(made: _Call, *, is_last: bool) -> Group:
    """Return the group: the call, then one message per result, in call order."""
    is_open = is_last and len(made.results) < len(made.calls)
    notes = list(made.notes)
    names = [made.name_of(index) for index in range(len(made.calls))]
    renamed = (
        replace(call, call_id=id, name=name)
        for call, id, name in zip(made.calls, made.call_ids, names, strict=True)
    )
    parts: tuple[Part, ...] = tuple(
        next(renamed) if isinstance(part, ToolCallPart) else part for part in made.message.parts
    )
    said = replaced(made.message, role="assistant", parts=_with_calls_last(parts))
    messages = [*made.before, said]
    for index in range(len(made.calls)):
        if index in made.results:
            result, message = made.results[index]
            told = replace(result, call_id=made.call_ids[index], name=names[index])
            messages.append(replaced(message, role="tool", name=None, parts=(told,)))
        elif not is_open:
            notes.append("result_added")
            stub = ToolResultPart(
                call_id=made.call_ids[index],
                name=names[index],
                content=(TextPart(text=NO_RESULT),),
                is_error=True,
            )
            messages.append(Message(role="tool", parts=(stub,)))
    return Group(
        kind="call",
        messages=tuple(messages),
        ids=tuple(made.ids),
        is_open=is_open,
        notes=tuple(dict.fromkeys(notes)),
    )


def _steps(message: Message) -> list[Message]:
    """Split a message into its own content and its results, in order."""
    steps: list[list[Part]] = []
    for part in message.parts:
        is_result = isinstance(part, ToolResultPart)
        if not steps or isinstance(steps[-1][0], ToolResultPart) != is_result:
            steps.append([])
        steps[-1].append(part)
    return [
        replaced(
            message,
            role="tool" if isinstance(parts[0], ToolResultPart) else message.role,
            parts=tuple(parts),
        )
        for parts in steps
    ]


def _with_calls_last(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Move content behind the first call before it; reasoning stays."""
    first = next(i for i, part in enumerate(parts) if isinstance(part, ToolCallPart))
    said = [p for p in parts[first:] if not isinstance(p, ToolCallPart) and not _is_thought(p)]
    rest = [p for p in parts[first:] if isinstance(p, ToolCallPart) or _is_thought(p)]
    return (*parts[:first], *said, *rest)


def replaced(message: Message, **values: object) -> Message:
    """Return the message with other values, without validation.

    Drops a framework's own form of it unless it still says the same: it would restore omitted
    content. A tool result with another name counts as the same.
    """
    names = ("role", "parts", "id", "name", "created_at", "metadata", "native")
    new: dict[str, Any] = {name: getattr(message, name) for name in names} | values
    if message.native is not None and "native" not in values:
        is_same = message.role == new["role"] and _unnamed(message.parts) == _unnamed(new["parts"])
        new["native"] = message.native if is_same else None
    return stored_message(**new)


def _unnamed(parts: Sequence[Part]) -> list[Part]:
    return [replace(one, name=None) if isinstance(one, ToolResultPart) else one for one in parts]


def is_compaction(part: Part) -> bool:
    """Whether it is a provider's own summary, which only that provider can read."""
    return isinstance(part, UnknownPart) and part.type == "compaction"


def _is_thought(part: Part) -> bool:
    return isinstance(part, ReasoningPart) or (
        isinstance(part, UnknownPart)
        and part.type in ("thinking", "redacted_thinking", "reasoning")
    )


def _says_something(parts: Iterable[Part]) -> bool:
    """Whether it has content that a provider accepts: most refuse an empty text."""
    return any(not isinstance(part, TextPart) or part.text.strip() for part in parts)


def _ids(messages: Iterable[Message]) -> tuple[str, ...]:
    return tuple(message.id for message in messages if message.id)


def _new_id(message: Message, index: int, taken: set[str]) -> str:
    """Return an id for a call, from the message and the call's position."""
    digest = hashlib.blake2b(message.to_json().encode(), digest_size=8).hexdigest()
    id = f"call_{digest}_{index}"
    while id in taken:
        id += "x"
    return id
