"""Pydantic AI's message histories, and the capability for recall."""

from proofs.matrix import script
from pydantic_ai import Agent
from pydantic_ai import messages as ai
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_lance_context import LanceMessageHistory, LanceRecall


class Participant:
    """What an application on Pydantic AI does."""

    forget_memories = None
    add_documents = None
    find_documents = None
    delete_documents = None

    def __init__(self, store):
        self._store = store

    def _history(self, user, session):
        return LanceMessageHistory(self._store, session, user_id=user, agent_id="")

    async def say(self, user, session, lines):
        messages = [_message(turn) for turn in script.turns(lines)]
        await self._history(user, session).append(messages)
        return messages

    async def messages(self, user, session):
        return await self._history(user, session).load()

    def comparable(self, messages):
        return messages

    def lines(self, messages):
        return [_line(part) for message in messages for part in _parts(message)]

    async def forget(self, user, session):
        await self._history(user, session).clear()

    async def search_said(self, user, question, mode, session):
        filter = {"kind": "message"} if session is None else {"session_id": session}
        return await self._found(user, question, mode, filter=filter, limit=2)

    async def remember(self, user, facts):
        calls = [ai.ToolCallPart("remember", {"fact": fact}) for fact in facts]

        def model(messages, info):
            is_done = isinstance(messages[-1].parts[-1], ai.ToolReturnPart)
            return ai.ModelResponse(parts=[ai.TextPart("Done.")] if is_done else calls)

        agent = Agent(FunctionModel(model), capabilities=[LanceRecall(self._store, user_id=user)])
        await agent.run("Remember.")

    async def recall(self, user, question, mode):
        return await self._found(user, question, mode, filter={"kind": "memory"}, limit=1)

    async def _found(self, user, question, mode, **how):
        recall = LanceRecall(self._store, user_id=user, mode=mode, **how)
        return [hit.record.text for hit in await recall.search(question)]


def _message(turn):
    who = turn[0]["who"]
    if who == "assistant":
        return ai.ModelResponse(parts=[_response_part(line) for line in turn])
    if who == "tool":
        return ai.ModelRequest(
            parts=[
                ai.ToolReturnPart(
                    line["name"],
                    line["text"],
                    line["id"],
                    outcome="failed" if line["failed"] else "success",
                )
                for line in turn
            ]
        )
    if who == "system":
        return ai.ModelRequest(parts=[ai.SystemPromptPart(line["text"]) for line in turn])
    return ai.ModelRequest(parts=[ai.UserPromptPart([_content(line) for line in turn])])


def _content(line):
    if line["kind"] == "image":
        return ai.BinaryImage(script.as_bytes(line["data"]), media_type=line["media_type"])
    return line["text"]


def _response_part(line):
    match line["kind"]:
        case "text":
            return ai.TextPart(line["text"])
        case "reasoning":
            return ai.ThinkingPart(line["text"])
        case "call":
            return ai.ToolCallPart(line["name"], line["arguments"], line["id"])


def _parts(message):
    """Each part of a response; of a request, each part or each content of a prompt."""
    for part in message.parts:
        if isinstance(part, ai.UserPromptPart) and not isinstance(part.content, str):
            yield from part.content
        else:
            yield part


def _line(part):
    match part:
        case str():
            return script.text("user", part)
        case ai.UserPromptPart():
            return script.text("user", part.content)
        case ai.SystemPromptPart():
            return script.text("system", part.content)
        case ai.BinaryContent():
            data = script.as_base64(part.data)
            return script.image("user", data, media_type=part.media_type)
        case ai.TextPart():
            return script.text("assistant", part.content)
        case ai.ThinkingPart():
            return script.reasoning(part.content)
        case ai.ToolCallPart():
            return script.call(part.tool_call_id, part.tool_name, part.args_as_dict())
        case ai.ToolReturnPart():
            return script.result(
                part.tool_call_id,
                part.tool_name,
                part.content,
                failed=part.outcome != "success",
            )
    return script.other("?", part)
