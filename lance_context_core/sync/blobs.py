"""Blobs in the store, from synchronous code."""

from lance_context_core.blobs.blobs import AsyncBlobs
from lance_context_core.sync._blocking import Blocking, blocking, iterating


class Blobs(Blocking[AsyncBlobs]):
    """Bytes, each kept once under the hash of them; `AsyncBlobs` is the asynchronous one."""

    put = blocking(AsyncBlobs.put)
    get = blocking(AsyncBlobs.get)
    read = blocking(AsyncBlobs.read)
    stream = iterating(AsyncBlobs.stream, at_once=1)
    info = blocking(AsyncBlobs.info)
    exists = blocking(AsyncBlobs.exists)
    url = blocking(AsyncBlobs.url)
    list = blocking(AsyncBlobs.list)
    holders = blocking(AsyncBlobs.holders)
    pin = blocking(AsyncBlobs.pin)
    unpin = blocking(AsyncBlobs.unpin)
    delete = blocking(AsyncBlobs.delete)
    sweep = blocking(AsyncBlobs.sweep)
