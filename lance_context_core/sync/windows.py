"""The windows that were kept, from synchronous code."""

from lance_context_core.sync._blocking import Blocking, blocking, giving
from lance_context_core.sync.knowledge import Jobs
from lance_context_core.window.windows import AsyncWindows


class Windows(Blocking[AsyncWindows]):
    """The windows that agents were shown; `AsyncWindows` is the asynchronous one."""

    keep = blocking(AsyncWindows.keep)
    get = blocking(AsyncWindows.get)
    cite = blocking(AsyncWindows.cite)
    list = blocking(AsyncWindows.list)
    jobs = giving(AsyncWindows.jobs, Jobs)
