"""Collections of the store as the knowledge bases of agentscope's app, each in the scope of its user."""

from typing import Any

from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context._places import APP
from agentscope_lance_context.agentscope2._app_framework import (
    CollectionPerKbManager,
    KnowledgeBaseManagerBase,
    KnowledgeBaseRecord,
)
from agentscope_lance_context.agentscope2._framework import KnowledgeBase
from agentscope_lance_context.agentscope2.app_storage import LanceContextStorage
from agentscope_lance_context.agentscope2.vector_store import LanceContextVectorStore
from lance_context_core.adapting import StoreLike


class LanceContextKnowledgeBaseManager(StoreOwner, KnowledgeBaseManagerBase):
    """Knowledge bases with a collection each, as those of `CollectionPerKbManager`.

    The records are those of a `LanceContextStorage` over the same store. Collections are in the
    scope of the user: `store.scope(user_id="ada").erase()` removes Ada's uploads.
    """

    _handle: UserHandle

    def __init__(self, store: StoreLike, *, embedder: Any = None, name: str = APP.name) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `embedder`: for a store at a URI and for other users of it: a knowledge base has its own
          model.
        - `name`: that of the storage.
        """
        self._handle = UserHandle(store, embedder=embedder)
        storage = LanceContextStorage(self._handle.aio, name=name)
        super().__init__(storage, LanceContextVectorStore(self._handle.aio))

    async def get_dimension_policy(self) -> Any:
        """Any dimension: each knowledge base has its own collection."""
        return await self._of("").get_dimension_policy()

    async def create_knowledge_base(
        self,
        user_id: str,
        name: str,
        description: str,
        embedding_model_config: Any,
        chunker_config: Any = None,
    ) -> KnowledgeBaseRecord:
        """Creates a collection with the model's dimension, and writes its record."""
        return await self._of(user_id).create_knowledge_base(
            user_id, name, description, embedding_model_config, chunker_config
        )

    async def delete_knowledge_base(self, user_id: str, knowledge_base_id: str) -> bool:
        """Deletes a knowledge base with its collection; returns whether it existed."""
        return await self._of(user_id).delete_knowledge_base(user_id, knowledge_base_id)

    async def get_knowledge(self, user_id: str, knowledge_base_id: str) -> KnowledgeBase:
        """A knowledge base for searching and adding.

        Raises agentscope's KnowledgeBaseNotFoundError if the user has none of that id, or no
        credential for its model.
        """
        return await self._of(user_id).get_knowledge(user_id, knowledge_base_id)

    # Helpers

    def _of(self, user_id: str) -> CollectionPerKbManager:
        """AgentScope's manager, over the user's scope of the store."""
        return CollectionPerKbManager(
            self._storage, LanceContextVectorStore(self._handle.of(user_id))
        )
