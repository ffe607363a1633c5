"""The names of agentscope 2.0.3 and later that the classes use, imported on first use.

`_framework.pyi` has their types.
"""

from agentscope_lance_context._releases import Releases

_RELEASES = Releases(
    first=(2, 0, 3),
    end=(3, 0, 0),
    extra="agentscope2",
    modules={
        "ReplyStartEvent": "event",
        "RequireExternalExecutionEvent": "event",
        "RequireUserConfirmEvent": "event",
        "AssistantMsg": "message",
        "HintBlock": "message",
        "Msg": "message",
        "TextBlock": "message",
        "ToolResultState": "message",
        "MiddlewareBase": "middleware",
        "PermissionBehavior": "permission",
        "PermissionDecision": "permission",
        "Chunk": "rag",
        "DocumentSummary": "rag",
        "KnowledgeBase": "rag",
        "VectorRecord": "rag",
        "VectorSearchResult": "rag",
        "VectorStoreBase": "rag",
        "AgentState": "state",
        "ToolBase": "tool",
        "ToolChunk": "tool",
    },
)

__getattr__ = _RELEASES.find
