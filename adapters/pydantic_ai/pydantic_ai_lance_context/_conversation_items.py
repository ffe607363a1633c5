"""Records and entries of conversations as key-value items, and back.

| namespace | key | item |
|---|---|---|
| `("records",)` | the conversation | its record as JSON; the value has its scope, its roots, and whose calls it waits for |
| `("entries",)` | the entry | its place and its conversation, the ids of calls in its message and of those that it answers |

The message of an entry is in the history alone: under the conversation that it was saved in, with
the id of the entry. No entry is ever changed, and none is copied: a fork has the entries of the
conversation before it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import messages as ai
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord

from lance_context_core import Item, Message, ToolResultPart
from lance_context_core.protocols import ItemKey
from pydantic_ai_lance_context._errors import json_of
from pydantic_ai_lance_context._messages import to_canonical

NAME = "pydantic-ai"
"""The set of key-value items."""

_RECORD = TypeAdapter(ConversationRecord)
_RECORDS = ("records",)
_ENTRIES = ("entries",)
_FORM = 2
"""The form of records whose entries have no messages in their items; earlier ones have no form."""

RECORDS: Mapping[str, Any] = {"namespace": _RECORDS}
"""Lists all records."""


def record_key(conversation_id: str) -> ItemKey:
    """Where the record of a conversation is."""
    return _RECORDS, conversation_id


def entry_key(entry_id: str) -> ItemKey:
    """Where an entry is."""
    return _ENTRIES, entry_id


def value_of(item: Item | None) -> Mapping[str, Any]:
    """The value of an item; empty for None."""
    return {} if item is None else item.value or {}


# Records


def record_item(
    record: ConversationRecord, *, roots: Iterable[str], holders: Mapping[str, str]
) -> Item:
    """The item of a record; `roots` are the first entries of its history and its branches.

    `holders` has the entries whose messages have the calls that the conversation waits for, by the
    ids of the calls: of these it has the ids alone.
    """
    value: dict[str, Any] = {"roots": sorted(roots), "form": _FORM}
    if record.scope is not None:
        value["scope"] = record.scope
    if holders:
        value["holders"] = dict(holders)
        record = _waiting(
            record,
            lambda call: (
                ai.ToolCallPart("", None, call.tool_call_id)
                if call.tool_call_id in holders
                else call
            ),
        )
    namespace, key = record_key(record.conversation_id)
    return Item(namespace=namespace, key=key, value=value, data=json_of(_RECORD, record))


def record_of(item: Item, messages: Mapping[str, ai.ModelMessage]) -> ConversationRecord:
    """The record of an item; `messages` are those of its `holders`, by the ids of their entries.

    A call whose message does not exist any more is left out.
    """
    record, holders = stored_record(item), holders_of(item)
    if not holders:
        return record
    calls = {id: calls_of(messages[at]).get(id) for id, at in holders.items() if at in messages}
    return _waiting(
        record,
        lambda call: calls.get(call.tool_call_id) if call.tool_call_id in holders else call,
    )


def stored_record(item: Item) -> ConversationRecord:
    """The record of an item, whose calls in `holders` are ids alone."""
    return _RECORD.validate_json(item.data or b"")


def holders_of(item: Item | None) -> Mapping[str, str]:
    """The entries that have the calls which a record waits for, by the ids of the calls."""
    holders: Mapping[str, str] = value_of(item).get("holders", {})
    return holders


def is_of_today(item: Item) -> bool:
    """Whether a record's entries have no messages in their items."""
    return value_of(item).get("form") == _FORM


def ends_of(record: ConversationRecord) -> list[str]:
    """The last entries of its history and of the branches that it left."""
    return [one for one in (record.head_id, *record.branches) if one is not None]


def waited_for(record: ConversationRecord) -> dict[str, ai.ToolCallPart]:
    """The calls that a conversation waits for, by their ids."""
    waiting = record.deferred_tool_requests
    every = [] if waiting is None else [*waiting.calls, *waiting.approvals]
    return {one.tool_call_id: one for one in every}


def _waiting(
    record: ConversationRecord, given: Callable[[ai.ToolCallPart], ai.ToolCallPart | None]
) -> ConversationRecord:
    """The record with what is `given` in place of each call that it waits for; None takes it out."""
    waiting = record.deferred_tool_requests
    if waiting is None:
        return record
    calls, approvals = (
        [one for one in map(given, some) if one is not None]
        for some in (waiting.calls, waiting.approvals)
    )
    left = {one.tool_call_id for one in (*calls, *approvals)}
    metadata = {id: one for id, one in waiting.metadata.items() if id in left}
    changed = replace(waiting, calls=calls, approvals=approvals, metadata=metadata)
    return replace(record, deferred_tool_requests=changed if left else None)


# Entries


class NewEntry:
    """An entry that is about to be stored: encoded, and checked, before anything is written."""

    def __init__(self, entry: ConversationEntry, record: ConversationRecord) -> None:
        """Raises InvalidRequestError or UserError for what cannot be stored."""
        about = {} if record.scope is None else {"scope": record.scope}
        self.id = entry.id
        self.parent_id = entry.parent_id
        self.run_id = entry.message.run_id or ""
        self.message = entry.message
        self.messages: list[Message] = to_canonical(entry.message, id=entry.id, metadata=about)

    @property
    def n_bytes(self) -> int:
        """The size of its message as JSON."""
        return sum(len(one.native["message"]) for one in self.messages if one.native)

    def item(self, place: Mapping[str, Any]) -> Item:
        """Its item; `place` is where it stands among the others."""
        return entry_item(self.id, place, self.message, self.messages)


def entry_item(
    id: str, place: Mapping[str, Any], message: ai.ModelMessage, messages: Sequence[Message]
) -> Item:
    """The item of an entry; `messages` are the canonical ones of its message."""
    namespace, key = entry_key(id)
    value = dict(place)
    if calls := calls_of(message):
        value["calls"] = list(calls)
    answers = [_answered(one) for one in messages]
    if isinstance(message, ai.ModelRequest) and any(answers):
        value["answers"] = answers
    return Item(namespace=namespace, key=key, value=value)


def calls_of(message: ai.ModelMessage) -> dict[str, ai.ToolCallPart]:
    """The calls in a message that a request answers, by their ids."""
    return {one.tool_call_id: one for one in message.parts if isinstance(one, ai.ToolCallPart)}


def numbered(id: str, n: int) -> list[str]:
    """The ids of the `n` messages that the history has of an entry."""
    return [f"{id}:{number}" if number else id for number in range(n)]


def message_ids(item: Item) -> list[str]:
    """The ids of the messages that the history has of an entry."""
    return numbered(item.key, value_of(item)["messages"])


def _answered(message: Message) -> str | None:
    results = [one.call_id for one in message.parts if isinstance(one, ToolResultPart)]
    return results[0] if results else None
