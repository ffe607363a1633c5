"""What a process notes down of what it does, in a file that outlives it.

A line of JSON each: `begun` before a batch is written, `done` when that was acknowledged, `failed`
with the error otherwise; `read` with what was seen. Times are those of the machine's monotonic clock,
which all processes share.
"""

import json
import os
import time


class Journal:
    """The notes of one process, and of those that it took the place of."""

    def __init__(self, path):
        # Each line is one call of the system: what is noted stays when the process is killed.
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, what, **about):
        line = json.dumps({"what": what, "at": time.monotonic(), **about})
        os.write(self._file, f"{line}\n".encode())


def notes(path):
    """All notes of a journal, in order, but for a last one that is still being written."""
    if not path.is_file():
        return []
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return [json.loads(line) for line in whole.splitlines()]
