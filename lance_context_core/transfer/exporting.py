"""Exports all rows that a handle sees: to a file of lines, or a folder of Parquet files."""

import asyncio
import base64
import json
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lance_context_core._progress import check_progress, tell
from lance_context_core._resources import Resources
from lance_context_core._util.checks import dumps, shown
from lance_context_core.codecs.records import from_rows
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.locations import require_local
from lance_context_core.storage.lance.schema import VECTOR, vector_length, vector_model
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.stores.sessions import AsyncSessions
from lance_context_core.transfer.conversations import FORMS, Exported, ExportFormat, Telling
from lance_context_core.transfer.files import HEADER, VERSION, Lines, digest_of
from lance_context_core.transfer.tables import OF_RECORDS, Outgoing, lines, outgoing
from lance_context_core.types import Progress

_BATCH_ROWS = 4_096


async def export(
    resources: Resources,
    scope: Scope,
    destination: str | os.PathLike[str],
    *,
    format: ExportFormat,
    progress: Telling | None,
) -> Exported:
    """See `ContextStore.export`."""
    if format not in get_args(ExportFormat):
        raise InvalidRequestError(
            f"format={shown(format)}: use one of {', '.join(get_args(ExportFormat))}"
        )
    check_progress(progress)
    require_local(destination, "destination")
    goal = Path(destination)
    if await asyncio.to_thread(goal.exists):
        raise AlreadyExistsError(f"{str(goal)!r} already exists: choose another name")
    part = goal.with_name(f"{goal.name}.part-{os.getpid()}")
    try:
        if format == "parquet":
            done = await _parquet(resources, scope, part, progress)
        else:
            with part.open("wb") as file:
                written = Lines(file)
                if format == "jsonl":
                    done = await _jsonl(resources, scope, written, progress)
                else:
                    done = await _conversations(resources, scope, written, format, progress)
        part.rename(goal)
    except BaseException:
        shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)
        raise
    return done


async def _jsonl(
    resources: Resources, scope: Scope, file: Lines, progress: Telling | None
) -> Exported:
    tables = await outgoing(resources, scope)
    file.write([dumps({HEADER: VERSION, "vectors": await _vectors(tables)}) + "\n"])
    done = Exported()
    for one in tables:
        done.rows[one.table.name] = 0
        async for batch in _batches(one, one.columns):
            await asyncio.to_thread(_write_lines, file, one.table.name, batch)
            await _count(done, one.table.name, batch.num_rows, progress)
    file.end(done.rows)
    return done


def _write_lines(file: Lines, name: str, batch: pa.RecordBatch) -> None:
    if VECTOR in batch.schema.names:
        index = batch.schema.names.index(VECTOR)
        batch = batch.set_column(index, VECTOR, _texts_of(batch.column(index)))
    file.write(lines(name, batch))


def _texts_of(vectors: pa.Array) -> pa.Array:
    """Encodes vectors as base64 of their 32-bit floats; several of a row are concatenated."""
    many = pa.types.is_list(vectors.type)
    size = (vectors.type.value_type if many else vectors.type).list_size
    told: list[Any] = []
    for index in range(len(vectors)):
        one = vectors[index]
        if not one.is_valid:
            told.append(None)
            continue
        inner = one.values.flatten() if many else one.values
        numbers = np.asarray(inner, dtype="<f4").reshape(-1, size)
        texts = [base64.b64encode(each.tobytes()).decode("ascii") for each in numbers]
        told.append(texts if many else texts[0])
    return pa.array(told, pa.list_(pa.string()) if many else pa.string())


async def _parquet(
    resources: Resources, scope: Scope, folder: Path, progress: Telling | None
) -> Exported:
    await asyncio.to_thread(folder.mkdir, parents=True)
    tables = await outgoing(resources, scope)
    done = Exported()
    files = {one.table.name: f"{index}.parquet" for index, one in enumerate(tables)}
    for one in tables:
        done.rows[one.table.name] = 0
        writer: Any = None
        try:
            async for batch in _batches(one, _shown(one)):
                plain = _plain(batch)
                if writer is None:
                    writer = pq.ParquetWriter(folder / files[one.table.name], plain.schema)
                await asyncio.to_thread(writer.write_batch, plain)
                await _count(done, one.table.name, batch.num_rows, progress)
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            del files[one.table.name]
    head = {HEADER: VERSION, "vectors": await _vectors(tables), "files": files, "rows": done.rows}
    head["sha256"] = await asyncio.to_thread(_digests, folder, files)
    (folder / "export.json").write_text(json.dumps(head, indent=2), encoding="utf-8")
    return done


def _digests(folder: Path, files: Mapping[str, str]) -> dict[str, str]:
    return {name: digest_of(folder / file) for name, file in files.items()}


def _shown(one: Outgoing) -> list[str]:
    """Returns the columns of a Parquet file: those of the row, and further ones for other readers."""
    derived = ("search_text", "edges", "acknowledged_at")
    if one.table.name not in OF_RECORDS:
        return one.columns
    return [each.name for each in one.table.spec.schema if each.name not in derived]


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [one.storage if isinstance(one, pa.ExtensionArray) else one for one in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


async def _conversations(
    resources: Resources, scope: Scope, file: Lines, format: str, progress: Telling | None
) -> Exported:
    records = Records(resources, scope)
    written, _ = FORMS[format]
    done = Exported({"messages": 0})
    sessions = await AsyncSessions(records).list()
    shared = Counter((one.tenant, one.user_id, one.id) for one in sessions)
    for session in sessions:
        # Each agent with a scope of its own has a session of that name; else it belongs to all.
        is_shared = shared[session.tenant, session.user_id, session.id] > 1
        where = records.where(
            sql.equals("kind", "message"),
            sql.equals("session_id", session.id),
            sql.equals("user_id", session.user_id),
            *([sql.equals("agent_id", session.agent_id)] if is_shared else []),
            sql.equals("tenant", session.tenant),
        )
        rows = await records.table.select(where, columns=WITHOUT_BLOB)
        if not rows.num_rows:
            continue
        about = {"session_id": session.id, "agent_id": session.agent_id, "user_id": session.user_id}
        said = [written(one.to_message()) for one in from_rows(rows)]
        told = {**{name: one for name, one in about.items() if one is not None}, "messages": said}
        file.write([dumps(told) + "\n"])
        await _count(done, "messages", len(said), progress)
    return done


async def _batches(one: Outgoing, columns: list[str]) -> AsyncIterator[pa.RecordBatch]:
    """Yields the rows in order, as of the moment when the first one is read."""
    await one.table.access.settle()
    snapshot = await one.table.snapshot()
    try:
        wanted = [*columns, VECTOR]
        if snapshot.view is not None:  # A moment that the table itself does not know.
            rows = await one.table.select(one.where, columns=wanted)
            for batch in rows.drop_columns(["_rowid"]).to_batches():
                yield batch
            return
        read = snapshot.in_order(one.where, columns=wanted, batch_rows=_BATCH_ROWS)
        async for batch in read:
            yield batch
    finally:
        snapshot.close()


async def _vectors(tables: list[Outgoing]) -> dict[str, Any]:
    """Returns the length and the model of each table's vectors."""
    told = {}
    for one in tables:
        schema = await one.table.schema()
        if VECTOR in schema.names:
            column = schema.field(VECTOR)
            told[one.table.name] = {
                "length": vector_length(column),
                "model": vector_model(column),
            }
    return told


async def _count(done: Exported, name: str, n: int, progress: Telling | None) -> None:
    done.rows[name] += n
    await tell(progress, Progress(n_done=done.n_rows, what="rows", name=name))
