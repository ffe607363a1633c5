"""Leases: the holder of a thing, its expiry, and its renewal.

Locks, tasks, jobs and the maintenance of tables are each held under a lease. The leases are stored
in rows of different tables; their meaning and renewal is defined here.
"""

import asyncio
import json
import math
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Generic, Self, TypeVar

from lance_context_core._loop import store_loop
from lance_context_core._util.frozen import frozen
from lance_context_core._util.logs import log
from lance_context_core.errors import StoreClosedError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@frozen
class Lease:
    """The right of one process to one thing, until it expires."""

    process: str | None = None
    """The holder, as named by `mine`. None if not stored: then the lease ends by time alone."""
    until: float | None = None
    """Its expiry by the clock of the store, in seconds since 1970. None: never."""
    ticks: float | None = None
    """The same by `ticks` on the holder's machine; None if unknown."""
    token: int | None = None
    """The fencing token: larger than that of each earlier holder. None while waiting."""

    def renewed(self, seconds: float, now: float) -> Self:
        """The same lease, which expires `seconds` after `now`, the store's time."""
        is_here = self.process is not None and is_of_this_boot(self.process)
        return replace(self, until=now + seconds, ticks=ticks() + seconds if is_here else None)

    def has_lapsed(self, now: float) -> bool:
        """Whether it has expired by `now`, the store's time.

        On the holder's machine `ticks` decides, which does not change when the clock is set.
        """
        if self.ticks is not None and self.process is not None and is_of_this_boot(self.process):
            return ticks() >= self.ticks
        return self.until is not None and now >= self.until

    def is_free(self, now: float, *, seen_within_seconds: float = 0.0) -> bool:
        """Whether another may take it over: expired, or its holder is known to be dead.

        `seen_within_seconds` is as for `is_dead`.
        """
        return self.has_lapsed(now) or (
            self.process is not None and is_dead(self.process, within_seconds=seen_within_seconds)
        )

    def is_held_with(self, token: int | None, now: float) -> bool:
        """Whether the holder with this token still has it."""
        return self.token == token and not self.has_lapsed(now)


