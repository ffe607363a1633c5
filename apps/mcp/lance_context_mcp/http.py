"""The server over HTTP: a scope for each token, and no web page that was not named."""

import math
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lance_context_mcp.tokens import hashed

PATH = "/mcp"
HEALTH = "/health"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""The default limit of the size of a request."""

IsWell = Callable[[], Awaitable[bool]]


class Rate:
    """A token bucket for each client: so many requests at once, refilled within a minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._most = per_minute
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def wait_of(self, client: str) -> float:
        """0 if the client may make a request now, which is counted; else the seconds until it may."""
        now = self._clock()
        left, since = self._left.get(client, (float(self._most), now))
        left = min(self._most, left + (now - since) * self._most / 60)
        is_allowed = left >= 1
        self._left[client] = (left - is_allowed, now)
        return 0 if is_allowed else (1 - left) * 60 / self._most


class Guard:
    """Hands a request to the application of its token, if host, origin and rate are allowed."""

    def __init__(
        self,
        apps: Mapping[str, ASGIApp],
        *,
        hosts: Sequence[str] | None,
        origins: Sequence[str],
        rate: Rate | None = None,
    ) -> None:
        """`apps` by the hashes of their tokens; `hosts` None allows any.

        A host without a port is allowed with any. Each token has the `rate` of its own; None is no limit.
        """
        self._apps = apps
        self._rate = rate
        self._hosts = None if hosts is None else {*hosts}
        self._origins = {*origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, of whatever kind."""
        headers = {name: value.decode("latin-1") for name, value in scope.get("headers", ())}
        app = self._refusal(headers) or self._apps[self._hash(headers)]
        await app(scope, receive, send)

    def _refusal(self, headers: Mapping[bytes, str]) -> Response | None:
        # The token is looked up by its hash: how long that takes says nothing of its characters.
        if self._hash(headers) not in self._apps:
            return PlainTextResponse(
                "a token is needed", 401, headers={"WWW-Authenticate": "Bearer"}
            )
        host = headers.get(b"host", "")
        if self._hosts is not None and not {host, _without_port(host)} & self._hosts:
            return PlainTextResponse(
                "this Host is not allowed: start the server with --allowed-host", 421
            )
        if (origin := headers.get(b"origin")) is not None and origin not in self._origins:
            return PlainTextResponse(
                "this Origin is not allowed: start the server with --allowed-origin", 403
            )
        if self._rate is not None and (wait := self._rate.wait_of(self._hash(headers))):
            seconds = str(math.ceil(wait))
            return PlainTextResponse(
                f"too many requests with this token: try again in {seconds} s",
                429,
                headers={"Retry-After": seconds},
            )
        return None

    def _hash(self, headers: Mapping[bytes, str]) -> str:
        kind, _, token = headers.get(b"authorization", "").partition(" ")
        return hashed(token) if kind == "Bearer" else ""


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; with port 0, at a free one. Raises OSError if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        # From here on who asks waits, though no one answers yet: the address is told before that.
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening


def app(
    served: Mapping[str, Server[Any]],
    *,
    host: str,
    port: int,
    is_well: IsWell,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    per_minute: int | None = None,
    max_request_bytes: int = MAX_REQUEST_BYTES,
) -> Starlette:
    """The servers as one application, by the hashes of the tokens that reach them.

    A token has at most `per_minute` requests a minute, None is no limit. A larger request than
    `max_request_bytes` is answered with 413.

    Bound to this machine alone it answers to its own names and to `hosts`; bound to other
    addresses, to any name where no `hosts` are given, since only who has a token is answered.
    """
    own = [host, *LOOPBACK] if host not in LOOPBACK else [*LOOPBACK]
    named = [f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in own]
    allowed = None if host not in LOOPBACK and not hosts else [*named, *hosts]
    # What the SDK would check is checked by the guard, which knows of any host and of bare names.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    unique = {
        id(one): one.streamable_http_app(
            streamable_http_path=PATH,
            host=host,
            transport_security=unchecked,
            max_request_body_size=max_request_bytes,
        )
        for one in served.values()
    }
    guard = Guard(
        {hash: unique[id(one)] for hash, one in served.items()},
        hosts=allowed,
        origins=[*(f"http://{name}" for name in named), *origins],
        rate=None if per_minute is None else Rate(per_minute),
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for one in unique.values():
                await stack.enter_async_context(one.router.lifespan_context(one))
            yield

    async def health(_: Request) -> Response:
        if await is_well():
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "the store cannot be read"}, 503)

    return Starlette(
        routes=[Route(HEALTH, health), Mount("/", guard)],
        lifespan=lifespan,
        middleware=[_pages_of(origins)] if origins else [],
    )


def _pages_of(origins: Sequence[str]) -> Middleware:
    return Middleware(
        CORSMiddleware,
        allow_origins=[*origins],
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=[
            "Authorization",
            "Content-Type",
            "Last-Event-ID",
            "Mcp-Protocol-Version",
            "Mcp-Session-Id",
        ],
        expose_headers=["Mcp-Session-Id"],
    )


async def serve(application: ASGIApp, listening: socket.socket) -> None:
    """Answer at the socket until the process is told to end."""
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    await uvicorn.Server(config).serve(sockets=[listening])
