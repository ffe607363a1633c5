"""The same calls give the same answers as Pydantic AI's own store, in memory."""

import asyncio
import tempfile

from adapters.pydantic_ai.samples import asked, texts
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai_lance_context import LanceConversationStore

IDS = st.sampled_from(["1", "2", "3"])
SCOPES = st.sampled_from([None, None, "ada", "ben"])
NUMBERS = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("turn"), IDS, NUMBERS, SCOPES),
    st.tuples(st.just("stale"), IDS, NUMBERS, SCOPES),
    st.tuples(st.just("rewrite"), IDS, NUMBERS, SCOPES),
    st.tuples(st.just("window"), IDS, NUMBERS, SCOPES),
    st.tuples(st.just("branch"), IDS, NUMBERS, SCOPES),
    st.tuples(st.just("back"), IDS, NUMBERS, SCOPES),
    st.tuples(st.just("fork"), IDS, IDS, NUMBERS),
    st.tuples(st.just("delete"), IDS, SCOPES),
)


class Driven:
    """A store, and what an application does with it."""

    def __init__(self, store):
        self.store = store
        self._old = {}
        self._n = 0

    async def do(self, verb, *arguments):
        try:
            return await getattr(self, verb)(*arguments)
        except UserError as error:
            return type(error).__name__

    async def turn(self, id, n, scope, **window):
        loaded = await self.store.load(id, scope=scope, **window)
        loaded = loaded or Conversation(conversation_id=id)
        self._old.setdefault(id, loaded)
        loaded.messages += [self._message() for _ in range(n)]
        return len(await self.store.save(loaded, scope=scope))

    async def window(self, id, n, scope):
        return await self.turn(id, n, scope, limit=n)

    async def stale(self, id, n, scope):
        old = self._old.pop(id, Conversation(conversation_id=id))
        return len(await self.store.save(old, scope=scope))

    async def rewrite(self, id, n, scope):
        loaded = await self.store.load(id) or Conversation(conversation_id=id)
        messages = [*loaded.messages[:n], self._message()]
        again = Conversation(conversation_id=id, messages=messages, revision=loaded.revision)
        return len(await self.store.save(again, scope=scope))

    async def branch(self, id, n, scope):
        revision = await self._revision(id)
        kept = await self.store.branch(id, at=n, expected_revision=revision, scope=scope)
        return texts(kept.messages)

    async def back(self, id, n, scope):
        record = await self.store.read_record(id)
        branches = record.branches if record else []
        if not branches:
            return None
        tip = branches[n % len(branches)]
        kept = await self.store.branch(
            id, from_entry=tip, expected_revision=record.revision, scope=scope
        )
        return texts(kept.messages)

    async def fork(self, id, other, n):
        return texts((await self.store.fork(id, new_conversation_id=other, at=n)).messages)

    async def delete(self, id, scope):
        return await self.store.delete(id, scope=scope)

    async def seen(self):
        """All that can be read of it, without ids and times that differ."""
        seen = []
        for id in ("1", "2", "3"):
            record = await self.store.read_record(id)
            if record is None:
                seen.append(None)
                continue
            lines = [
                texts(one.message for one in await self.store.read_history(end))
                for end in (record.head_id, *record.branches)
            ]
            last = [texts((await self.store.load(id, limit=n)).messages) for n in range(4)]
            seen.append((lines, last, record.scope, record.forked_from, record.usage))
        listed = await self.store.list_conversations()
        return seen, [one.conversation_id for one in listed]

    async def _revision(self, id):
        record = await self.store.read_record(id)
        return record and record.revision

    def _message(self):
        self._n += 1
        return asked(f"said {self._n}")


@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(STEPS, max_size=12))
def test_random_histories_read_as_in_pydantic_ais_own_store(steps):
    async def compared():
        async with LanceConversationStore(place) as conversations:
            own, ours = Driven(InMemoryConversationStore()), Driven(conversations)
            for step in steps:
                assert await ours.do(*step) == await own.do(*step), step
            assert await ours.seen() == await own.seen()
            stored = await conversations._store.kv("pydantic-ai").count()
            assert stored == len(own.store._entries) + len(own.store._records)

    with tempfile.TemporaryDirectory() as place:
        asyncio.run(compared())
