"""Asking a model, which may block or be awaited; and a model of whatever can be called."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from lance_context_core._util.calls import called
from lance_context_core._util.checks import check_name, check_seconds, check_text, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError
from lance_context_core.models.values import Completion, LanguageModel, ModelRequest

Said = str | Mapping[str, Any] | Completion
"""What a called function may answer: a text, JSON, or all of it."""


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
        """What the function answers to `request.prompt`."""
        return completed(await called(self.call, request.prompt), self.name)


def check_model(value: object, where: str) -> LanguageModel:
    """`value` as a model. Refuses what has no name, or cannot be asked."""
    if not isinstance(value, LanguageModel) or not callable(value.complete):
        raise InvalidRequestError(
            f"{where} is {shown(value)}: it needs a name and complete(request); make one of a "
            "function with FunctionModel, or of a framework's model with its adapter's"
        )
    check_name(value.name, f"{where}.name")
    return value


async def ask(
    model: LanguageModel, request: ModelRequest, *, timeout: float | None = None
) -> Completion:
    """What a model answers to a question.

    - `timeout`: in seconds; after it TimeoutError is raised. A model that blocks is left to end by
      itself, and what it says then is not heard.

    Raises what the model raises, and InvalidRequestError if it returns no `Completion`.
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
    """Raise InvalidRequestError for a model that cannot be asked so, or within such a time."""
    check_model(model, "model")
    check_text(instructions, "instructions")
    check_seconds(timeout, "timeout")


def completed(answer: object, name: str) -> Completion:
    """What was returned, as an answer."""
    if isinstance(answer, Completion):
        return answer
    if isinstance(answer, str):
        return Completion(text=answer)
    if isinstance(answer, Mapping):
        return Completion(data=answer)
    raise InvalidRequestError(
        f"model {name!r} returned {shown(answer)}: it has to return a Completion, a text, or JSON"
    )
