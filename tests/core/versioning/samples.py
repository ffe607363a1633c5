"""What the tests of versions share: one write to every table, and all that can be read."""

from lance_context_core.messages import Message
from lance_context_core.types import Document

AXES = [[1.0, 0.0], [0.0, 1.0]]


async def dump(store):
    """All that a reader can see, of every table."""
    collections = await store.vectors().list_collections()
    return {
        "records": await store.context().list(include_expired=True, include_retired=True),
        "sessions": await store.sessions.list(),
        "messages": await store.history.get_messages("a", session_id="s"),
        "memories": (await store.memory.list(user_id="u", page_size=1_000)).items,
        "vectors": {name: await store.vectors(name).list() for name in collections},
    }


async def write(store, step):
    """One write to each table, the records last."""
    vectors = store.vectors("c")
    await vectors.upsert([Document(id=f"d{step % 3}", text=f"{step}", embedding=AXES[step % 2])])
    await store.sessions.create(f"s{step}", title=f"{step}")
    await store.sessions.update("s0", title=f"{step}")
    if step % 4 == 3:
        await store.history.clear("a", session_id="s")
    await store.memory.add([f"memory {step}"], user_id="u")
    await store.history.append("a", Message.user(f"message {step}"), session_id="s")


async def written(store, n_steps):
    """What there was after each of so many writes, by version."""
    seen = {}
    for step in range(n_steps):
        await write(store, step)
        seen[await store.version()] = await dump(store)
    return seen
