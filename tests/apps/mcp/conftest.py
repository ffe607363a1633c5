"""Clients of the protocol's own SDK: in this process, and over the pipes of another one."""

import sys
from contextlib import asynccontextmanager

import pytest
from core.conformance.doubles import ManualClock
from lance_context_mcp.command import main
from lance_context_mcp.memory import Memory
from lance_context_mcp.server import server
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from lance_context_core import AsyncContextStore


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
async def store(tmp_path, clock):
    """A store of one's own, which nothing is in yet."""
    store = AsyncContextStore.open(tmp_path / "memory", clock=clock, maintenance=None)
    yield store
    await store.close()


class Told:
    """Calls tools, and says what was answered."""

    def __init__(self, client):
        self.client = client

    async def __call__(self, name, /, **arguments):
        """The answer of a call that succeeds."""
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, result.content[0].text
        return result.structured_content

    async def error(self, name, /, **arguments):
        """What is said of a call that fails."""
        result = await self.client.call_tool(name, arguments)
        assert result.is_error, result
        assert result.structured_content is None
        return result.content[0].text

    async def names(self):
        """The names of the tools."""
        return [tool.name for tool in (await self.client.list_tools()).tools]


@pytest.fixture
def serving():
    """A client of a server in this process."""

    @asynccontextmanager
    async def serving(store, **options):
        tools = options.pop("tools", ("all",))
        async with Client(server(Memory(store=store, **options), tools=tools)) as client:
            yield Told(client)

    return serving


@pytest.fixture
async def call(serving, store):
    """Calls the tools of a server of the store."""
    async with serving(store) as told:
        yield told


@pytest.fixture
def ended(monkeypatch, capsys):
    """What comes of a server that ends at once, in this process: its exit code and what it says."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["lance-context-mcp", *arguments])
        with pytest.raises(SystemExit) as code:
            main()
        return code.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def refused(ended):
    """The line that says why no server was started."""

    def run(*arguments):
        code, told, why = ended(*arguments)
        assert (bool(code), told) == (True, "")
        return why.splitlines()[-1]

    return run


@asynccontextmanager
async def process(*arguments, module="lance_context_mcp", **more):
    """A client of a server that is a process of its own."""
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", module, *map(str, arguments)], **more
    )
    async with Client(stdio_client(parameters)) as client:
        yield Told(client)


@pytest.fixture
def started():
    """Starts a server as a process, and talks to it over its pipes."""
    return process
