"""What providers answer with an error 400, written down from their documentation, not from our renderer.

Each function reads a request as JSON and lists what its provider would refuse in it.
"""

import base64
import json
import re

SIDES = {"user", "assistant"}
PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp"}


def refusals(dialect, request):
    """What is wrong with a request, in words."""
    json.dumps(request, allow_nan=False).encode()
    return list(BY_DIALECT[dialect](request))


def is_base64(text):
    try:
        return isinstance(text, str) and len(base64.b64decode(text, validate=True)) > 0
    except ValueError:
        return False


def is_object(text):
    def refuse(name):
        raise ValueError(name)

    try:
        return isinstance(json.loads(text, parse_constant=refuse), dict)
    except (TypeError, ValueError):
        return False


def of_data_url(url):
    """The media type of a `data:` URL; None for what is no whole one."""
    head, comma, body = url.partition(",")
    is_whole = head.startswith("data:") and head.endswith(";base64") and comma and is_base64(body)
    return head[len("data:") : -len(";base64")] if is_whole else None


# OpenAI's Chat Completions: https://platform.openai.com/docs/api-reference/chat/create


def openai_chat(request):
    sent = request["messages"]
    if not sent:
        yield "messages is empty"
    waiting, seen = [], set()
    for message in sent:
        role, content = message["role"], message.get("content")
        if waiting and role != "tool":
            yield f"tool_call_ids without a response: {waiting}"
            waiting = []
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"tool message without a call: {message['tool_call_id']}"
            else:
                waiting.remove(message["tool_call_id"])
            if not isinstance(content, str) or not content:
                yield "a tool message without text"
            continue
        if role not in {"system", "developer", *SIDES}:
            yield f"role {role}"
        if "name" in message and not re.fullmatch(r"[^\s<|\\/>]{1,64}", message["name"]):
            yield f"name {message['name']!r}"
        calls = message.get("tool_calls")
        if calls is not None and (role != "assistant" or not calls):
            yield "tool_calls that are empty, or not the assistant's"
        for call in calls or ():
            yield from openai_call(call["id"], call["function"])
            if call["id"] in seen:
                yield f"call id twice: {call['id']}"
            seen.add(call["id"])
            waiting.append(call["id"])
        if content is None and not calls:
            yield "no content"
        yield from openai_content(content, {"user": CHAT}.get(role, {"text"}))
    # What still waits at the end is what the program answers next.


CHAT = {"text", "image_url", "input_audio", "file"}


def openai_call(id, function):
    if not isinstance(id, str) or not 0 < len(id) <= 40:
        yield f"call id {id!r}"
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function["name"]):
        yield f"function name {function['name']!r}"
    if not is_object(function["arguments"]):
        yield f"arguments {function['arguments']!r}"


def openai_content(content, kinds):
    if isinstance(content, str):
        if not content.strip():
            yield "blank text"
        return
    for block in content or ():
        kind = block["type"]
        if kind not in kinds:
            yield f"{kind} where it is not taken"
        elif kind in {"text", "input_text"} and not block["text"].strip():
            yield "blank text"
        elif kind == "image_url":
            yield from openai_picture(block["image_url"]["url"])
        elif kind == "input_image" and "file_id" not in block:
            yield from openai_picture(block["image_url"])
        elif kind == "input_audio":
            sound = block["input_audio"]
            if sound["format"] not in {"wav", "mp3"} or not is_base64(sound["data"]):
                yield f"sound {sound['format']}"
        elif kind in {"file", "input_file"}:
            file = block["file"] if kind == "file" else block
            given = {"file_id", "file_data", "file_url"} & file.keys()
            if len(given) != 1 or (kind == "file" and "file_url" in given):
                yield f"file of {given}"
            elif "file_data" in given and (
                of_data_url(file["file_data"]) != "application/pdf" or not file["filename"]
            ):
                yield f"file_data {file['file_data'][:40]}"


def openai_picture(url):
    if not re.match(r"https?://[^\s/]+", url) and of_data_url(url) not in PICTURES:
        yield f"picture {url[:40]}"


# OpenAI's Responses: https://platform.openai.com/docs/api-reference/responses/create


