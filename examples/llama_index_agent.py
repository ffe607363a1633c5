"""An agent that reads a folder of documents, is killed while it works, and goes on as if it had not been.

    python examples/llama_index_agent.py [--store DIR]

It is LlamaIndex's `FunctionAgent` with an index, a memory and a log, all of them in one directory.
Its model is a script of a few lines, so that it runs anywhere; put a real one in its place.

    pip install ".[local]" ./adapters/llama_index
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_index.core import SimpleDirectoryReader, VectorStoreIndex, load_index_from_storage
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    LLMMetadata,
    ToolCallBlock,
)
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index_lance_context import (
    LanceContextChatStore,
    LanceContextKVStore,
    LanceContextMemory,
    LanceContextMemoryBlock,
    LanceContextRetriever,
    storage_context,
)

from lance_context_core import ContextStore, ContextStoreError
from lance_context_core.embedders import LocalEmbedder

MANUAL = {
    "lamp.txt": "Trim the wick before dusk. Light the lamp at sunset, and wind the clockwork that "
    "turns it every four hours.",
    "horn.txt": "In fog, sound the horn three times, and wait a minute before you sound it again.",
    "boat.txt": "The boat brings oil, bread and letters on the first day of each month, if the sea "
    "lets it.",
    "cat.txt": "The cat is called Fresnel. She is fed in the morning, and believes that she is not.",
}
BLASTS = 3
UNDER_WAY = "… and the horn is still warm when the lights go out"


def main() -> int:
    """Let one process work until it is killed, and go on in this one; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep the memory in DIR")
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agent-") as scratch:
        directory = arguments.store or Path(scratch) / "memory"
        try:
            with ContextStore.open(directory, embedder="local") as store:
                if arguments.first:
                    read_the_manual(store, Path(scratch) / "manual")
                    asyncio.run(first_night(store))
                    return 0
                if code := _run_the_first(directory):
                    return code
                asyncio.run(after_the_kill(store))
                show(store)
        except ContextStoreError as error:
            print(f"llama_index_agent: {error}", file=sys.stderr)
            return 1
    kept = f"in {arguments.store}" if arguments.store else "gone; keep it with --store DIR"
    print(f"\nThe memory is {kept}.")
    return 0


# The agent


