from datetime import datetime
from typing import Any

from agentscope_lance_context.agentscope2._framework import (
    AgentState,
    KnowledgeBase,
    VectorStoreBase,
    _Model,
)

class StorageBase: ...
class MessageBus: ...
class BlobStoreBase: ...

class KnowledgeBaseManagerBase:
    _storage: StorageBase
    def __init__(self, storage: StorageBase, vector_store: VectorStoreBase) -> None: ...

class CollectionPerKbManager(KnowledgeBaseManagerBase):
    async def get_dimension_policy(self) -> Any: ...
    async def create_knowledge_base(
        self,
        user_id: str,
        name: str,
        description: str,
        embedding_model_config: Any,
        chunker_config: Any,
    ) -> KnowledgeBaseRecord: ...
    async def delete_knowledge_base(self, user_id: str, knowledge_base_id: str) -> bool: ...
    async def get_knowledge(self, user_id: str, knowledge_base_id: str) -> KnowledgeBase: ...

class _Record(_Model):
    id: str
    user_id: str
    created_at: datetime
    updated_at: datetime

class AgentRecord(_Record):
    source: str

class ChannelRecord(_Record): ...

class CredentialRecord(_Record):
    data: dict[str, Any]

class KnowledgeBaseRecord(_Record): ...

class KnowledgeDocumentRecord(_Record):
    knowledge_base_id: str
    processing_node: str | None
    status: str
    lease_expires_at: datetime | None
    data: Any

class MCPRecord(_Record):
    client: Any

class ScheduleRecord(_Record):
    agent_id: str

class SkillRecord(_Record):
    name: str

class SOPRecord(_Record): ...

class SOPRunRecord(_Record):
    sop_id: str
    state: Any
    sessions: dict[str, str]

class TeamRecord(_Record):
    session_id: str
    data: Any

class TeamMember(_Model):
    owner_id: str
    agent_id: str
    session_id: str
    role: str

class SessionConfig(_Model): ...
class UserOrigin(_Model): ...

class ScheduleOrigin(_Model):
    schedule_id: str

class ChannelOrigin(_Model):
    channel_id: str

class SessionRecord(_Record):
    agent_id: str
    team_id: str | None
    origin: Any
    config: SessionConfig
    state: AgentState
