"""LangChain's chat history, retriever and vector store."""

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_lance_context import (
    LanceContextChatMessageHistory,
    LanceContextRetriever,
    LanceContextVectorStore,
)
from proofs.matrix import script


class Participant:
    """What an application on LangChain does."""

    remember = None
    forget_memories = None

    def __init__(self, store):
        self._store = store

    def _history(self, user, session):
        return LanceContextChatMessageHistory(self._store.scope(user_id=user), session)

    async def say(self, user, session, lines):
        messages = [_message(turn) for turn in script.turns(lines)]
        await self._history(user, session).aadd_messages(messages)
        return messages

    async def messages(self, user, session):
        return await self._history(user, session).aget_messages()

    def comparable(self, messages):
        return messages

    def lines(self, messages):
        return [line for message in messages for line in _lines(message)]

    async def forget(self, user, session):
        await self._history(user, session).aclear()

    async def search_said(self, user, question, mode, session):
        retriever = LanceContextRetriever(
            store=self._store,
            user_id=user,
            session_id=session,
            mode=mode,
            filter={"kind": "message"},
            k=2,
        )
        return [one.page_content for one in await retriever.ainvoke(question)]

    async def recall(self, user, question, mode):
        retriever = LanceContextRetriever(
            store=self._store, user_id=user, mode=mode, filter={"kind": "memory"}, k=1
        )
        return [one.page_content for one in await retriever.ainvoke(question)]

    def _documents(self, collection):
        return LanceContextVectorStore(self._store, collection=collection)

    async def add_documents(self, collection, documents):
        metadata = [{"room": room} for room in documents]
        await self._documents(collection).aadd_texts([*documents.values()], metadata)

    async def find_documents(self, collection, question, filter):
        found = await self._documents(collection).asimilarity_search(question, k=2, filter=filter)
        return [one.page_content for one in found]

    async def delete_documents(self, collection, question, filter):
        documents = self._documents(collection)
        found = await documents.asimilarity_search(question, k=1, filter=filter)
        await documents.adelete([one.id for one in found])


def _message(turn):
    content = [_block(line) for line in turn if line["kind"] not in ("call", "result")]
    if len(content) == 1 and content[0]["type"] == "text":
        content = content[0]["text"]
    match turn[0]["who"]:
        case "system":
            return SystemMessage(content)
        case "user":
            return HumanMessage(content)
        case "assistant":
            calls = [
                {"name": line["name"], "args": line["arguments"], "id": line["id"]}
                for line in turn
                if line["kind"] == "call"
            ]
            return AIMessage(content, tool_calls=calls)
        case "tool":
            (line,) = turn
            return ToolMessage(
                line["text"],
                tool_call_id=line["id"],
                name=line["name"],
                status="error" if line["failed"] else "success",
            )


def _block(line):
    match line["kind"]:
        case "text":
            return {"type": "text", "text": line["text"]}
        case "reasoning":
            return {"type": "reasoning", "reasoning": line["text"]}
        case "image":
            return {
                "type": "image",
                "base64": line["data"],
                "mime_type": line["media_type"],
                "extras": {"caption": line["caption"]},
            }


_SPEAKERS = {SystemMessage: "system", HumanMessage: "user", AIMessage: "assistant"}


def _lines(message):
    if isinstance(message, ToolMessage):
        failed = message.status == "error"
        yield script.result(message.tool_call_id, message.name, message.content, failed=failed)
        return
    who = _SPEAKERS.get(type(message), type(message).__name__)
    blocks = [message.content] if isinstance(message.content, str) else message.content
    yield from (_line(who, block) for block in blocks if block)
    for one in getattr(message, "tool_calls", ()):
        yield script.call(one["id"], one["name"], one["args"])


def _line(who, block):
    match block:
        case str():
            return script.text(who, block)
        case {"type": "text", "text": said}:
            return script.text(who, said)
        case {"type": "reasoning", "reasoning": thought}:
            return script.reasoning(thought)
        case {"type": "image", "base64": data, "mime_type": media_type}:
            caption = block.get("extras", {}).get("caption")
            return script.image(who, data, media_type=media_type, caption=caption)
    return script.other(who, block)
