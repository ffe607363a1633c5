"""A Redis server of the system's packages, for as long as a figure needs it."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAM = "redis-server"
_WAIT_SECONDS = 10


class NoServerError(Exception):
    """There is no such server here; the message says how to get one."""


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The URL of a server on a free port of this machine alone, which keeps nothing on the disk.

    Raises NoServerError where it is not installed, or does not start.
    """
    program = shutil.which(_PROGRAM)
    if program is None:
        raise NoServerError(f"no {_PROGRAM}: apt-get install {_PROGRAM}")
    port = _free_port()
    folder.mkdir()
    command = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
    process = subprocess.Popen(
        [*command, "--save", "", "--appendonly", "no", "--daemonize", "no"],
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait(process, port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def _wait(process: "subprocess.Popen[bytes]", port: int) -> None:
    end = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise NoServerError(f"{_PROGRAM} did not start")
