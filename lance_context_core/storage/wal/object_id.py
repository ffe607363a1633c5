"""The id of a store on an object store: an object that is created once, and by one creator.

It is under the name of a table, so that the engine's own listing of tables shows that the store has
a log: a process that was not given the address of the log needs no other client to see it.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lance_context_core._util.extras import require
from lance_context_core.errors import StorageError
from lance_context_core.storage.wal.identity import NAME, id_elsewhere, line_elsewhere

T = TypeVar("T")

TABLE = "journal"
"""The name in the listing of tables; no table of a store has it."""

_OBJECT = f"{TABLE}.lance/{NAME}"

_OF_CLIENTS = frozenset(
    (
        *("allow_http", "allow_invalid_certificates", "connect_timeout", "timeout"),
        *("default_content_type", "http1_only", "http2_only", "pool_idle_timeout"),
        *("pool_max_idle_per_host", "proxy_url", "user_agent"),
    )
)
"""The storage options that are about connections, whatever the object store."""

_RETRIES = {"max_retries": 5}


class ObjectId:
    """The id of a store on an object store; satisfies `StoreId`."""

    def __init__(self, uri: str, storage_options: Mapping[str, str]) -> None:
        """The store at that URI; options as for LanceDB. Raises MissingExtraError."""
        require("obstore", extra="postgres", by="a write-ahead log in PostgreSQL")
        self._uri = uri
        self._options = dict(storage_options)
        self._objects: Any = None

    async def read(self) -> str | None:
        """As `StoreId.read`."""
        return await asyncio.to_thread(self.found)

    async def write(self, id: str) -> bool:
        """As `StoreId.write`, by one request that fails if the object exists."""
        return await asyncio.to_thread(self._write, id)

    def forget(self) -> None:
        """As `StoreId.forget`."""
        import obstore

        self._asked("delete", lambda objects: obstore.delete(objects, _OBJECT))

    def is_also_at(self, place: str, id: str) -> bool:
        """As `StoreId.is_also_at`; False where these options give no access."""
        try:
            return ObjectId(place, self._options).found() == id
        except StorageError:
            return False

    def found(self) -> str | None:
        """As `read`, in any thread."""
        import obstore

        def read(objects: Any) -> str | None:
            try:
                return bytes(obstore.get(objects, _OBJECT).bytes()).decode("ascii", "replace")
            except FileNotFoundError:
                return None

        if (text := self._asked("read", read)) is None:
            return None
        if (id := id_elsewhere(text)) is None:
            raise StorageError(
                f"{_OBJECT!r} of the store at {self._uri!r} is damaged: restore it from a copy, or delete it "
                "and call accept_loss()"
            )
        return id

    def _write(self, id: str) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        def write(objects: Any) -> bool:
            try:
                obstore.put(objects, _OBJECT, line_elsewhere(id).encode(), mode="create")
            except AlreadyExistsError:
                # Of an answer that was lost, and a retry, this one's own.
                return self.found() == id
            return True

        return self._asked("write", write)

    def _asked(self, verb: str, ask: Callable[[Any], T]) -> T:
        """The result of `ask`. The client's errors may show options, and are left out."""
        from obstore.exceptions import BaseError

        try:
            if self._objects is None:
                self._objects = _objects_at(self._uri, self._options)
            return ask(self._objects)
        except (BaseError, OSError, ValueError) as error:
            raise StorageError(
                f"cannot {verb} {_OBJECT!r} of the store at {self._uri!r} ({type(error).__name__}): check the "
                "bucket, and the credentials in storage_options or the environment"
            ) from None


def _objects_at(uri: str, options: Mapping[str, str]) -> Any:
    """The client for a URI. Options that only the engine knows are left out, as it does."""
    from obstore import store
    from obstore.exceptions import BaseError, UnknownConfigurationKeyError

    make: Any = store.from_url  # its types are of each kind of store
    named = {key.lower(): value for key, value in options.items()}
    clients = {key: value for key, value in named.items() if key in _OF_CLIENTS}
    given = {key: value for key, value in named.items() if key not in _OF_CLIENTS}

    def made(config: Mapping[str, str]) -> Any:
        return make(
            uri, config=config or None, client_options=clients or None, retry_config=_RETRIES
        )

    def is_known(key: str) -> bool:
        try:
            made({key: given[key]})
        except UnknownConfigurationKeyError:
            return False
        except BaseError:  # it needs others, too
            return True
        return True

    try:
        return made(given)
    except UnknownConfigurationKeyError:
        return made({key: value for key, value in given.items() if is_known(key)})
