"""The state, memory and knowledge of agents of agentscope 2.x."""

import json

from agentscope.message import (
    AssistantMsg,
    Base64Source,
    DataBlock,
    SystemMsg,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    UserMsg,
)
from agentscope.rag import Chunk, VectorRecord
from agentscope.state import AgentState
from agentscope_lance_context import (
    LanceContextAgentStateStore,
    LanceContextMemoryMiddleware,
    LanceContextVectorStore,
)
from proofs.matrix import script

_MODES = {"text": "words", "vector": "vector"}
_MESSAGES = {"system": SystemMsg, "user": UserMsg, "assistant": AssistantMsg}


class Participant:
    """What an agent of agentscope 2.x does."""

    search_said = None
    forget_memories = None

    def __init__(self, store):
        self._store = store
        self._states = LanceContextAgentStateStore(store)
        self._documents = LanceContextVectorStore(store)

    async def say(self, user, session, lines):
        messages = [_message(turn) for turn in _turns(lines)]
        state = await self._states.load(session, user_id=user)
        state = state or AgentState(session_id=session)
        state.context.extend(messages)
        await self._states.save(state, user_id=user)
        return self.comparable(messages)

    async def messages(self, user, session):
        state = await self._states.load(session, user_id=user)
        return [] if state is None else state.context

    def comparable(self, messages):
        return [message.model_dump() for message in messages]

    def lines(self, messages):
        return [line for message in messages for line in _lines(message)]

    async def forget(self, user, session):
        await self._states.delete(session, user_id=user)

    async def _tools(self, user, **options):
        return await LanceContextMemoryMiddleware(self._store, user_id=user, **options).list_tools()

    async def remember(self, user, facts):
        _, add_memory = await self._tools(user)
        await add_memory(thinking="They may matter.", content=facts)

    async def recall(self, user, question, mode):
        search_memory, _ = await self._tools(user, search=_MODES[mode])
        told = (await search_memory(keywords=[question], limit=1)).content[0].text
        if told == "No memories found.":
            return []
        return [line.removeprefix("- ").removeprefix("Ada: ") for line in told.splitlines()]

    async def add_documents(self, collection, documents):
        await self._documents.create_collection(collection, dimensions=script.DIMENSION)
        vectors = script.embedded(documents.values())
        await self._documents.insert(
            collection,
            [
                VectorRecord(
                    vector=vector,
                    document_id=f"about the {room}",
                    chunk=Chunk(
                        content=TextBlock(text=text),
                        source="rooms.txt",
                        chunk_index=0,
                        total_chunks=1,
                        metadata={"room": room},
                    ),
                )
                for (room, text), vector in zip(documents.items(), vectors, strict=True)
            ],
        )

    async def _found(self, collection, question, filter, limit):
        (vector,) = script.embedded([question])
        return await self._documents.search(collection, vector, limit, filter)

    async def find_documents(self, collection, question, filter):
        found = await self._found(collection, question, filter, 2)
        return [one.chunk.content.text for one in found]

    async def delete_documents(self, collection, question, filter):
        for one in await self._found(collection, question, filter, 1):
            await self._documents.delete(collection, one.document_id)


def _turns(lines):
    """As its agents have it, a reply is one message, with the calls and their results in it."""
    grouped = []
    for turn in script.turns(lines):
        is_reply = turn[0]["who"] in ("assistant", "tool")
        if is_reply and grouped and grouped[-1][0]["who"] == "assistant":
            grouped[-1] += turn
        else:
            grouped.append(turn)
    return grouped


def _message(turn):
    who = turn[0]["who"]
    return _MESSAGES[who](name=who.title(), content=[_block(line) for line in turn])


def _block(line):
    match line["kind"]:
        case "text":
            return TextBlock(text=line["text"])
        case "reasoning":
            return ThinkingBlock(thinking=line["text"])
        case "image":
            source = Base64Source(data=line["data"], media_type=line["media_type"])
            return DataBlock(source=source)
        case "call":
            given = json.dumps(line["arguments"], ensure_ascii=False)
            return ToolCallBlock(id=line["id"], name=line["name"], input=given, state="finished")
        case "result":
            state = "error" if line["failed"] else "success"
            return ToolResultBlock(
                id=line["id"], name=line["name"], output=line["text"], state=state
            )


def _lines(message):
    for block in message.content:
        yield _line(message.role, block)


def _line(who, block):
    match block:
        case TextBlock():
            return script.text(who, block.text)
        case ThinkingBlock():
            return script.reasoning(block.thinking)
        case DataBlock(source=Base64Source()):
            source = block.source
            return script.image(who, source.data, media_type=source.media_type)
        case ToolCallBlock():
            return script.call(block.id, block.name, json.loads(block.input))
        case ToolResultBlock(output=str()):
            failed = block.state in ("error", "interrupted", "denied")
            return script.result(block.id, block.name or None, block.output, failed=failed)
    return script.other(who, block)
