"""Knowledge bases of agentscope's app, and the documents that workers add to them."""

from datetime import datetime, timedelta
from typing import Any, TypeVar

from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context.agentscope2._app_framework import (
    KnowledgeBaseRecord,
    KnowledgeDocumentRecord,
    StorageBase,
)
from agentscope_lance_context.agentscope2._app_records import Change, Records
from lance_context_core import InvalidRequestError, Item

R = TypeVar("R", bound=Any)

_DONE = ("ready", "error")
"""The states of a finished and of a failed document."""


class KnowledgeStorage(StorageBase):
    """The records of knowledge bases and of their documents."""

    _handle: UserHandle
    _name: str

    # Knowledge bases

    async def upsert_knowledge_base(
        self, user_id: str, record: KnowledgeBaseRecord
    ) -> KnowledgeBaseRecord:
        """Writes a knowledge base. Raises InvalidRequestError, a ValueError, for another user's."""
        _require_owner(record, user_id)
        records = self._records(user_id, KnowledgeBaseRecord, "knowledge bases")

        def decide(known: KnowledgeBaseRecord | None) -> Change[KnowledgeBaseRecord]:
            _renew(record, known)
            return Change(outcome=record, puts=[records.item(record)])

        return await records.change(record.id, decide)

    async def get_knowledge_base(
        self, user_id: str, knowledge_base_id: str
    ) -> KnowledgeBaseRecord | None:
        """A knowledge base; None if it does not exist."""
        records = self._records(user_id, KnowledgeBaseRecord, "knowledge bases")
        return await records.get(knowledge_base_id)

    async def list_knowledge_bases(self, user_id: str) -> list[KnowledgeBaseRecord]:
        """The knowledge bases of a user."""
        return await self._records(user_id, KnowledgeBaseRecord, "knowledge bases").list()

    async def delete_knowledge_base(self, user_id: str, knowledge_base_id: str) -> bool:
        """Deletes a knowledge base and its document records; returns whether it existed."""
        documents = self._documents(user_id, knowledge_base_id)
        await documents.items.delete([documents.key(one.id) for one in await documents.list()])
        records = self._records(user_id, KnowledgeBaseRecord, "knowledge bases")
        return await records.delete(knowledge_base_id)

    # Documents

    async def upsert_knowledge_document(
        self, user_id: str, record: KnowledgeDocumentRecord
    ) -> KnowledgeDocumentRecord:
        """Writes a document's record.

        Raises InvalidRequestError, a ValueError, for another user's.
        """
        _require_owner(record, user_id)
        documents = self._documents(user_id, record.knowledge_base_id)

        def decide(known: KnowledgeDocumentRecord | None) -> Change[KnowledgeDocumentRecord]:
            _renew(record, known)
            return Change(outcome=record, puts=[_item(documents, record)])

        return await documents.change(record.id, decide)

    async def get_knowledge_document(
        self, user_id: str, knowledge_base_id: str, document_id: str
    ) -> KnowledgeDocumentRecord | None:
        """A document's record; None if it does not exist."""
        return await self._documents(user_id, knowledge_base_id).get(document_id)

    async def list_knowledge_documents(
        self, user_id: str, knowledge_base_id: str
    ) -> list[KnowledgeDocumentRecord]:
        """The records of a knowledge base's documents."""
        return await self._documents(user_id, knowledge_base_id).list()

    async def delete_knowledge_document(
        self, user_id: str, knowledge_base_id: str, document_id: str
    ) -> bool:
        """Deletes a document's record; returns whether it existed."""
        return await self._documents(user_id, knowledge_base_id).delete(document_id)

    async def update_knowledge_document_status(
        self,
        user_id: str,
        knowledge_base_id: str,
        document_id: str,
        status: Any,
        error: str | None = None,
        chunk_count: int | None = None,
    ) -> None:
        """Sets a document's progress; None leaves a field unchanged. A deleted one is ignored."""
        documents = self._documents(user_id, knowledge_base_id)

        def decide(record: KnowledgeDocumentRecord | None) -> Change[None]:
            if record is None:
                return Change(outcome=None)
            record.status, record.updated_at = status, _now()
            if error is not None:
                record.data.error = error
            if chunk_count is not None:
                record.data.chunk_count = chunk_count
            return Change(outcome=None, puts=[_item(documents, record)])

        await documents.change(document_id, decide)

    # Leases of documents

    async def acquire_knowledge_document_lease(
        self,
        user_id: str,
        knowledge_base_id: str,
        document_id: str,
        processing_node: str,
        lease_ttl: timedelta,
        now: datetime | None = None,
    ) -> bool:
        """Leases a free document; of several concurrent nodes one succeeds."""
        documents, moment = self._documents(user_id, knowledge_base_id), now or _now()

        def decide(record: KnowledgeDocumentRecord | None) -> Change[bool]:
            if record is None:
                return Change(outcome=False)
            until = record.lease_expires_at
            if record.processing_node is not None and until is not None and until > moment:
                return Change(outcome=False)
            record.processing_node, record.lease_expires_at = processing_node, moment + lease_ttl
            record.updated_at = moment
            return Change(outcome=True, puts=[_item(documents, record)])

        return await documents.change(document_id, decide)

    async def renew_knowledge_document_lease(
        self,
        user_id: str,
        knowledge_base_id: str,
        document_id: str,
        processing_node: str,
        lease_ttl: timedelta,
        now: datetime | None = None,
    ) -> bool:
        """Renews the lease; returns False if another node has it."""
        documents, moment = self._documents(user_id, knowledge_base_id), now or _now()

        def decide(record: KnowledgeDocumentRecord | None) -> Change[bool]:
            if record is None or record.processing_node != processing_node:
                return Change(outcome=False)
            record.lease_expires_at, record.updated_at = moment + lease_ttl, moment
            return Change(outcome=True, puts=[_item(documents, record)])

        return await documents.change(document_id, decide)

    async def release_knowledge_document_lease(
        self, user_id: str, knowledge_base_id: str, document_id: str, processing_node: str
    ) -> None:
        """Releases the lease; another node's lease stays."""
        documents = self._documents(user_id, knowledge_base_id)

        def decide(record: KnowledgeDocumentRecord | None) -> Change[None]:
            if record is None or record.processing_node != processing_node:
                return Change(outcome=None)
            record.processing_node = record.lease_expires_at = None
            record.updated_at = _now()
            return Change(outcome=None, puts=[_item(documents, record)])

        await documents.change(document_id, decide)

    async def list_knowledge_documents_with_expired_lease(
        self, now: datetime | None = None
    ) -> list[KnowledgeDocumentRecord]:
        """The unfinished documents of all users whose lease has expired."""
        moment = now or _now()
        return [
            one
            for one in await self._of_all(KnowledgeDocumentRecord, _DOCUMENTS).list(_OPEN)
            if one.processing_node is not None
            and one.lease_expires_at is not None
            and one.lease_expires_at < moment
        ]

    async def list_knowledge_documents_pending_since(
        self, threshold: datetime
    ) -> list[KnowledgeDocumentRecord]:
        """The documents of all users that have waited since before a time."""
        found = await self._of_all(KnowledgeDocumentRecord, _DOCUMENTS).list(_OPEN)
        return [one for one in found if one.status == "pending" and one.created_at < threshold]

    # Helpers

    def _documents(self, user_id: str, knowledge_base_id: str) -> Records[KnowledgeDocumentRecord]:
        items = self._handle.of(user_id).kv(self._name)
        return Records(items, KnowledgeDocumentRecord, _DOCUMENTS, (knowledge_base_id,))

    def _records(self, user_id: str, model: type[R], kind: str) -> Records[R]:
        return Records(self._handle.of(user_id).kv(self._name), model, kind)

    def _of_all(self, model: type[R], kind: str) -> Records[R]:
        return Records(self._handle.aio.kv(self._name), model, kind)


_DOCUMENTS = "knowledge documents"
_OPEN = {"is_done": False}


def _item(documents: Records[KnowledgeDocumentRecord], record: KnowledgeDocumentRecord) -> Item:
    return documents.item(record, {"is_done": record.status in _DONE})


def _require_owner(record: Any, user_id: str) -> None:
    if record.user_id != user_id:
        raise InvalidRequestError(
            f"record.user_id={record.user_id!r:.80} is not user_id={user_id!r:.80}: nothing was "
            "written. Give the record's user"
        )


def _renew(record: Any, known: Any) -> None:
    """Sets the times of a record that replaces an existing one."""
    if known is not None:
        record.created_at = known.created_at
    record.updated_at = _now()


def _now() -> datetime:
    return datetime.now()  # noqa: DTZ005 - as AgentScope's records have it
