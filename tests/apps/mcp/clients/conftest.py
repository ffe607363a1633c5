"""A server over HTTP, spoken to by fastmcp's client and by the command line of the protocol's inspector."""

import asyncio
import json
import os
import shutil
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
import uvicorn
from apps.mcp.tasks import prepared
from lance_context_mcp import http, tokens
from lance_context_mcp.memory import Memory
from lance_context_mcp.server import server
from npm import installed

from lance_context_core import AsyncContextStore

collect_ignore_glob = [] if find_spec("fastmcp") else ["test_*.py"]
"""Run where fastmcp is: see `tests/environments.py`."""

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="session")
def known(tmp_path_factory):
    """A store about Ada, and the ids of what is in it by the names that the tasks use."""
    place = tmp_path_factory.mktemp("known") / "memory"
    return place, asyncio.run(prepared(place))


@asynccontextmanager
async def listening(place):
    """Serves all tools over the store at a free port of this machine, and hands out the address."""

    async def is_well():
        return True

    async with AsyncContextStore.open(place, maintenance=None) as store:
        memory = Memory(store=store, knowledge=store.knowledge, has_branches=True)
        at = http.bound("127.0.0.1", 0)
        port = at.getsockname()[1]
        guarded = {tokens.hashed(TOKEN): server(memory, tools=("all",))}
        application = http.app(guarded, host="127.0.0.1", port=port, is_well=is_well)
        config = uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=1)
        serving = uvicorn.Server(config)
        task = asyncio.create_task(serving.serve(sockets=[at]))
        try:
            yield f"http://127.0.0.1:{port}{http.PATH}"
        finally:
            serving.should_exit = True
            await task


@pytest.fixture
def ada(known, tmp_path):
    """A copy of the store of one's own, and the ids in it."""
    return shutil.copytree(known[0], tmp_path / "memory"), known[1]


@pytest.fixture
def fastmcp(ada):
    """What opens fastmcp's client of a server of the copy, whose `call` returns all of an answer."""

    @asynccontextmanager
    async def opened():
        from fastmcp import Client

        async with listening(ada[0]) as address, Client(address, auth=TOKEN) as client:
            yield client

    return opened


@pytest.fixture(scope="session")
def packages():
    """The folder of npm's packages in which the inspector is."""
    return installed(Path(__file__).with_name("package.json"), "mcp-inspector")


@pytest.fixture
def inspector(ada, packages):
    """What hands out a call of the inspector's command line, of a server of the copy."""

    @asynccontextmanager
    async def opened():
        async with listening(ada[0]) as address:
            yield partial(_inspected, packages / ".bin", address)

    return opened


async def _inspected(programs, address, *words):
    """What a run of the inspector prints, as JSON."""
    process = await asyncio.create_subprocess_exec(
        *(programs / "mcp-inspector", "--cli", address, "--transport", "http"),
        *("--header", f"Authorization: Bearer {TOKEN}", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
    )
    told, why = await process.communicate()
    assert process.returncode == 0, why.decode()
    return json.loads(told)
