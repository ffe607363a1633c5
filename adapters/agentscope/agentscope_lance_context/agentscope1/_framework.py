"""The names of agentscope 1.0.14 to 1.x that the classes use, imported on first use.

`_framework.pyi` has their types.
"""

from agentscope_lance_context._releases import Releases

_RELEASES = Releases(
    first=(1, 0, 14),
    end=(2, 0, 0),
    extra="agentscope1",
    modules={
        "FormatterBase": "formatter",
        "MemoryBase": "memory",
        "LongTermMemoryBase": "memory",
        "Msg": "message",
        "TextBlock": "message",
        "StateModule": "module",
        "Document": "rag",
        "DocMetadata": "rag",
        "KnowledgeBase": "rag",
        "VDBStoreBase": "rag",
        "SessionBase": "session",
        "ToolResponse": "tool",
    },
)

__getattr__ = _RELEASES.find
