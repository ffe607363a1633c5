"""The server over HTTP, spoken to by the SDK's client, and by who has no business there."""

import re
import sys
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from lance_context_core import ContextStore

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


@pytest.mark.slow
async def test_a_token_is_made_where_none_is_given_and_told_once(tmp_path):
    async with listening(tmp_path / "memory", token=None) as (address, told):
        token = re.search(r"Bearer (\S{43})", told)[1]
        async with httpx2.AsyncClient(headers={**TYPES, "Authorization": f"Bearer {token}"}) as web:
            assert (await web.post(address, json=OPENING)).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(("--http", "--host", "0.0.0.0"), "give a token of your own", id="open to all"),  # noqa: S104
        pytest.param(
            ("--tools", "memory,magic"),
            "tools=magic: there are the sets default, memory",
            id="unknown tools",
        ),
        pytest.param(("--branch", "nowhere"), "nowhere", id="no branch"),
    ],
)
async def test_what_cannot_be_served_is_said_in_one_line(tmp_path, options, said):
    command = [
        sys.executable,
        "-m",
        "lance_context_mcp",
        "--uri",
        str(tmp_path / "memory"),
        *options,
    ]
    ended = await anyio.run_process(command, check=False)
    assert ended.returncode != 0
    told = ended.stderr.decode()
    assert said in told.splitlines()[-1]
    assert "Traceback" not in told
