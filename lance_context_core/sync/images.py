"""Pictures in the store, from synchronous code."""

from lance_context_core.media.images import AsyncImages
from lance_context_core.sync._blocking import Blocking, blocking


class Images(Blocking[AsyncImages]):
    """Pictures, recordings and films; `AsyncImages` is the asynchronous one."""

    add = blocking(AsyncImages.add)
    search = blocking(AsyncImages.search)
    similar = blocking(AsyncImages.similar)
    get = blocking(AsyncImages.get)
    list = blocking(AsyncImages.list)
    count = blocking(AsyncImages.count)
    content = blocking(AsyncImages.content)
    thumbnail = blocking(AsyncImages.thumbnail)
    update = blocking(AsyncImages.update)
    delete = blocking(AsyncImages.delete)
