"""The quickstart's memory in the frameworks that are installed, each in its own classes."""

import asyncio
import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from _conversation import Conversation
from _printing import heading, quote, say

ADAPTERS = {
    "langchain": "langchain_lance_context",
    "llama_index": "llama_index_lance_context",
    "agentscope": "agentscope_lance_context",
}
"""The packages that the steps of these names need."""
NOTES = "notes of LangChain"
NOTE = "The flood in the cellar was only the old boiler; a plumber comes on Friday at nine."


def in_langchain(conversation: Conversation, directory: Path) -> None:
    """Read what was remembered above through LangChain's retriever and chat history."""
    from lance_context_core import ContextStore

    # An optional package, so its types are unknown here.
    adapter = import_module(ADAPTERS["langchain"])
    message_class = import_module("langchain_core.messages").HumanMessage
    heading("9  The same memory in LangChain")
    question = (conversation.featured() or conversation.questions)[:1]
    session_id = conversation.turns[-1].session_id
    with ContextStore.open(directory, embedder="local") as store:
        say(
            f"Process {os.getpid()} opens the directory with LangChain's classes. "
            "Nothing was converted or copied."
        )
        if question:
            say(f"The retriever is asked {question[0].text!r}, and finds the document")
            (found,) = adapter.LanceContextRetriever(store=store, k=1).invoke(question[0].text)
            quote(found.page_content, found.metadata["lance_context"].get("name", "somebody"))
        say("The chat history of the last session ends with")
        history = adapter.LanceContextChatMessageHistory(store, session_id, limit=2)
        for message in history.messages:
            quote(str(message.text), type(message).__name__)
        say("Another history begins with")
        notes = adapter.LanceContextChatMessageHistory(store, NOTES)
        # Its id makes a second run of this write nothing.
        notes.add_messages([message_class(NOTE, id="boiler")])
        quote(NOTE, message_class.__name__)


def in_llama_index(conversation: Conversation, directory: Path) -> None:
    """Find what was remembered above, by whomever, with LlamaIndex's retriever."""
    from lance_context_core import ContextStore

    adapter = import_module(ADAPTERS["llama_index"])
    heading("10  And in LlamaIndex")
    asked = [question.text for question in conversation.featured()[:1]]
    with ContextStore.open(directory, embedder="local") as store:
        if store.history.count("", session_id=NOTES):
            asked.append("When does somebody repair the boiler?")
        retriever = adapter.LanceContextRetriever(store, similarity_top_k=1)
        for question in asked:
            say(f"The retriever is asked {question!r}, and finds the node")
            (found,) = retriever.retrieve(question)
            facts = found.metadata["lance_context"]
            quote(found.text, facts.get("name") or f"in the {facts['session_id']}")


def in_agentscope(conversation: Conversation, directory: Path) -> None:
    """Say something to AgentScope's ContextManager, and find it as everything else is found."""
    asyncio.run(_in_agentscope(conversation.turns[0].speaker, directory))


async def _in_agentscope(user: str, directory: Path) -> None:
    from lance_context_core import AsyncContextStore

    adapter = import_module(ADAPTERS["agentscope"])
    schemas = import_module("agentscope_runtime.engine.schemas.agent_schemas")
    managers = import_module("agentscope_runtime.engine.services.context_manager")
    heading("11  And in AgentScope")
    text = "Note for tomorrow: the oven man comes at seven."
    content = [schemas.TextContent(text=text)]
    # Its id makes a second run of this write nothing.
    note = schemas.Message(id="the-oven", role="user", content=content)
    async with (
        AsyncContextStore.open(directory, embedder="local") as store,
        managers.create_context_manager(
            session_history_service=adapter.LanceContextSessionHistoryService(
                store, deduplicate=True
            ),
            memory_service=adapter.LanceContextMemoryService(store, deduplicate=True),
        ) as manager,
    ):
        session = await manager.compose_session(user_id=user, session_id="a-note")
        await manager.compose_context(session, request_input=[note])
        question = "When does the oven man come?"
        say(
            f"{user} leaves a note with the ContextManager. The store is asked {question!r}, and finds"
        )
        (hit,) = await store.search(question, limit=1)
        quote(hit.record.text or "", f"{hit.record.user_id}, {hit.record.session_id}")


def is_installed(step: str) -> bool:
    if find_spec(ADAPTERS[step]) is None:
        return False
    try:
        return step != "agentscope" or version("agentscope-runtime").startswith("0.")
    except PackageNotFoundError:
        return False
