"""What LlamaIndex's document stores and chat stores are asked alike: one thing added."""

import asyncio
from collections.abc import Callable
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import TextNode
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.storage.docstore.types import BaseDocumentStore

from benchmarks.sides.measuring import timed, timed_async
from benchmarks.sides.protocol import Handler

_CHATS = 50
_RUNNER = asyncio.Runner()


class Small:
    """A document store and a chat store in one folder."""

    documents: BaseDocumentStore
    chats: AsyncDBChatStore

    def __init__(self, make: Callable[[str], tuple[BaseDocumentStore, AsyncDBChatStore]]) -> None:
        """`make` is called with a directory of its own."""
        self._make = make

    def operations(self) -> dict[str, Handler]:
        """What a side answers about them."""
        return {
            "open_small": self.open,
            "put_document": self.put_document,
            "add_message": self.add_message,
        }

    def open(self, *, uri: str) -> None:
        """Make both."""
        self.documents, self.chats = self._make(uri)

    def put_document(self, *, number: int, text: str) -> dict[str, Any]:
        """Add one node to the document store."""
        node = TextNode(id_=f"one {number}", text=text, metadata={"number": number})
        return {"seconds": timed(lambda: self.documents.add_documents([node]))[0]}

    def add_message(self, *, number: int, text: str) -> dict[str, Any]:
        """Add one message to one of fifty conversations."""

        async def run() -> float:
            said = ChatMessage(role="user", content=text)
            work = self.chats.add_message(f"chat {number % _CHATS}", said)
            return (await timed_async(work))[0]

        return {"seconds": _RUNNER.run(run())}
