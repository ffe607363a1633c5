"""Imports exported files: checks all rows before anything is written."""

import asyncio
import base64
import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lance_context_core._progress import check_progress, tell
from lance_context_core._resources import Resources
from lance_context_core._util.checks import check_name, dumps, shown
from lance_context_core.errors import InvalidRequestError, NotFoundError, StoreFormatError
from lance_context_core.scope import Scope
from lance_context_core.storage.bulk import absent, load
from lance_context_core.storage.database import RECORDS_TABLE, spec_of
from lance_context_core.storage.lance.arrow import to_table, written_as
from lance_context_core.storage.lance.locations import require_local
from lance_context_core.storage.lance.schema import KEY, VECTOR, vector_field
from lance_context_core.storage.names import collection_of, kv_of
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.stores.records import writes
from lance_context_core.stores.records.scoped import Records
from lance_context_core.stores.records.writes import Draft
from lance_context_core.transfer.agent_histories import PLACES, import_histories
from lance_context_core.transfer.coding_agents import CodingAgent
from lance_context_core.transfer.conversations import (
    FORMS,
    ExportFormat,
    Imported,
    ImportFormat,
    Telling,
    read,
)
from lance_context_core.transfer.files import HEADER, VERSION, Whole, check_files, read_lines
from lance_context_core.transfer.tables import Incoming
from lance_context_core.types import Progress
from lance_context_core.versioning.locations import NAMED

_AT_ONCE = 1_024


async def import_(
    resources: Resources,
    scope: Scope,
    source: str | os.PathLike[str] | None,
    *,
    format: ImportFormat | None,
    project: str | os.PathLike[str] | None,
    progress: Telling | None,
) -> Imported:
    """See `ContextStore.import_`."""
    resources.writable()
    check_progress(progress)
    known = (*get_args(ExportFormat), *get_args(CodingAgent))
    if format is not None and format not in known:
        raise InvalidRequestError(f"format={shown(format)}: use one of {', '.join(known)}")
    if source is not None:
        require_local(source, "source")
    if format in get_args(CodingAgent):
        return await import_histories(
            Records(resources, scope),
            AsyncKeyValues(PLACES, resources, scope),
            cast("CodingAgent", format),
            None if source is None else Path(source),
            project=None if project is None else Path(project),
            progress=progress,
        )
    if project is not None:
        raise InvalidRequestError(
            f"project={shown(str(project))} is for the histories of coding agents: leave it out, or pass "
            f"format as one of {', '.join(get_args(CodingAgent))}"
        )
    if source is None:
        raise InvalidRequestError("source is missing: pass the path of the file to import")
    path = Path(source)
    if not await asyncio.to_thread(path.exists):
        raise NotFoundError(f"{str(path)!r} does not exist: pass another path")
    if format in FORMS:
        return await _conversations(resources, scope, path, str(format), progress)
    with tempfile.TemporaryDirectory(prefix="lance-context-import-") as scratch:
        stage = _Stage(Path(scratch), resources, scope)
        told = partial(_tell_from_thread, asyncio.get_running_loop(), progress)
        reading = asyncio.ensure_future(asyncio.to_thread(stage.read, path, told))
        try:
            await asyncio.shield(reading)
        except asyncio.CancelledError:
            stage.is_stopped = True
            await asyncio.wait([reading])
            raise
        # From here on it runs to its end: checked rows are written, or an error is raised.
        task = asyncio.ensure_future(stage.write())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise


