"""JSON that is posted to a service, with the standard library alone.

Connections are kept and used again, what is worth it is tried again, and proxies are those of the
environment. One call is one request: what more a client library does, such as streaming, is not needed.
"""

import json
import os
import random
import weakref
from base64 import b64encode
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPSConnection
from ssl import SSLCertVerificationError
from time import sleep, time
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from lance_context_core._util.checks import check_count, check_seconds, shown
from lance_context_core.errors import InvalidRequestError

MAX_PAUSE_SECONDS = 60.0
"""A service that asks to be left alone for longer is not waited for."""

_TRIED_AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504, 529))
_FIRST_PAUSE_SECONDS, _LONGEST_OWN_PAUSE_SECONDS = 0.5, 8.0
_MAX_IDLE = 16
_MAX_SHOWN = 300


class ServiceError(Exception):
    """A service did not answer, or not with what was asked for; the message says what it said."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """That of the answer, if there was one and it is the fault."""


class JsonService:
    """Posts JSON to the paths below one URL, from any number of threads.

    A request that fails by the network, a timeout, or a status that may pass (429 and 5xx) is tried
    again, `max_retries` times, after a pause that doubles, or the one that the service asks for.
    Redirections are not followed: the headers hold a key. Idle connections are closed with the object.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        timeout_seconds: float,
        max_retries: int,
    ) -> None:
        self._url = _checked_url(url)
        self._headers = {"Content-Type": "application/json", **headers}
        self._timeout_seconds = check_seconds(timeout_seconds, "timeout_seconds")
        self._max_retries = check_count(max_retries, "max_retries", least=0)
        self._given = url
        self._start()

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """What the service answers. Raises ServiceError."""
        data = json.dumps(body, ensure_ascii=True).encode("ascii")
        problem = ""
        for attempt in range(self._max_retries + 1):
            pause = min(_LONGEST_OWN_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**attempt)
            pause *= random.uniform(0.5, 1.0)  # noqa: S311 - so that not all come back at once
            try:
                answer = self._once(path, data)
            except SSLCertVerificationError as error:
                raise ServiceError(f"{self._given} is not trusted: {error}") from error
            except (OSError, HTTPException) as error:
                problem = f"{self._given} did not answer: {type(error).__name__}: {error}"
            else:
                if 200 <= answer.status < 300:
                    return self._read(answer)
                problem = f"{self._given} answered {answer.status}: {_start_of(answer.content)}"
                if answer.status not in _TRIED_AGAIN:
                    raise ServiceError(problem, status=answer.status)
                asked = retry_after(answer.headers)
                if asked is not None and asked > MAX_PAUSE_SECONDS:
                    raise ServiceError(f"{problem}; it asks to wait for {asked:.0f} seconds")
                pause = pause if asked is None else asked
            if attempt < self._max_retries:
                sleep(pause)
        raise ServiceError(f"{problem} (tried {self._max_retries + 1} times)")

    def close(self) -> None:
        """Close the idle connections; the next request opens one."""
        _close(self._idle)

    def _once(self, path: str, data: bytes) -> "_Answer":
        connection = self._taken()
        is_kept = connection.sock is not None
        try:
            answer = self._sent(connection, path, data)
        except ConnectionError:
            connection.close()
            if not is_kept:
                raise
            # The service has closed what was idle, and got nothing: this is no failure yet.
            answer = self._sent(connection, path, data)
        if connection.sock is not None and len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _sent(self, connection: HTTPConnection, path: str, data: bytes) -> "_Answer":
        url = self._url
        target = f"{url.path.rstrip('/')}{path}" + (f"?{url.query}" if url.query else "")
        if self._proxy is not None and url.scheme == "http":
            target = f"http://{url.netloc}{target}"
        try:
            connection.request("POST", target, data, self._headers)
            answer = connection.getresponse()
            return _Answer(answer.status, answer.headers, answer.read())
        except BaseException:
            connection.close()
            raise

    def _taken(self) -> HTTPConnection:
        """An idle connection, else a new one."""
        if self._owner != os.getpid():  # those of the parent are the parent's
            self._start()
        try:
            return self._idle.pop()
        except IndexError:
            return self._opened()

    def _opened(self) -> HTTPConnection:
        url, proxy, timeout = self._url, self._proxy, self._timeout_seconds
        kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
        assert url.hostname is not None
        if proxy is None:
            return kind(url.hostname, url.port, timeout=timeout)
        assert proxy.hostname is not None
        connection = kind(proxy.hostname, proxy.port or 80, timeout=timeout)
        if url.scheme == "https":
            connection.set_tunnel(url.hostname, url.port, headers=_authorization(proxy))
        return connection

    def _start(self) -> None:
        self._owner = os.getpid()
        self._idle: list[HTTPConnection] = []
        weakref.finalize(self, _close, self._idle)
        self._proxy = _proxy_of(self._url)
        if self._proxy is not None and self._url.scheme == "http":
            self._headers = {**self._headers, **_authorization(self._proxy)}

    def _read(self, answer: "_Answer") -> Any:
        try:
            return json.loads(answer.content)
        except ValueError as error:
            said = _start_of(answer.content)
            raise ServiceError(f"{self._given} answered what is not JSON: {said}") from error

    def __getstate__(self) -> dict[str, Any]:
        return {key: one for key, one in vars(self).items() if key != "_idle"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()


class _Answer(NamedTuple):
    status: int
    headers: HTTPMessage
    content: bytes


def retry_after(headers: Mapping[str, str] | HTTPMessage) -> float | None:
    """For how many seconds a service asks to be left alone; None if it does not say, or not clearly."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        said = headers.get(name)
        if said is None:
            continue
        try:
            seconds = float(said) * scale
        except ValueError:
            try:
                seconds = parsedate_to_datetime(said).timestamp() - time()
            except (TypeError, ValueError):
                continue
        if seconds == seconds:  # noqa: PLR0124 - NaN is no number of seconds
            return max(0.0, seconds)
    return None


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """A copy; raises InvalidRequestError, which does not show what may be a key."""
    given = {} if headers is None else headers
    if not isinstance(given, Mapping):
        raise InvalidRequestError("headers is not a mapping: give names and values")
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str) or not _is_one_line(value):
            raise InvalidRequestError(
                f"headers[{shown(name)}] is not a line of text: remove its line breaks"
            )
    return dict(given)


OPENAI = "https://api.openai.com/v1"


def openai_service(
    base_url: str | None,
    api_key: str | None,
    headers: Mapping[str, str] | None,
    *,
    missing: str,
) -> tuple[str, dict[str, str]]:
    """The URL and the headers for OpenAI, or a service with its endpoints, also by the environment.

    Raises InvalidRequestError, which says what is `missing`, for OpenAI's own service without a key.
    """
    url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
    said = checked_headers(headers)
    key = api_key if api_key is not None else os.environ.get("OPENAI_API_KEY", "")
    if key and not {"authorization", "api-key"} & {one.lower() for one in said}:
        said |= checked_headers({"Authorization": f"Bearer {key}"})
    elif url.rstrip("/") == OPENAI and not said:
        raise InvalidRequestError(missing)
    return url, said


def _checked_url(url: object) -> SplitResult:
    try:
        split = urlsplit(url if isinstance(url, str) else "")
        if split.scheme in {"http", "https"} and split.hostname and split.port != 0:
            return split
    except ValueError:  # a port that is no number
        pass
    raise InvalidRequestError(
        f"base_url={shown(url)}: give the URL of the service, such as http://localhost:8080/v1"
    )


def _is_one_line(value: str) -> bool:
    return value.isascii() and value.isprintable()


def _proxy_of(url: SplitResult) -> SplitResult | None:
    """The proxy that the environment names for a URL."""
    named = getproxies().get(url.scheme)
    if not named or proxy_bypass(url.netloc.rpartition("@")[2]):
        return None
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    return proxy if proxy.hostname else None


def _authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    known = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(known.encode()).decode()}"}


def _start_of(content: bytes) -> str:
    text = " ".join(content[: 4 * _MAX_SHOWN].decode("utf-8", "replace").split())
    return f"{text[:_MAX_SHOWN]}…" if len(text) > _MAX_SHOWN else text or "nothing"


def _close(connections: list[HTTPConnection]) -> None:
    while connections:
        connections.pop().close()
