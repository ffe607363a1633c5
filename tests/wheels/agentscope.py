"""What the adapter for AgentScope does where nothing is installed but its wheel, without extras."""

import pkgutil
import re
import sys
from importlib.metadata import distributions, requires, version
from pathlib import Path

import agentscope_lance_context

from lance_context_core.errors import MissingExtraError

NAME = "agentscope-lance-context"

package = Path(agentscope_lance_context.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert agentscope_lance_context.__version__ == version(NAME) == version("lance-context-core")

hard = [one for one in requires(NAME) if "extra ==" not in one]
named = {re.match(r"[\w-]+", one)[0] for one in hard}
assert named == {"lance-context-core"}, hard
with_extras = {re.match(r"[\w-]+", one)[0] for one in requires(NAME)}
# The frameworks of its lines, and what these need and do not name.
assert with_extras - named == {
    *("agentscope", "agentscope-runtime"),
    *("a2a-sdk", "mcp", "psutil", "sqlalchemy", "tqdm"),
}, with_extras

installed = {one.name.lower().replace("_", "-") for one in distributions()}
strangers = {"agentscope", "agentscope-runtime", "fastapi", "hypothesis", "openai", "pytest"}
assert not strangers & installed, strangers & installed

modules = {one.name for one in pkgutil.walk_packages([str(package)])}
assert {"memory", "rag", "session_history", "state", "backends"} <= modules, modules

# This takes whatever answers as AgentScope's models do.
assert agentscope_lance_context.__all__ == ["language_model"]
for name in ("LanceContextMemory", "LanceContextAgentStateStore", "LanceContextStateService"):
    assert not hasattr(agentscope_lance_context, name)
    try:
        __import__("agentscope_lance_context", fromlist=[name])
    except MissingExtraError as error:
        if f"pip install '{NAME}[" not in str(error):
            raise
    else:
        raise AssertionError(f"{name} needs none of AgentScope's releases")
