"""Microsoft Agent Framework's history provider, and its context provider for recall."""

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, Message
from agent_framework_lance_context import LanceContextProvider, LanceHistoryProvider
from proofs.matrix import script


class Participant:
    """What an application on Microsoft Agent Framework does."""

    forget_memories = None
    add_documents = None
    find_documents = None
    delete_documents = None

    def __init__(self, store):
        self._store = store

    def _history(self, user):
        return LanceHistoryProvider(self._store, user_id=user)

    async def say(self, user, session, lines):
        messages = [_message(turn) for turn in script.turns(lines)]
        await self._history(user).save_messages(session, messages)
        return self.comparable(messages)

    async def messages(self, user, session):
        return await self._history(user).get_messages(session)

    def comparable(self, messages):
        return [message.to_dict() for message in messages]

    def lines(self, messages):
        return [_line(message.role, one) for message in messages for one in message.contents]

    async def forget(self, user, session):
        await self._history(user).clear(session)

    async def search_said(self, user, question, mode, session):
        filter = {"kind": "message"} if session is None else {"session_id": session}
        return await self._found(user, question, mode, filter=filter, limit=2)

    async def remember(self, user, facts):
        provider = LanceContextProvider(self._store, user_id=user)
        agent = Agent(_Nobody(), context_providers=[provider])
        said = [Message("user", [fact]) for fact in facts]
        await agent.run(said, session=agent.create_session())

    async def recall(self, user, question, mode):
        return await self._found(user, question, mode, filter={"kind": "memory"}, limit=1)

    async def _found(self, user, question, mode, **how):
        provider = LanceContextProvider(self._store, user_id=user, mode=mode, **how)
        return [hit.record.text for hit in await provider.search(question)]


class _Nobody(BaseChatClient):
    """A model that only listens."""

    def _inner_get_response(self, **_):
        async def respond():
            return ChatResponse(messages=Message("assistant", ["Noted."]))

        return respond()


def _message(turn):
    return Message(turn[0]["who"], [_content(line) for line in turn])


def _content(line):
    match line["kind"]:
        case "image":
            return Content.from_data(script.as_bytes(line["data"]), line["media_type"])
        case "reasoning":
            return Content.from_text_reasoning(text=line["text"])
        case "call":
            return Content.from_function_call(line["id"], line["name"], arguments=line["arguments"])
        case "result":
            return Content.from_function_result(
                line["id"], result=line["text"], exception="failed" if line["failed"] else None
            )
    return Content.from_text(line["text"])


def _line(who, content):
    match content.type:
        case "text":
            return script.text(who, content.text)
        case "text_reasoning":
            return script.reasoning(content.text)
        case "data":
            data = content.uri.partition(",")[2]
            return script.image(who, data, media_type=content.media_type)
        case "function_call":
            return script.call(content.call_id, content.name, content.parse_arguments())
        case "function_result":
            failed = content.exception is not None
            return script.result(content.call_id, None, content.result, failed=failed)
    return script.other(who, content.type)
