"""What is known about the tables, the jobs, and what is worth keeping, row by row."""

import math
from typing import Any

import pyarrow as pa

from lance_context_core._checks import dumps
from lance_context_core.engine import sql
from lance_context_core.information.layouts import LAYOUTS
from lance_context_core.information.source import OfRecords
from lance_context_core.jobs.queue import Queue
from lance_context_core.knowledge import kept
from lance_context_core.knowledge.tidying import Tidying
from lance_context_core.knowledge.values import Prune
from lance_context_core.records import ContextRecord
from lance_context_core.stores.records.scoped import WITHOUT_BLOB

Rows = list[dict[str, Any]]

PROMOTED = 0.7
"""The score from which on a fact is worth more than to be kept."""
_WEIGHTS = (0.6, 0.4)
"""Of importance and of recency."""
_DECAY_AN_HOUR = 0.01
_SECONDS_AN_HOUR = 3600


def tables(version: int) -> Rows:
    """One a table of the layer."""
    return [
        {
            "table_name": name,
            "db_name": one.family,
            "table_type": one.sort,
            "version": version,
        }
        for name, one in LAYOUTS.items()
    ]


def columns() -> Rows:
    """One a column of each of them."""
    return [
        {
            "table_name": name,
            "column_name": column,
            "data_type": str(type_),
            "is_time": pa.types.is_timestamp(type_),
            "is_vector": pa.types.is_list(type_),
        }
        for name, one in LAYOUTS.items()
        for column, type_ in one.columns.items()
    ]


class OfJobs(OfRecords):
    """The rows that tell what is owed, and what is worth keeping."""

    async def jobs(self) -> Rows:
        """One a job."""
        return [
            {
                "job_id": one.id,
                "job_type": one.kind,
                "payload": dumps({"input_ids": [*one.input_ids], "session_id": one.session_id}),
                "status": one.state,
                "scheduled_at": one.scheduled_at,
            }
            for one in await Queue(self.made).list()
        ]

    async def candidates(self) -> Rows:
        """One a fact: `prune` is what `Prune()` would hide, `promote` what scores highest."""
        planned = await Tidying(self.spoken, self.made, Queue(self.made)).pruning(Prune())
        hidden = {*planned.input_ids}
        where = self.made.where(sql.equals("kind", kept.FACT))
        return [
            {
                "session_id": one.session_id,
                "chunk_id": one.id,
                "score": (score := self._score(one)),
                "candidate_level": _level(score, is_hidden=one.id in hidden),
            }
            for one in await self.made.read(where, columns=WITHOUT_BLOB)
        ]

    def _score(self, one: ContextRecord) -> float:
        hours = (self.made.now() - one.created_at).total_seconds() / _SECONDS_AN_HOUR
        recency = math.exp(-_DECAY_AN_HOUR * max(hours, 0.0))
        return _WEIGHTS[0] * float(one.metadata["importance"]) + _WEIGHTS[1] * recency


def _level(score: float, *, is_hidden: bool) -> str:
    if is_hidden:
        return "prune"
    return "promote" if score >= PROMOTED else "retain"
