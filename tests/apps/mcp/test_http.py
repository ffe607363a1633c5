"""The server over HTTP, spoken to by the SDK's client, and by who has no business there."""

import json
import re
import sys
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from lance_context_mcp import http, tokens
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.responses import PlainTextResponse

from lance_context_core import ContextStore, InvalidRequestError

pytestmark = pytest.mark.anyio

TOKEN = "correct-horse-battery-staple"
OPENING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
TYPES = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def listening(place, *options, token=TOKEN):
    """The address of a server that is a process of its own."""
    command = [sys.executable, "-m", "lance_context_mcp", "--uri", str(place), "--http", "--port=0"]
    environment = {} if token is None else {"LANCE_CONTEXT_MCP_TOKEN": token}
    async with await anyio.open_process([*command, *options], env=environment) as server:
        try:
            told = b""
            while told.count(b"\n") < (1 if token else 2):
                told += await server.stderr.receive()
            yield re.search(r"http://\S+", told.decode())[0], told.decode()
        finally:
            server.terminate()


@pytest.mark.process
async def test_clients_with_the_token_share_the_memory_and_nobody_else_gets_in(tmp_path):
    async with listening(tmp_path / "memory", "--user", "ada") as (address, told):
        assert TOKEN not in told
        port = address.split(":")[2].split("/")[0]
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=bearer) as web:
            for text in ("trains", "soup"):
                async with Client(streamable_http_client(address, http_client=web)) as client:
                    await client.call_tool("remember", {"text": f"Ada likes {text}."})
            async with Client(streamable_http_client(address, http_client=web)) as client:
                found = await client.call_tool("recall", {"query": "Ada likes"})
                assert len(found.structured_content["results"]) == 2

        async def status(**headers):
            async with httpx2.AsyncClient() as web:
                answer = await web.post(address, json=OPENING, headers={**TYPES, **headers})
                return answer.status_code

        assert await status(**bearer) == 200
        assert await status() == 401
        assert await status(Authorization=f"Bearer {TOKEN}x") == 401
        assert await status(Authorization=TOKEN) == 401
        for host in (
            "evil.example",
            f"evil.example:{port}",
            f"127.0.0.1.evil.com:{port}",
            "127.0.0.1:1",
        ):
            assert await status(**bearer, Host=host) == 421, host
        for origin in (
            "http://evil.example",
            "null",
            f"https://127.0.0.1:{port}",
            "http://127.0.0.1:1",
        ):
            assert await status(**bearer, Origin=origin) == 403, origin
        assert await status(**bearer, Origin=f"http://127.0.0.1:{port}") == 200
        async with httpx2.AsyncClient() as web:
            for path in ("/", "/mcp", "/docs"):
                answer = await web.get(address.replace("/mcp", path))
                assert (answer.status_code, answer.text) == (401, "a token is needed")
                assert "access-control-allow-origin" not in answer.headers
    with ContextStore.open(tmp_path / "memory") as store:
        assert store.memory.list(user_id="ada").total == 2


@pytest.fixture
def added(ended):
    """Adds a token to a file."""

    def add(file, *options):
        code, told, _ = ended("--uri", "nowhere", *options, "--add-token", str(file))
        assert code == 0
        return told.strip()

    return add


async def opened(address, token, **headers):
    async with httpx2.AsyncClient() as web:
        more = {**TYPES, "Authorization": f"Bearer {token}", **headers}
        return (await web.post(address, json=OPENING, headers=more)).status_code


@pytest.mark.process
async def test_one_process_serves_each_token_the_memory_of_its_own_scope(added, tmp_path):
    file = tmp_path / "tokens"
    ada, bob = added(file, "--user", "ada"), added(file, "--user", "bob")
    reader = added(file, "--user", "ada", "--read-only")
    assert not {ada, bob, reader} & {*re.findall(r"[\w-]+", file.read_text(encoding="utf-8"))}

    @asynccontextmanager
    async def speaking(token):
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as web,
            Client(streamable_http_client(address, http_client=web)) as client,
        ):
            yield client

    async def recalled(token):
        async with speaking(token) as client:
            found = await client.call_tool("recall", {"query": "likes"})
            return [one["text"] for one in found.structured_content["results"]]

    options = ("--tokens-file", str(file))
    async with listening(tmp_path / "memory", *options) as (address, _):
        for token, text in ((ada, "Ada likes tea."), (bob, "Bob likes rum.")):
            async with speaking(token) as client:
                await client.call_tool("remember", {"text": text})
        assert await recalled(ada) == await recalled(reader) == ["Ada likes tea."]
        assert await recalled(bob) == ["Bob likes rum."]
        async with speaking(reader) as client:
            assert "remember" not in [one.name for one in (await client.list_tools()).tools]
        assert await opened(address, TOKEN) == 401
        assert await opened(address, ada + "x") == 401
    with ContextStore.open(tmp_path / "memory") as store:
        assert store.user_ids() == ["ada", "bob"]


