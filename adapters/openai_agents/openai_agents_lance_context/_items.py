"""Items of the SDK to canonical messages, one for each, and back.

The item itself is stored with its message, and reads back equal. Messages of other frameworks
are translated, each to one item or more.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agents import TResponseInputItem, UserError

from lance_context_core import (
    ImagePart,
    InvalidRequestError,
    Message,
    ReasoningPart,
    ToolCallPart,
    ToolResultPart,
)
from lance_context_core.adapting import arguments_of, arguments_text, encodable
from lance_context_core.messages import Part, UnknownPart
from openai_agents_lance_context._content import spoken, to_content, to_parts, without

FRAMEWORK = "openai_agents"

_ANSWERS = ("output", "outputs", "results")
"""Where calls that OpenAI runs itself hold what came of them."""

_ROLES = {"ai": "assistant", "model": "assistant", "human": "user"}


def to_canonical(items: Sequence[TResponseInputItem]) -> list[Message]:
    """Returns one message for each item, with the item in its native form.

    A tool's output gets the name of the tool if its call is among the items. Raises UserError for
    anything but objects of JSON.
    """
    if isinstance(items, str | Mapping) or not isinstance(items, Sequence):
        raise UserError(
            f"items={items!r:.80}: give a list of items, such as result.to_input_list()"
        )
    tools: dict[str, str] = {}
    return [_canonical(index, item, tools) for index, item in enumerate(items)]


def from_canonical(message: Message) -> list[TResponseInputItem]:
    """Returns the items of a message: the one that was stored, or translated ones, at least one."""
    native = message.native
    if native is None or native["framework"] != FRAMEWORK:
        items = list(_translated(message))
    else:
        items = [json.loads(native["json"]) if "json" in native else native["item"]]
    return items  # type: ignore[return-value]  # a union of some thirty classes of dictionaries


def text_of(item: Any) -> str:
    """Returns what a person would read of an item; "" if it says nothing."""
    parts = _said(item, {})[1] if isinstance(item, Mapping) else ()
    return Message(role="any", parts=tuple(parts)).text


# To messages


def _canonical(index: int, item: Any, tools: dict[str, str]) -> Message:
    if not isinstance(item, Mapping):
        raise UserError(
            f"items[{index}]={item!r:.80}: give a dictionary, such as "
            '{"role": "user", "content": "…"}'
        )
    native = {"framework": FRAMEWORK, "item": item}
    try:
        try:
            return _message(item, tools, native)
        except InvalidRequestError:
            # JSON escapes what no store can hold, such as lone surrogates.
            escaped = json.dumps(item, allow_nan=False)
            if (same := json.loads(escaped)) != item:
                raise
            return _message(encodable(same), tools, {"framework": FRAMEWORK, "json": escaped})
    except (InvalidRequestError, TypeError, ValueError, RecursionError) as error:
        said = str(error).replace("Message.native['item']", f"items[{index}]")
        raise UserError(f"items[{index}] cannot be stored as JSON: {said}") from error


def _message(item: Mapping[str, Any], tools: dict[str, str], native: Mapping[str, Any]) -> Message:
    role, parts = _said(item, tools)
    return Message(role=role, parts=tuple(parts), native=native)


def _said(item: Mapping[str, Any], tools: dict[str, str]) -> tuple[str, list[Part]]:
    """Returns the role and the parts of an item; notes the names of tools by their calls."""
    kind = item.get("type")
    if not isinstance(kind, str) or kind == "message":
        role = item.get("role")
        return role if isinstance(role, str) and role else "user", to_parts(item.get("content"))
    if kind == "reasoning":
        return "assistant", [_reasoning(item)]
    call_id = _text(item.get("call_id")) or _text(item.get("id"))
    if kind.endswith("_output"):
        name = tools.get(call_id or "")
        content = tuple(to_parts(item.get("output")))
        return "tool", [ToolResultPart(call_id=call_id, name=name, content=content)]
    if kind.endswith("_call"):
        call = _call(kind, call_id, item)
        if call_id and call.name:
            tools[call_id] = call.name
        return "assistant", [call, *_answered(call, item)]
    return "assistant", [UnknownPart(type=kind, payload=without(item, "type"))]


def _reasoning(item: Mapping[str, Any]) -> Part:
    thoughts = [*(item.get("summary") or ()), *(item.get("content") or ())]
    texts = [one.get("text") for one in thoughts if isinstance(one, Mapping)]
    return ReasoningPart(
        text="\n".join(text for text in texts if isinstance(text, str)),
        signature=_text(item.get("encrypted_content")),
        extra={"id": item["id"]} if item.get("id") else {},
    )


def _call(kind: str, call_id: str | None, item: Mapping[str, Any]) -> ToolCallPart:
    given = item.get("arguments", item.get("input"))
    if not isinstance(given, str | Mapping):
        given = without(item, "type", "id", "call_id", "status", "result", *_ANSWERS)
    name = _text(item.get("name")) or kind.removesuffix("_call")
    return ToolCallPart(call_id=call_id, name=name, arguments=arguments_of(given))


def _answered(call: ToolCallPart, item: Mapping[str, Any]) -> Iterator[Part]:
    """Yields the result of a call that holds its own."""
    content = [part for name in _ANSWERS for part in to_parts(item.get(name))]
    if picture := _text(item.get("result")):
        content.append(ImagePart.from_url(f"data:image/png;base64,{picture}"))
    if content:
        yield ToolResultPart(call_id=call.call_id, name=call.name, content=tuple(content))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


# From messages


def _translated(message: Message) -> Iterator[dict[str, Any]]:
    """Yields an item for each call, result and thought, and for what is said between them."""
    role = _ROLES.get(message.role, message.role)
    if role not in ("user", "assistant", "system", "developer"):
        role = "user"
    said: list[Part] = []
    n_items = 0
    for part in message.parts:
        item = _item(part)
        if item is None:
            said.append(part)
            continue
        for one in (*_spoken(role, said), item):
            n_items += 1
            yield one
        said = []
    yield from _spoken(role, said) or ([] if n_items else [{"role": role, "content": ""}])


def _item(part: Part) -> dict[str, Any] | None:
    """Returns the item of a part that is one of its own; None for what is said."""
    match part:
        case ToolCallPart():
            return {
                "type": "function_call",
                "call_id": part.call_id or part.name,
                "name": part.name,
                "arguments": arguments_text(part.arguments),
            }
        case ToolResultPart():
            return {
                "type": "function_call_output",
                "call_id": part.call_id or part.name or "",
                "output": to_content(part.content),
            }
        case ReasoningPart():
            return _thought(part)
        case UnknownPart(type="reasoning" | "compaction"):
            return {"type": part.type, **part.payload}
    return None


def _thought(part: ReasoningPart) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "reasoning", "summary": []}
    if part.text:
        item["summary"] = [{"type": "summary_text", "text": part.text}]
    id = part.extra.get("id")
    # The signature of another provider means nothing to OpenAI.
    if isinstance(id, str) and id.startswith("rs_"):
        item["id"] = id
        if part.signature:
            item["encrypted_content"] = part.signature
    return item


def _spoken(role: str, parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Returns what is said as messages: one of a user, one for each text of others."""
    if role == "user":
        content = to_content(parts)
        return [{"role": role, "content": content}] if content else []
    texts = [text for part in parts if (text := spoken(part))]
    return [{"role": role, "content": text} for text in texts]
