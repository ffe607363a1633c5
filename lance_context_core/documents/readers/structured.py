"""Jupyter notebooks."""

import json
import re
from typing import Any

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.markdown import MarkdownReader
from lance_context_core.documents.reading import ReadDocument
from lance_context_core.errors import UnreadableDocumentError


@frozen_by_name
class NotebookReader:
    """Reads Jupyter notebooks: the texts, the code, and what it printed; no pictures."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The cells of the notebook, in their order."""
        try:
            cells = json.loads(content)["cells"]
            parts = [part for cell in cells for part in _cell(cell)]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UnreadableDocumentError(
                f"{name!r} cannot be read as a notebook: {error!r}"
            ) from error
        return MarkdownReader().read("\n\n".join(parts).encode("utf-8", "replace"), name=name)


def _cell(cell: dict[str, Any]) -> list[str]:
    source = _lines(cell.get("source")).strip()
    if cell.get("cell_type") != "code":
        return [source] if source else []
    parts = [_fenced(source)] if source else []
    for output in cell.get("outputs") or []:
        said = _lines(output.get("text")) or _lines((output.get("data") or {}).get("text/plain"))
        if output.get("ename"):
            said = f"{output['ename']}: {output.get('evalue', '')}"
        parts += [_fenced(said.strip())] if said.strip() else []
    return parts


def _fenced(text: str) -> str:
    longest = max(map(len, re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _lines(said: Any) -> str:
    return (
        "".join(map(str, said)) if isinstance(said, list) else said if isinstance(said, str) else ""
    )