def next_token(last: int) -> int:
    """A fencing token larger than `last`, and than tokens lost in a power cut."""
    return max(last + 1, time.time_ns() // 1000)


# Renewal in the background.

_RENEWALS_IN_A_LEASE = 3
_RETRIES_IN_A_LEASE = 15
_LOOK_SECONDS = 0.001

_LONGEST_PAUSE_SECONDS = 0.2
"""A shorter lease may be added while the loop sleeps until a longer one's renewal."""


@dataclass(slots=True)
class _Held(Generic[V]):
    """A lease of this process."""

    value: V
    seconds: float
    every: float
    ends: float
    """When it expires, by `ticks`, unless renewed."""
    due: float
    """When it is renewed next."""


class LeaseRenewer(Generic[K, V]):
    """Renews this process's leases on the store's event loop; safe to share between threads.

    Retries a failed renewal until the lease has expired: then drops it, with a warning.
    """

    def __init__(
        self, write: Callable[[Mapping[K, V]], Awaitable[Collection[K]]], what: str
    ) -> None:
        """`write` extends the stored leases, and returns those that were still held.

        `what` names a lease in messages. Nothing runs while no lease is held.
        """
        self._write = write
        self._what = what
        self._held: dict[K, _Held[V]] = {}
        self._lock = threading.Lock()
        self._running: tuple[int, Future[None]] | None = None
        self._is_writing = False

    def keep(self, key: K, value: V, seconds: float, *, every: float | None = None) -> None:
        """Renew a lease of that many seconds; `every` is a third of them by default."""
        now = ticks()
        every = seconds / _RENEWALS_IN_A_LEASE if every is None else every
        with self._lock:
            if self._running is not None and self._running[0] != os.getpid():
                # A forked child holds none of its parent's leases, and has no running loop.
                self._held.clear()
                self._running = None
            self._held[key] = _Held(value, seconds, every, now + seconds, now + every)
            if self._running is None or self._running[1].done():
                # On a loop of its own: a caller that blocks its loop does not lose its leases.
                self._running = os.getpid(), store_loop.spawn_apart(self._run())

    def let_go(self, key: K) -> None:
        """Stop renewing a lease."""
        with self._lock:
            self._held.pop(key, None)

    async def end(self, key: K) -> None:
        """Stop renewing a lease; returns once no renewal of it is being written."""
        self.let_go(key)
        while self._is_writing:  # noqa: ASYNC110 - rare, and on any loop
            await asyncio.sleep(_LOOK_SECONDS)

    def keeps(self, key: K) -> bool:
        """Whether a lease is renewed, being neither released nor lost."""
        return key in self._held

    async def renew(self) -> None:
        """Renew all leases now, and drop those that have expired or were taken."""
        began = ticks()
        with self._lock:
            held = {key: one for key, one in self._held.items() if began < one.ends}
            lost = self._held.keys() - held.keys()
            for key in lost:
                del self._held[key]
            self._is_writing = True
        if lost:
            log.warning("%d of %s could not be renewed in time and ran out", len(lost), self._what)
        try:
            kept = await self._write({key: one.value for key, one in held.items()}) if held else ()
        except StoreClosedError:
            kept = ()
        except Exception:
            for one in held.values():
                one.due = began + min(one.every, one.seconds / _RETRIES_IN_A_LEASE)
            raise
        finally:
            self._is_writing = False
        with self._lock:
            for key, one in held.items():
                if key in kept:
                    one.ends, one.due = began + one.seconds, began + one.every
                elif self._held.get(key) is one:
                    del self._held[key]

    async def _run(self) -> None:
        while (pause := self._pause()) is not None:
            if pause > 0:
                await asyncio.sleep(min(pause, _LONGEST_PAUSE_SECONDS))
                continue
            try:
                await self.renew()
            except Exception as error:  # noqa: BLE001 - what fails now may succeed before the lease ends
                what = self._what, type(error).__name__
                log.warning("%s was not renewed, it is tried again: %s", *what)

    def _pause(self) -> float | None:
        """The time until the next renewal; None, which ends the loop, if nothing is held."""
        with self._lock:
            if not self._held:
                self._running = None
                return None
            return min(one.due for one in self._held.values()) - ticks()


# The identity of a holder's process, and whether it is alive.
#
# A process number is not enough: it is reused, and each container has its own numbers. So a process
# is identified by the boot of its machine, its namespace, its number and its start time.

_PROC = Path("/proc")

_seen: dict[str, float] = {}
"""When a process was last seen alive."""

_MOST_SEEN = 1024


def mine() -> str:
    """The identity of this process, as one text."""
    return _mine(os.getpid())


def ticks() -> float:
    """Seconds since the machine's boot, including sleep; independent of the set clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def is_of_this_boot(process: str) -> bool:
    """Whether `ticks` means the same to that process as here."""
    return _parts(process)[0] == _boot()


def is_dead(process: str, *, within_seconds: float = 0.0) -> bool:
    """Whether that process is known to be dead; False if not visible from here.

    A process seen alive `within_seconds` is not checked again.
    """
    if process == mine():
        return False
    if within_seconds and time.monotonic() - _seen.get(process, -math.inf) < within_seconds:
        return False
    if _is_dead(process):
        _seen.pop(process, None)
        return True
    if len(_seen) >= _MOST_SEEN:
        _seen.clear()
    _seen[process] = time.monotonic()
    return False


def _is_dead(process: str) -> bool:
    boot, namespace, pid, began = _parts(process)
    if boot != _boot() or namespace != _namespace() or os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        # It belongs to another user.
        pass
    state, began_now = _status(pid)
    return state in ("Z", "X") or (None not in (began, began_now) and began != began_now)


def shown(process: str) -> str:
    """Its name in errors."""
    return f"process {_parts(process)[2]}"


@lru_cache(maxsize=4)
def _mine(pid: int) -> str:
    return json.dumps([_boot(), _namespace(), pid, _status(pid)[1]])


@lru_cache(maxsize=1024)
def _parts(process: str) -> tuple[str, str, int, int | None]:
    boot, namespace, pid, began = json.loads(process)
    return boot, namespace, pid, began


@lru_cache
def _boot() -> str:
    """The machine and its current boot; a guess if the system does not tell."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{socket.gethostname()}:{round((time.time() - ticks()) / 60)}"


@lru_cache
def _namespace() -> str:
    """The namespace of this process's number."""
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return socket.gethostname()


def _status(pid: int) -> tuple[str, int | None]:
    """The state and start time of a process; unknown if the system does not tell."""
    try:
        # The name of the program, in brackets, may contain any character.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (OSError, UnicodeDecodeError):
        return "", None
    return fields[0], int(fields[19])
