"""What a framework is told of a record that was found."""

from typing import Any

from lance_context_core.types import ContextRecord


def content_of(record: ContextRecord) -> str:
    """The record's text, or else what its images show, a line each; empty if there is neither."""
    return record.text or "\n".join(record.captions)


def facts_of(record: ContextRecord) -> dict[str, Any]:
    """What the store knows of a record beside its content and metadata, as JSON.

    Its kind, its role and name, whose and of which session and run it is, and when it was made; what
    is absent is left out.
    """
    known = {
        "kind": record.kind,
        "role": record.role,
        "name": record.name,
        "tenant": record.tenant,
        "user_id": record.user_id,
        "agent_id": record.agent_id,
        "session_id": record.session_id,
        "run_id": record.run_id,
        "created_at": record.created_at.isoformat(),
    }
    return {name: value for name, value in known.items() if value is not None}
