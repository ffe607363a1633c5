"""The end of a session: read from the newest message backwards, as far as a budget might reach."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core.engine import sql
from lance_context_core.engine.table.table import Table
from lance_context_core.messages import Message
from lance_context_core.stores.history import COLUMNS, message_of
from lance_context_core.window.cutting import is_enough

_FRAMING_BYTES = 16
"""What a message is taken for beside its text."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The last messages of a session, from a place on that is a whole number of blocks."""

    rows: pa.Table
    first: int
    """How many messages of the session come before them."""

    @property
    def n(self) -> int:
        """How many messages the session has."""
        return self.first + int(self.rows.num_rows)

    def sizes(self) -> list[int]:
        """The bytes of each message's text, and a few more for what is around it, in order."""
        lengths = pc.fill_null(pc.binary_length(self.rows["text"]), 0)
        return [int(one) + _FRAMING_BYTES for one in lengths.to_pylist()]

    def messages(self, start: int, stop: int | None = None) -> list[Message]:
        """The messages of the session from one on, up to another; both are among these."""
        end = self.n if stop is None else stop
        found: Sequence[Mapping[str, Any]] = self.rows.slice(
            start - self.first, end - start
        ).to_pylist()
        return [message_of(row) for row in found]

    def last_user(self) -> int | None:
        """Which message of the session is the last that a user says, if it is among these."""
        roles = self.rows["role"].to_pylist()
        for index in range(len(roles) - 1, -1, -1):
            # Some frameworks have the user hand in the results of tools.
            if roles[index] == "user" and '"tool_result"' not in self._parts(index):
                return self.first + index
        return None

    def _parts(self, index: int) -> str:
        return self.rows["parts"][index].as_py() or ""


async def ending(table: Table, where: sql.Clause, *, room: int, block: int) -> Ending:
    """The end of a session as far back as a room of tokens might reach, and its user's newest turn.

    It is read page by page, each a few times as long as the one before.
    """
    last = 2 * block
    while True:
        rows, before = await table.tail(where, columns=list(COLUMNS), last=last)
        skipped = -before % block if before else 0
        found = Ending(rows.slice(skipped), before + skipped)
        is_there = is_enough(found.sizes(), room) and found.last_user() is not None
        if is_there or not before:
            return found
        last *= 4
