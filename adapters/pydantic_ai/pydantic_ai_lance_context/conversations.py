"""Pydantic AI's conversation store: durable, and readable by every other framework."""

from collections.abc import Sequence
from typing import Any

from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.exceptions import UserError

from lance_context_core import ConflictError, Item
from lance_context_core.adapting import (
    Handle,
    HandleOwner,
    StoreLike,
    check_name,
    retried,
)
from pydantic_ai_lance_context import _conversation_reads as reads
from pydantic_ai_lance_context import _conversation_writes as writes
from pydantic_ai_lance_context._chains import entry_items, link_of, missing, place_of
from pydantic_ai_lance_context._conversation_items import (
    NAME,
    RECORDS,
    NewEntry,
    record_key,
    stored_record,
    value_of,
)
from pydantic_ai_lance_context._errors import agent_of, of_user, user_errors


class LanceConversationStore(HandleOwner, ConversationStore):
    """Conversations in a store, shared by processes, and with what was said in the history.

    A save is one commit, on a place with a write-ahead log: record, new entries, and what they say
    as messages of `store.history`, under the agent `pydantic-ai` and the id of the conversation,
    once, also if other conversations are forked from it. Where there is no log, or a save brings
    more than a transaction holds, the messages are a second commit, which the next save of the
    conversation makes up for if it is missing.

    Messages come back as by `ModelMessagesTypeAdapter`, NaN and infinities included. What cannot
    be stored raises UserError, before anything is written. `delete` removes the entries that no
    other conversation reaches, with their messages. Any event loop and any thread may use it.
    """

    def __init__(
        self, store: StoreLike, *, user_id: str | None = None, embedder: Any = None
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `aclose` closes again.

        - `user_id`: whose conversations; those of other users do not exist for it. Absent means
          all of the store's scope. The `scope` of a conversation is a label without isolation.
        - `embedder`: for a URI, what makes the vectors of messages.
        """
        with user_errors():
            self._handle = Handle(store, embedder=embedder)
        self._store = of_user(self._handle, user_id)
        self._agent = agent_of(self._handle)

    # What Pydantic AI asks for

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation; None if there is none."""
        item = await self._record_item(conversation_id)
        with user_errors():
            records = await reads.records(self._store, [item] if item else [], agent=self._agent)
        return records[0] if records else None

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """The records, or those with that `scope`, the last saved first, at most `limit`."""
        with user_errors():
            found = await self._store.kv(NAME).list(
                **RECORDS,
                filter=None if scope is None else {"scope": scope},
                order="updated",
                reverse=True,
                limit=limit,
            )
            records = await reads.records(self._store, found, agent=self._agent)
        return sorted(records, key=lambda record: record.updated_at, reverse=True)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record with its new entries, all or nothing.

        Raises ConversationConflict if the stored record has another revision than
        `expected_revision`, where None means that there must be none, or if the head is an entry
        that does not exist.
        """
        if not isinstance(record, ConversationRecord):
            raise UserError(f"record={record!r:.80}: give a ConversationRecord")
        if not isinstance(record.scope, str | None):
            raise UserError(f"scope={record.scope!r:.80}: give a text, or None")
        with user_errors():
            check_name(record.conversation_id, "conversation_id")
            new = [NewEntry(one, record) for one in new_entries]

            async def attempt() -> None:
                found = await self._record_item(record.conversation_id)
                _require(found, record.conversation_id, expected_revision)
                await writes.save(self._store, found, record, new, agent=self._agent)

            await _conflicting(attempt, record.conversation_id)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a record, and the entries and messages that no other record reaches.

        Raises ConversationConflict if the stored record has another revision.
        """
        with user_errors():

            async def attempt() -> None:
                found = await self._record_item(conversation_id)
                if found is None:
                    raise ConversationConflict(conversation_id)
                _require(found, conversation_id, expected_revision)
                await writes.delete(self._store, found, agent=self._agent)

            await _conflicting(attempt, conversation_id)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry with that id. Raises LookupError if there is none, or its message is gone."""
        with user_errors():
            (item,) = await entry_items(self._store, [entry_id])
            links = [] if item is None else [link_of(item)]
            (message,) = await reads.messages_of(self._store, links, agent=self._agent) or [None]
        if message is None:
            raise LookupError(f"there is no entry {entry_id!r:.80}")
        return ConversationEntry(
            id=entry_id, parent_id=value_of(item).get("parent"), message=message
        )

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """The entries up to `head_id` in order, or the last `limit`; a few reads, however many.

        Entries whose messages were erased or deleted are left out, and so are calls and results
        whose other half is gone. Raises LookupError if the head, or an entry that names others,
        does not exist.
        """
        if head_id is None or limit == 0:
            return []
        with user_errors():
            place = await place_of(self._store, head_id)
            if place is None:
                raise missing(head_id)
            return await reads.history(self._store, place, agent=self._agent, limit=limit)

    # Helpers

    async def _record_item(self, conversation_id: str) -> Item | None:
        with user_errors():
            (item,) = await self._store.kv(NAME).get([record_key(conversation_id)])
        return item


def _require(found: Item | None, conversation_id: str, revision: str | None) -> None:
    if (None if found is None else stored_record(found).revision) != revision:
        raise ConversationConflict(conversation_id)


async def _conflicting(attempt: Any, conversation_id: str) -> None:
    """Try again while others change what a write expects, and nothing that it would lose."""
    try:
        await retried(attempt, on=ConflictError)
    except ConflictError as error:
        raise ConversationConflict(conversation_id) from error
