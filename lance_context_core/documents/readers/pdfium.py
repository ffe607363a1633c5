"""The text of PDF pages as PDFium shows them, read in a process of its own.

PDFium is native code: a file that makes it crash, or fills the memory, ends that process and not
this one. A process serves one file after the other.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from lance_context_core._util.frozen import frozen

_CHILD = Path(__file__).with_name("pdfium_child.py")

_MAX_BYTES = 4 << 30
"""How much memory the process may have, of addresses; what it needs is far less."""

_START_SECONDS = 60
_OPEN_SECONDS = 60

_MOST_IDLE = 2
"""How many processes wait for the next file."""


class TooLongError(Exception):
    """A page was not read by the time it had to be."""


class _Process:
    """A process that reads; for one thread at a time."""

    def __init__(self) -> None:
        """Start it. Raises OSError if none can be started, such as where Python is embedded."""
        if not sys.executable or getattr(sys, "frozen", False):
            raise OSError("no interpreter that could be started")
        # Without the site: it has the same path as this one.
        command = [sys.executable, "-I", "-S", str(_CHILD)]
        self._process = subprocess.Popen(  # noqa: S603 - our own
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.end = weakref.finalize(self, _ended, self._process)
        start = {"path": [str(one) for one in sys.path], "max_bytes": _MAX_BYTES}
        if self.ask(start, time.monotonic() + _START_SECONDS) is None:
            raise OSError("the process for PDFium does not start")

    def ask(self, request: dict[str, Any], until: float, file: IO[bytes] | None = None) -> Any:
        """The answer; None if it has none, or has crashed, after which it is not there any more.

        Raises TooLongError if it does not answer until that moment of the monotonic clock; it is
        ended then.
        """
        process, late = self._process, threading.Event()

        def kill() -> None:
            late.set()
            process.kill()

        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(max(until - time.monotonic(), 0.001), kill)
        watch.daemon = True
        watch.start()
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                if file is not None:
                    shutil.copyfileobj(file, process.stdin)
                process.stdin.flush()
            answer = process.stdout.readline()
        finally:
            watch.cancel()
        if late.is_set():
            self.end()
            raise TooLongError
        if not answer.endswith(b"\n"):
            self.end()
            return None
        return json.loads(answer)

    @property
    def is_there(self) -> bool:
        """Whether it can be asked."""
        return self.end.alive and self._process.poll() is None


def _ended(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    process.wait()


_idle: list[_Process] = []
"""Those that wait for the next file: taken and given back in one step each."""


def _forget_processes() -> None:
    """In a child: the processes are those of its parent."""
    for one in _idle:
        one.end.detach()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_processes)


@frozen
class PdfiumDocument:
    """A file that PDFium has opened; for one thread at a time. Close it."""

    process: _Process

    @classmethod
    def opened(cls, file: IO[bytes], password: str) -> "PdfiumDocument | None":
        """The file, which stays open itself; None if PDFium cannot open it, or no process can be started."""
        process = _taken()
        if process is None:
            return None
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        request = {"size": size, "password": password}
        document = cls(process)
        try:
            is_open = process.ask(request, time.monotonic() + _OPEN_SECONDS, file)
        except TooLongError:
            return None
        if not is_open:
            document.close()
            return None
        return document

    def text(self, index: int, until: float) -> str | None:
        """The text of a page, which is counted from 0; None if PDFium cannot read it, or has crashed.

        Raises TooLongError if it is not read until that moment of the monotonic clock.
        """
        if not self.process.is_there:
            return None
        answer: str | None = self.process.ask({"page": index}, until)
        return answer

    def close(self) -> None:
        """Let the process read another file."""
        if self.process.is_there and len(_idle) < _MOST_IDLE:
            _idle.append(self.process)
        else:
            self.process.end()


def _taken() -> _Process | None:
    while _idle:
        with suppress(IndexError):
            process = _idle.pop()
            if process.is_there:
                return process
    try:
        return _Process()
    except (OSError, TooLongError):
        return None
