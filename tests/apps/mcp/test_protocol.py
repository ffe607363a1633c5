"""What the protocol asks of a server, message by message, without a client's library between."""

import json
import sys
from itertools import count

import anyio
import pytest
from mcp import types
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from lance_context_core import ContextStore

pytestmark = [pytest.mark.anyio, pytest.mark.process]

PARSE_ERRORS = ("this is not JSON", "[]", '{"jsonrpc": "2.0"}', '{"jsonrpc": "1.0", "id": 7}')
METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602


class Spoken:
    """Sends lines to a server, and reads its answers."""

    def __init__(self, server):
        self.server = server
        self.seen = []
        self._ids = count(1)
        self._rest = b""

    async def send(self, message):
        """One line, whatever is in it."""
        line = message if isinstance(message, str) else json.dumps(message)
        await self.server.stdin.send(f"{line}\n".encode())

    async def tell(self, method, **params):
        """A notification, which nobody answers."""
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def begin(self, method, params):
        """The id of a request that is under way."""
        id = next(self._ids)
        named = {} if params is None else {"params": params}
        await self.send({"jsonrpc": "2.0", "id": id, "method": method, **named})
        return id

    async def ask(self, method, params=None):
        """The answer to a request: its result, or its error."""
        id = await self.begin(method, params)
        with anyio.fail_after(60):
            while True:
                if (answer := await self.line()).get("id") == id:
                    return answer.get("result", answer.get("error"))

    async def line(self):
        """The next message that the server sends."""
        while b"\n" not in self._rest:
            self._rest += await self.server.stdout.receive()
        line, _, self._rest = self._rest.partition(b"\n")
        answer = json.loads(line)
        types.jsonrpc_message_adapter.validate_python(answer)
        self.seen.append(answer)
        return answer

    async def open(self, version=LATEST_HANDSHAKE_VERSION):
        """What the server says of itself."""
        client = {"name": "t", "version": "1"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        told = await self.ask("initialize", params)
        await self.tell("notifications/initialized")
        return told


def speaking(place):
    command = [sys.executable, "-m", "lance_context_mcp", "--uri", str(place), "--tools", "all"]
    return anyio.open_process(command)


def exactly(kind, result):
    """The result as a value of the SDK's, which says the same when it is written again."""
    value = kind.model_validate(result)
    assert value.model_dump(mode="json", by_alias=True, exclude_unset=True) == result
    return value


async def test_each_message_is_as_the_protocol_has_it(tmp_path):
    async with await speaking(tmp_path / "memory") as server:
        spoken = Spoken(server)
        for version in (*HANDSHAKE_PROTOCOL_VERSIONS, "1999-01-01"):
            said = exactly(types.InitializeResult, await spoken.open(version))
            known = version in HANDSHAKE_PROTOCOL_VERSIONS
            assert said.protocol_version == (version if known else LATEST_HANDSHAKE_VERSION)
            assert said.server_info.name == "lance-context"
            assert said.capabilities.tools is not None
            assert said.capabilities.resources.subscribe
        assert await spoken.ask("ping") == {}

        tools = exactly(types.ListToolsResult, await spoken.ask("tools/list")).tools
        exactly(types.ListResourcesResult, await spoken.ask("resources/list"))
        templates = await spoken.ask("resources/templates/list")
        exactly(types.ListResourceTemplatesResult, templates)
        exactly(types.ListPromptsResult, await spoken.ask("prompts/list"))
        kept = await spoken.ask("tools/call", {"name": "remember", "arguments": {"text": "Hm."}})
        id = exactly(types.CallToolResult, kept).structured_content["id"]
        for uri in ("memory://sessions", f"memory://records/{id}", "memory://knowledge-graph"):
            exactly(types.ReadResourceResult, await spoken.ask("resources/read", {"uri": uri}))
        asked = {"name": "with_memory", "arguments": {"question": "Hm?"}}
        exactly(types.GetPromptResult, await spoken.ask("prompts/get", asked))
        for method in ("resources/subscribe", "resources/unsubscribe"):
            assert await spoken.ask(method, {"uri": "memory://sessions"}) == {}

        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            error = await spoken.ask(method, {"cursor": "page 2"})
            assert (error["code"], "page 2" in error["message"]) == (INVALID_PARAMS, True)
        for method in ("no/such", "tools/drop"):
            assert (await spoken.ask(method))["code"] == METHOD_NOT_FOUND, method
        error = await spoken.ask("logging/setLevel", {"level": "debug"})
        assert error["code"] == METHOD_NOT_FOUND
        for method, params in (
            ("tools/call", None),
            ("tools/call", {"name": 3}),
            ("tools/call", {"name": "recall", "arguments": ["query"]}),
            ("resources/read", {}),
            ("resources/read", {"uri": "memory://records/none"}),
            ("resources/subscribe", {}),
            ("prompts/get", {"name": "no such"}),
            ("prompts/get", {"name": "with_memory"}),
        ):
            error = await spoken.ask(method, params)
            assert error["code"] == INVALID_PARAMS, (method, params)
            assert error["message"]
        for name, arguments in (("no such", {}), ("recall", {}), ("recall", {"query": 5})):
            failed = await spoken.ask("tools/call", {"name": name, "arguments": arguments})
            assert exactly(types.CallToolResult, failed).is_error
        assert {type(one.input_schema["properties"]) for one in tools} == {dict}
        assert [one for one in spoken.seen if "id" not in one and "method" not in one] == []


async def test_what_is_no_request_is_passed_over_and_the_next_one_answered(tmp_path):
    async with await speaking(tmp_path / "memory") as server:
        spoken = Spoken(server)
        await spoken.open()
        for line in PARSE_ERRORS:
            await spoken.send(line)
        await spoken.tell("notifications/nonsense")
        await spoken.tell("notifications/cancelled", requestId=99)
        assert await spoken.ask("ping") == {}
        assert len([one for one in spoken.seen if "result" in one]) == 2


async def test_what_is_cancelled_is_not_answered_and_nothing_is_kept_by_half(tmp_path):
    place = tmp_path / "memory"
    messages = [{"role": "user", "text": f"turn {n}"} for n in range(40)]
    async with await speaking(place) as server:
        spoken = Spoken(server)
        await spoken.open()
        ids = []
        for n in range(8):
            arguments = {"session_id": f"s{n}", "messages": messages}
            params = {"name": "append_conversation", "arguments": arguments}
            ids.append(await spoken.begin("tools/call", params))
            await spoken.tell("notifications/cancelled", requestId=ids[-1], reason="too slow")
        assert await spoken.ask("ping") == {}
        kept = await spoken.ask("tools/call", {"name": "list_sessions", "arguments": {}})
        assert "error" not in kept
        answered = {one["id"] for one in spoken.seen if "result" in one}
        assert len(answered & {*ids}) < len(ids)
    with ContextStore.open(place) as store:
        assert {one.n_messages for one in store.sessions.list()} <= {len(messages)}
