"""What the adapter for LangChain does where nothing is installed but its wheel, without extras."""

import pkgutil
import re
import sys
from importlib import import_module
from importlib.metadata import distributions, requires, version
from pathlib import Path

import langchain_lance_context
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage
from langchain_lance_context import LanceContextChatMessageHistory, LanceContextVectorStore

from lance_context_core.errors import MissingExtraError

NAME = "langchain-lance-context"
EXTRAS = {
    "checkpointers": "langgraph",
    "middleware": "langchain",
    "migration": "langgraph",
    "serving": "langgraph",
    "stores": "langgraph",
    "windows": "langchain",
}
"""The modules that need more, and what."""

package = Path(langchain_lance_context.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert langchain_lance_context.__version__ == version(NAME) == version("lance-context-core")

hard = [one for one in requires(NAME) if "extra ==" not in one]
named = {re.match(r"[\w-]+", one)[0] for one in hard}
assert named == {"lance-context-core", "langchain-core", "pydantic"}, hard
with_extras = {re.match(r"[\w-]+", one)[0] for one in requires(NAME)}
assert with_extras - named == {"langchain", "langgraph-checkpoint"}, with_extras

installed = {one.name.lower().replace("_", "-") for one in distributions()}
brought = {one for one in installed if one.startswith(("lang", "llama", "lance"))}
# These two are what langchain-core itself is made of.
assert brought - {"langchain-protocol", "langsmith"} == {
    *("lance-context-core", "lancedb", "lance-namespace", "lance-namespace-urllib3-client"),
    *("langchain-core", NAME),
}, brought
strangers = {"hypothesis", "openai", "pandas", "pytest", "rich", "wordllama"}
assert not strangers & installed, strangers & installed

public = {one.name for one in pkgutil.iter_modules([str(package)]) if one.name[0] != "_"}
assert set(EXTRAS) <= public, public
for name in public:
    try:
        import_module(f"{langchain_lance_context.__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] != EXTRAS.get(name):
            raise
    else:
        assert name not in EXTRAS, f"{name} needs no {EXTRAS[name]}"

for name in langchain_lance_context.__all__:
    module = getattr(langchain_lance_context, name).__module__.rpartition(".")[2]
    assert module not in EXTRAS, name
for name in ("LanceContextSaver", "LanceContextMemoryMiddleware"):
    assert not hasattr(langchain_lance_context, name)
    try:
        __import__("langchain_lance_context", fromlist=[name])
    except MissingExtraError as error:
        if f"pip install '{NAME}[" not in str(error):
            raise
    else:
        raise AssertionError(f"{name} needs no extra")

embedding = DeterministicFakeEmbedding(size=8)
with LanceContextVectorStore("memory", embedding) as documents:
    documents.add_documents([Document("Ada is allergic to nuts.", id="nuts")])
with LanceContextVectorStore("memory", embedding) as documents:
    [found] = documents.similarity_search("Ada is allergic to nuts.", k=1)
    assert found.id == "nuts", found
with LanceContextChatMessageHistory("memory", "monday") as history:
    history.add_messages([HumanMessage("Is there tea?")])
    assert history.messages == [HumanMessage("Is there tea?")]
