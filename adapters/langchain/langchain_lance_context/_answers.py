"""Converts prompts to cache keys and texts, and answers to JSON and back."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

from langchain_core.messages import message_chunk_to_message
from langchain_core.outputs import ChatGeneration, Generation

from lance_context_core import InvalidRequestError, Message
from langchain_lance_context._messages import from_canonical, to_canonical
from langchain_lance_context._values import decode, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The prompt of a model, and the place of its answer in the cache."""

    namespace: tuple[str, ...]
    """Must match exactly: the model with its parameters, and the messages before the last one."""
    key: str
    meaning: str
    """Is compared by meaning."""

    @classmethod
    def of(cls, prompt: str, llm_string: str) -> Self:
        """The prompt as LangChain passes it: a text, or serialized messages."""
        for name, value in (("prompt", prompt), ("llm_string", llm_string)):
            if not isinstance(value, str):
                raise InvalidRequestError(f"{name}={value!r:.80}: give a text")
        frame, meaning = _split(prompt)
        return cls(
            namespace=(_digest(llm_string), _digest(frame)), key=_digest(prompt), meaning=meaning
        )


def to_json(generations: Iterable[Generation]) -> bytes:
    """Answers as JSON that `from_json` makes equal to them again.

    A chunk is stored as the complete message. Raises InvalidRequestError for a value that is not an
    answer or cannot be stored.
    """
    if isinstance(generations, str | bytes) or not isinstance(generations, Iterable):
        raise InvalidRequestError(f"return_val={generations!r:.80}: give a list of generations")
    return json.dumps([_to_dict(one) for one in generations], ensure_ascii=False).encode()


def from_json(data: bytes | None) -> list[Generation]:
    """The inverse of `to_json`."""
    return [_from_dict(one) for one in json.loads(data or b"[]")]


def _to_dict(generation: Generation) -> dict[str, Any]:
    if not isinstance(generation, Generation):
        raise InvalidRequestError(f"{generation!r:.80} is not an answer: give a Generation")
    made: dict[str, Any] = {
        "info": encode(generation.generation_info, "generation_info"),
    }
    if isinstance(generation, ChatGeneration):
        message = message_chunk_to_message(generation.message)
        return made | {"message": to_canonical(message).to_dict()}
    return made | {"text": generation.text}


def _from_dict(made: dict[str, Any]) -> Generation:
    info = decode(made["info"])
    if "message" not in made:
        return Generation(text=made["text"], generation_info=info)
    [message] = from_canonical(Message.from_dict(made["message"]))
    return ChatGeneration(message=message, generation_info=info)


def _split(prompt: str) -> tuple[str, str]:
    """The part that must match exactly, and the text that is compared by meaning."""
    messages = _messages(prompt)
    if messages is None:
        return "", prompt
    last = messages[-1].get("kwargs") if isinstance(messages[-1], dict) else None
    if not isinstance(last, dict) or last.get("type") != "human":
        return prompt, ""
    content = last.get("content")
    if isinstance(content, str):
        texts, others = [content], []
    else:
        blocks = content if isinstance(content, list) else []
        texts = [text for one in blocks if (text := _text(one)) is not None]
        others = [one for one in blocks if _text(one) is None]
    frame = [*messages[:-1], {**messages[-1], "kwargs": {**last, "content": others}}]
    return json.dumps(frame, sort_keys=True), "\n".join(texts)


def _messages(prompt: str) -> list[Any] | None:
    """The messages that LangChain serialized; None if the prompt is a plain text."""
    if not prompt.startswith("["):
        return None
    try:
        read = json.loads(prompt)
    except (ValueError, RecursionError):
        return None
    is_serialised = isinstance(read, list) and all(
        isinstance(one, dict) and one.get("lc") == 1 for one in read
    )
    return read if is_serialised and read else None


def _text(block: Any) -> str | None:
    if isinstance(block, str):
        return block
    is_text = isinstance(block, dict) and set(block) == {"type", "text"}
    return str(block["text"]) if is_text and block["type"] == "text" else None


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()
