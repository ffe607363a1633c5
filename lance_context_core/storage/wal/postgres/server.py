"""The PostgreSQL server of a log: its address, its connections, and the meaning of its errors.

No text of an error, log record or `repr` contains the address: it may hold a password.
"""

import math
import os
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper
from psycopg_pool import ConnectionPool

from lance_context_core.errors import InvalidRequestError, StorageError
from lance_context_core.storage.wal.log import BusyError

OLDEST, NEWEST = 15, 18
"""The supported major versions of PostgreSQL."""

SCHEMES = ("postgresql://", "postgres://")
"""The beginnings of an address."""

_PATIENCE_SECONDS = 10
"""How long a call waits for a connection, unless the address has a `connect_timeout`."""

_LOCK_MILLISECONDS = 100
"""How long a transaction waits in the server's queue before it retries from the start."""

_MOST_CONNECTIONS = 8
"""The connections of a process to one server."""

_MOST_SPARE = 2

_MOST_PREPARED = 400
"""The prepared statements of a connection: more than there are here."""

_IDLE_SECONDS = 60

_APPLICATION = "lance_context"


class Address:
    """The address of a database; `str` and `repr` show no password."""

    __slots__ = ("_text", "database", "host", "patience_seconds", "user")

    def __init__(self, text: str) -> None:
        """Raises InvalidRequestError, without the address, if it is none."""
        refusal = (
            "journal=…: this is not an address of a PostgreSQL database (it is not shown, because it may "
            'hold a password): give "postgresql://user:password@host:5432/database", with %40 for @ '
            "and %2F for / in the password"
        )
        if not text.startswith(SCHEMES):
            raise InvalidRequestError(refusal)
        try:
            parts, known = urlsplit(text), conninfo_to_dict(text)
            _ = parts.port
        except (ValueError, psycopg.Error):
            raise InvalidRequestError(refusal) from None
        if parts.netloc.count("@") > 1 or "@" in unquote(parts.path):
            raise InvalidRequestError(refusal)
        self._text = text
        self.user = str(known.get("user") or "")
        self.host = f"{known.get('host') or 'localhost'}:{known.get('port') or 5432}"
        self.database = str(known.get("dbname") or self.user)
        seconds = str(known.get("connect_timeout") or "")
        self.patience_seconds = float(seconds) if seconds.isdigit() else float(_PATIENCE_SECONDS)

    def reveal(self) -> str:
        """The address with its password: for a connection alone."""
        return self._text

    def __repr__(self) -> str:
        return f"postgresql://{self.host}/{self.database}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


