"""What is known about the tables, the jobs, and what is worth keeping, row by row."""

from typing import Any

import pyarrow as pa

from lance_context_core._util.checks import dumps
from lance_context_core.information.layouts import LAYOUTS
from lance_context_core.information.source import OfRecords
from lance_context_core.jobs.queue import Queue
from lance_context_core.knowledge.pruning import Tidying, candidates

Rows = list[dict[str, Any]]


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
        """One a fact, as `knowledge.candidates` tells them."""
        tidying = Tidying(self.spoken, self.made, Queue(self.made))
        return [
            {
                "session_id": one.record.session_id,
                "chunk_id": one.record.id,
                "score": one.score,
                "candidate_level": one.level,
            }
            for one in await candidates(self.made, tidying, None)
        ]
