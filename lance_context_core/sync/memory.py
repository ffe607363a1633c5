"""Long-term memories, from synchronous code."""

from lance_context_core.stores.memory import AsyncMemory
from lance_context_core.sync._blocking import Blocking, blocking


class Memory(Blocking[AsyncMemory]):
    """The memories of users; `AsyncMemory` is the asynchronous one."""

    add = blocking(AsyncMemory.add)
    search = blocking(AsyncMemory.search)
    list = blocking(AsyncMemory.list)
    latest = blocking(AsyncMemory.latest)
    delete = blocking(AsyncMemory.delete)
    clear = blocking(AsyncMemory.clear)
