"""Two texts beside each other, word by word."""

import re
from difflib import SequenceMatcher

from lance_context_inspector.safe import cut

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LONGEST = 8_000
"""In characters; of longer texts the beginning is compared."""


def compared(before: str, after: str) -> list[tuple[str, str]]:
    """Pieces in order: `same`, `removed` or `added`, and what is."""
    old, new = (_WORDS.findall(cut(text, _LONGEST)) for text in (before, after))
    pieces: list[tuple[str, str]] = []
    for tag, i, j, k, n in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            pieces.append(("same", "".join(old[i:j])))
            continue
        if i < j:
            pieces.append(("removed", "".join(old[i:j])))
        if k < n:
            pieces.append(("added", "".join(new[k:n])))
    return pieces
