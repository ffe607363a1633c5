"""What an agent is shown of a file: all of a small one, and of a large one what its question is about."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from lance_context_core._util.checks import check_count, check_text, shown
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.coordination import matching
from lance_context_core.errors import InvalidRequestError


@frozen_by_name
class FileExcerpt:
    """What is shown of a file."""

    path: str
    text: str
    """What a model is sent: the pieces, with `[…]` where lines between them are left out; or, of what
    it was sent before, one line that says so."""
    lines: tuple[tuple[int, int], ...]
    """The first and the last line of each piece, counted from 1, in the order of the file."""
    is_whole: bool
    """Whether this, with what was shown before, is all of the file."""
    is_repeat: bool
    """Whether all of it was shown before."""


@frozen_by_name
class FileContext:
    """The files that one agent has in its context; it holds which pieces those were, in memory.

    A file of at most `whole_chars` characters is shown whole. A larger one is taken in pieces of at
    most `piece_chars` that end with a line, of which `n_pieces` are shown: those with most of the
    words that are asked for, or the first ones where none has any.
    """

    whole_chars: int = 50_000
    piece_chars: int = 10_000
    n_pieces: int = 5
    _shown: dict[str, tuple[str, set[int]]] = field(default_factory=dict, repr=False, init=False)
    """Of each path the digest of the text, and which pieces of it were shown."""

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for a number below 1."""
        for name in ("whole_chars", "piece_chars", "n_pieces"):
            check_count(getattr(self, name), name)

    def show(self, path: str | Path, *, query: str = "", text: str | None = None) -> FileExcerpt:
        """What of the file to show for a question; what was shown before is not shown again.

        Reads the file as UTF-8, and shows what is none as U+FFFD; `text` is what it holds, where it
        was read already. A file that has changed since is shown anew. Raises InvalidRequestError for
        one that cannot be read.
        """
        name = str(path)
        whole = _read(Path(path)) if text is None else check_text(text, "text")
        pieces = [*_pieces(whole, whole=self.whole_chars, most=self.piece_chars)]
        digest = hashlib.sha256(whole.encode(errors="surrogatepass")).hexdigest()
        before = self._shown.get(name)
        seen = before[1] if before is not None and before[0] == digest else set()
        chosen = self._chosen(pieces, check_text(query, "query"))
        new = sorted(set(chosen) - seen)
        self._shown[name] = digest, seen | set(new)
        is_whole = len(seen | set(new)) == len(pieces)
        if not new:
            known = f"[{name} is in the context already]"
            return FileExcerpt(path=name, text=known, lines=(), is_whole=is_whole, is_repeat=True)
        return FileExcerpt(
            path=name,
            text=_joined(new, pieces),
            lines=tuple(pieces[n].lines for n in new),
            is_whole=is_whole,
            is_repeat=False,
        )

    def forget(self, path: str | Path | None = None) -> None:
        """Show a file anew, or all: as after the conversation was made shorter."""
        if path is None:
            self._shown.clear()
        else:
            self._shown.pop(str(path), None)

    # Helpers

    def _chosen(self, pieces: "list[_Piece]", query: str) -> list[int]:
        places = range(len(pieces))
        found = (
            matching.best(query, places, lambda n: [pieces[n].text], limit=self.n_pieces)
            if matching.has_words(query)
            else []
        )
        return found or [*places][: self.n_pieces]


@frozen
class _Piece:
    text: str
    lines: tuple[int, int]


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except (OSError, ValueError) as error:
        raise InvalidRequestError(
            f"path={shown(str(path))} cannot be read ({error}): give a file, or its text"
        ) from error


def _pieces(text: str, *, whole: int, most: int) -> Iterator[_Piece]:
    """The text in pieces that end with a line; a longer line is cut."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)  # As editors count them.
    if len(text) <= whole:
        yield _Piece(text, (1, max(1, len(lines))))
        return
    begun, held = 1, ""
    for number, line in enumerate(lines, start=1):
        if held and len(held) + len(line) > most:
            yield _Piece(held, (begun, number - 1))
            begun, held = number, ""
        held += line
        while len(held) > most:
            yield _Piece(held[:most], (begun, number))
            begun, held = number, held[most:]
    if held:
        yield _Piece(held, (begun, len(lines)))


def _joined(chosen: list[int], pieces: list[_Piece]) -> str:
    parts = ["[…]\n"] if chosen[0] else []
    for n, following in zip(chosen, [*chosen[1:], None], strict=True):
        text = pieces[n].text
        parts.append(text)
        is_last = n == len(pieces) - 1
        if following != n + 1 and not is_last:
            parts.append("[…]\n" if text.endswith("\n") else "\n[…]\n")
    return "".join(parts)
