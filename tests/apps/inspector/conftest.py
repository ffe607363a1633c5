"""A page on a store, and what asks it as a browser would, without one."""

import asyncio
import re
import shutil
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from apps.inspector import stores
from lance_context_core import AsyncContextStore

collect_ignore_glob = [] if find_spec("lance_context_inspector") else ["test_*.py"]

HOST = "127.0.0.1:8123"
COOKIE = "lance_context_8123"


@dataclass
class Answer:
    """What a page answered."""

    status: int
    headers: dict
    body: bytes

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    @property
    def links(self):
        """Where its links, forms, pictures, styles and scripts lead, each once, in order."""
        found = _Links()
        found.feed(self.text)
        return list(dict.fromkeys(found.links))


class _Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links = []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in {"href", "src"} and value]


@dataclass
class Browser:
    """Asks an application of ASGI, with a cookie once it has entered."""

    app: object
    keys: Any
    headers: dict = field(default_factory=lambda: {"host": HOST})

    async def enter(self):
        answer = await self.get("/enter", token=self.keys.token)
        assert answer.status == 303, answer.text
        pair = answer.headers["set-cookie"].partition(";")[0]
        self.headers = {**self.headers, "cookie": pair}
        return self

    async def get(self, path, **params):
        split = urlsplit(path)
        given = {name: one[-1] for name, one in parse_qs(split.query).items()} | params
        return await self.ask("GET", split.path, urlencode(given))

    async def post(self, path, **fields):
        body = urlencode({"form": self.keys.form, **fields}).encode()
        more = {
            "content-type": "application/x-www-form-urlencoded",
            "origin": f"http://{HOST}",
        }
        return await self.ask("POST", path, body=body, headers={**self.headers, **more})

    async def ask(self, method, path, query="", *, body=b"", headers=None):
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [
                (name.encode(), value.encode("latin-1"))
                for name, value in (self.headers if headers is None else headers).items()
            ],
            "server": ("127.0.0.1", 8123),
            "client": ("127.0.0.1", 50000),
        }
        sent = []
        requests = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            return requests.pop() if requests else await asyncio.Future()

        async def send(message):
            sent.append(message)

        await self.app(scope, receive, send)
        head = {key.decode(): value.decode("latin-1") for key, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], head, b"".join(one.get("body", b"") for one in sent))


@pytest.fixture
def browse():
    """Opens a store and enters its page: `browse(place, tenant=…, can_write=…)`."""
    from lance_context_inspector.app import application
    from lance_context_inspector.guard import Keys
    from lance_context_inspector.view import Opened

    opened = []

    async def open_(place, *, can_write=False, branch=None, **scope):
        store = AsyncContextStore.open(place, maintenance=None)
        opened.append(store)
        keys = Keys()
        seen = Opened(store=store.scope(**scope), scope=scope, can_write=can_write, branch=branch)
        app = application(seen, keys=keys, hosts=[HOST], cookie=COOKIE)
        return await Browser(app, keys).enter()

    yield open_
    for store in opened:
        asyncio.run(store.close())


@pytest.fixture(scope="session")
def used_once(tmp_path_factory):
    return stores.used(tmp_path_factory.mktemp("used") / "memory")


@pytest.fixture
def used(used_once, tmp_path):
    """A store that an agent has used for a while, of one's own."""
    return shutil.copytree(used_once, tmp_path / "memory")


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """A store in which all texts are hostile, for looking only."""
    return stores.hostile(tmp_path_factory.mktemp("hostile") / "memory")


async def crawled(browser, start="/", *, most=400):
    """Every page that can be reached from one, by its address; each kind of page at most 12 times."""
    waiting, found, per_path = [start], {}, {}
    while waiting and len(found) < most:
        link = waiting.pop(0)
        path = urlsplit(link).path
        if link in found or per_path.get(path, 0) >= 12:
            continue
        per_path[path] = per_path.get(path, 0) + 1
        found[link] = answer = await browser.get(link)
        if answer.headers.get("content-type", "").startswith("text/html"):
            waiting += [one for one in answer.links if re.match(r"/(?!/)", one)]
    return found
