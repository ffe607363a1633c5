"""How texts are cut into words for full-text search."""

from collections.abc import Mapping
from typing import Any

from lancedb.index import FTS

from lance_context_core._util.frozen import frozen_by_name


@frozen_by_name
class TextIndex:
    """The settings of the full-text index, fixed when a table is created.

    Stop words are always kept: the engine's list for the ICU tokenizer is the union of all its
    languages and holds ordinary English words such as "cat" and "dog".
    """

    tokenizer: str = "icu/split"
    """`icu/split` finds words in every script; `simple` splits at spaces and punctuation only."""
    language: str = "English"
    """The language whose endings are stripped."""
    stem: bool = True
    """Whether "running" finds "runs"."""

    def config(self) -> FTS:
        """The engine's form of these settings."""
        return FTS(
            base_tokenizer=self.tokenizer,
            language=self.language,
            stem=self.stem,
            remove_stop_words=False,
            with_position=False,
            # Else the engine leaves out words of more than 40 letters, such as hashes and keys.
            max_token_length=None,
        )


def leaves_out_words(details: Mapping[str, Any] | None) -> bool:
    """Whether an index, by what the engine tells of it, was built without the longest words."""
    return (details or {}).get("max_token_length") is not None


def settings_of(details: Mapping[str, Any] | None) -> TextIndex | None:
    """The settings that an index was built with, by what the engine tells of it; None if not by us."""
    told = details or {}
    try:
        settings = TextIndex(
            tokenizer=told["base_tokenizer"], language=told["language"], stem=told["stem"]
        )
        built = {name: told[name] for name in _OURS}
    except KeyError:
        return None
    return settings if built == _OURS else None


_OURS = {
    "remove_stop_words": False,
    "lower_case": True,
    "ascii_folding": True,
    "max_token_length": None,
}
"""What is the same in all of our indexes; older ones leave out long words."""