@pytest.mark.process
async def test_a_server_for_others_answers_to_any_name_or_to_those_it_was_told(tmp_path):
    async with listening(tmp_path / "a", "--host", "0.0.0.0") as (told, _):  # noqa: S104
        port = told.split(":")[2].split("/")[0]
        address = f"http://127.0.0.1:{port}/mcp"
        for host in (f"127.0.0.1:{port}", "memory.example", "memory.example:8443"):
            assert await opened(address, TOKEN, Host=host) == 200, host
            assert await opened(address, "x", Host=host) == 401, host
        assert await opened(address, TOKEN, Origin="http://evil.example") == 403
    options = ("--allowed-host", "memory.example", "--allowed-origin", "https://chat.example")
    options += ("--max-request-bytes", "2000")
    async with listening(tmp_path / "b", *options) as (address, _):
        for host in ("memory.example", "memory.example:8443", address.split("/")[2]):
            assert await opened(address, TOKEN, Host=host) == 200, host
        for host in ("memory.example.evil.com", "evil.example", "127.0.0.1:1"):
            assert await opened(address, TOKEN, Host=host) == 421, host
        assert await opened(address, TOKEN, Origin="https://chat.example") == 200
        assert await opened(address, TOKEN, Origin="https://evil.example") == 403
        asked = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization",
        }
        async with httpx2.AsyncClient() as web:
            for size, status in ((1_000, 200), (2_001, 413)):
                large = json.dumps(OPENING).ljust(size)
                bearer = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
                answer = await web.post(address, content=large, headers={**TYPES, **bearer})
                assert answer.status_code == status
            for origin, allowed in (("https://chat.example", True), ("https://x.example", False)):
                answer = await web.options(address, headers={**asked, "Origin": origin})
                assert ("access-control-allow-origin" in answer.headers) == allowed
            health = await web.get(address.replace("/mcp", "/health"))
            assert (health.status_code, health.json()) == (200, {"status": "ok"})


async def test_a_token_beyond_its_rate_is_told_when_to_try_again_and_others_go_on():
    now = 0.0
    guard = http.Guard(
        {tokens.hashed(name): PlainTextResponse("done") for name in ("ada", "bob")},
        hosts=None,
        origins=(),
        rate=http.Rate(3, lambda: now),
    )
    transport = httpx2.ASGITransport(guard)
    async with httpx2.AsyncClient(transport=transport, base_url="http://memory") as web:

        async def asked(token):
            answer = await web.post("/mcp", headers={"Authorization": f"Bearer {token}"})
            return answer.status_code, answer.headers.get("retry-after")

        assert [await asked("ada") for _ in range(5)] == [(200, None)] * 3 + [(429, "20")] * 2
        assert await asked("bob") == (200, None)
        assert await asked("eve") == (401, None)
        now = 15
        assert await asked("ada") == (429, "5")
        now = 20
        assert [(await asked("ada"))[0] for _ in range(2)] == [200, 429]
        now = 3_600
        assert [(await asked("ada"))[0] for _ in range(4)] == [200] * 3 + [429]


HASH = "0" * 64


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param([], "has no token", id="empty"),
        pytest.param(["secret"], ":1: not a JSON object", id="the token itself"),
        pytest.param([{"sha256": "abc"}], ":1: sha256 is not 64", id="no hash"),
        pytest.param([{"user": "ada"}], ":1: sha256 is not 64", id="without a hash"),
        pytest.param([{"sha256": HASH, "usr": "a"}], ":1: unknown field 'usr'", id="misspelt"),
        pytest.param([{"sha256": HASH, "user": ""}], ":1: user is no str, or empty", id="no user"),
        pytest.param([{"sha256": HASH}] * 2, ":2: this token has a line already", id="twice"),
    ],
)
def test_a_file_of_tokens_that_is_wrong_is_refused_by_its_line(tmp_path, lines, said):
    file = tmp_path / "tokens"
    texts = [one if isinstance(one, str) else json.dumps(one) for one in lines]
    file.write_text("\n".join(texts), encoding="utf-8")
    with pytest.raises(InvalidRequestError, match=re.escape(said)):
        tokens.read(file)


@pytest.mark.slow
async def test_a_token_is_made_where_none_is_given_and_told_once(tmp_path):
    async with listening(tmp_path / "memory", token=None) as (address, told):
        token = re.search(r"Bearer (\S{43})", told)[1]
        async with httpx2.AsyncClient(headers={**TYPES, "Authorization": f"Bearer {token}"}) as web:
            assert (await web.post(address, json=OPENING)).status_code == 200


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(("--http", "--host", "0.0.0.0"), "give a token of your own", id="open to all"),  # noqa: S104
        pytest.param(
            ("--tools", "memory,magic"),
            "tools=magic: there are the sets default, memory",
            id="unknown tools",
        ),
        pytest.param(("--http", "--allowed-origin", "*"), "give a scheme", id="any origin"),
        pytest.param(("--http", "--allowed-host", "*"), "give a name", id="any host"),
        pytest.param(("--branch", "nowhere"), "nowhere", id="no branch"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(refused, tmp_path, options, said):
    assert said in refused("--uri", str(tmp_path / "memory"), *options)
