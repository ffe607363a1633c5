"""Conversations and memories in dicts, each broken in one way; `caught_by` is a test that must fail.

Run by test_contracts.py in a process of its own: pytest does not collect this file by its name.
"""

import asyncio
from dataclasses import replace

import pytest
from lance_context_testing import HistoryProviderTests, MemoryServiceTests, SessionStoreTests
from packages.testing.dicts import DictHistory, DictSessions, WordMemory

ALIASED = "test_changing_what_was_given_or_found_changes_nothing_that_is_kept"

# Histories


class LostUpdate(DictHistory):
    async def append_many(self, agent_id, messages, *, session_id, run_id=""):
        log = list(self.of(agent_id, session_id))
        await asyncio.sleep(0)
        self.sessions[agent_id, session_id] = log
        return await super().append_many(agent_id, messages, session_id=session_id, run_id=run_id)


class TestLostUpdate(HistoryProviderTests):
    caught_by = "test_appends_at_the_same_time_lose_nothing_and_keep_batches_together"
    history = pytest.fixture(lambda self: LostUpdate())


class ByTime(DictHistory):
    async def get_messages(self, agent_id, *, session_id, limit=None, offset=0, last=None):
        self.of(agent_id, session_id).sort(key=lambda one: one[0].created_at)
        return await super().get_messages(
            agent_id, session_id=session_id, limit=limit, offset=offset, last=last
        )


class TestByTime(HistoryProviderTests):
    caught_by = "test_their_own_times_do_not_change_their_order"
    history = pytest.fixture(lambda self: ByTime())


class WithoutAgents(DictHistory):
    def of(self, agent_id, session_id):
        return super().of("", session_id)


class TestWithoutAgents(HistoryProviderTests):
    caught_by = "test_an_unknown_session_has_no_messages"
    history = pytest.fixture(lambda self: WithoutAgents())


class AliasedMessages(DictHistory):
    def kept(self, message):
        kept = super().kept(message)
        object.__setattr__(kept, "metadata", message.metadata)
        return kept


class TestAliasedMessages(HistoryProviderTests):
    caught_by = ALIASED
    history = pytest.fixture(lambda self: AliasedMessages())


class OneTooMany(DictHistory):
    async def get_messages(self, agent_id, *, session_id, limit=None, offset=0, last=None):
        last = last and last + 1
        return await super().get_messages(
            agent_id, session_id=session_id, limit=limit, offset=offset, last=last
        )


class TestOneTooMany(HistoryProviderTests):
    caught_by = "test_a_chat_can_be_read_backwards_page_by_page"
    history = pytest.fixture(lambda self: OneTooMany())


class HalfWritten(DictHistory):
    async def append_many(self, agent_id, messages, *, session_id, run_id=""):
        return [
            (await DictHistory.append_many(self, agent_id, [one], session_id=session_id, run_id=run_id))[0]
            for one in messages
        ]  # fmt: skip


class TestHalfWritten(HistoryProviderTests):
    caught_by = "test_a_known_id_that_says_something_else_is_refused_and_nothing_is_written"
    history = pytest.fixture(lambda self: HalfWritten())


class WithoutRuns(DictHistory):
    async def clear_run(self, agent_id, *, session_id, run_id):
        return await self.clear(agent_id, session_id=session_id)


class TestWithoutRuns(HistoryProviderTests):
    caught_by = "test_clear_run_forgets_one_run_of_one_session_and_nothing_else"
    history = pytest.fixture(lambda self: WithoutRuns())


class WithoutOffset(DictHistory):
    async def get_messages(self, agent_id, *, session_id, limit=None, last=None):
        return await super().get_messages(agent_id, session_id=session_id, limit=limit, last=last)


class TestWithoutOffset(HistoryProviderTests):
    caught_by = "test_it_has_the_methods_of_the_protocol"
    history = pytest.fixture(lambda self: WithoutOffset())


# Sessions


class BrokenSessions(SessionStoreTests):
    history = pytest.fixture(lambda self: DictHistory())


class MadeAnew(DictSessions):
    async def create(self, session_id=None, *, title=None, metadata=None):
        self.told.pop(session_id, None)
        return await super().create(session_id, title=title, metadata=metadata)


class TestMadeAnew(BrokenSessions):
    caught_by = "test_creating_what_exists_returns_it_as_it_is"
    sessions = pytest.fixture(lambda self, history: MadeAnew(history))


class OldestFirst(DictSessions):
    async def list(self, *, limit=None, offset=0):
        return (await super().list())[::-1][offset:][:limit]


class TestOldestFirst(BrokenSessions):
    caught_by = "test_the_most_recently_active_session_comes_first"
    sessions = pytest.fixture(lambda self, history: OldestFirst(history))


