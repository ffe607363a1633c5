"""Sessions, from synchronous code."""

from lance_context_core.stores.sessions import AsyncSessions
from lance_context_core.sync._blocking import Blocking, blocking


class Sessions(Blocking[AsyncSessions]):
    """The sessions of the store; `AsyncSessions` is the asynchronous one."""

    create = blocking(AsyncSessions.create)
    get = blocking(AsyncSessions.get)
    update = blocking(AsyncSessions.update)
    list = blocking(AsyncSessions.list)
    count = blocking(AsyncSessions.count)
    delete = blocking(AsyncSessions.delete)
    sweep = blocking(AsyncSessions.sweep)
