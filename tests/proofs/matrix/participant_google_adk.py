"""The session service of Google ADK, and its memory service."""

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from google_adk_lance_context import LanceMemoryService, LanceSessionService
from proofs.matrix import script

APP = "matrix"
AUTHORS = {"user": "user", "system": "system"}
"""Who says what; all else is said by the agent."""


class Participant:
    """What an application on ADK does."""

    search_said = None
    forget_memories = None
    add_documents = None
    find_documents = None
    delete_documents = None

    def __init__(self, store):
        self._store = store
        self._sessions = LanceSessionService(store, agent_id="")

    async def say(self, user, session, lines):
        where = {"app_name": APP, "user_id": user, "session_id": session}
        found = await self._sessions.get_session(**where)
        found = found or await self._sessions.create_session(**where)
        events = [_event(turn) for turn in script.turns(lines)]
        for event in events:
            await self._sessions.append_event(found, event)
        return events

    async def messages(self, user, session):
        found = await self._sessions.get_session(app_name=APP, user_id=user, session_id=session)
        return found.events if found else []

    def comparable(self, events):
        return events

    def lines(self, events):
        return [_line(event, part) for event in events for part in event.content.parts]

    async def forget(self, user, session):
        await self._sessions.delete_session(app_name=APP, user_id=user, session_id=session)

    async def remember(self, user, facts):
        memories = [MemoryEntry(content=types.UserContent(fact)) for fact in facts]
        await self._memories().add_memory(app_name=APP, user_id=user, memories=memories)

    async def recall(self, user, question, mode):
        found = await self._memories(mode).search_memory(app_name=APP, user_id=user, query=question)
        return [one.content.parts[0].text for one in found.memories]

    def _memories(self, mode=None):
        return LanceMemoryService(self._store, agent_id="", limit=1, mode=mode)


def _event(turn):
    who = turn[0]["who"]
    role = "model" if who == "assistant" else "user"
    parts = [_part(line) for line in turn]
    return Event(author=AUTHORS.get(who, "bot"), content=types.Content(role=role, parts=parts))


def _part(line):
    match line["kind"]:
        case "text":
            return types.Part(text=line["text"])
        case "reasoning":
            return types.Part(text=line["text"], thought=True)
        case "image":
            data = script.as_bytes(line["data"])
            return types.Part(inline_data=types.Blob(data=data, mime_type=line["media_type"]))
        case "call":
            call = {"id": line["id"], "name": line["name"], "args": line["arguments"]}
            return types.Part(function_call=types.FunctionCall(**call))
        case "result":
            response = {"error" if line["failed"] else "result": line["text"]}
            answer = {"id": line["id"], "name": line["name"], "response": response}
            return types.Part(function_response=types.FunctionResponse(**answer))


def _line(event, part):
    who = AUTHORS.get(event.author, "assistant")
    if (answer := part.function_response) is not None:
        ((key, said),) = answer.response.items()
        return script.result(answer.id, answer.name, said, failed=key == "error")
    if (call := part.function_call) is not None:
        return script.call(call.id, call.name, call.args)
    if (blob := part.inline_data) is not None:
        return script.image(who, script.as_base64(blob.data), media_type=blob.mime_type)
    if part.text is not None:
        return script.reasoning(part.text) if part.thought else script.text(who, part.text)
    return script.other(who, part)
