"""The journal of a store that was maintained is as large as what waits in it."""

from lance_context_core import AsyncContextStore, Message


async def test_maintenance_gives_back_the_room_of_what_was_folded(tmp_path):
    text = "word " * 100

    def size_of_journal():
        return sum(file.stat().st_size for file in tmp_path.glob("journal.sqlite*"))

    async with AsyncContextStore.open(tmp_path) as store:
        for number in range(10):
            said = [Message.user(text, id=f"{number}-{one}") for one in range(100)]
            await store.history.append_many("a", said, session_id="s")
        await store.flush()
        assert size_of_journal() > 1024 * 1024
        await store.maintain()
        await store.history.append("a", Message.user("the last"), session_id="s")
        assert size_of_journal() < 512 * 1024
        assert await store.history.count("a", session_id="s") == 1001
    async with AsyncContextStore.open(tmp_path) as store:
        (last,) = await store.history.get_messages("a", session_id="s", last=1)
        assert last.text == "the last"
        assert (await store.verify()).problems == ()
