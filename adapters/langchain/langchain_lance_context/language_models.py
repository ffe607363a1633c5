"""LangChain's chat models as the store's language models."""

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from lance_context_core import InvalidRequestError, Message
from lance_context_core.models import Completion, LanguageModel, ModelRequest


def language_model(model: BaseChatModel, *, name: str | None = None) -> LanguageModel:
    """A chat model as a `LanguageModel` of the store, such as for `knowledge.using(model=…)`.

    It is called in a thread, by `invoke`, and answers with JSON in a text. `name` identifies it;
    absent means the model's own name.
    """
    if not isinstance(model, BaseChatModel):
        raise InvalidRequestError(f"model is {model!r:.80}: pass a chat model of LangChain")
    return _ChatModel(model, name or _name_of(model))


class _ChatModel:
    def __init__(self, model: BaseChatModel, name: str) -> None:
        self.name = name
        self._model = model

    def complete(self, request: ModelRequest) -> Completion:
        """The model's answer.

        A client that is called in a thread needs no event loop of this process.
        """
        limits: dict[str, Any] = (
            {} if request.max_output is None else {"max_tokens": request.max_output}
        )
        answer = self._model.invoke(_given(request.messages), **limits)
        usage = getattr(answer, "usage_metadata", None) or {}
        return Completion(
            text=str(answer.text),
            usage={
                name: usage[name] for name in ("input_tokens", "output_tokens") if name in usage
            },
        )


def _given(messages: Sequence[Message]) -> list[BaseMessage]:
    kinds = {"system": SystemMessage, "assistant": AIMessage}
    return [kinds.get(one.role, HumanMessage)(one.text) for one in messages]


def _name_of(model: BaseChatModel) -> str:
    for name in ("model_name", "model"):
        if isinstance(found := getattr(model, name, None), str) and found:
            return found
    return type(model).__name__
