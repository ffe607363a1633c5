"""Conversations, from synchronous code."""

from lance_context_core.stores.history import AsyncHistory
from lance_context_core.sync._blocking import Blocking, blocking


class History(Blocking[AsyncHistory]):
    """The history of conversations; `AsyncHistory` is the asynchronous one."""

    append = blocking(AsyncHistory.append)
    append_many = blocking(AsyncHistory.append_many)
    replace = blocking(AsyncHistory.replace)
    pop = blocking(AsyncHistory.pop)
    replace_tail = blocking(AsyncHistory.replace_tail)
    rewrite = blocking(AsyncHistory.rewrite)
    annotate = blocking(AsyncHistory.annotate)
    get_messages = blocking(AsyncHistory.get_messages)
    count = blocking(AsyncHistory.count)
    session_ids = blocking(AsyncHistory.session_ids)
    clear = blocking(AsyncHistory.clear)
    clear_run = blocking(AsyncHistory.clear_run)
    touch = blocking(AsyncHistory.touch)
    sweep = blocking(AsyncHistory.sweep)
    search = blocking(AsyncHistory.search)
