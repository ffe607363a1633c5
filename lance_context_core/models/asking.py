"""Requests to a model, its answers, and conversion of callables to models."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

from lance_context_core._util.calls import called
from lance_context_core._util.checks import (
    check_count,
    check_json,
    check_json_object,
    check_name,
    check_seconds,
    check_text,
    dumps,
    listed,
    shown,
)
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import Message


@frozen_by_name
class ModelRequest:
    """One question to a model, with everything it needs."""

    purpose: str
    """The task: `extract`, `consolidate` or `summarise`."""
    messages: tuple[Message, ...]
    """In order, as a chat model takes them; instructions are of the role `system`."""
    schema: Mapping[str, Any] | None = None
    """The JSON schema of the answer; None for a text."""
    max_output: int | None = None
    """In tokens; None leaves it to the model."""

    def __post_init__(self) -> None:
        messages = tuple(listed(self.messages, "ModelRequest.messages"))
        for one in messages:
            if not isinstance(one, Message):
                raise InvalidRequestError(f"ModelRequest.messages has {shown(one)}: pass Messages")
        plain: dict[str, object] = {
            "purpose": check_name(self.purpose, "ModelRequest.purpose"),
            "messages": messages,
        }
        if self.schema is not None:
            plain["schema"] = check_json_object(self.schema, "ModelRequest.schema")
        if self.max_output is not None:
            plain["max_output"] = check_count(self.max_output, "ModelRequest.max_output")
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @property
    def prompt(self) -> str:
        """The texts of all messages, for a model that takes one text."""
        return "\n\n".join(one.text for one in self.messages if one.text)

    @property
    def key(self) -> str:
        """The SHA-256 of `to_dict()` in canonical JSON: the same for the same question, anywhere."""
        return hashlib.sha256(dumps(self.to_dict()).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The question as JSON; of the messages their roles, names and texts."""
        return {
            "purpose": self.purpose,
            "messages": [
                {"role": one.role, **({"name": one.name} if one.name else {}), "text": one.text}
                for one in self.messages
            ],
            "schema": None if self.schema is None else dict(self.schema),
            "max_output": self.max_output,
        }


@frozen_by_name
class Completion:
    """The answer of a model."""

    text: str = ""
    """The unchanged answer; may contain JSON and surrounding text."""
    data: Any = None
    """The answer as JSON, where the model gives it so; then it counts, and not the text."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """The usage, such as `input_tokens` and `output_tokens`."""

    def __post_init__(self) -> None:
        usage = check_json_object(self.usage, "Completion.usage")
        for name, amount in usage.items():
            check_count(amount, f"Completion.usage[{name!r}]", least=0)
        object.__setattr__(self, "text", check_text(self.text, "Completion.text"))
        object.__setattr__(self, "data", check_json(self.data, "Completion.data"))
        object.__setattr__(self, "usage", usage)


@runtime_checkable
class LanguageModel(Protocol):
    """Answers questions. The adapters make one of any model of their framework."""

    @property
    def name(self) -> str:
        """The name, which distinguishes its results from those of other models."""
        ...

    def complete(self, request: ModelRequest) -> Completion | Awaitable[Completion]:
        """Return the answer, or an awaitable of it; a blocking function runs in a thread.

        If it raises, as on a network failure or a rate limit, the work is done later.
        """
        ...


# Asking a model, which may block or be awaited; and a model of whatever can be called.

Said = str | Mapping[str, Any] | Completion
"""The return value of a model function: a text, JSON, or a `Completion`."""


@frozen
class FunctionModel:
    """A model of a function from the text of a prompt to the text of an answer.

    The function may be a coroutine, and may return a mapping in place of JSON, or a `Completion`.
    """

    call: Callable[[str], Said | Awaitable[Said]]
    name: str = "function"

    def __post_init__(self) -> None:
        if not callable(self.call):
            raise InvalidRequestError(f"call is {shown(self.call)}: pass what can be called")
        check_name(self.name, "name")

    async def complete(self, request: ModelRequest) -> Completion:
        """The answer of the function to `request.prompt`."""
        return completed(await called(self.call, request.prompt), self.name)


def check_model(value: object, where: str) -> LanguageModel:
    """`value` as a model. Refuses a value without a name, or one that cannot be called."""
    if not isinstance(value, LanguageModel) or not callable(value.complete):
        raise InvalidRequestError(
            f"{where} is {shown(value)}: it needs a name and complete(request); make one of a "
            "function with FunctionModel, or pass what model= of knowledge.using makes one of"
        )
    check_name(value.name, f"{where}.name")
    return value


async def ask(
    model: LanguageModel, request: ModelRequest, *, timeout: float | None = None
) -> Completion:
    """Ask the model and return its answer.

    - `timeout`: in seconds; after it TimeoutError is raised. A blocking model runs on, and its
      answer is ignored.

    Raises the model's exceptions, and InvalidRequestError if it returns no `Completion`.
    """
    if timeout is not None:
        check_seconds(timeout, "timeout")
    try:
        answer = await asyncio.wait_for(called(model.complete, request), timeout)
    except TimeoutError as error:
        if timeout is None or str(error):
            raise
        raise TimeoutError(f"model {model.name!r} took more than {timeout:g} seconds") from error
    return completed(answer, model.name)


def check_asking(model: object, instructions: object, timeout: object) -> None:
    """Raise InvalidRequestError for an unusable model or timeout."""
    check_model(model, "model")
    check_text(instructions, "instructions")
    check_seconds(timeout, "timeout")


def completed(answer: object, name: str) -> Completion:
    """The returned value as a `Completion`."""
    if isinstance(answer, Completion):
        return answer
    if isinstance(answer, str):
        return Completion(text=answer)
    if isinstance(answer, Mapping):
        return Completion(data=answer)
    raise InvalidRequestError(
        f"model {name!r} returned {shown(answer)}: it has to return a Completion, a text, or JSON"
    )
