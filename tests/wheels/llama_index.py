"""What the adapter for LlamaIndex does where nothing is installed but its wheel."""

import pkgutil
import re
import sys
from importlib import import_module
from importlib.metadata import distributions, requires, version
from pathlib import Path

import llama_index_lance_context
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.memory.lance_context import LanceContextMemory
from llama_index.storage.chat_store.lance_context import LanceContextChatStore
from llama_index.vector_stores.lance_context import LanceContextVectorStore

NAME = "llama-index-lance-context"

package = Path(llama_index_lance_context.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert llama_index_lance_context.__version__ == version(NAME) == version("lance-context-core")

named = {re.match(r"[\w-]+", one)[0] for one in requires(NAME)}
assert named == {"lance-context-core", "llama-index-core", "numpy"}, named

installed = {one.name.lower().replace("_", "-") for one in distributions()}
brought = {one for one in installed if one.startswith(("lang", "llama", "lance"))}
# These two are what llama-index-core itself is made of.
assert brought - {"llama-index-instrumentation", "llama-index-workflows"} == {
    *("lance-context-core", "lancedb", "lance-namespace", "lance-namespace-urllib3-client"),
    *("llama-index-core", NAME),
}, brought
strangers = {"hypothesis", "openai", "pandas", "pylance", "pytest", "rich", "tantivy", "wordllama"}
assert not strangers & installed, strangers & installed

for module in pkgutil.iter_modules([str(package)]):
    import_module(f"{llama_index_lance_context.__name__}.{module.name}")

# Where LlamaIndex's users look, beside what LlamaIndex itself has there.
leaves = sorted((package.parent / "llama_index").rglob("lance_context/__init__.py"))
places = {".".join(leaf.parent.relative_to(package.parent).parts): leaf.parent for leaf in leaves}
found = [name for place in places for name in import_module(place).__all__]
# For these LlamaIndex has no place.
elsewhere = ["LanceContextPromptTemplate", "language_model", "storage_context"]
assert sorted([*found, *elsewhere]) == llama_index_lance_context.__all__, found
assert all((home / "py.typed").is_file() for home in places.values()), places

with LanceContextVectorStore("memory") as nodes:
    nodes.add([TextNode(id_="nuts", text="Ada is allergic to nuts.", embedding=[1.0, 0.0])])
with LanceContextVectorStore("memory") as nodes:
    for query in (
        VectorStoreQuery(query_embedding=[1.0, 0.1], similarity_top_k=1),
        VectorStoreQuery(query_str="nuts", mode="text_search", similarity_top_k=1),
    ):
        answer = nodes.query(query)
        assert answer.ids == ["nuts"], answer
with LanceContextMemory("memory", session_id="monday") as memory:
    memory.put(ChatMessage(role="user", content="Is there tea?"))
with LanceContextChatStore("memory") as chats:
    [message] = chats.get_messages("monday")
    assert message.content == "Is there tea?", message
