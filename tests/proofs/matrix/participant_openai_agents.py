"""Sessions of the OpenAI Agents SDK, and their search."""

import json

from openai_agents_lance_context import LanceContextSession
from proofs.matrix import script


class Participant:
    """What an application on the SDK does."""

    remember = None
    forget_memories = None
    add_documents = None
    find_documents = None
    delete_documents = None

    def __init__(self, store):
        self._store = store

    def _session(self, user, session="any"):
        return LanceContextSession(session, self._store, user_id=user)

    async def say(self, user, session, lines):
        items = [item for turn in script.turns(lines) for item in _items(turn)]
        await self._session(user, session).add_items(items)
        return items

    async def messages(self, user, session):
        return await self._session(user, session).get_items()

    def comparable(self, items):
        return items

    def lines(self, items):
        return [line for item in items for line in _lines(item)]

    async def forget(self, user, session):
        await self._session(user, session).clear_session()

    async def search_said(self, user, question, mode, session):
        among = {"kind": "message"} | ({"session_id": session} if session else {})
        found = await self._session(user).search(question, mode=mode, filter=among, limit=2)
        return [hit.record.text for hit in found]

    async def recall(self, user, question, mode):
        found = await self._session(user).search(
            question, mode=mode, filter={"kind": "memory"}, limit=1
        )
        return [hit.record.text for hit in found]


def _items(turn):
    """A user shows and says things in one item; a model says, thinks and calls in one each."""
    who = turn[0]["who"]
    if who == "user":
        yield {"role": who, "content": [_block(line) for line in turn]}
        return
    for line in turn:
        match line["kind"]:
            case "text":
                yield {"role": who, "content": line["text"]}
            case "reasoning":
                summary = [{"type": "summary_text", "text": line["text"]}]
                yield {"type": "reasoning", "id": "rs_1", "summary": summary}
            case "call":
                yield {
                    "type": "function_call",
                    "call_id": line["id"],
                    "name": line["name"],
                    "arguments": json.dumps(line["arguments"]),
                }
            case "result":
                yield {
                    "type": "function_call_output",
                    "call_id": line["id"],
                    "output": line["text"],
                }


def _block(line):
    if line["kind"] == "image":
        url = f"data:{line['media_type']};base64,{line['data']}"
        return {"type": "input_image", "detail": "auto", "image_url": url}
    return {"type": "input_text", "text": line["text"]}


def _lines(item):
    match item.get("type"):
        case "reasoning":
            yield script.reasoning("\n".join(one["text"] for one in item["summary"]))
        case "function_call":
            yield script.call(item["call_id"], item["name"], json.loads(item["arguments"]))
        case "function_call_output":
            # Its name stands in the call alone.
            yield script.result(item["call_id"], None, item["output"])
        case None:
            content = item["content"]
            if isinstance(content, str):
                content = [{"type": "input_text", "text": content}]
            for block in content:
                yield _line(item["role"], block)
        case _:
            yield script.other(item.get("role"), item)


def _line(who, block):
    match block["type"]:
        case "input_text":
            return script.text(who, block["text"])
        case "input_image":
            head, _, data = block["image_url"].partition(";base64,")
            return script.image(who, data, media_type=head.removeprefix("data:"))
    return script.other(who, block)
