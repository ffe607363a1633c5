"""What the tests of bad networks and places ask of a store: one session, and messages by their ids."""

from lance_context_core import Message, StorageError


async def say(store, *names):
    """Append messages of these ids in one call."""
    said = [Message.user(f"tea {name}", id=name) for name in names]
    await store.history.append_many("a", said, session_id="s")


async def heard(store):
    return [one.id for one in await store.history.get_messages("a", session_id="s")]


async def seen(backend):
    """What a store sees that is opened where no fault befalls it."""
    async with backend.open() as store:
        return await heard(store)


async def failure(work):
    """The error that `work` ends with; None if it ends well."""
    try:
        await work
    except StorageError as error:
        return str(error)
    return None