def openai_responses(request):
    items = request["input"]
    if not items:
        yield "input is empty"
    made, answered = {}, set()
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "message":
            if item["role"] not in {"system", "developer", *SIDES}:
                yield f"role {item['role']}"
            if item.keys() - {"type", "role", "content"}:
                yield f"unknown fields {sorted(item)}"
            taken = {"input_text", "input_image", "input_file"} if item["role"] == "user" else set()
            yield from openai_content(item["content"], taken)
            if not item["content"]:
                yield "no content"
        elif kind == "function_call":
            yield from openai_call(item["call_id"], item)
            if item["call_id"] in made:
                yield f"call id twice: {item['call_id']}"
            made[item["call_id"]] = index
        elif kind == "function_call_output":
            if item["call_id"] not in made or item["call_id"] in answered:
                yield f"output without a call: {item['call_id']}"
            answered.add(item["call_id"])
            yield from openai_content(item["output"], {"input_text", "input_image", "input_file"})
            if not item["output"]:
                yield "no output"
        elif kind == "reasoning":
            after = items[index + 1] if index + 1 < len(items) else {}
            is_models = after.get("role") == "assistant" or after.get("type") in {
                "function_call", "reasoning"
            }  # fmt: skip
            if not is_models:
                yield "reasoning without the item that follows it"
        elif kind != "compaction":
            yield f"item {kind}"
    end = [one.get("type") in {"function_call", "function_call_output"} for one in items]
    tail = len(end) - (end[::-1].index(False) if False in end else len(end))
    for id, index in made.items():
        if id not in answered and index < tail:
            yield f"no output for {id}"


# Anthropic's Messages: https://docs.anthropic.com/en/api/messages


def anthropic(request):
    sent = request["messages"]
    if not sent:
        yield "messages: at least one message is required"
    elif sent[0]["role"] != "user":
        yield "first message must use the user role"
    marks = 0
    for block in request.get("system", ()):
        marks += "cache_control" in block
        if block["type"] != "text" or not block["text"].strip():
            yield "a system block that is not text"
    waiting, seen = set(), set()
    for index, message in enumerate(sent):
        role, blocks = message["role"], message["content"]
        if role not in SIDES:
            yield f"role {role}"
        if index and role == sent[index - 1]["role"] == "assistant":
            yield "roles do not alternate"
        if not blocks:
            yield "content is empty"
        answers = [one["tool_use_id"] for one in blocks if one["type"] == "tool_result"]
        if any(one["type"] != "tool_result" for one in blocks[: len(answers)]):
            yield "tool_result blocks must come first"
        if len(set(answers)) < len(answers) or set(answers) - waiting:
            yield f"tool_result without tool_use: {answers}"
        is_open = index == len(sent) - 1 and len(answers) == len(blocks)
        if waiting - set(answers) and not is_open:
            yield f"tool_use without tool_result: {waiting - set(answers)}"
        waiting = set()
        for block in blocks:
            marks += "cache_control" in block
            yield from anthropic_block(block, role)
            if block["type"] == "tool_use":
                if block["id"] in seen:
                    yield f"tool_use ids must be unique: {block['id']}"
                waiting.add(block["id"])
                seen.add(block["id"])
    if marks > 4:
        yield f"{marks} cache_control blocks"
    if sent and sent[-1]["role"] == "assistant" and sent[-1]["content"]:
        text = sent[-1]["content"][-1].get("text", "")
        if text != text.rstrip():
            yield "final assistant content cannot end with trailing whitespace"


def anthropic_block(block, role, *, failed=False, inner=False):
    kind = block["type"]
    if kind == "text":
        if not block["text"].strip():
            yield "text content blocks must be non-empty"
    elif kind in {"image", "document"}:
        if role != "user" or failed:
            yield f"{kind} in an assistant's turn, or in a result that is an error"
        yield from anthropic_source(kind, block["source"])
    elif kind == "tool_use":
        if role != "assistant" or inner:
            yield "tool_use that is not the assistant's"
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["name"]):
            yield f"tool_use.name {block['name']!r}"
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
            yield f"tool_use.id {block['id']!r}"
        if not isinstance(block["input"], dict):
            yield "tool_use.input must be an object"
    elif kind == "tool_result":
        if role != "user" or inner:
            yield "tool_result that is not the user's"
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["tool_use_id"]):
            yield f"tool_use_id {block['tool_use_id']!r}"
        for one in block.get("content", ()):
            yield from anthropic_block(one, role, failed=block.get("is_error"), inner=True)
    elif kind in {"thinking", "redacted_thinking"}:
        if role != "assistant" or inner or "cache_control" in block:
            yield f"{kind} out of its place"
    elif kind != "compaction":
        yield f"block {kind}"


