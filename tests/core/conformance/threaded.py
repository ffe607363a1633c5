"""The blocking API in asynchronous words, so that one suite tests both."""

import asyncio
from typing import Any


class Threaded:
    """Each call of a blocking object's methods runs in a thread, and is awaited."""

    def __init__(self, blocking: Any) -> None:
        self._blocking = blocking

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._blocking, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(method, *args, **kwargs)

        return call
