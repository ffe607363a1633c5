"""Which process it is that holds something, and whether it is still there.

A number is not enough: it is given out again, and another container counts its own. So a process is
known by the boot of its machine, the namespace in which it is counted, its number and when it began.
"""

import json
import math
import os
import socket
import time
from functools import lru_cache
from pathlib import Path

_PROC = Path("/proc")

_seen: dict[str, float] = {}
"""When a process was last seen alive."""

_MOST_SEEN = 1024


def mine() -> str:
    """This process, as one text."""
    return _mine(os.getpid())


def ticks() -> float:
    """Seconds since the machine's boot, those asleep included; setting the clock does not change it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def is_of_this_boot(process: str) -> bool:
    """Whether `ticks` means the same to that process as here."""
    return _parts(process)[0] == _boot()


def is_dead(process: str, *, within_seconds: float = 0.0) -> bool:
    """Whether that process is known to be no more; of one that cannot be seen from here nobody knows.

    That one lives may have been seen `within_seconds`.
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
        # It is another user's.
        pass
    state, began_now = _status(pid)
    return state in ("Z", "X") or (None not in (began, began_now) and began != began_now)


def shown(process: str) -> str:
    """What an error calls it."""
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
    """The machine, and which of its boots this is; where that is not told, a guess at both."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{socket.gethostname()}:{round((time.time() - ticks()) / 60)}"


@lru_cache
def _namespace() -> str:
    """Where processes are counted as here."""
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return socket.gethostname()


def _status(pid: int) -> tuple[str, int | None]:
    """How a process is, and when it began; unknown where the system does not tell it."""
    try:
        # The name of the program, in brackets, may hold anything.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (OSError, UnicodeDecodeError):
        return "", None
    return fields[0], int(fields[19])
