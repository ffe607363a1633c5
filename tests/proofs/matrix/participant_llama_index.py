"""LlamaIndex's chat store, memory block, retriever and vector store."""

from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index_lance_context import (
    LanceContextAsyncChatStore,
    LanceContextMemoryBlock,
    LanceContextRetriever,
    LanceContextVectorStore,
)
from proofs.matrix import script


class Participant:
    """What an application on LlamaIndex does."""

    forget_memories = None

    def __init__(self, store):
        self._store = store

    def _chat(self, user):
        return LanceContextAsyncChatStore(self._store.scope(user_id=user))

    async def say(self, user, session, lines):
        messages = [_message(turn) for turn in script.turns(lines)]
        await self._chat(user).add_messages(session, messages)
        return messages

    async def messages(self, user, session):
        return await self._chat(user).get_messages(session)

    def comparable(self, messages):
        return messages

    def lines(self, messages):
        return [line for message in messages for line in _lines(message)]

    async def forget(self, user, session):
        await self._chat(user).delete_messages(session)

    async def search_said(self, user, question, mode, session):
        retriever = LanceContextRetriever(
            self._store,
            user_id=user,
            session_id=session,
            mode=mode,
            filters={"kind": "message"},
            similarity_top_k=2,
        )
        return [one.text for one in await retriever.aretrieve(question)]

    async def remember(self, user, facts):
        block = LanceContextMemoryBlock(self._store, scope="user", user_id=user)
        await block.aput([ChatMessage(role="user", content=fact) for fact in facts])

    async def recall(self, user, question, mode):
        block = LanceContextMemoryBlock(self._store, scope="user", user_id=user, mode=mode, limit=1)
        told = await block.aget([ChatMessage(role="user", content=question)])
        return [line.removeprefix("user: ") for line in told.splitlines()]

    def _documents(self, collection):
        return LanceContextVectorStore(self._store, collection=collection)

    async def add_documents(self, collection, documents):
        vectors = script.embedded(documents.values())
        nodes = [
            TextNode(text=text, metadata={"room": room}, embedding=vector)
            for (room, text), vector in zip(documents.items(), vectors, strict=True)
        ]
        await self._documents(collection).async_add(nodes)

    async def _found(self, collection, question, filter, limit):
        filters = [MetadataFilter(key=key, value=value) for key, value in filter.items()]
        (vector,) = script.embedded([question])
        query = VectorStoreQuery(
            query_embedding=vector,
            similarity_top_k=limit,
            filters=MetadataFilters(filters=filters),
        )
        return (await self._documents(collection).aquery(query)).nodes

    async def find_documents(self, collection, question, filter):
        return [one.text for one in await self._found(collection, question, filter, 2)]

    async def delete_documents(self, collection, question, filter):
        found = await self._found(collection, question, filter, 1)
        await self._documents(collection).adelete_nodes([one.node_id for one in found])


def _message(turn):
    who = turn[0]["who"]
    if who == "tool":
        (line,) = turn
        about = {"tool_call_id": line["id"], "name": line["name"]}
        return ChatMessage(role="tool", content=line["text"], additional_kwargs=about)
    return ChatMessage(role=who, blocks=[_block(line) for line in turn])


def _block(line):
    match line["kind"]:
        case "text":
            return TextBlock(text=line["text"])
        case "reasoning":
            return ThinkingBlock(content=line["text"])
        case "image":
            data = script.as_bytes(line["data"])
            return ImageBlock(image=data, image_mimetype=line["media_type"])
        case "call":
            return ToolCallBlock(
                tool_call_id=line["id"], tool_name=line["name"], tool_kwargs=line["arguments"]
            )


def _lines(message):
    if message.role.value == "tool":
        more = message.additional_kwargs
        yield script.result(more.get("tool_call_id"), more.get("name"), message.content)
        return
    for block in message.blocks:
        yield _line(message.role.value, block)


def _line(who, block):
    match block:
        case TextBlock():
            return script.text(who, block.text)
        case ThinkingBlock():
            return script.reasoning(block.content)
        case ImageBlock():
            data = script.as_base64(block.resolve_image().read())
            return script.image(who, data, media_type=block.image_mimetype)
        case ToolCallBlock():
            return script.call(block.tool_call_id, block.tool_name, block.tool_kwargs)
    return script.other(who, block)
