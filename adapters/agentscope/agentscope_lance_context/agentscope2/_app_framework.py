"""The names of agentscope's app that the classes use, imported on first use.

`_app_framework.pyi` has their types.
"""

from agentscope_lance_context._releases import Releases

_STORAGE = "app.storage"
_BLOBS = "app.rag.blob_store"
_KNOWLEDGE = "app.rag.knowledge_base_manager"
_RELEASES = Releases(
    first=(2, 0, 10),
    end=(3, 0, 0),
    extra="agentscope2-app",
    modules={
        "AgentRecord": _STORAGE,
        "BlobStoreBase": _BLOBS,
        "ChannelOrigin": _STORAGE,
        "ChannelRecord": _STORAGE,
        "CredentialRecord": _STORAGE,
        "CollectionPerKbManager": _KNOWLEDGE,
        "KnowledgeBaseManagerBase": _KNOWLEDGE,
        "KnowledgeBaseRecord": _STORAGE,
        "KnowledgeDocumentRecord": _STORAGE,
        "MCPRecord": _STORAGE,
        "MessageBus": "app.message_bus",
        "ScheduleOrigin": _STORAGE,
        "ScheduleRecord": _STORAGE,
        "SessionConfig": _STORAGE,
        "SessionRecord": _STORAGE,
        "SkillRecord": _STORAGE,
        "SOPRecord": _STORAGE,
        "SOPRunRecord": _STORAGE,
        "StorageBase": _STORAGE,
        "TeamRecord": _STORAGE,
        "TeamMember": _STORAGE,
        "UserOrigin": _STORAGE,
    },
)

__getattr__ = _RELEASES.find
