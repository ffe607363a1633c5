"""What the adapter for LangChain does where its wheel is installed with the extra for LangGraph."""

from importlib.metadata import distributions, version
from typing import Any

import langgraph.checkpoint.base
import langgraph.checkpoint.lance_context
import langgraph.store.base
import langgraph.store.lance_context
from langchain_lance_context import LanceContextSaver, LanceContextStore
from langgraph.checkpoint.base import empty_checkpoint

assert langgraph.checkpoint.lance_context.LanceContextSaver is LanceContextSaver
assert langgraph.store.lance_context.LanceContextStore is LanceContextStore
# The namespace is shared: neither wheel hides what is the other's.
assert not hasattr(langgraph, "__file__") or langgraph.__file__ is None
assert langgraph.checkpoint.base.BaseCheckpointSaver in LanceContextSaver.__mro__
assert langgraph.store.base.BaseStore in LanceContextStore.__mro__

installed = {one.name.lower().replace("_", "-") for one in distributions()}
assert "langgraph-checkpoint" in installed
assert not {"langchain", "langchain-community", "langgraph"} & installed, installed
assert version("langchain-lance-context") == version("lance-context-core")

config: Any = {"configurable": {"thread_id": "monday", "checkpoint_ns": ""}}
with LanceContextSaver("memory") as saver:
    saved = saver.put(config, empty_checkpoint(), {"step": 1}, {})
with LanceContextSaver("memory") as saver:
    assert saver.get_tuple(config).config == saved
with LanceContextStore("memory") as items:
    items.put(("users", "ada"), "nuts", {"text": "Is allergic to nuts"})
    assert items.get(("users", "ada"), "nuts").value == {"text": "Is allergic to nuts"}
