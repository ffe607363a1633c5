"""The two texts of a record: the one that is embedded, and the one that is indexed for words.

What a record is found by differs from what it says: a turn of a conversation is asked for by who said
it, when, and what was to be seen. Both texts serve the search only; readers get the original back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

# strftime's names follow the locale of the process, and an index outlives the process.
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip


class Composable(Protocol):
    """What a composition may look at; a `ContextRecord` is one."""

    @property
    def kind(self) -> str:
        """ "message" for a turn of a conversation."""

    @property
    def role(self) -> str | None: ...
    @property
    def name(self) -> str | None:
        """Who speaks."""

    @property
    def text(self) -> str | None: ...
    @property
    def captions(self) -> Sequence[str]:
        """What its images show, in order."""

    @property
    def created_at(self) -> datetime: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...