class Forgetful(DictSessions):
    async def update(
        self, session_id, *, title=None, status="active", metadata=None, ended_at=None
    ):
        await super().update(session_id, title=title, status=status, metadata=metadata or {}, ended_at=ended_at)  # fmt: skip
        return self.found(session_id)


class TestForgetful(BrokenSessions):
    caught_by = "test_an_update_changes_what_is_given_and_keeps_the_rest"
    sessions = pytest.fixture(lambda self, history: Forgetful(history))


class LostChange(DictSessions):
    async def update(self, session_id, **changes):
        before = self.told.get(session_id)
        await asyncio.sleep(0)
        if before is not None:
            self.told[session_id] = before
        return await super().update(session_id, **changes)


class TestLostChange(BrokenSessions):
    caught_by = "test_updates_of_different_fields_at_the_same_time_are_all_kept"
    sessions = pytest.fixture(lambda self, history: LostChange(history))


class LeavingMessages(DictSessions):
    async def delete(self, session_id):
        return self.told.pop(session_id, None) is not None


class TestLeavingMessages(BrokenSessions):
    caught_by = "test_deleting_forgets_the_session_and_its_messages_and_nothing_else"
    sessions = pytest.fixture(lambda self, history: LeavingMessages(history))


class AliasedSessions(DictSessions):
    async def create(self, session_id=None, *, title=None, metadata=None):
        created = await super().create(session_id, title=title)
        self.told[created.id] = replace(self.told[created.id], metadata=metadata or {})
        return self.found(created.id)


class TestAliasedSessions(BrokenSessions):
    caught_by = ALIASED
    sessions = pytest.fixture(lambda self, history: AliasedSessions(history))


class OffsetOfOne(DictSessions):
    async def list(self, *, limit=None, offset=0):
        return await super().list(limit=limit, offset=max(0, offset - 1))


class TestOffsetOfOne(BrokenSessions):
    caught_by = "test_limit_and_offset_take_what_slices_of_the_list_would"
    sessions = pytest.fixture(lambda self, history: OffsetOfOne(history))


# Memories


class BrokenMemory(MemoryServiceTests):
    search_modes = ("text",)


class OfAllUsers(WordMemory):
    async def search(self, query, *, user_id="", **rest):
        found = [hit for user in {one.user_id for one in self.records} for hit in await super(OfAllUsers, self).search(query, user_id=user, **rest)]  # fmt: skip
        return sorted(found, key=lambda hit: hit.score, reverse=True)


class TestOfAllUsers(BrokenMemory):
    caught_by = "test_a_user_without_memories_finds_nothing"
    memory = pytest.fixture(lambda self: OfAllUsers())


class OneHitTooMany(WordMemory):
    async def search(self, query, *, limit=10, **rest):
        return await super().search(query, limit=limit + 1, **rest)


class TestOneHitTooMany(BrokenMemory):
    caught_by = "test_a_search_finds_as_many_as_the_limit_if_there_are"
    memory = pytest.fixture(lambda self: OneHitTooMany())


class FilteredAfterwards(WordMemory):
    async def search(self, query, *, filter=None, **rest):
        found = await super().search(query, **rest)
        return [hit for hit in found if (filter or {}).items() <= dict(hit.record.metadata).items()]


class TestFilteredAfterwards(BrokenMemory):
    caught_by = "test_a_filtered_search_finds_as_many_as_match"
    memory = pytest.fixture(lambda self: FilteredAfterwards())


class Repeating(WordMemory):
    async def add(self, memories, **rest):
        return [(await WordMemory.add(self, [one], **rest))[0] for one in memories]


class TestRepeating(BrokenMemory):
    caught_by = "test_a_known_id_that_says_something_else_is_refused_and_nothing_is_written"
    memory = pytest.fixture(lambda self: Repeating())


class AliasedMemory(WordMemory):
    async def add(self, memories, *, metadata=None, **rest):
        ids = await super().add(memories, metadata=metadata, **rest)
        if metadata:
            self.records[-1] = replace(self.records[-1], metadata=metadata)
        return ids


class TestAliasedMemory(BrokenMemory):
    caught_by = ALIASED
    memory = pytest.fixture(lambda self: AliasedMemory())


class DeletingTooMuch(WordMemory):
    async def delete(self, *, user_id="", session_id=None, ids=None):
        return await super().delete(user_id=user_id, session_id=session_id or None, ids=ids)


class TestDeletingTooMuch(BrokenMemory):
    caught_by = "test_deleting_forgets_all_one_session_or_some"
    memory = pytest.fixture(lambda self: DeletingTooMuch())
