"""Templates, from synchronous code."""

from lance_context_core.coordination.templates import AsyncTemplates
from lance_context_core.sync._blocking import Blocking, blocking


class Templates(Blocking[AsyncTemplates]):
    """The templates of a store; `AsyncTemplates` is the asynchronous one."""

    get = blocking(AsyncTemplates.get)
    list = blocking(AsyncTemplates.list)
    search = blocking(AsyncTemplates.search)
    versions = blocking(AsyncTemplates.versions)
    save = blocking(AsyncTemplates.save)
    render = blocking(AsyncTemplates.render)
    delete = blocking(AsyncTemplates.delete)
