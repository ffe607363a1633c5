"""One memory, three frameworks: a week in the life of an agent that helps to build a boat.

    python examples/one_memory.py [--store DIR]

On Monday it is an agent of LangChain's, on Tuesday an index and a memory of LlamaIndex's, on Wednesday
a service of AgentScope's; each is a process of its own, and what one has learnt the next one knows,
because all of it is in one directory. Then the directory is asked what was known when, and who added
what; something is tried out on a branch, and merged; and somebody is erased.

The model is a script of a few lines, so that it runs anywhere; put a real one in its place.

    pip install ".[local]" "./adapters/langchain[agents]"
    pip install ./adapters/llama_index "./adapters/agentscope[context]"
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Each part imports its own framework alone, which takes some of them seconds.
if TYPE_CHECKING:
    from lance_context_core import ContextRecord, ContextStore

BOOK = {
    "epoxy.txt": "Epoxy resin glues planks together, and holds for ever. Wear gloves.",
    "casein.txt": "Casein glue holds planks together if they are kept dry. It is made of milk.",
    "caulk.txt": "Drive cotton into the seams with a caulking iron, and pay them with pitch.",
}
QUESTION = "Which glue holds planks together?"
PHONE = "555-0144"
BRANCH = "longer"
DAYS = ("monday", "tuesday", "wednesday")
NAMES = {"langchain": "LangChain", "llama_index": "LlamaIndex", "agentscope": "AgentScope"}
EMPTY = 1
"""The first version of every store."""
NO_SANDBOX = {"RUNTIME_SANDBOX_REGISTRY": "docker.io"}
"""AgentScope prints the origin of its sandboxes at import unless this is set; none is used here."""


def main() -> int:
    """Run each part in a process of its own; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep the memory in DIR")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part is not None:
        return _take(arguments.part, arguments.store)
    with tempfile.TemporaryDirectory(prefix="boat-") as scratch:
        directory = arguments.store or Path(scratch) / "memory"
        if directory.exists():
            print(f"one_memory: {directory} already exists: name a new one", file=sys.stderr)
            return 1
        for part in PARTS:
            command = [sys.executable, __file__, "--store", str(directory), "--part", part]
            environment = {**NO_SANDBOX, **os.environ, "PYTHONUTF8": "1"}
            if code := subprocess.run(command, env=environment, check=False).returncode:  # noqa: S603 - ourselves
                return code
    kept = f"in {arguments.store}" if arguments.store else "gone; keep it with --store DIR"
    print(f"\nThe memory is {kept}.")
    return 0


def answer(question: str, told: str) -> str:
    """The script: it uses only the messages."""
    allergy = next(iter(re.findall(r"allergic to (\w+)", told)), None)
    if "glue" in question and question.endswith("?"):
        pages = [one for one in told.splitlines() if re.search(r"glues? .*planks .*\.$", one)]
        page = next((one for one in pages if allergy is None or allergy not in one.lower()), None)
        if page is None:
            return "I have not read of any glue."
        return f"{page} And there is no {allergy} in it." if allergy else page
    if "How long" in question:
        lengths = sorted(set(re.findall(r"(\d+) metres", told)))
        return f"You have said {' and '.join(f'{one} metres' for one in lengths)}."
    return "I shall remember that."


# Monday


def langchain(store: "ContextStore") -> None:
    """An agent of LangChain's learns what the others will need."""
    _heading(1, "Monday: an agent of LangChain's learns something")
    talk = _langchain_agent(store)
    talk("ida", "boat", "My boat is called Petrel, and she is 5 metres long.")
    talk("ida", "boat", "And I am allergic to epoxy resin.")
    talk("otto", "trailer", f"I lend Ida my trailer. She can call me at {PHONE}.")
    store.tag("monday")


