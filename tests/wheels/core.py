"""What the core does where nothing is installed but its wheel."""

import re
import sys
from importlib import import_module
from importlib.metadata import requires, version
from importlib.util import find_spec
from pathlib import Path

import lance_context_core
from lance_context_core import ContextStore, Message
from lance_context_core.errors import MissingExtraError

package = Path(lance_context_core.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert lance_context_core.__version__ == version("lance-context-core")

hard = [one for one in requires("lance-context-core") if "extra ==" not in one]
assert {re.match(r"[\w-]+", one)[0] for one in hard} == {
    "lancedb",
    "numpy",
    "pyarrow",
    "snowballstemmer",
}, hard
for module in ("PIL", "hypothesis", "moto", "pytest", "rich", "wordllama"):
    assert find_spec(module) is None, f"{module} is here, so its absence is not tried"

with ContextStore.open("memory") as store:
    store.history.append("tutor", Message.user("Ada is allergic to nuts."), session_id="monday")
    store.history.append("tutor", Message.user("The bus was late."), session_id="monday")
with ContextStore.open("memory") as store:
    first, second = store.history.get_messages("tutor", session_id="monday")
    assert (first.text, second.text) == ("Ada is allergic to nuts.", "The bus was late.")
    (hit,) = store.search("which nuts?", limit=1)
    assert (hit.record.id, hit.matched_channels) == (first.id, ("text",))

moved = {"memory_tool": "anthropic", "telemetry": "opentelemetry", "testing": "testing"}
for module, distribution in moved.items():
    try:
        import_module(f"lance_context_core.{module}")
    except MissingExtraError as error:
        if f"pip install lance-context-{distribution}" not in str(error):
            raise
    else:
        raise AssertionError(f"lance_context_core.{module} works without its distribution")

try:
    with ContextStore.open("other", embedder="local") as store:
        store.memory.add(["Prefers trains"], user_id="ada")
except MissingExtraError as error:
    if "lance-context-core[local]" not in str(error):
        raise
else:
    raise AssertionError("the local embedder works without its extra")