class _Stage:
    """Checked rows, in temporary files, before they are written to the tables."""

    def __init__(self, folder: Path, resources: Resources, scope: Scope) -> None:
        self._folder = folder
        self._resources = resources
        self._scope = scope
        self._files: dict[str, Path] = {}
        self._rows: dict[str, int] = {}
        self._keys: dict[str, set[str]] = {}
        self._vectors: Mapping[str, Any] = {}
        self.is_stopped = False
        """Whether the caller no longer waits."""

    def read(self, path: Path, told: Callable[[Progress], None]) -> None:
        """Checks all rows, and stores them in the folder; in a thread of its own."""
        writers: dict[str, Any] = {}
        try:
            for name, rows in self._sources(path):
                if self.is_stopped:
                    return
                self._write(name, rows, writers)
                told(Progress(n_done=sum(self._rows.values()), what="rows", name=name))
        finally:
            for writer in writers.values():
                writer.close()

    async def write(self) -> Imported:
        """Writes the rows to the tables, the records last."""
        done = Imported()
        names = sorted(self._files, key=lambda one: (one == RECORDS_TABLE, one))
        tables = {name: self._resources.database.table(name, spec_of(name)) for name in names}
        told = {name: self._vectors[name] for name in names if name in self._vectors}
        for name, vector in told.items():  # For all tables before the first write.
            await tables[name].vectors.require_room(
                dimension=vector["length"], model=vector["model"]
            )
        for name, table in tables.items():
            if (vector := told.get(name)) is not None:
                await table.vectors.ensure(vector["length"], vector["model"])
            await table.access.writer()
            is_empty = await table.count() == 0
            with pa.OSFile(str(self._files[name])) as file, pa.ipc.open_file(file) as rows:
                done.added[name] = await load(
                    table, partial(_batches, rows), kept=None if is_empty else absent
                )
            done.there[name] = self._rows[name] - done.added[name]
        self._resources.forget_hot()
        return done

    def _sources(self, path: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        if path.is_dir():
            yield from self._parquet(path)
            return
        whole: Whole | None = None
        name = ""
        rows: list[dict[str, Any]] = []
        n_rows: Counter[str] = Counter()
        for where, line, text in read_lines(path):
            given = _json(text, where)
            if whole is None:
                head = _head(given, path)
                self._vectors = head["vectors"]
                whole = Whole(path, head[HEADER])
            elif whole.is_end(given, n_rows, where):
                continue
            else:
                if not isinstance(given, dict):
                    raise InvalidRequestError(f"{where} is not a row of an export: {shown(text)}")
                if rows and (given.get("table") != name or len(rows) == _AT_ONCE):
                    yield name, rows
                    rows = []
                name = _table(given.get("table"), where)
                given[VECTOR] = _vector(given.get(VECTOR), where)
                rows.append(self._incoming(name).row(given, where))
                n_rows[name] += 1
            whole.take(line)
        if whole is None:
            raise InvalidRequestError(
                f"{str(path)!r} is empty: import a file that export has written"
            )
        whole.finish()
        if rows:
            yield name, rows

    def _parquet(self, folder: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        try:
            text = (folder / "export.json").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequestError(
                f"{str(folder)!r} is not an export, which has a file export.json: {error}"
            ) from error
        head = _head(_json(text, str(folder / "export.json")), folder)
        self._vectors = head["vectors"]
        if head[HEADER] > 1:
            check_files(head, folder)
        for name, file in head["files"].items():
            where = str(folder / Path(file).name)
            incoming = self._incoming(_table(name, where))
            try:
                for batch in pq.ParquetFile(where).iter_batches(_AT_ONCE):
                    yield name, [incoming.row(row, where) for row in batch.to_pylist()]
            except (pa.ArrowException, OSError) as error:
                raise InvalidRequestError(f"{where} cannot be read: {error}") from error

    def _incoming(self, name: str) -> Incoming:
        return Incoming(name, self._resources.composer, self._scope)

    def _write(self, name: str, rows: list[dict[str, Any]], writers: dict[str, Any]) -> None:
        spec = spec_of(name)
        vector = None
        if (told := self._vectors.get(name)) is not None:
            vector = vector_field(told["length"], told["model"], is_many=spec.has_many_vectors)
        try:
            table = to_table(rows, written_as(spec.schema, vector))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidRequestError(f"a row of {name!r} cannot be kept: {error}") from error
        if name not in writers:
            self._files[name] = self._folder / f"{len(writers)}.arrow"
            writers[name] = pa.ipc.new_file(str(self._files[name]), table.schema)
        writers[name].write_table(table.filter(pa.array(self._new(name, table))))
        self._rows[name] = self._rows.get(name, 0) + len(rows)

    def _new(self, name: str, table: pa.Table) -> list[bool]:
        """Returns which rows have new keys: the first one of a key counts, as in a second import."""
        known = self._keys.setdefault(name, set())
        is_new = []
        for key in table.column(KEY).to_pylist():
            is_new.append(key not in known)
            known.add(key)
        return is_new


async def _conversations(
    resources: Resources, scope: Scope, path: Path, format: str, progress: Telling | None
) -> Imported:
    """Imports conversations, all in one commit; repeating it changes nothing."""
    records = Records(resources, scope)
    now = records.now()
    drafts = []
    for where, told in await asyncio.to_thread(_told, path):
        session = check_name(told.get("session_id") or path.stem, f"{where}: session_id")
        about = {
            name: None if told.get(name) is None else check_name(told[name], f"{where}: {name}")
            for name in ("agent_id", "user_id")
        }
        for index, said in enumerate(told["messages"]):
            message = read(format, said, f"{where}: messages[{index}]")
            id = message.id or _id_of(session, about, index, said)
            more = {"id": id, "kind": "message", "session_id": session, **about}
            drafts.append(
                Draft(record=Draft.said(message, now=now, **more).record, identity=("id", id))
            )
    keys = {(one.record.agent_id, one.record.session_id, one.record.id): one for one in drafts}
    before = await records.table.count(records.own())
    await writes.insert(records, lambda _, one: one, list(keys.values()), keep_existing=True)
    added = await records.table.count(records.own()) - before
    await tell(progress, Progress(n_done=len(keys), what="messages"))
    return Imported({"messages": added}, {"messages": len(keys) - added})


def _batches(rows: Any) -> Iterator[pa.RecordBatch]:
    return (rows.get_batch(index) for index in range(rows.num_record_batches))


def _tell_from_thread(
    loop: asyncio.AbstractEventLoop, progress: Telling | None, now: Progress
) -> None:
    """As `tell`, for a thread outside that loop."""
    if progress is not None:
        asyncio.run_coroutine_threadsafe(tell(progress, now), loop).result()


def _id_of(session: str, about: Mapping[str, Any], index: int, said: Any) -> str:
    """Returns a stable id for a message without one."""
    told = dumps([session, about["agent_id"], about["user_id"], index, said])
    return f"imported-{hashlib.sha256(told.encode()).hexdigest()[:32]}"


def _told(path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """Yields a file's conversations and positions: a line for each, or one array of messages."""
    lines = [(where, text) for where, _, text in read_lines(path)]
    if lines and lines[0][1].lstrip().startswith("["):
        return [(str(path), {"messages": _json("".join(text for _, text in lines), str(path))})]
    told = [(where, _json(text, where)) for where, text in lines]
    for where, one in told:
        if not isinstance(one, dict) or not isinstance(one.get("messages"), list):
            raise InvalidRequestError(f"{where} has no messages: give a list of them")
    return told


def _head(head: Any, path: Path) -> dict[str, Any]:
    version = head.get(HEADER) if isinstance(head, dict) else None
    if not isinstance(version, int):
        raise InvalidRequestError(
            f"{str(path)!r} is not an export of a store: for messages of OpenAI or LangChain say "
            "format='openai' or 'langchain'"
        )
    if version > VERSION:
        raise StoreFormatError(
            f"{str(path)!r} has format {version}, this release reads up to {VERSION}: "
            "upgrade lance-context-core"
        )
    vectors, files = (head.get(name, {}) for name in ("vectors", "files"))
    try:
        told = {
            name: {"length": one["length"], "model": one["model"]} for name, one in vectors.items()
        }
        is_sound = all(isinstance(one, str) for one in files.values()) and all(
            type(one["length"]) is int and isinstance(one["model"], str | None)
            for one in told.values()
        )
    except (AttributeError, KeyError, TypeError):
        is_sound = False
    if not is_sound:
        raise InvalidRequestError(
            f"{str(path)!r} declares vectors or files that no export has: export again"
        )
    return {**head, "vectors": told, "files": files}


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"{where} is not JSON: {error}") from error


def _table(name: Any, where: str) -> str:
    if isinstance(name, str) and (name in NAMED or collection_of(name) or kv_of(name)):
        return name
    raise InvalidRequestError(f"{where} is of a table that no store has: {shown(name)}")


def _vector(told: Any, where: str) -> Any:
    if told is None:
        return None
    try:
        if isinstance(told, list):
            return [_vector(one, where) for one in told]
        return np.frombuffer(base64.b64decode(told, validate=True), dtype="<f4").tolist()
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(f"{where} has a vector that is none: {error}") from error
