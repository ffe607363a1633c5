"""A tool with which an agent searches what its user said in other sessions."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from agents import FunctionTool, RunContextWrapper, function_tool

from lance_context_core import ContextRecord
from lance_context_core.results import SearchHit

_DESCRIPTION = """\
Search what the user said in earlier conversations, and what is remembered of the user. Use it before \
you answer a question about the user that this conversation does not answer."""
_NOTHING = "Nothing was found."


def recall_tool(
    find: Callable[[RunContextWrapper[Any], str], Awaitable[list[SearchHit[ContextRecord]]]],
    *,
    name: str,
    description: str | None,
) -> FunctionTool:
    """Returns a tool that answers with the hits of `find`, as JSON."""

    async def recall(wrapper: RunContextWrapper[Any], query: str) -> str:
        """Search.

        Args:
            wrapper: The run.
            query: The words to look for, such as "allergies" or "name of the dog".
        """
        hits = await find(wrapper, query)
        # A call of a tool may be next to what was found, and has no text.
        found = [_told(hit.record) for hit in hits if hit.record.text]
        return json.dumps(found, ensure_ascii=False) if found else _NOTHING

    return function_tool(
        recall, name_override=name, description_override=description or _DESCRIPTION
    )


def _told(record: ContextRecord) -> dict[str, Any]:
    """Returns a record as a model reads it, without absent fields."""
    told = {
        "text": record.text,
        "by": record.role,
        "session": record.session_id,
        "at": record.created_at.date().isoformat(),
    }
    return {key: value for key, value in told.items() if value is not None}
