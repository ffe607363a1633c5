"""What the command line does where nothing is installed but its wheel."""

import re
import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path

import lance_context_cli

from lance_context_core import ContextStore, Message

NAME = "lance-context-cli"

package = Path(lance_context_cli.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert lance_context_cli.__version__ == version(NAME) == version("lance-context-core")

named = {re.match(r"[\w-]+", one)[0] for one in requires(NAME) if "extra ==" not in one}
assert named == {"lance-context-core", "click", "pyarrow", "rich"}, named

with ContextStore.open("memory") as store:
    store.history.append("helper", Message.user("I moved to Oslo."), session_id="1")

program = Path(sys.executable).with_name("lance-ctx")
found = subprocess.run(
    [program, "-C", "memory", "search", "Oslo"], capture_output=True, text=True, check=True
)
assert "I moved to Oslo." in found.stdout, found
