"""Records each task's read of a conversation, so that its later calls refer to it."""

import asyncio
from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary


class Looks:
    """The messages that each task saw in its last read of a conversation.

    LlamaIndex's `Memory` reads a conversation, decides how many messages are too many, and passes
    only that number. Of two concurrent tasks the second one would otherwise remove further messages
    instead of those that the first one removed already.
    """

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[asyncio.Task[object], tuple[str, Sequence[str]]]
        self._seen = WeakKeyDictionary()

    def note(self, key: str, ids: Iterable[str]) -> None:
        """Records that this task read the conversation `key`: the ids, oldest first."""
        if (task := asyncio.current_task()) is not None:
            self._seen[task] = key, list(ids)

    def seen(self, key: str) -> Sequence[str]:
        """The ids that this task saw, unless it read or changed a conversation since."""
        task = asyncio.current_task()
        of, ids = self._seen.get(task, (key, ())) if task is not None else (key, ())
        return ids if of == key else ()

    def drop(self, key: str, n: int) -> None:
        """Records that this task archived the first `n` of them."""
        if ids := self.seen(key):
            self.note(key, ids[n:])

    def forget(self) -> None:
        """Records that this task changed the conversation itself."""
        if (task := asyncio.current_task()) is not None:
            self._seen.pop(task, None)
