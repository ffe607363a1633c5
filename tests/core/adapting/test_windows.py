"""What an adapter keeps of a conversation, call after call."""

from lance_context_core import AsyncContextStore, Message
from lance_context_core.adapting import WindowMaker

SAID = [Message.user("Tea, please.", id="m1"), Message.assistant("With mint?", id="m2")]


async def test_a_thread_that_two_users_have_is_kept_for_each_of_them(tmp_path):
    maker = WindowMaker(budget=500)
    async with AsyncContextStore.open(tmp_path) as store:
        for user in ("ada", "bob"):
            await maker.keep(store.scope(user_id=user), "thread", SAID)
            window = await maker.window(store.scope(user_id=user), "thread")
            assert [one.id for one in window.messages] == ["m1", "m2"]


async def test_of_a_thread_that_is_kept_what_is_new_alone_is_written(tmp_path, monkeypatch):
    maker = WindowMaker(budget=500)
    async with AsyncContextStore.open(tmp_path) as store:
        await maker.keep(store.scope(user_id="ada"), "thread", SAID)
        written = []
        history = type(store.history)
        append_many = history.append_many

        async def noted(self, agent_id, messages, **more):
            written.extend(one.id for one in messages)
            return await append_many(self, agent_id, messages, **more)

        monkeypatch.setattr(history, "append_many", noted)
        await maker.keep(store.scope(user_id="ada"), "thread", SAID)
        await maker.keep(
            store.scope(user_id="ada"), "thread", [*SAID, Message.user("Yes.", id="m3")]
        )
        assert written == ["m3"]
