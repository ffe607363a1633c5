"""The memory, long-term memory and knowledge of agents of agentscope 1.x."""

import json

from agentscope.message import Msg
from agentscope.rag import DocMetadata
from agentscope.rag import Document as Chunk
from agentscope_lance_context import (
    LanceContextLongTermMemory,
    LanceContextMemory,
    LanceContextVDBStore,
)
from proofs.matrix import script

_MODES = {"text": "words", "vector": "vector"}


class Participant:
    """What an agent of agentscope 1.x does."""

    search_said = None
    forget_memories = None

    def __init__(self, store):
        self._store = store

    def _memory(self, user, session):
        return LanceContextMemory(self._store, session, user_id=user)

    async def say(self, user, session, lines):
        messages = [_message(turn) for turn in _turns(lines)]
        await self._memory(user, session).add(messages)
        return self.comparable(messages)

    async def messages(self, user, session):
        return await self._memory(user, session).get_memory()

    def comparable(self, messages):
        return [message.to_dict() for message in messages]

    def lines(self, messages):
        return [line for message in messages for line in _lines(message)]

    async def forget(self, user, session):
        await self._memory(user, session).clear()

    async def remember(self, user, facts):
        memory = LanceContextLongTermMemory(self._store, user_id=user)
        await memory.record([Msg("Ada", fact, "user") for fact in facts])

    async def recall(self, user, question, mode):
        memory = LanceContextLongTermMemory(self._store, user_id=user, search=_MODES[mode])
        told = await memory.retrieve(Msg("Ada", question, "user"), limit=1)
        return [line.removeprefix("Ada: ") for line in told.splitlines()]

    def _documents(self, collection):
        return LanceContextVDBStore(self._store, collection)

    async def add_documents(self, collection, documents):
        vectors = script.embedded(documents.values())
        await self._documents(collection).add(
            [
                Chunk(
                    metadata=DocMetadata(
                        content={"type": "text", "text": text},
                        doc_id=room,
                        chunk_id=0,
                        total_chunks=1,
                    ),
                    embedding=vector,
                )
                for (room, text), vector in zip(documents.items(), vectors, strict=True)
            ]
        )

    async def _found(self, collection, question, filter, limit):
        (vector,) = script.embedded([question])
        return await self._documents(collection).search(vector, limit, filter=filter)

    async def find_documents(self, collection, question, filter):
        found = await self._found(collection, question, filter, 2)
        return [one.metadata.content["text"] for one in found]

    async def delete_documents(self, collection, question, filter):
        found = await self._found(collection, question, filter, 1)
        await self._documents(collection).delete([one.id for one in found])


def _turns(lines):
    """As in its agents, all results of one step are one message."""
    grouped = []
    for turn in script.turns(lines):
        if grouped and grouped[-1][0]["who"] == turn[0]["who"] == "tool":
            grouped[-1] += turn
        else:
            grouped.append(turn)
    return grouped


def _message(turn):
    who = turn[0]["who"]
    role = "system" if who == "tool" else who
    return Msg(role.title(), [_block(line) for line in turn], role)


def _block(line):
    match line["kind"]:
        case "text":
            return {"type": "text", "text": line["text"]}
        case "reasoning":
            return {"type": "thinking", "thinking": line["text"]}
        case "image":
            source = {"type": "base64", "media_type": line["media_type"], "data": line["data"]}
            return {"type": "image", "source": source}
        case "call":
            made = {"id": line["id"], "name": line["name"], "input": line["arguments"]}
            return {"type": "tool_use", **made}
        case "result":
            made = {"id": line["id"], "name": line["name"], "output": line["text"]}
            return {"type": "tool_result", **made}


def _lines(message):
    for block in message.get_content_blocks():
        yield _line(message.role, block)


def _line(who, block):
    match block:
        case {"type": "text", "text": said}:
            return script.text(who, said)
        case {"type": "thinking", "thinking": thought}:
            return script.reasoning(thought)
        case {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}:
            return script.image(who, data, media_type=kind)
        case {"type": "tool_use", "id": id, "name": name, "input": given}:
            return script.call(id, name, given)
        case {"type": "tool_result", "id": id, "name": name, "output": str(said)}:
            return script.result(id, name or None, said)
    return script.other(who, json.dumps(block))