class Server:
    """The connections of this process to one database; stores share them."""

    def __init__(self, address: Address, *, is_synced: bool = False) -> None:
        """Connects with the first call; commits wait for the server's disk if `is_synced`."""
        self.address = address
        self._is_synced = is_synced
        self._pool: ConnectionPool[Any] | None = None
        self._lock = threading.Lock()
        self._spare: list[Any] = []
        """Connections for locks."""
        self._seconds_ahead = 0.0

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """A connection in autocommit mode; errors in this context are translated."""
        connection = self.borrow()
        try:
            with self.translated():
                yield connection
        finally:
            self.give_back(connection)

    def borrow(self) -> Any:
        """A connection; `give_back` it. Raises StorageError if the server cannot be reached."""
        pool = self._pool or self._made()
        try:
            return pool.getconn()
        except psycopg.Error as error:
            raise self._unreachable(error) from None

    def give_back(self, connection: Any) -> None:
        """Return a connection; an open transaction is rolled back, a broken one is dropped."""
        if (pool := self._pool) is not None:
            pool.putconn(connection)
        else:
            connection.close()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate errors of the driver into errors of the store."""
        try:
            yield
        except psycopg.Error as error:
            raise self.meaning(error) from error

    def meaning(self, error: psycopg.Error) -> Exception:
        """The store's error for one of the driver's; BusyError if another transaction was first."""
        if isinstance(error, _BUSY):
            return BusyError()
        name = f"the write-ahead log in PostgreSQL at {self.address.host!r}"
        for kind, words in _MEANINGS:
            if isinstance(error, kind):
                about = {"user": self.address.user, "database": self.address.database}
                return StorageError(f"{name} {words.format(**about)}")
        if error.sqlstate is None or error.sqlstate[:2] in ("08", "57"):
            return StorageError(f"{name} {_GONE}")
        return StorageError(f"{name} cannot be used ({type(error).__name__}, {error.sqlstate})")

    def now(self) -> datetime:
        """The time by the server's clock; by this machine's until the first connection."""
        return datetime.now(UTC) + timedelta(seconds=self._seconds_ahead)

    def _compare_clocks(self, connection: Any) -> None:
        """Measure how far the server's clock is ahead of this machine's."""
        asked = "SELECT extract(epoch FROM clock_timestamp())::double precision"
        best = math.inf
        for _ in range(3):
            began = time.time()
            now = float(connection.execute(asked).fetchone()[0])
            if (took := time.time() - began) < best:
                best, self._seconds_ahead = took, now - (began + took / 2)

    def require(self) -> None:
        """Raise StorageError if the server cannot be reached, or its version is not supported."""
        seconds = max(2, int(self.address.patience_seconds))
        try:
            with psycopg.connect(self.address.reveal(), connect_timeout=seconds) as one:
                version = one.info.server_version // 10_000
                self._compare_clocks(one)
        except psycopg.Error as error:
            raise self._refused(error) from None
        if not OLDEST <= version <= NEWEST:
            raise StorageError(
                f"the write-ahead log in PostgreSQL at {self.address.host!r} is on version {version}, which is "
                f"not supported: use a server of version {OLDEST} to {NEWEST}"
            )

    def begin_lock(self, queue_seconds: float) -> Any:
        """A connection outside the pool, for a lock that it has as long as it lives.

        Its statements wait that long for others.
        """
        with self._lock:
            connection = self._spare.pop() if self._spare else None
        if connection is not None:
            try:
                _check(connection)
            except psycopg.Error:
                end_quietly(connection)
                connection = None
        if connection is None:
            self._made()
            try:
                connection = psycopg.connect(self.address.reveal(), autocommit=True)
            except psycopg.Error as error:
                raise self._refused(error) from None
            with self.translated():
                _configure(connection)
                connection.execute(_FOR_LOCKS.format(milliseconds=int(queue_seconds * 1000)))
        return connection

    def end_lock(self, connection: Any) -> None:
        """Release the locks of such a connection."""
        try:
            connection.execute("SELECT pg_advisory_unlock_all()")
        except psycopg.Error:
            end_quietly(connection)
            return
        with self._lock:
            if len(self._spare) < _MOST_SPARE:
                self._spare.append(connection)
                return
        end_quietly(connection)

    def close(self) -> None:
        """Close all connections; the next call connects again."""
        with self._lock:
            pool, self._pool = self._pool, None
            spare, self._spare = self._spare, []
        for connection in spare:
            end_quietly(connection)
        if pool is not None:
            pool.close()

    # Helpers

    def _made(self) -> ConnectionPool[Any]:
        with self._lock:
            if self._pool is None:
                self.require()
                self._pool = ConnectionPool(
                    self.address.reveal(),
                    kwargs={"autocommit": True, "prepare_threshold": 0},
                    min_size=0,
                    max_size=_MOST_CONNECTIONS,
                    max_idle=_IDLE_SECONDS,
                    timeout=self.address.patience_seconds,
                    reconnect_timeout=self.address.patience_seconds,
                    num_workers=1,
                    name=_APPLICATION,
                    configure=self._configure,
                    check=_check,
                    open=True,
                )
            return self._pool

    def _configure(self, connection: Any) -> None:
        """Prepare a new connection; each also compares the clocks."""
        _configure(connection)
        if self._is_synced:
            connection.execute("SELECT set_config('synchronous_commit', 'on', false)")
        self._compare_clocks(connection)

    def _unreachable(self, error: Exception) -> Exception:
        try:
            self.require()
        except StorageError as why:
            return why
        return StorageError(
            f"the write-ahead log in PostgreSQL at {self.address.host!r} gave no connection within "
            f"{self.address.patience_seconds:g} seconds, nothing was written: its own limit, or the "
            f"{_MOST_CONNECTIONS} connections of this process, are in use ({type(error).__name__})"
        )

    def _refused(self, error: psycopg.Error) -> StorageError:
        """The error of a failed connection, which has no SQLSTATE before a login."""
        name = f"the write-ahead log in PostgreSQL at {self.address.host!r}"
        text = str(error)
        if "does not exist" in text and "database" in text:
            return StorageError(
                f"{name} has no database {self.address.database!r}: create it, or name another one"
            )
        if "authentication failed" in text or "password" in text or "pg_hba" in text:
            return StorageError(
                f"{name} refused the login of {self.address.user!r}: check user, password and pg_hba.conf"
            )
        if "role" in text and "does not exist" in text:
            return StorageError(
                f"{name} has no role {self.address.user!r}: create it, or name another one"
            )
        if "too many" in text or "remaining connection slots" in text:
            return StorageError(
                f"{name} has no connection left, nothing was written: raise its max_connections"
            )
        return StorageError(
            f"{name} does not answer, nothing was written: start it, or check host and port"
        )


_BUSY = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)
_GONE = (
    "went away during a call: a write in that moment may have been committed or not. Repeat it with the "
    "same ids, which writes nothing twice, once the server answers"
)
_MEANINGS: tuple[tuple[type[psycopg.Error], str], ...] = (
    (
        psycopg.errors.InsufficientPrivilege,
        (
            "does not let the role {user!r} do that: grant it CREATE on the database {database!r}, or "
            "all rights on the schema lance_context and its tables"
        ),
    ),
    (
        psycopg.errors.DiskFull,
        "cannot be written, the disk of the server is full: free some space; nothing was written",
    ),
    (
        psycopg.errors.ReadOnlySqlTransaction,
        "is read-only, as a standby is: name the primary server; nothing was written",
    ),
    (
        psycopg.errors.UndefinedTable,
        "has lost its tables: restore the database, or call accept_loss()",
    ),
    (psycopg.errors.UndefinedFunction, "has lost its functions: restore the database"),
    (
        psycopg.errors.InvalidSchemaName,
        "has lost its schema: restore the database, or call accept_loss()",
    ),
)


_FOR_LOCKS = (
    "SELECT set_config('lock_timeout', '{milliseconds}ms', false), "
    "set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false), "
    "set_config('tcp_keepalives_count', '3', false)"
)
"""The server notices within half a minute that the machine of a holder is gone."""


def _configure(connection: Any) -> None:
    connection.prepared_max = _MOST_PREPARED
    connection.adapters.register_dumper(int, Int8Dumper)
    connection.adapters.register_dumper(int, Int8BinaryDumper)
    connection.execute(
        f"SELECT set_config('lock_timeout', '{_LOCK_MILLISECONDS}ms', false), "
        f"set_config('application_name', '{_APPLICATION}', false)"
    )


def _check(connection: Any) -> None:
    """Raise if the server has closed the connection, as far as is known here, without a call."""
    if select.select([connection.fileno()], [], [], 0)[0]:
        # A notice, or the last words of the server before the end.
        ConnectionPool.check_connection(connection)


@lru_cache(maxsize=64)
def _server_of(address: Address, pid: int, *, is_synced: bool) -> Server:
    del pid  # a forked child connects anew
    return Server(address, is_synced=is_synced)


def server_of(address: Address, *, is_synced: bool = False) -> Server:
    """The server at that address, shared by all stores of this process of one durability."""
    return _server_of(address, os.getpid(), is_synced=is_synced)


def end_quietly(connection: Any) -> None:
    """Close a connection whose state is unknown."""
    with suppress(psycopg.Error):
        connection.close()


# What the sessions of one log share.


class Watch:
    """What the sessions of one log share: the position that was seen, and the lock of a flush."""

    def __init__(self, server: Server, read_consistency: timedelta | None) -> None:
        """Has seen nothing."""
        self.server = server
        self.age_seconds = (
            math.inf if read_consistency is None else read_consistency.total_seconds()
        )
        """How old a read may be."""
        self.last = 0
        """The last position that was seen."""
        self.epoch: int | None = None
        """The number of the exclusive lock that this process has; None if it has none."""
        self.lost = ""
        """Why the log is refused; empty if it is not."""

    def see(self, last: int | None) -> None:
        """Note the last position. Raises StorageError if there is none, or it went back."""
        if last is None:
            self.lost = (
                f"the write-ahead log in PostgreSQL at {self.server.address.host!r} {UNKNOWN}"
            )
        elif last < self.last:
            self.lost = (
                f"the write-ahead log in PostgreSQL at {self.server.address.host!r} {WENT_BACK} from position "
                f"{self.last} to {last}, as after a failover or a restore that lost transactions"
            )
        else:
            self.last = last
            return
        self.require()

    def require(self) -> None:
        """Raise StorageError if the log is refused."""
        if self.lost:
            raise StorageError(f"{self.lost}: nothing is read or written. {WAY_OUT}")


UNKNOWN = "does not know this store any more"
WENT_BACK = "went back"
WAY_OUT = "Restore the database, or call accept_loss(), and the store goes on without what was not flushed"
LOST_LOCK = (
    "the write-ahead log in PostgreSQL at {!r}: this process lost its lock of the store to another one, as after "
    "an end of its connection, and committed nothing more. Repeat the call"
)
