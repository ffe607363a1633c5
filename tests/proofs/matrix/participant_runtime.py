"""The services of agentscope-runtime, of either line that has them."""

import json
import warnings

from proofs.matrix import script

with warnings.catch_warnings():
    # The last releases of a line say at import that it ends.
    warnings.simplefilter("ignore")
    from agentscope_runtime.engine.schemas.agent_schemas import (
        DataContent,
        FunctionCall,
        FunctionCallOutput,
        ImageContent,
        Message,
        TextContent,
    )

import agentscope_lance_context as adapter

from lance_context_core import Document

_MODES = {"text": "words", "vector": "vector"}


class Participant:
    """What an application on agentscope-runtime does."""

    search_said = None
    delete_documents = None

    def __init__(self, store):
        self._store = store
        self._sessions = adapter.LanceContextSessionHistoryService(store)

    async def say(self, user, session, lines):
        messages = [_message(part) for turn in script.turns(lines) for part in _split(turn)]
        known = await self._sessions.get_session(user, session)
        await self._sessions.append_message(known, messages)
        return self.comparable(messages)

    async def messages(self, user, session):
        found = await self._sessions.get_session(user, session)
        return [] if found is None else found.messages

    def comparable(self, messages):
        return [message.model_dump() for message in messages]

    def lines(self, messages):
        return [line for message in messages for line in _lines(message)]

    async def forget(self, user, session):
        await self._sessions.delete_session(user, session)

    async def remember(self, user, facts):
        messages = [Message(role="user", content=[TextContent(text=fact)]) for fact in facts]
        await adapter.LanceContextMemoryService(self._store).add_memory(user, messages)

    async def recall(self, user, question, mode):
        asked = [Message(role="user", content=[TextContent(text=question)])]
        service = adapter.LanceContextMemoryService(self._store, search=_MODES[mode])
        found = await service.search_memory(user, asked, {"top_k": 1})
        return [one.content[0].text for one in found]

    async def forget_memories(self, user):
        await adapter.LanceContextMemoryService(self._store).delete_user_memory(user)

    async def add_documents(self, collection, documents):
        await adapter.LanceContextRAGService(self._store, collection).add_docs(
            [Document(text=text, metadata={"room": room}) for room, text in documents.items()]
        )

    async def find_documents(self, collection, question, filter):
        service = adapter.LanceContextRAGService(
            self._store, collection, mode="vector", filter=filter
        )
        return await service.retrieve(question, k=2)


class ParticipantOf1(Participant):
    """The line 1.0, which has no retrieval."""

    add_documents = None
    find_documents = None


def _split(turn):
    """What is one message here: a call, a result, a thought, or all that is said in between."""
    group = []
    for line in turn:
        if line["kind"] in ("text", "image"):
            group.append(line)
            continue
        if group:
            yield group
            group = []
        yield [line]
    if group:
        yield group


def _message(group):
    line = group[0]
    match line["kind"]:
        case "reasoning":
            return Message(
                type="reasoning", role="assistant", content=[TextContent(text=line["text"])]
            )
        case "call":
            given = json.dumps(line["arguments"], ensure_ascii=False)
            made = FunctionCall(call_id=line["id"], name=line["name"], arguments=given)
            content = [DataContent(data=made.model_dump())]
            return Message(type="plugin_call", role="assistant", content=content)
        case "result":
            named = {"name": line["name"]} if "name" in FunctionCallOutput.model_fields else {}
            made = FunctionCallOutput(call_id=line["id"], output=line["text"], **named)
            content = [DataContent(data=made.model_dump())]
            return Message(type="plugin_call_output", role="tool", content=content)
    return Message(role=line["who"], content=[_content(one) for one in group])


def _content(line):
    if line["kind"] == "image":
        return ImageContent(image_url=f"data:{line['media_type']};base64,{line['data']}")
    return TextContent(text=line["text"])


def _lines(message):
    for content in message.content:
        yield _line(message, content)


def _line(message, content):
    match message.type, content.type:
        case "message", "text":
            return script.text(message.role, content.text)
        case "reasoning", "text":
            return script.reasoning(content.text)
        case "message", "image":
            head, _, data = content.image_url.removeprefix("data:").partition(";base64,")
            return script.image(message.role, data, media_type=head)
        case "plugin_call", "data":
            made = content.data
            return script.call(made["call_id"], made["name"], json.loads(made["arguments"]))
        case "plugin_call_output", "data":
            made = content.data
            return script.result(made["call_id"], made.get("name") or None, made["output"])
    return script.other(message.role, content)
