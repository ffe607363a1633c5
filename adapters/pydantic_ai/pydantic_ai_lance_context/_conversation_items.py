"""Records and entries of conversations as key-value items, and back.

| namespace | key | item |
|---|---|---|
| `("records",)` | the conversation | its record as JSON; the value has its scope and its roots |
| `("entries",)` | the entry | its message as JSON; the value has its place, and its conversation |

No entry is ever changed, and none is copied: a fork has the entries of the conversation before it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord

from lance_context_core import Item, Message
from lance_context_core.protocols import ItemKey
from pydantic_ai_lance_context._errors import json_of
from pydantic_ai_lance_context._messages import MESSAGES, dumped, said

NAME = "pydantic-ai"
"""The set of key-value items."""

_RECORD = TypeAdapter(ConversationRecord)
_RECORDS = ("records",)
_ENTRIES = ("entries",)

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
    record: ConversationRecord, *, roots: Iterable[str], owed: Sequence[str] = ()
) -> Item:
    """The item of a record; `roots` are the first entries of its history and its branches.

    `owed` are entries whose messages may not be in the history yet.
    """
    value: dict[str, Any] = {"roots": sorted(roots)}
    if record.scope is not None:
        value["scope"] = record.scope
    if owed:
        value["owed"] = list(owed)
    namespace, key = record_key(record.conversation_id)
    return Item(namespace=namespace, key=key, value=value, data=json_of(_RECORD, record))


def record_of(item: Item) -> ConversationRecord:
    """The record of an item."""
    return _RECORD.validate_json(item.data or b"")


def ends_of(record: ConversationRecord) -> list[str]:
    """The last entries of its history and of the branches that it left."""
    return [one for one in (record.head_id, *record.branches) if one is not None]


# Entries


class NewEntry:
    """An entry that is about to be stored: encoded, and checked, before anything is written."""

    def __init__(self, entry: ConversationEntry, record: ConversationRecord) -> None:
        """Raises InvalidRequestError or UserError for what cannot be stored."""
        about = {} if record.scope is None else {"scope": record.scope}
        self.id = entry.id
        self.parent_id = entry.parent_id
        self.run_id = entry.message.run_id or ""
        self.data = dumped(entry.message)
        self.messages: list[Message] = said(entry.message, id=entry.id, metadata=about)
        self._of = record.conversation_id

    def item(self, place: Mapping[str, Any]) -> Item:
        """Its item; `place` is where it stands among the others."""
        namespace, key = entry_key(self.id)
        value = {"of": self._of, "messages": len(self.messages), **place}
        return Item(namespace=namespace, key=key, value=value, data=self.data)


def message_ids(item: Item) -> list[str]:
    """The ids of the messages that the history has of an entry."""
    n = value_of(item)["messages"]
    return [f"{item.key}:{number}" if number else item.key for number in range(n)]


def entries_from(items: Sequence[Item]) -> list[ConversationEntry]:
    """The entries of items, in their order."""
    lists = b",".join((one.data or b"")[1:-1] for one in items)
    messages = MESSAGES.validate_json(b"[%s]" % lists)
    return [
        ConversationEntry(id=item.key, parent_id=value_of(item).get("parent"), message=message)
        for item, message in zip(items, messages, strict=True)
    ]
