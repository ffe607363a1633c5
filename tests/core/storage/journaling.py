"""What is said and read through a store with a journal, and what of it is in a table."""

from lance_context_core import Message
from lance_context_core.storage.wal.policy import JournalPolicy

SMALL = JournalPolicy(batch_rows=3)
"""Four messages are a commit of their own."""


async def say(store, *texts, session="s"):
    messages = [Message.user(text) for text in texts]
    return await store.history.append_many("a", messages, session_id=session)


async def read(store, session="s", **span):
    return [one.text for one in await store.history.get_messages("a", session_id=session, **span)]


async def in_the_table(store, name="records"):
    """The rows that were folded."""
    handle = await opened(store, name)
    return [] if handle is None else await handle.query().to_list()


async def n_versions(store, name="records"):
    return len(await (await opened(store, name)).list_versions())


async def opened(store, name):
    engine = await store._resources.database.connection.engine()
    return await engine.open_table(name) if name in (await engine.list_tables()).tables else None
