"""What the MCP server does where nothing is installed but its wheel."""

import re
import sys
from importlib.metadata import requires, version
from pathlib import Path

import anyio
import lance_context_mcp
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

NAME = "lance-context-mcp"

package = Path(lance_context_mcp.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert lance_context_mcp.__version__ == version(NAME) == version("lance-context-core")

named = {re.match(r"[\w-]+", one)[0] for one in requires(NAME)}
assert named == {
    "lance-context-core",
    "mcp",
    "anyio",
    "click",
    "jsonschema",
    "starlette",
    "uvicorn",
}, named

program = str(Path(sys.executable).with_name("lance-context-mcp"))


async def main():
    server = StdioServerParameters(command=program, args=["--uri", "memory"])
    async with Client(stdio_client(server)) as client:
        await client.call_tool("remember", {"text": "I moved to Oslo."})
        found = await client.call_tool("recall", {"query": "Oslo"})
        assert found.structured_content["results"][0]["text"] == "I moved to Oslo.", found


anyio.run(main)
