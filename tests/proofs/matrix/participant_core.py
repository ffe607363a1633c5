"""The store's own interface."""

from proofs.matrix import script

from lance_context_core import (
    Document,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)


class Participant:
    """What a program does that knows no framework."""

    def __init__(self, store):
        self._store = store

    async def say(self, user, session, lines):
        messages = [_message(turn) for turn in script.turns(lines)]
        history = self._store.scope(user_id=user).history
        await history.append_many("", messages, session_id=session)
        return [_comparable(message) for message in messages]

    async def messages(self, user, session):
        return await self._store.scope(user_id=user).history.get_messages("", session_id=session)

    def comparable(self, messages):
        return [_comparable(message) for message in messages]

    def lines(self, messages):
        return [_line(message.role, part) for message in messages for part in message.parts]

    async def forget(self, user, session):
        await self._store.scope(user_id=user).history.clear("", session_id=session)

    async def search_said(self, user, question, mode, session):
        found = await self._store.scope(user_id=user).search(
            question,
            mode=mode,
            filter={"kind": "message"} | ({"session_id": session} if session else {}),
            limit=2,
        )
        return [hit.record.text for hit in found]

    async def remember(self, user, facts):
        await self._store.memory.add(facts, user_id=user)

    async def recall(self, user, question, mode):
        found = await self._store.memory.search(question, user_id=user, mode=mode, limit=1)
        return [hit.record.text for hit in found]

    async def forget_memories(self, user):
        await self._store.memory.delete(user_id=user)

    async def add_documents(self, collection, documents):
        await self._store.vectors(collection).add(
            [Document(text=text, metadata={"room": room}) for room, text in documents.items()]
        )

    async def find_documents(self, collection, question, filter):
        found = await self._store.vectors(collection).search(
            question, mode="vector", filter=filter, limit=2
        )
        return [hit.record.text for hit in found]

    async def delete_documents(self, collection, question, filter):
        vectors = self._store.vectors(collection)
        found = await vectors.search(question, mode="vector", filter=filter, limit=1)
        await vectors.delete([hit.record.id for hit in found])


def _message(turn):
    return Message(role=turn[0]["who"], parts=tuple(_part(line) for line in turn))


def _part(line):
    match line["kind"]:
        case "text":
            return TextPart(text=line["text"])
        case "image":
            data = script.as_bytes(line["data"])
            return ImagePart(data=data, media_type=line["media_type"], caption=line["caption"])
        case "reasoning":
            return ReasoningPart(text=line["text"])
        case "call":
            return ToolCallPart(call_id=line["id"], name=line["name"], arguments=line["arguments"])
        case "result":
            return ToolResultPart(
                call_id=line["id"],
                name=line["name"],
                content=(TextPart(text=line["text"]),),
                is_error=line["failed"],
            )


def _line(role, part):
    match part:
        case TextPart():
            return script.text(role, part.text)
        case ImagePart(data=bytes()):
            return script.image(
                role,
                script.as_base64(part.data),
                media_type=part.media_type,
                caption=part.caption,
            )
        case ReasoningPart():
            return script.reasoning(part.text)
        case ToolCallPart():
            return script.call(part.call_id, part.name, part.arguments)
        case ToolResultPart():
            said = part.text
            return script.result(part.call_id, part.name, said, failed=part.is_error)
    return script.other(role, part)


def _comparable(message):
    """All but the id and the time, which the store adds where there are none."""
    return message.role, message.parts, message.name, message.metadata, message.native