def _langchain_agent(store: "ContextStore") -> Any:
    """A function that talks with an agent whose only memory is the store."""
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_lance_context import LanceContextMemoryMiddleware

    class Script(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "script"

        def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
            said = answer(str(messages[-1].text), "\n".join(str(one.text) for one in messages))
            return ChatResult(generations=[ChatGeneration(message=AIMessage(said))])

    agent = create_agent(Script(), middleware=[LanceContextMemoryMiddleware(store)])

    def talk(user: str, session_id: str, text: str) -> None:
        _say(user, text)
        config = {"configurable": {"thread_id": session_id, "user_id": user}}
        said = agent.invoke({"messages": [("user", text)]}, config)
        _say("agent", said["messages"][-1].text)

    return talk


# Tuesday


def llama_index(store: "ContextStore") -> None:
    """LlamaIndex indexes a book, and goes on with the conversation."""
    from llama_index.core import Document, StorageContext, VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index_lance_context import LanceContextMemory, LanceContextVectorStore

    from lance_context_core.embedders import LocalEmbedder

    local = LocalEmbedder()

    class Meaning(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return [float(x) for x in local.embed_documents([text])[0]]

        def _get_query_embedding(self, query: str) -> list[float]:
            return [float(x) for x in local.embed_query(query)]

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    _heading(2, "Tuesday: an index of LlamaIndex's adds a book")
    pages = [Document(text=text, metadata={"file": name}) for name, text in BOOK.items()]
    vector_store = LanceContextVectorStore(store, collection="book")
    context = StorageContext.from_defaults(vector_store=vector_store)
    index = VectorStoreIndex.from_documents(pages, storage_context=context, embed_model=Meaning())
    found = index.as_retriever(similarity_top_k=2).retrieve(QUESTION)
    names = " and ".join(str(one.metadata["file"]) for one in found)
    _say("", f"{len(pages)} pages of the boatbuilder's book. Asked for glue, it finds {names}.")

    memory = LanceContextMemory(store.scope(user_id="ida"), session_id="boat")
    said = memory.get()
    _say("", f"Its memory has {len(said)} messages of Ida's, which it never heard; the first:")
    _say(said[0].role.value, said[0].content or "")
    asked = "What is in the book?"
    _say("ida", asked)
    told = f"{len(pages)} pages: two on glue, and one on caulking."
    _say("agent", told)
    memory.put_messages(
        [ChatMessage(role="user", content=asked), ChatMessage(role="assistant", content=told)]
    )
    store.tag("tuesday")


# Wednesday


def agentscope(store: "ContextStore") -> None:
    """A service of AgentScope's goes on with the session, and needs what both have left."""
    _heading(3, "Wednesday: a service of AgentScope's goes on")
    asyncio.run(_wednesday(store))
    store.tag("wednesday")


async def _wednesday(store: "ContextStore") -> None:
    from agentscope_lance_context import (
        LanceContextMemoryService,
        LanceContextRAGService,
        LanceContextSessionHistoryService,
    )
    from agentscope_runtime.engine.schemas.agent_schemas import Message, TextContent
    from agentscope_runtime.engine.services.context_manager import ContextManager

    def message(role: str, text: str) -> Message:
        return Message(role=role, content=[TextContent(text=text)], status="completed")

    async with ContextManager(
        session_history_service=LanceContextSessionHistoryService(store),
        memory_service=LanceContextMemoryService(store, search="hybrid", deduplicate=True),
        rag_service=LanceContextRAGService(store, "book"),
    ) as manager:
        for user, session_id, text in (
            ("ida", "boat", QUESTION),
            ("otto", "trailer", f"Tell her that she can call me at {PHONE} after six."),
        ):
            session = await manager.compose_session(user_id=user, session_id=session_id)
            _say("", f"The session {session_id!r} has {len(session.messages)} messages already.")
            _say(user, text)
            # The history, the recalled memories, and the passages of the book.
            await manager.compose_context(session, request_input=[message("user", text)])
            told = "\n".join(one.content[0].text for one in session.messages)
            said = answer(text, told)
            _say("agent", said)
            await manager.append(session, event_output=[message("assistant", said)])


# The contents of the directory


def look_back(store: "ContextStore") -> None:
    """Earlier versions, and the author of each record."""
    _heading(4, "What was known on each day")
    for day in DAYS:
        then = store.checkout(day)
        said = then.scope(user_id="ida").history.get_messages("", session_id="boat")
        pages = then.vectors("book").search(QUESTION)
        _say(day, f"{_n(len(said), 'message')} with Ida, and {_n(len(pages), 'page')}.")
        told = [one.text for one in said] + [hit.record.text or "" for hit in pages]
        _say("", f"Asked for glue, it would say: {answer(QUESTION, chr(10).join(told))}")

    _heading(5, "Who has added what")
    before: str | int = EMPTY
    for day in DAYS:
        added = store.diff(before, day).added
        kinds = Counter(record.kind for record in added)
        counts = [_n(kinds[kind], kind) for kind in ("message", "memory") if kinds[kind]]
        n_pages = [store.checkout(one).vectors("book").count() for one in (before, day)]
        if n_pages[0] != n_pages[1]:
            counts.append(_n(n_pages[1] - n_pages[0], "page"))
        _say(day, f"{_authors(added)}: {' and '.join(counts)}")
        before = day


def _authors(records: "Sequence[ContextRecord]") -> str:
    """The frameworks that wrote records, each with its own form of a message."""
    names = {record.native["framework"] if record.native else "core" for record in records}
    return " and ".join(sorted(NAMES.get(name, name) for name in names))


def try_out(store: "ContextStore") -> None:
    """A message on a branch, for an agent that sees only that branch."""
    _heading(6, f"What if? A branch called {BRANCH!r}")
    branch = store.create_branch(BRANCH)
    on_branch = _langchain_agent(branch)
    on_branch("ida", "boat", "Let us make Petrel 7 metres long.")
    for name, talk in (("branch", on_branch), ("main", _langchain_agent(store))):
        _say("", f"On {name}:")
        talk("ida", f"asked on {name}", "How long shall Petrel be?")
    merged = store.merge(BRANCH).tables["records"]
    store.delete_branch(BRANCH)
    _say("", f"Merged: {merged.added} records were added, {merged.updated} changed. On main:")
    _langchain_agent(store)("ida", "later", "How long shall Petrel be?")


def erase(store: "ContextStore") -> None:
    """Somebody goes, whichever framework has heard of him."""
    _heading(7, "Otto is erased")
    directory = Path(store.uri)
    n_before = _n_files_with(PHONE, directory)
    otto = store.scope(user_id="otto")
    heard = [one for one in store.diff(EMPTY).added if one.user_id == "otto"]
    _say("", f"{_authors(heard)} have heard of him, and keep {_n(len(heard), 'record')}.")
    erased = otto.erase(sole_writer=True)
    _say(
        "",
        f"{_n(erased.records, 'record')} and {_n(erased.versions_removed, 'old version')} are gone. "
        f"His number stood in {_n(n_before, 'file')} of the store; now it stands in "
        f"{_n(_n_files_with(PHONE, directory), 'file')}.",
    )
    monday = store.checkout("monday")
    n_otto, n_ida = (
        monday.scope(user_id=user).history.count("", session_id=session_id)
        for user, session_id in (("otto", "trailer"), ("ida", "boat"))
    )
    _say("", f"On Monday, as it is now, he said nothing ({n_otto}); Ida's {n_ida} are there.")


PARTS = {
    "langchain": langchain,
    "llama_index": llama_index,
    "agentscope": agentscope,
    "look_back": look_back,
    "try_out": try_out,
    "erase": erase,
}


# How it is run and shown


def _take(part: str, directory: Path) -> int:
    from lance_context_core import ContextStore, ContextStoreError

    try:
        with ContextStore.open(directory, embedder="local") as store:
            PARTS[part](store)
    except ContextStoreError as error:
        print(f"one_memory: {error}", file=sys.stderr)
        return 1
    return 0


def _n_files_with(text: str, directory: Path) -> int:
    files = (path for path in directory.rglob("*") if path.is_file())
    return sum(text.encode() in path.read_bytes() for path in files)


def _n(count: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def _heading(number: int, title: str) -> None:
    print(f"\n{number}  {title}, in process {os.getpid()}\n", flush=True)


def _say(who: str, text: str) -> None:
    label = f"   {who:<10}" if who else "   "
    print(textwrap.fill(text, 88, initial_indent=label, subsequent_indent=" " * len(label)))


if __name__ == "__main__":
    sys.exit(main())
