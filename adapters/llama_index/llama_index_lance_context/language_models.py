"""LlamaIndex's LLMs as the store's language models."""

from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import LLM

from lance_context_core import InvalidRequestError
from lance_context_core.models import Completion, LanguageModel, ModelRequest


def language_model(llm: LLM, *, name: str | None = None) -> LanguageModel:
    """An LLM as a `LanguageModel` of the store, such as for `knowledge.using(model=…)`.

    It is called in a thread, by `chat`, or by `complete` if it is not a chat model, and answers
    with JSON in a text. `name` identifies it; absent means the name in its metadata.
    """
    if not isinstance(llm, LLM):
        raise InvalidRequestError(f"llm is {llm!r:.80}: pass an LLM of LlamaIndex")
    return _LLM(llm, name or llm.metadata.model_name)


class _LLM:
    def __init__(self, llm: LLM, name: str) -> None:
        self.name = name
        self._llm = llm

    def complete(self, request: ModelRequest) -> Completion:
        """The LLM's answer. It is called in a thread, without an event loop of this process."""
        limits: dict[str, Any] = (
            {} if request.max_output is None else {"max_tokens": request.max_output}
        )
        if not self._llm.metadata.is_chat_model:
            return Completion(text=self._llm.complete(request.prompt, **limits).text)
        messages = [ChatMessage(role=one.role, content=one.text) for one in request.messages]
        answer = self._llm.chat(messages, **limits)
        return Completion(text=answer.message.content or "", usage=_usage(answer.additional_kwargs))


def _usage(told: Any) -> dict[str, int]:
    """The usage, under the names of most providers."""
    names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    return {to: told[name] for name, to in names.items() if isinstance((told or {}).get(name), int)}
