"""Validates keywords that LangChain's base classes pass to a vector store or retriever."""

from collections.abc import Mapping, Sequence
from typing import Any


def check_keywords(given: Mapping[str, Any], known: Sequence[str], verb: str) -> None:
    """Raises TypeError with the known keywords for an unknown one."""
    unknown = [name for name in given if name not in known]
    if unknown:
        takes = f"takes {', '.join(known)}" if known else "takes no others"
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}: {verb} {takes}")
