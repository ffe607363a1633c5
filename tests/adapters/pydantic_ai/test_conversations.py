"""Conversations that are saved, branched, forked and deleted."""

from contextlib import asynccontextmanager

import pytest
from adapters.pydantic_ai.samples import asked, conversation, run, said_in, texts
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai_lance_context import LanceConversationStore
from pydantic_ai_lance_context import _conversation_items as items
from pydantic_ai_lance_context import _conversation_writes as writes

from lance_context_core import AsyncContextStore, ConflictError, Message


async def test_a_conversation_goes_on_in_another_store_over_the_same_place(place, agent):
    async with LanceConversationStore(place) as first:
        await run(agent, first, "42", "How is Oslo?", scope="ada")
    async with LanceConversationStore(place) as second:
        await run(agent, second, "42", "And Bergen?", scope="ada")
        loaded = await second.load("42", scope="ada")
    assert texts(loaded.messages) == [
        *("How is Oslo?", "It is sunny.", "And Bergen?", "It is sunny.")
    ]


async def test_a_revision_of_before_a_deletion_conflicts_with_the_one_that_was_created_again(
    conversations,
):
    await conversations.save(conversation("1", "a"))
    old = await conversations.load("1")
    await conversations.delete("1")
    await conversations.save(conversation("1", "b"))
    old.messages += conversation("1", "c").messages
    with pytest.raises(ConversationConflict):
        await conversations.save(old)
    assert texts((await conversations.load("1")).messages) == ["b"]


async def test_a_fork_reads_whole_after_the_original_is_deleted(store, conversations):
    await conversations.save(conversation("1", "a", "b", "c", "d"))
    fork = await conversations.fork("1", at=3, new_conversation_id="2")
    fork.messages += conversation("2", "e").messages
    await conversations.save(fork)
    await conversations.delete("1")
    assert texts((await conversations.load("2")).messages) == ["a", "b", "c", "e"]
    assert await conversations.load("1") is None
    # What only the original had is gone, from the history as well.
    assert await said_in(store, "1") == ["a", "b", "c"]
    await conversations.delete("2")
    assert await said_in(store, "1") == await said_in(store, "2") == []
    assert await store.kv("pydantic-ai").count() == 0


async def test_a_branch_is_left_and_found_again_by_its_entry(conversations):
    await conversations.save(conversation("1", "a", "b", "c", "d"))
    loaded = await conversations.load("1")
    (*_, left) = await conversations.load_entries("1")
    branched = await conversations.branch("1", at=2, expected_revision=loaded.revision)
    branched.messages += conversation("1", "x").messages
    await conversations.save(branched)
    record = await conversations.read_record("1")
    assert record.branches == [left.id]
    assert texts((await conversations.load("1")).messages) == ["a", "b", "x"]
    back = await conversations.branch("1", from_entry=left.id, expected_revision=record.revision)
    assert texts(back.messages) == ["a", "b", "c", "d"]
    assert len((await conversations.read_record("1")).branches) == 1


async def test_a_run_on_the_last_messages_alone_appends_to_the_whole(conversations, agent):
    await conversations.save(conversation("1", "a", "b", "c", "d"))
    loaded = await conversations.load("1", limit=2)
    assert texts(loaded.messages) == ["c", "d"]
    await conversations.save(await agent.run("e", conversation=loaded))
    whole = await conversations.load("1")
    assert texts(whole.messages) == ["a", "b", "c", "d", "e", "It is sunny."]


async def test_a_history_that_was_rewritten_branches_and_the_old_one_stays_readable(conversations):
    await conversations.save(conversation("1", "a", "b", "c"))
    record = await conversations.read_record("1")
    rewritten = conversation("1", "a", "B", "C")
    rewritten.revision = record.revision
    await conversations.save(rewritten)
    after = await conversations.read_record("1")
    assert texts((await conversations.load("1")).messages) == ["a", "B", "C"]
    assert after.branches == [record.head_id]
    old = await conversations.read_history(after.branches[0])
    assert texts(one.message for one in old) == ["a", "b", "c"]


