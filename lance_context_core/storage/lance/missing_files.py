"""The cause of a missing file in a read: the version was removed, or damage."""

from lance_context_core.errors import ConflictError, ContextStoreError, NotFoundError
from lance_context_core.storage.lance import branches
from lance_context_core.storage.lance.branches import At
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.lance.durability import InFlight
from lance_context_core.storage.lance.errors import is_missing_file
from lance_context_core.storage.names import shown_name


async def explain(
    error: ContextStoreError, connection: Connection, name: str, at: At, *, is_pinned: bool
) -> None:
    """Raise the meaning of the `error` of a read of `name`, if others caused it.

    That is if they removed the version: NotFoundError, if it `is_pinned` and so was asked for by
    name; ConflictError, if it was the newest, and a retry may succeed.
    """
    if not (is_missing_file(error) or isinstance(error, NotFoundError)):
        return
    # Files go before the version that names them: wait for a running erasure.
    async with InFlight(connection.uri, name).committing():
        if await _is_there(connection, name, at):
            return
    if is_pinned:
        what = "it" if at.ref is None else branches.named(at.ref)
        raise NotFoundError(
            f"version {at.version} of {shown_name(name)} was pruned, or others have erased "
            f"from {what} or deleted it since: check out one of versions()"
        ) from error
    raise ConflictError(
        f"others have removed version {at.version} of {shown_name(name)}, which is needed for this, "
        "as an erasure does: call again"
    ) from error


async def _is_there(connection: Connection, name: str, at: At) -> bool:
    try:
        handle = await connection.table(name)
        return await branches.has_version(handle, name, at.ref, at.version)
    except NotFoundError:
        return False
