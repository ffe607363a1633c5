"""The state of sessions, from synchronous code."""

from lance_context_core.coordination.state import AsyncShortTermState
from lance_context_core.sync._blocking import Blocking, blocking


class ShortTermState(Blocking[AsyncShortTermState]):
    """The state of each session; `AsyncShortTermState` is the asynchronous one."""

    get = blocking(AsyncShortTermState.get)
    set = blocking(AsyncShortTermState.set)
    patch = blocking(AsyncShortTermState.patch)
    clear = blocking(AsyncShortTermState.clear)
