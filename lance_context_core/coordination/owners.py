"""Who asks for a lock, where no name is given."""

import asyncio
import itertools
import threading
from weakref import WeakKeyDictionary

_names = itertools.count(1)
_of_tasks: "WeakKeyDictionary[object, str]" = WeakKeyDictionary()
_of_threads = threading.local()


def current_owner() -> str:
    """A name for the task that asks, or for the thread where there is none; for as long as it lives."""
    try:
        task: object | None = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is None:
        if not hasattr(_of_threads, "owner"):
            _of_threads.owner = f"thread {next(_names)}"
        return str(_of_threads.owner)
    if task not in _of_tasks:
        _of_tasks[task] = f"task {next(_names)}"
    return _of_tasks[task]
