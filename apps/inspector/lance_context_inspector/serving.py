"""The server of the page: on this machine alone, until it is told to end."""

import asyncio
import socket
from collections.abc import Callable
from urllib.parse import urlencode

import uvicorn

from lance_context_inspector.app import application
from lance_context_inspector.guard import ENTRY, Keys
from lance_context_inspector.view import Opened

LOOPBACK = "127.0.0.1"


def listening(port: int) -> socket.socket:
    """A socket on the loopback address: at `port`, or the next that is free; any for 0.

    Raises OSError if none of twenty is.
    """
    for number in range(port, port + 20) if port else [0]:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((LOOPBACK, number))
            # From here on who asks waits, though no one answers yet: the link is told before that.
            found.listen()
        except OSError:
            found.close()
            continue
        return found
    raise OSError(f"no port from {port} to {port + 19} is free: name another one by --port")


class Server:
    """Serves one store at one port."""

    def __init__(
        self, opened: Opened, at: socket.socket, *, said: Callable[[str], None], first: str = "/"
    ) -> None:
        """`said` is reported each link that works, one after the other; they lead to `first`."""
        self._port = at.getsockname()[1]
        self._socket = at
        self._first = first
        self._keys = Keys(on_entered=lambda _: said(self.link))
        app = application(
            opened,
            keys=self._keys,
            hosts=[f"{name}:{self._port}" for name in (LOOPBACK, "localhost")],
            cookie=f"lance_context_{self._port}",
        )
        settings = uvicorn.Config(
            app,
            access_log=False,
            log_level="warning",
            lifespan="off",
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(settings)

    @property
    def link(self) -> str:
        """What opens the page, once."""
        told = {"token": self._keys.token, **({} if self._first == "/" else {"to": self._first})}
        return f"http://{LOOPBACK}:{self._port}{ENTRY}?{urlencode(told)}"

    async def serve(self) -> None:
        """Answer until `end` is called, or the process is interrupted."""
        await self._server.serve(sockets=[self._socket])

    def end(self) -> None:
        """Let `serve` return."""
        self._server.should_exit = True


def run(server: Server) -> None:
    """Serve until the process is interrupted."""
    try:
        asyncio.run(server.serve())
    except KeyboardInterrupt:
        return
