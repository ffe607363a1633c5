"""What each task has read of a conversation, so that what it says of it afterwards is of that."""

import asyncio
from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary


class Looks:
    """The messages that each task saw when it last read a conversation, as long as it runs.

    LlamaIndex's `Memory` reads a conversation, decides how many of its messages are too many, and
    says that number alone. Of two that do so at the same time the second would mean those that the
    first one has let go of already, and take others for them.
    """

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[asyncio.Task[object], tuple[str, Sequence[str]]]
        self._seen = WeakKeyDictionary()

    def note(self, key: str, ids: Iterable[str]) -> None:
        """This task sees the conversation `key`: an id for each message, oldest first."""
        if (task := asyncio.current_task()) is not None:
            self._seen[task] = key, list(ids)

    def seen(self, key: str) -> Sequence[str]:
        """The ids that this task saw, unless it has seen another conversation since, or changed it."""
        task = asyncio.current_task()
        of, ids = self._seen.get(task, (key, ())) if task is not None else (key, ())
        return ids if of == key else ()

    def drop(self, key: str, n: int) -> None:
        """This task has let go of the first `n` of them."""
        if ids := self.seen(key):
            self.note(key, ids[n:])

    def forget(self) -> None:
        """This task has changed the conversation itself."""
        if (task := asyncio.current_task()) is not None:
            self._seen.pop(task, None)
