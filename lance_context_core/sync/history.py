"""Conversations, from synchronous code."""

from lance_context_core.stores.history import AsyncHistory
from lance_context_core.sync._blocking import Blocking, blocking


class History(Blocking[AsyncHistory]):
    """The history of conversations; `AsyncHistory` is the asynchronous one."""

    append = blocking(AsyncHistory.append, begins_here=True)
    append_many = blocking(AsyncHistory.append_many, begins_here=True)
    replace = blocking(AsyncHistory.replace)
    pop = blocking(AsyncHistory.pop, begins_here=True)
    replace_tail = blocking(AsyncHistory.replace_tail)
    rewrite = blocking(AsyncHistory.rewrite)
    annotate = blocking(AsyncHistory.annotate)
    get_messages = blocking(AsyncHistory.get_messages, begins_here=True)
    count = blocking(AsyncHistory.count, begins_here=True)
    session_ids = blocking(AsyncHistory.session_ids)
    clear = blocking(AsyncHistory.clear)
    clear_run = blocking(AsyncHistory.clear_run)
    touch = blocking(AsyncHistory.touch)
    sweep = blocking(AsyncHistory.sweep)
    search = blocking(AsyncHistory.search)
