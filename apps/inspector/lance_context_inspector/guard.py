"""Who may look: this machine alone, anyone who was given the link, and no other page of the browser.

A page on this machine is asked by every site that the browser shows, under whatever name that site
gives to 127.0.0.1. So the name and the port are compared, a cookie is needed that only the link sets,
and what changes something has to come from a form of ours.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ENTRY = "/enter"
"""Where the link leads."""

HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    # Not no-referrer: with it a browser gives its own forms no origin that could be compared.
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
}
"""On every answer, but where the answer itself is stricter."""


@dataclass(slots=True)
class Keys:
    """The link's token, which works once, and what the browser has in its stead afterwards."""

    on_entered: Callable[[str], None] = lambda _: None
    """Told of the token of the next link, once this one's is used."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def enter(self, token: str) -> str | None:
        """The cookie for who brings the token; None for any other one, and for a used one."""
        if not _same(token, self.token):
            return None
        self.token = secrets.token_urlsafe(32)
        self.on_entered(self.token)
        return self._session

    def is_known(self, cookie: str) -> bool:
        """Whether it is the cookie that was set."""
        return _same(cookie, self._session)

    @property
    def form(self) -> str:
        """What a form has to bring: made of the cookie, which other sites cannot read."""
        return hmac.new(self._session.encode(), b"form", hashlib.sha256).hexdigest()

    def is_form(self, given: str) -> bool:
        """Whether a form brought it."""
        return _same(given, self.form)


@dataclass(frozen=True, slots=True)
class Guard:
    """Lets through to `app` what may be; answers all else, and tells nothing."""

    app: ASGIApp
    keys: Keys
    hosts: Collection[str]
    """What the Host of a request may be: names with their port."""
    cookie: str
    """The cookie's name, which has the port: cookies are one for all ports."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of ASGI."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(scope) or self.app
        await answer(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or host not in self.hosts:
            return _no(400, "this is not a name of this page: open the link that was printed")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _no(403, "another page asked for this one: open the link that was printed")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _no(405, "there are GET and POST")
        if scope["path"] == ENTRY and scope["method"] == "GET":
            return self._entered(scope)
        if not self.keys.is_known(self._cookie_of(headers)):
            return _no(401, "open the link that was printed when this page was started")
        if scope["method"] == "POST" and headers.getlist("origin") != [f"http://{host}"]:
            return _no(403, "a form of another page asked for this: nothing was done")
        return None

    def _entered(self, scope: Scope) -> Response:
        query = parse_qs(scope["query_string"].decode("latin-1"))
        session = self.keys.enter(query.get("token", [""])[0])
        if session is None:
            return _no(
                403, "this link was used before, or is not a link of this page. Open the newest one"
            )
        answer = RedirectResponse(_own(query.get("to", ["/"])[0]), status_code=303)
        answer.set_cookie(self.cookie, session, httponly=True, samesite="strict", path="/")
        return answer

    def _cookie_of(self, headers: Headers) -> str:
        # By hand: one that another program on this machine has set may be no cookie at all.
        pairs = (one.strip().partition("=") for one in headers.get("cookie", "").split(";"))
        return next((value for name, _, value in pairs if name == self.cookie), "")


def _own(target: str) -> str:
    """The page to begin with: one of this page's own."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _no(status: int, words: str) -> Response:
    return PlainTextResponse(f"{words}\n", status_code=status)
