"""AgentScope's chat models, of 1.x and 2.x, as the store's language models."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from lance_context_core import InvalidRequestError, Message
from lance_context_core.models import Completion, LanguageModel, ModelRequest


def language_model(model: Any, *, name: str | None = None) -> LanguageModel:
    """A chat model as a `LanguageModel` of the store, such as for `knowledge.using(model=…)`.

    It is awaited on the store's event loop, streaming or not, and answers with JSON in a text.
    Models of agentscope 1.x get plain messages with `role` and `content`, as OpenAI's formatter
    makes them; those of 2.x get AgentScope's own. `name` identifies it; absent means the model's
    name.
    """
    called = name or getattr(model, "model_name", None) or getattr(model, "model", None)
    if not callable(model) or not isinstance(called, str):
        raise InvalidRequestError(f"model is {model!r:.80}: pass a chat model of AgentScope")
    return _ChatModel(model, called)


class _ChatModel:
    def __init__(self, model: Any, name: str) -> None:
        self.name = name
        self._model = model

    async def complete(self, request: ModelRequest) -> Completion:
        """The model's answer; of a stream, all of it."""
        # Models of 1.x have a `model_name`, those of 2.x a `model`.
        given = _plain if hasattr(self._model, "model_name") else _messages
        limits: dict[str, Any] = (
            {} if request.max_output is None else {"max_tokens": request.max_output}
        )
        answer = await self._model(given(request.messages), **limits)
        if isinstance(answer, AsyncIterator):
            answer = await _last(answer)
        usage = getattr(answer, "usage", None)
        names = ("input_tokens", "output_tokens")
        counts = {one: getattr(usage, one, None) for one in names}
        return Completion(
            text="".join(map(_text, answer.content)),
            usage={one: count for one, count in counts.items() if isinstance(count, int)},
        )


async def _last(stream: AsyncIterator[Any]) -> Any:
    """The last chunk of a stream, which contains all of it in AgentScope."""
    found = None
    async for piece in stream:
        found = piece
    if found is None:
        raise ConnectionError("the model's stream ended before it said anything")
    return found


def _text(block: Any) -> str:
    told = block if isinstance(block, Mapping) else vars(block)
    return str(told.get("text") or "") if told.get("type") == "text" else ""


def _plain(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": one.role, "content": one.text} for one in messages]


def _messages(messages: Sequence[Message]) -> list[Any]:
    from agentscope_lance_context.agentscope2._framework import Msg, TextBlock

    return [
        Msg(name=one.role, role=one.role, content=[TextBlock(text=one.text)]) for one in messages
    ]
