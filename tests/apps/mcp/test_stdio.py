"""The server as a process, spoken to over its pipes."""

import json
import sys

import anyio
import pytest

from lance_context_core import ContextStore

pytestmark = pytest.mark.anyio


@pytest.mark.slow
async def test_what_one_process_remembers_the_next_one_recalls(started, tmp_path):
    async with started("--uri", tmp_path / "memory") as call:
        told = await call("remember", text="Ada likes trains.")
    async with started("--uri", tmp_path / "memory") as call:
        (found,) = (await call("recall", query="trains"))["results"]
    assert (found["id"], found["author"]) == (told["id"], "mcp")


@pytest.mark.slow
async def test_whose_memory_it_is_stands_in_the_configuration_alone(started, tmp_path):
    place = tmp_path / "memory"
    async with started("--uri", place, "--tenant", "acme", "--user", "ada") as call:
        ada = await call("remember", text="Ada likes trains.")
        for tool in (await call.client.list_tools()).tools:
            assert not {"tenant", "user", "user_id", "agent", "uri"} & {
                *tool.input_schema["properties"]
            }
    async with started("--uri", place, "--tenant", "acme", "--user", "bob") as call:
        assert "user_id: no such argument" in await call.error(
            "recall", query="trains", user_id="ada"
        )
        assert (await call("recall", query="trains"))["results"] == []
        assert (await call("forget", ids=[ada["id"]]))["not_found"] == [ada["id"]]
    with ContextStore.open(place) as store:
        (kept,) = store.scope(tenant="acme", user_id="ada").memory.list(user_id="ada").items
        assert kept.id == ada["id"]


@pytest.mark.slow
async def test_the_command_line_serves_the_place_that_it_is_about(started, tmp_path):
    place = tmp_path / "memory"
    arguments = ("-C", place, "--user", "ada", "mcp", "--author", "desk")
    async with started(*arguments, module="lance_context_cli") as call:
        await call("remember", text="Ada likes trains.")
    with ContextStore.open(place) as store:
        (kept,) = store.memory.list(user_id="ada").items
        assert kept.author == "desk"


OPENING = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)  # fmt: skip


def calling(id, tool, **arguments):
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


async def answered(server, last, *requests):
    """All that the server prints until it has answered the request of the id `last`."""
    lines = [one if isinstance(one, str) else json.dumps(one) for one in (*OPENING, *requests)]
    await server.stdin.send("".join(f"{line}\n" for line in lines).encode())
    printed = b""
    while f'"id":{last},'.encode() not in printed:
        printed += await server.stdout.receive()
    return printed.decode()


def started_at(place, *options):
    command = [sys.executable, *options, "-m", "lance_context_mcp", "--uri", str(place)]
    return anyio.open_process(command)


@pytest.mark.process
async def test_standard_output_is_the_protocols_alone(tmp_path):
    async with await started_at(tmp_path / "memory", "-W", "always") as server:
        printed = await answered(
            server,
            3,
            "this is not JSON",
            calling(2, "recall", query="x", as_of="never"),
            {"jsonrpc": "2.0", "id": 3, "method": "no/such/method"},
        )
        await server.stdin.aclose()
        printed += b"".join([one async for one in server.stdout]).decode()
        said = b"".join([one async for one in server.stderr]).decode()
    answers = [json.loads(line) for line in printed.splitlines()]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert {1, 3} <= {answer.get("id") for answer in answers}
    assert server.returncode == 0
    assert "Traceback" not in said


@pytest.mark.slow
async def test_a_server_that_is_killed_has_kept_what_it_acknowledged(tmp_path):
    place = tmp_path / "memory"
    async with await started_at(place) as server:
        await answered(server, 2, calling(2, "remember", text="Ada likes trains."))
        server.kill()
    with ContextStore.open(place) as store:
        assert [one.text for one in store.memory.list().items] == ["Ada likes trains."]
