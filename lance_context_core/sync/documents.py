"""Files in the store, from synchronous code."""

from lance_context_core.documents.documents import AsyncDocuments
from lance_context_core.sync._blocking import Blocking, blocking


class Documents(Blocking[AsyncDocuments]):
    """Files that were read, and the passages in them; `AsyncDocuments` is the asynchronous one."""

    add = blocking(AsyncDocuments.add)
    add_many = blocking(AsyncDocuments.add_many)
    search = blocking(AsyncDocuments.search)
    get = blocking(AsyncDocuments.get)
    list = blocking(AsyncDocuments.list)
    count = blocking(AsyncDocuments.count)
    chunks = blocking(AsyncDocuments.chunks)
    text = blocking(AsyncDocuments.text)
    content = blocking(AsyncDocuments.content)
    update = blocking(AsyncDocuments.update)
    delete = blocking(AsyncDocuments.delete)
    erase = blocking(AsyncDocuments.erase)
