"""What Anthropic's memory tool does where nothing is installed but its wheel."""

import re
import sys
from importlib.metadata import requires, version
from pathlib import Path

import lance_context_anthropic
from lance_context_anthropic import MemoryTool

from lance_context_core import ContextStore, memory_tool

NAME = "lance-context-anthropic"

package = Path(lance_context_anthropic.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert lance_context_anthropic.__version__ == version(NAME) == version("lance-context-core")

named = {re.match(r"[\w-]+", one)[0] for one in requires(NAME)}
assert named == {"lance-context-core", "anthropic"}, named

with ContextStore.open("memory") as store:
    tool = MemoryTool(store.scope(user_id="ada"))
    tool.call({"command": "create", "path": "/memories/travel.md", "file_text": "Trains."})
    (file,) = store.scope(user_id="ada").kv("memories").list()
    assert file.value == {"text": "Trains."}, file
assert memory_tool.MemoryTool is MemoryTool
