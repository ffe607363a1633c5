"""What the adapter for CrewAI does where nothing is installed but its wheel."""

import os
import pkgutil
import re
import sys
from importlib import import_module
from importlib.metadata import distributions, requires, version
from pathlib import Path

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_STORAGE_DIR": str(Path("own").absolute()),
    "OTEL_SDK_DISABLED": "true",
}

import crewai_lance_context
from crewai import Memory
from crewai.flow.flow import Flow, start
from crewai.flow.persistence import persist
from crewai_lance_context import LanceKnowledgeStorage, LanceMemoryStorage, install

from lance_context_core import ContextStore

NAME = "crewai-lance-context"

package = Path(crewai_lance_context.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert crewai_lance_context.__version__ == version(NAME) == version("lance-context-core")

named = {re.match(r"[\w-]+", one)[0] for one in requires(NAME)}
assert named == {"lance-context-core", "crewai", "lancedb", "pydantic"}, named

installed = {one.name.lower().replace("_", "-") for one in distributions()}
strangers = {"hypothesis", "pandas", "pylance", "pytest", "wordllama"}
assert not strangers & installed, strangers & installed

for module in pkgutil.iter_modules([str(package)]):
    import_module(f"{crewai_lance_context.__name__}.{module.name}")


def embedded(texts):
    return [[float(text.count(one)) for one in "adeinrst"] for text in texts]


with install("memory", user_id="ada"):
    memory = Memory(embedder=embedded)
    memory.remember("Ada prefers trains.", scope="/a", categories=["c"], importance=0.5)

    @persist()
    class Counting(Flow):
        @start()
        def count(self):
            self.state["n"] = self.state.get("n", 0) + 1
            return self.state["n"]

    for n in (1, 2):
        flow = Counting(suppress_flow_events=True)
        assert flow.kickoff(inputs={"id": "flow"}) == n

with LanceMemoryStorage("memory", user_id="ada") as storage:
    assert storage.list_records()[0].content == "Ada prefers trains."

with ContextStore.open("memory") as store:
    assert [hit.record.text for hit in store.search("trains")] == ["Ada prefers trains."]
    knowledge = LanceKnowledgeStorage(store, embedder=embedded)
    knowledge.save(["Trains are fast."])
    assert knowledge.search(["fast trains"])[0]["content"] == "Trains are fast."
