"""How the store grew, day by day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from importlib.util import find_spec

from lance_context_core import AsyncContextStore
from lance_context_core.errors import ContextStoreError

FEW, MANY = 100_000, 1_000_000
"""So many records are counted in some 20 ms, and in 200."""

_DAYS, _SECONDS = 30, 5
_BY_DAY = """
SELECT created_at::DATE AS day, count(*) AS n
FROM (SELECT created_at FROM records WHERE created_at >= TIMESTAMPTZ '{since}' LIMIT {limit})
GROUP BY day ORDER BY day
"""


@dataclass(frozen=True, slots=True)
class Day:
    """What was written on a day, in UTC."""

    day: date
    n: int
    height: float
    """Of a bar; that of the most that were written on one day is 100."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The last days on which something may have been written, each of them, the first first."""

    days: Sequence[Day]
    n: int
    is_cut: bool
    """Whether there are more than were counted."""


async def growth(
    store: AsyncContextStore, newest: Sequence[datetime], *, limit: int
) -> Growth | None:
    """Records by the day when they were made: the 30 days up to the last of the moments `newest`.

    At most `limit` records are counted. None where none is there, or no DuckDB that counts, or
    where counting takes more than 5 s.
    """
    if not newest or find_spec("duckdb") is None:
        return None
    last = max(newest).date().toordinal()
    days = [date.fromordinal(one) for one in range(max(1, last - _DAYS + 1), last + 1)]
    query = _BY_DAY.format(since=f"{days[0].isoformat()}T00:00:00Z", limit=limit)
    try:
        rows = (await store.sql(query, timeout_seconds=_SECONDS)).to_pylist()
    except ContextStoreError:
        return None
    counts = {row["day"]: row["n"] for row in rows}
    most = max((counts.get(one, 0) for one in days), default=0)
    if not most:
        return None
    told = [(one, counts.get(one, 0)) for one in days]
    n = sum(n for _, n in told)
    return Growth([Day(one, n, round(n / most * 100, 2)) for one, n in told], n, n >= limit)
