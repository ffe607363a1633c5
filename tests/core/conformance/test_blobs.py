"""The store's blobs keep the contract of `BlobStore`."""

import asyncio

import pytest
from core.conformance.places import InEachPlace
from lance_context_testing import BlobStoreTests

from lance_context_core.sync.stores import Blobs


class Streaming:
    """The blocking blobs in asynchronous words."""

    def __init__(self, threaded, blocking):
        self._threaded, self._blocking = threaded, blocking

    def __getattr__(self, name):
        return getattr(self._threaded, name)

    async def stream(self, ref, *, start=0, length=None):
        parts = self._blocking.stream(ref, start=start, length=length)
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            yield part


class TestBlobs(InEachPlace, BlobStoreTests):
    """The blobs of the store itself."""

    @pytest.fixture
    def blobs(self, store, offered, place):
        made = offered(store.blobs, Blobs)
        return made if place[1] == "async" else Streaming(made, Blobs(store.blobs))
