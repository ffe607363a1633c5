"""Functions of a prompt, and the models of LangChain and LlamaIndex, as language models."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from lance_context_core._util.checks import check_name, shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.models.asking import Completion, FunctionModel, LanguageModel, ModelRequest

_WAYS_OUT = (
    "pass OpenAIModel(name, base_url=...), AnthropicModel(name), a chat model of LangChain, an LLM of "
    "LlamaIndex, or a function of a prompt"
)


def as_model(value: object, where: str = "model", *, name: str | None = None) -> LanguageModel:
    """`value` as a model, with a name. Raises InvalidRequestError if it is not one."""
    if isinstance(value, str):
        raise InvalidRequestError(
            f"{where}={value!r} is a name: pass OpenAIModel({value!r}), or AnthropicModel({value!r})"
        )
    if isinstance(value, type):
        raise InvalidRequestError(f"{where} is the class {value.__name__}: pass an object of it")
    if (kind := _client(value)) is not None:
        client, model = kind
        raise InvalidRequestError(
            f"{where} is a client of {client}, which has many models: pass {model}(name)"
        )
    if _has(value, "chat", "structured_predict"):
        return OfLlamaIndex(value, name or _name_of(value))
    if _has(value, "invoke", "with_structured_output"):
        return OfLangChain(value, name or _name_of(value))
    if isinstance(value, LanguageModel) and callable(value.complete):
        check_name(value.name, f"{where}.name")
        return value
    if callable(value):
        _require_a_prompt(value, where)
        return FunctionModel(value, name=name or _function_name(value))
    raise InvalidRequestError(f"{where} is {shown(value)}, and no model: {_WAYS_OUT}")


def _require_a_prompt(function: Callable[..., Any], where: str) -> None:
    """Raise InvalidRequestError unless the function can be called with one text."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # A builtin does not say what it takes.
    try:
        signature.bind("")
    except TypeError as error:
        raise InvalidRequestError(
            f"{where} is {shown(function)}, which is not a function of one prompt: {error}"
        ) from error


def says_sentences(function: Callable[..., Any]) -> bool:
    """Whether a function paraphrases: its parameter is called `sentences`."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return False
    return names[:1] == ["sentences"]


class OfLangChain:
    """A chat model of LangChain: calls `invoke`, or `with_structured_output` for a schema."""

    def __init__(self, model: Any, name: str) -> None:
        self.name = check_name(name, "model.name")
        self._model = model
        self._is_structured = True

    def complete(self, request: ModelRequest) -> Completion:
        """The model's answer, requested in a thread, without an event loop."""
        messages = [(_ROLES.get(one.role, "human"), one.text) for one in request.messages]
        limits = {} if request.max_output is None else {"max_tokens": request.max_output}
        if request.schema is not None and self._is_structured:
            schema = {"title": "answer", "description": "The answer.", **request.schema}
            try:
                asked = self._model.with_structured_output(schema, include_raw=True)
            except (NotImplementedError, TypeError, ValueError):
                self._is_structured = False  # It has none: the schema stands in the question.
            else:
                return _structured(asked.invoke(messages, **limits))
        answer = self._model.invoke(messages, **limits)
        return Completion(text=_words_of(answer), usage=_counted(answer))


_ROLES = {"system": "system", "assistant": "ai"}


def _structured(answer: Any) -> Completion:
    """The parsed structured answer; else its text, which may still be JSON."""
    if not isinstance(answer, Mapping) or "raw" not in answer:
        return Completion(data=answer) if isinstance(answer, Mapping) else Completion()
    parsed, raw = answer.get("parsed"), answer["raw"]
    data = dict(parsed) if isinstance(parsed, Mapping) else None
    return Completion(text=_words_of(raw), data=data, usage=_counted(raw))


def _words_of(answer: Any) -> str:
    content = getattr(answer, "content", answer)
    if isinstance(content, list):
        parts = [one.get("text", "") if isinstance(one, Mapping) else one for one in content]
        return "".join(one for one in parts if isinstance(one, str))
    return content if isinstance(content, str) else ""


def _counted(answer: Any) -> dict[str, int]:
    told = getattr(answer, "usage_metadata", None) or {}
    names = ("input_tokens", "output_tokens")
    return {name: told[name] for name in names if type(told.get(name)) is int}


class OfLlamaIndex:
    """An LLM of LlamaIndex: calls `complete`, which chat models have too."""

    def __init__(self, llm: Any, name: str) -> None:
        self.name = check_name(name, "model.name")
        self._llm = llm

    def complete(self, request: ModelRequest) -> Completion:
        """The LLM's answer, requested in a thread, without an event loop."""
        limits = {} if request.max_output is None else {"max_tokens": request.max_output}
        answer = self._llm.complete(request.prompt, **limits)
        return Completion(text=answer.text or "", usage=_told(answer))


def _told(answer: Any) -> dict[str, int]:
    told = getattr(answer, "additional_kwargs", None) or {}
    names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    return {to: told[name] for name, to in names.items() if type(told.get(name)) is int}


def _has(value: object, *methods: str) -> bool:
    return all(callable(getattr(value, name, None)) for name in methods)


def _client(value: object) -> tuple[str, str] | None:
    """The framework of a client and the class that wraps it; None for other values."""
    chat = getattr(value, "chat", None)
    if callable(getattr(getattr(chat, "completions", None), "create", None)):
        return "OpenAI", "OpenAIModel"
    if callable(getattr(getattr(value, "messages", None), "create", None)):
        return "Anthropic", "AnthropicModel"
    return None


def _name_of(value: Any) -> str:
    told = getattr(value, "metadata", None)
    for one in (getattr(told, "model_name", None), *(getattr(value, n, None) for n in _NAMES)):
        if isinstance(one, str) and one:
            return one
    return type(value).__name__


_NAMES = ("model_name", "model")


def _function_name(function: Any) -> str:
    found = getattr(function, "__name__", "")
    return found if found.isidentifier() else type(function).__name__.strip("<>") or "function"
