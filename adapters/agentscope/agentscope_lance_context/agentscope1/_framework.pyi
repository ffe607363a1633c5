from collections.abc import Mapping, Sequence
from typing import Any, Self

class StateModule:
    def __init__(self) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = ...) -> None: ...

class Msg:
    id: str
    name: str
    role: str
    content: str | Sequence[Mapping[str, Any]]
    metadata: dict[str, Any] | None
    invocation_id: str | None
    def __init__(
        self,
        name: str,
        content: str | Sequence[Mapping[str, Any]],
        role: str,
        metadata: dict[str, Any] | None = ...,
    ) -> None: ...
    def to_dict(self) -> dict[str, Any]: ...
    @classmethod
    def from_dict(cls, json_data: dict[str, Any]) -> Self: ...
    def get_content_blocks(self) -> Sequence[Mapping[str, Any]]: ...
    def get_text_content(self) -> str | None: ...

class FormatterBase:
    async def format(self, msgs: list[Msg], **kwargs: Any) -> list[dict[str, Any]]: ...

class MemoryBase(StateModule):
    _compressed_summary: str

class LongTermMemoryBase(StateModule): ...
class SessionBase: ...
class VDBStoreBase: ...
class KnowledgeBase: ...

class TextBlock:
    def __init__(self, *, type: str, text: str) -> None: ...

class ToolResponse:
    content: list[Any]
    def __init__(self, content: list[Any]) -> None: ...

class DocMetadata:
    content: Mapping[str, Any]
    doc_id: str
    chunk_id: int
    total_chunks: int
    def __init__(
        self, content: Mapping[str, Any], doc_id: str, chunk_id: int, total_chunks: int
    ) -> None: ...

class Document:
    metadata: DocMetadata
    id: str
    embedding: Sequence[float] | None
    score: float | None
    def __init__(
        self,
        metadata: DocMetadata,
        id: str = ...,
        embedding: Sequence[float] | None = ...,
        score: float | None = ...,
    ) -> None: ...
