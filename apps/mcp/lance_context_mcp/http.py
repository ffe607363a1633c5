"""The server over HTTP: on this machine, for who has the token, and for no web page."""

import hmac
import socket
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Guard:
    """Lets those in who send the token; everybody else is told nothing at all."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        """Before `app`."""
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, of whatever kind."""
        if scope["type"] == "http":
            sent = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(sent, self._expected):
                refusal = PlainTextResponse(
                    "a token is needed", 401, headers={"WWW-Authenticate": "Bearer"}
                )
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; with port 0, at a free one. Raises OSError if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        # From here on who asks waits, though nobody answers yet: the address is told before that.
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening


def app(served: Server[Any], *, host: str, port: int, token: str) -> ASGIApp:
    """The server as an application, which answers to its own names and to no other site's pages."""
    names = LOOPBACK if host in LOOPBACK else (host,)
    hosts = [f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names]
    security = TransportSecuritySettings(
        allowed_hosts=hosts, allowed_origins=[f"http://{name}" for name in hosts]
    )
    inner = served.streamable_http_app(
        streamable_http_path=PATH, host=host, transport_security=security
    )
    return Guard(inner, token)


async def serve(served: Server[Any], listening: socket.socket, *, host: str, token: str) -> None:
    """Answer at the socket until the process is told to end."""
    port = listening.getsockname()[1]
    config = uvicorn.Config(
        app(served, host=host, port=port, token=token),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    await uvicorn.Server(config).serve(sockets=[listening])