def anthropic_source(kind, source):
    if source["type"] == "base64":
        types = PICTURES if kind == "image" else {"application/pdf"}
        if source["media_type"] not in types or not is_base64(source["data"]):
            yield f"{kind} {source['media_type']}"
    elif source["type"] == "url":
        if not re.match(r"https://[^\s/]+", source["url"]):
            yield f"only HTTPS URLs are supported: {source['url']}"
    elif source["type"] == "text":
        if kind != "document" or source["media_type"] != "text/plain" or not source["data"].strip():
            yield "a source of text that is none"
    elif source["type"] != "file" or not source["file_id"]:
        yield f"source {source['type']}"


# Google's Gemini: https://ai.google.dev/api/generate-content

GEMINI_TYPES = re.compile(
    r"image/(png|jpeg|webp|heic|heif)|audio/(wav|mp3|mpeg|aiff|aac|ogg|flac)"
    r"|video/(mp4|mpeg|mov|quicktime|avi|x-flv|mpg|webm|wmv|3gpp)|application/pdf|text/plain"
)
GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")


def gemini(request):
    contents = request["contents"]
    if not contents:
        yield "contents is not specified"
    elif contents[0]["role"] != "user":
        yield "the first content must be a user's"
    for part in request.get("systemInstruction", {"parts": ()})["parts"]:
        if not part["text"].strip():
            yield "an empty instruction"
    waiting = []
    for index, content in enumerate(contents):
        role, parts = content["role"], content["parts"]
        if role not in {"user", "model"}:
            yield f"role {role}"
        if index and contents[index - 1]["role"] == role:
            yield "roles do not alternate"
        if not parts:
            yield "parts must not be empty"
        answers = [p["functionResponse"]["name"] for p in parts if "functionResponse" in p]
        is_open = index == len(contents) - 1 and len(answers) == len(parts)
        if len(answers) != len(waiting) and not (is_open and len(answers) < len(waiting)):
            yield f"{len(answers)} function responses for {len(waiting)} calls"
        if set(answers) - set(waiting):
            yield f"function responses of {answers}, where {waiting} were called"
        waiting = [p["functionCall"]["name"] for p in parts if "functionCall" in p]
        if waiting and role != "model":
            yield "a function call of a user"
        calls = [p for p in parts if "functionCall" in p]
        if calls and not calls[0].get("thoughtSignature"):
            yield "function call is missing a thought_signature"
        for part in parts:
            yield from gemini_part(part, role)


def gemini_part(part, role):
    kinds = part.keys() - {"thought", "thoughtSignature"}
    if len(kinds) != 1:
        yield f"a part of {sorted(kinds)}"
    if "text" in part and not part["text"].strip() and not part.get("thought"):
        yield "an empty text parameter"
    for key in ("functionCall", "functionResponse"):
        if key in part and not GEMINI_NAME.fullmatch(part[key]["name"]):
            yield f"function name {part[key]['name']!r}"
    if "functionCall" in part and not isinstance(part["functionCall"]["args"], dict):
        yield "args is no Struct"
    if "functionResponse" in part and not isinstance(part["functionResponse"]["response"], dict):
        yield "response is no Struct"
    media = part.get("inlineData") or part.get("fileData")
    if media is not None:
        if role != "user":
            yield "media in a turn of the model's"
        if not GEMINI_TYPES.fullmatch(media.get("mimeType") or ""):
            yield f"unsupported MIME type: {media.get('mimeType')}"
        if "inlineData" in part and not is_base64(media["data"]):
            yield "inlineData that is not base64"
        if "fileData" in part and not re.match(r"(https|gs)://[^\s/]+", media["fileUri"]):
            yield f"fileUri {media['fileUri']}"


def plain(request):
    if not request["messages"]:
        yield "no messages"
    for message in request["messages"]:
        if message["role"] not in {"system", "tool", *SIDES}:
            yield f"role {message['role']}"
        if not message["content"].strip():
            yield "blank text"


BY_DIALECT = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "plain": plain,
}