async def test_a_run_that_waits_for_approval_and_its_usage_survive(place):
    agent = Agent(TestModel(), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def delete_all() -> str:
        return "all is gone"

    async with LanceConversationStore(place) as first:
        result = await agent.run("Tidy up.", conversation=Conversation(conversation_id="1"))
        await first.save(result)
    async with LanceConversationStore(place) as second:
        loaded = await second.load("1")
        assert loaded == result.conversation
        waiting = loaded.deferred_tool_requests
        approved = waiting.build_results(approve_all=True)
        after = await agent.run(conversation=loaded, deferred_tool_results=approved)
        await second.save(after)
        done = await second.load("1")
    assert done.deferred_tool_requests is None
    assert done.usage.requests == loaded.usage.requests + 1 == 2


async def test_another_scope_finds_nothing_and_cannot_save(conversations):
    await conversations.save(conversation("1", "a"), scope="ada")
    assert await conversations.load("1", scope="ben") is None
    loaded = await conversations.load("1")
    with pytest.raises(ConversationConflict):
        await conversations.save(loaded, scope="ben")
    await conversations.delete("1", scope="ben")
    assert [one.scope for one in await conversations.list_conversations()] == ["ada"]
    assert await conversations.list_conversations(scope="ben") == []


async def test_the_last_saved_are_listed_first(conversations):
    for id in ("1", "2", "3", "1"):
        saved = await conversations.load(id) or Conversation(conversation_id=id)
        await conversations.save(saved, scope="even" if id == "2" else "odd")
    listed = await conversations.list_conversations(limit=2)
    assert [one.conversation_id for one in listed] == ["1", "3"]
    listed = await conversations.list_conversations(scope="odd")
    assert [one.conversation_id for one in listed] == ["1", "3"]


async def test_a_head_that_was_released_conflicts_and_leaves_nothing(store, conversations):
    await conversations.save(conversation("1", "a"))
    head = (await conversations.read_record("1")).head_id
    await conversations.delete("1")
    fork = ConversationRecord(conversation_id="2", head_id=head)
    with pytest.raises(ConversationConflict):
        await conversations.write_record(fork, expected_revision=None)
    assert await store.kv("pydantic-ai").count() == 0


def interrupted(monkeypatch, meanwhile):
    """Have something else happen once a write has looked at everything, before it is committed."""
    begun = []
    begin = writes.transaction_or_store

    @asynccontextmanager
    async def late(store, **size):
        begun.append(1)
        if len(begun) == 1:
            await meanwhile()
        async with begin(store, **size) as at:
            yield at

    monkeypatch.setattr(writes, "transaction_or_store", late)
    return begun


async def test_a_deletion_at_the_moment_of_a_fork_never_takes_what_the_fork_needs(
    conversations, monkeypatch
):
    await conversations.save(conversation("1", "a", "b"))
    begun = interrupted(monkeypatch, lambda: conversations.fork("1", new_conversation_id="2"))
    await conversations.delete("1")
    assert len(begun) == 3  # the deletion, the fork, and the deletion again
    assert await conversations.load("1") is None
    assert texts((await conversations.load("2")).messages) == ["a", "b"]


async def test_a_fork_at_the_moment_of_a_deletion_conflicts_and_leaves_nothing(
    store, conversations, monkeypatch
):
    await conversations.save(conversation("1", "a", "b"))
    interrupted(monkeypatch, lambda: conversations.delete("1"))
    with pytest.raises(ConversationConflict):
        await conversations.fork("1", new_conversation_id="2")
    assert await store.kv("pydantic-ai").count() == 0


async def test_a_long_conversation_is_read_in_four_reads(store, monkeypatch):
    conversations = LanceConversationStore(store)
    n = 300
    for start in range(0, n, 100):
        loaded = await conversations.load("1") or Conversation(conversation_id="1")
        some = [str(number) for number in range(start, start + 100)]
        loaded.messages += conversation("1", *some).messages
        await conversations.save(loaded)
    reads = []

    def counted(part, name):
        verb = getattr(part, name)

        async def call(self, *arguments, **options):
            reads.append(name)
            return await verb(self, *arguments, **options)

        monkeypatch.setattr(part, name, call)

    for name in ("get", "list", "keys", "search"):
        counted(type(store.kv("pydantic-ai")), name)
    for name in ("get_messages", "count", "search"):
        counted(type(store.history), name)
    head = (await conversations.read_record("1")).head_id
    reads.clear()
    found = await conversations.read_history(head)
    assert texts(one.message for one in found) == [str(number) for number in range(n)]
    assert reads == ["get", "get", "get", "get_messages"]
    for limit in (1, 2, 31, 32, 33, 64, 65, 299, 300, 301):
        found = await conversations.read_history(head, limit=limit)
        expected = [str(number) for number in range(n)][-limit:]
        assert texts(one.message for one in found) == expected


async def test_without_a_log_a_save_that_is_refused_leaves_no_messages():
    async with await AsyncContextStore.open("memory://") as store:
        conversations = LanceConversationStore(store)
        await conversations.save(conversation("1", "a"))
        first, second = await conversations.load("1"), await conversations.load("1")
        first.messages += conversation("1", "b").messages
        second.messages += conversation("1", "c").messages
        await conversations.save(first)
        before = await conversations.read_record("1")
        entry = ConversationEntry(parent_id=before.head_id, message=asked("d"))
        with pytest.raises(ConversationConflict):
            await conversations.save(second)
        # Others were faster after the record was looked at.
        late = writes.save(
            store,
            (await store.kv("pydantic-ai").get([(("records",), "2")]))[0],
            ConversationRecord(conversation_id="2", head_id=entry.id),
            [items.NewEntry(entry, before)],
            agent="pydantic-ai",
        )
        await conversations.save(conversation("2", "x"))
        with pytest.raises(ConflictError):
            await late
        assert await said_in(store, "1") == ["a", "b"]
        assert await said_in(store, "2") == ["x"]


async def test_a_save_of_more_than_a_transaction_holds_is_stored(store, conversations):
    many = [str(number) for number in range(600)]
    await conversations.save(conversation("1", *many))
    assert texts((await conversations.load("1")).messages) == many == await said_in(store, "1")
    await conversations.delete("1")
    assert await said_in(store, "1") == []


async def test_what_others_say_in_the_session_is_no_part_of_the_conversation(store, conversations):
    await conversations.save(conversation("1", "a"))
    await store.history.append("pydantic-ai", Message.user("hello"), session_id="1")
    assert texts((await conversations.load("1")).messages) == ["a"]
    await conversations.delete("1")
    assert await said_in(store, "1") == ["hello"]
