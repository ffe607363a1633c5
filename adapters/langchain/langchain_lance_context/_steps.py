"""Work on key-value items that is written once, for blocking and for asynchronous callers.

It is a generator, which yields what it wants of the items and is sent what it gets.
"""

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from lance_context_core import KeyValueStore

T = TypeVar("T")

_MAX_INLINE_BYTES = 64 * 1024
"""More are not converted on an event loop, which would stand still for milliseconds."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A call of the items' verb of that name."""

    verb: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Convert:
    """Work without waiting, which takes long if there are many bytes."""

    work: Callable[[], Any]
    n_bytes: int


Steps: TypeAlias = Generator[Ask | Convert, Any, T]


def ask(verb: str, **arguments: Any) -> Generator[Ask, Any, Any]:
    """What the items answer to a call."""
    return (yield Ask(verb, arguments))


def convert(work: Callable[[], T], *, n_bytes: int) -> Generator[Convert, Any, T]:
    """The result of `work`, which is done beside the event loop if there is one to spare."""
    done: T = yield Convert(work, n_bytes)
    return done


def run(items: Any, steps: Steps[T]) -> T:
    """Do the steps, and block until they are done."""
    answer: Any = None
    try:
        while True:
            step = steps.send(answer)
            if isinstance(step, Ask):
                answer = getattr(items, step.verb)(**step.arguments)
            else:
                answer = step.work()
    except StopIteration as done:
        result: T = done.value
        return result


async def arun(items: KeyValueStore, steps: Steps[T]) -> T:
    """Do the steps, awaiting the items."""
    answer: Any = None
    try:
        while True:
            step = steps.send(answer)
            if isinstance(step, Ask):
                answer = await getattr(items, step.verb)(**step.arguments)
            elif step.n_bytes > _MAX_INLINE_BYTES:
                answer = await asyncio.to_thread(step.work)
            else:
                answer = step.work()
    except StopIteration as done:
        result: T = done.value
        return result