class Script(FunctionCallingLLM):
    """Follows a script, and uses only the messages."""

    @property
    def metadata(self) -> LLMMetadata:
        """That it calls functions."""
        return LLMMetadata(is_function_calling_model=True)

    def _prepare_chat_with_tools(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002 - it knows the tools
        return {"messages": kwargs["chat_history"]}

    def get_tool_calls_from_response(
        self,
        response: ChatResponse,
        error_on_no_tool_call: bool = False,  # noqa: ARG002, FBT001, FBT002 - the base has it so
        **kwargs: Any,  # noqa: ARG002 - as above
    ) -> list[ToolSelection]:
        """The calls of an answer."""
        return [
            ToolSelection(
                tool_id=one.tool_call_id or "",
                tool_name=one.tool_name,
                tool_kwargs=one.tool_kwargs if isinstance(one.tool_kwargs, dict) else {},
            )
            for one in response.message.blocks
            if isinstance(one, ToolCallBlock)
        ]

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:  # noqa: ARG002 - as above
        """The next line of the script."""
        return ChatResponse(message=_next_line(messages))

    def _unused(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    chat = complete = stream_chat = stream_complete = _unused
    acomplete = astream_chat = astream_complete = _unused


def _next_line(messages: Sequence[ChatMessage]) -> ChatMessage:
    last = messages[-1]
    text = last.content or ""
    if last.role == "tool":
        return ChatMessage(role="assistant", content=text)
    if text == "Go on.":
        # An earlier question without an answer.
        text = messages[-2].content or ""
    if text.startswith("Sound"):
        return _call("sound_the_horn", {})
    if "my name" in text and text.endswith("?"):
        told = " ".join(one.content or "" for one in messages)
        name = re.search(r"[Mm]y name is (\w+)", told)
        answer = f"Your name is {name[1]}." if name else "I do not know that."
        return ChatMessage(role="assistant", content=answer)
    if text.endswith("?"):
        return _call("look_up", {"question": text})
    return ChatMessage(role="assistant", content="I shall remember that.")


def _call(name: str, arguments: dict[str, Any]) -> ChatMessage:
    block = ToolCallBlock(tool_call_id=f"call-{name}", tool_name=name, tool_kwargs=arguments)
    return ChatMessage(role="assistant", blocks=[block])


class Tools:
    """The agent's tool."""

    def __init__(self, store: ContextStore, *, has_power_cut: bool) -> None:
        """In a power cut the process ends after the first blast of the horn."""
        self._manual = LanceContextRetriever(store, collection="manual", similarity_top_k=1)
        self._log = LanceContextKVStore(store)
        self._has_power_cut = has_power_cut

    async def look_up(self, question: str) -> str:
        """Look something up in the manual."""
        [found] = await self._manual.aretrieve(question)
        _say("tool", f"looks into {found.metadata['file_name']}")
        return f"The manual says: {found.text}"

    async def sound_the_horn(self) -> str:
        """Sound the horn until it has sounded three times, and write each time into the log."""
        done = (await self._log.aget("horn") or {"blasts": 0})["blasts"]
        for number in range(done + 1, BLASTS + 1):
            _say("tool", f"{'BOO' + 'O' * 8 * number}M ({number} of {BLASTS})")
            await self._log.aput("horn", {"blasts": number})
            if self._has_power_cut:
                _say("tool", UNDER_WAY)
                await asyncio.sleep(60)
        return f"The horn has sounded {BLASTS} times."


class Keeper:
    """The agent, and what it remembers of one night with Ada."""

    def __init__(
        self, store: ContextStore, *, session_id: str, has_power_cut: bool = False
    ) -> None:
        tools = Tools(store, has_power_cut=has_power_cut)
        self._agent = FunctionAgent(
            llm=Script(), tools=[tools.look_up, tools.sound_the_horn], streaming=False
        )
        # Messages that leave the conversation go to the block, which recalls them in all nights.
        block = LanceContextMemoryBlock(store, scope="user", user_id="ada", mode="hybrid")
        self.memory = LanceContextMemory(
            store, session_id=session_id, token_limit=100, token_flush_size=1, memory_blocks=[block]
        )

    async def talk(self, text: str) -> None:
        """Say something, and show what comes of it."""
        _say("ada", text)
        said = await self._agent.run(user_msg=text, memory=self.memory)
        _say("agent", str(said))


class Meaning(BaseEmbedding):
    """Embeds without a network, as the store does; put your own in its place."""

    _embedder: LocalEmbedder = PrivateAttr(default_factory=LocalEmbedder)

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(x) for x in self._embedder.embed_documents([text])[0]]

    def _get_query_embedding(self, query: str) -> list[float]:
        return [float(x) for x in self._embedder.embed_query(query)]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


# Steps


def read_the_manual(store: ContextStore, folder: Path) -> None:
    """Write a folder of documents, and index what is new in it."""
    _heading(f"1  A folder is read, in process {os.getpid()}")
    folder.mkdir()
    for name, text in MANUAL.items():
        (folder / name).write_text(text, encoding="utf-8")
    documents = SimpleDirectoryReader(str(folder)).load_data()
    for document in documents:
        # Its name alone identifies it, so the folder may move.
        document.id_ = document.metadata["file_name"]
        document.metadata = {"file_name": document.id_}
    context = storage_context(store, name="manual")
    index = VectorStoreIndex([], storage_context=context, embed_model=Meaning())
    index.set_index_id("manual")
    are_new = index.refresh_ref_docs(documents)
    _say("", f"{len(documents)} documents of the lighthouse's manual; {sum(are_new)} are new.")


async def first_night(store: ContextStore) -> None:
    """There is talk, and a power cut."""
    _heading("2  The first night")
    await LanceContextKVStore(store).adelete("horn")
    keeper = Keeper(store, session_id="first night", has_power_cut=True)
    await keeper.talk("My name is Ada, and I am the new keeper.")
    await keeper.talk("When do I light the lamp?")
    await keeper.talk("Does the cat need more food?")
    await keeper.talk("Sound the horn, there is fog!")


async def after_the_kill(store: ContextStore) -> None:
    """Another process goes on, and another night knows of the first."""
    _heading(f"3  The same night, in process {os.getpid()}")
    keeper = Keeper(store, session_id="first night")
    conversation = await keeper.memory.aget_all()
    _say("", f"{len(conversation)} messages are there; unanswered: {conversation[-1].content!r}")
    await keeper.talk("Go on.")

    _heading("4  The next night: another conversation")
    await Keeper(store, session_id="next night").talk("Do you know my name?")


def show(store: ContextStore) -> None:
    """The stored records."""
    _heading("5  What is in the directory")
    index = load_index_from_storage(storage_context(store, name="manual"), embed_model=Meaning())
    [boat] = index.as_retriever(similarity_top_k=1).retrieve("When do I get my letters?")
    _say("manual", f"the index finds {boat.metadata['file_name']}")
    for session in store.sessions.list():
        n = len(LanceContextChatStore(store).get_messages(session.id))
        _say(session.id, f"{n} messages in the conversation")
    [name] = store.memory.search("What is the keeper's name?", user_id="ada", limit=1)
    _say("memories", f"nearest to her name: {name.record.text!r}")
    _say("log", f"horn: {LanceContextKVStore(store).get('horn')}")


# How it is run and shown


def _run_the_first(directory: Path) -> int:
    """Run the first night, and kill it in the middle; returns the exit code if it ends before."""
    command = [sys.executable, __file__, "--store", str(directory), "--first"]
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(  # noqa: S603 - ourselves
        command, env=environment, stdout=subprocess.PIPE, encoding="utf-8"
    ) as child:
        for line in child.stdout or ():
            print(line, end="", flush=True)
            if UNDER_WAY in line:
                child.kill()
                child.wait()
                _say("", f"Process {child.pid} was killed, and with it all that it knew.")
                return 0
    return child.returncode or 1


def _heading(title: str) -> None:
    print(f"\n{title}\n")


def _say(who: str, text: str) -> None:
    label = f"   {who:<13}" if who else "   "
    print(textwrap.fill(text, 88, initial_indent=label, subsequent_indent=" " * len(label)))


if __name__ == "__main__":
    sys.exit(main())
