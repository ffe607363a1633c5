from enum import Enum
from typing import Any, Self

class _Model:
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def model_validate(cls, obj: object) -> Self: ...
    @classmethod
    def model_validate_json(cls, json_data: bytes) -> Self: ...
    def model_dump(self, *, mode: str = ...) -> dict[str, Any]: ...
    def model_dump_json(self, *, exclude: set[str] | None = ...) -> str: ...

class Msg(_Model):
    id: str
    name: str
    role: str
    content: list[Any]
    metadata: dict[str, Any]
    def get_text_content(self) -> str | None: ...

def AssistantMsg(  # noqa: N802 - as it is called
    name: str, content: str | list[Any], metadata: dict[str, Any] | None = ...
) -> Msg: ...

class HintBlock(_Model): ...
class TextBlock(_Model): ...

class ToolResultState(Enum):
    SUCCESS = ...
    ERROR = ...

class ReplyStartEvent(_Model): ...
class RequireUserConfirmEvent(_Model): ...
class RequireExternalExecutionEvent(_Model): ...
class MiddlewareBase: ...

class PermissionBehavior(Enum):
    ALLOW = ...

class PermissionDecision:
    def __init__(self, *, behavior: PermissionBehavior, message: str) -> None: ...

class Chunk(_Model):
    content: Any
    source: str
    chunk_index: int
    total_chunks: int
    metadata: dict[str, Any]

class DocumentSummary(_Model):
    document_id: str
    chunk_count: int

class VectorRecord(_Model):
    vector: list[float]
    document_id: str
    chunk: Chunk

class VectorSearchResult(_Model):
    score: float
    document_id: str
    chunk: Chunk

class VectorStoreBase: ...
class KnowledgeBase: ...

class AgentState(_Model):
    session_id: str
    context: list[Msg]

class ToolBase:
    def __init__(self) -> None: ...

class ToolChunk(_Model): ...
