"""A table that is ahead of the journal: what was folded is in it, and the journal does not know.

The journal is put back from a copy, or a power cut takes its end, or a process is killed at upkeep.
Which entries are folded is told by the rows: each has the moment at which it was acknowledged.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from lance_context_core.engine.errors import translated
from lance_context_core.engine.journal.entries import Entry
from lance_context_core.engine.journal.ledger import Ledger
from lance_context_core.engine.names import shown_name
from lance_context_core.engine.refs import refs
from lance_context_core.engine.schema import ACKNOWLEDGED, KEY
from lance_context_core.engine.sql.clauses import in_list
from lance_context_core.engine.table import reading
from lance_context_core.errors import NotFoundError, StorageError

_EPOCH = datetime.fromtimestamp(0, UTC)


async def overtake(ledger: Ledger, handle: Any, newest: int, later: tuple[int, ...]) -> None:
    """Have the journal go on from the newest version, without the entries that are folded by then.

    `later` are the versions that it does not know, the newest first; `handle` is of main. In
    `folding`.
    """
    if (view := await ledger.view()) is None:
        return
    last = 0
    if view.entries:
        rows = _Rows(handle, ledger.part.name, ledger.part.ref or None)
        last = await _last_folded(view.entries, rows, later, before=view.version)
    await ledger.forget(last, newest, tells_moments=True)
    await ledger.note(newest)


async def _last_folded(entries: Any, rows: "_Rows", later: tuple[int, ...], *, before: int) -> int:
    """The last entry that one of these versions has; as entries are folded in their order, all before it."""
    by_key: dict[str, list[Entry]] = {}
    for entry in entries:
        by_key.setdefault(entry.key, []).append(entry)
    known = await rows.at(before, list(by_key))
    last = 0
    for version in later:
        for key, moments in (await rows.at(version, list(by_key))).items():
            # One of the same key that was acknowledged after an entry took its place.
            new = max(moments - known.get(key, set()), default=-1)
            last = max([last, *(one.seq for one in by_key[key] if one.at <= new)])
            last = max([last, *(one.seq for one in by_key[key] if one.at in moments)])
        if last == entries[-1].seq:
            break
    return last


class _Rows:
    """The rows of a table on a ref, at its versions."""

    def __init__(self, handle: Any, name: str, ref: str | None) -> None:
        self._handle = handle
        self._name = name
        self._ref = ref

    async def at(self, version: int, keys: list[str]) -> dict[str, set[int]]:
        """When those of these keys were acknowledged, in microseconds, as far as that is known."""
        try:
            handle = await refs.opened(self._handle, self._name, self._ref, version)
        except (NotFoundError, StorageError):
            return {}  # It is not kept any more.
        found: dict[str, set[int]] = {}
        with translated(f"read {shown_name(self._name)}"):
            if ACKNOWLEDGED not in (await handle.schema()).names:
                return {}
            rows = await reading.scan(handle, in_list(KEY, keys), [KEY, ACKNOWLEDGED])
        for row in rows.to_pylist():
            if (at := row[ACKNOWLEDGED]) is not None:
                moment = (at.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
                found.setdefault(row[KEY], set()).add(moment)
        return found
