"""Probe: checks an untested release of LanceDB before a store is opened with it.

The store relies on more than LanceDB promises: the layout of manifests, merges that compare
revisions, conditions on JSON, the errors of a merge. If one of these differs, a store could be
damaged, or reported as damaged.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa

from lance_context_core.errors import ContextStoreError, InternalError
from lance_context_core.storage.lance import manifests, reads, writes
from lance_context_core.storage.lance.errors import asked, is_division_by_zero
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.names import SUCCEEDS, new_revision, next_revision

TRIED = "0.40"
"""The minor release of all tests, which is not probed."""

_SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.string()),
        pa.field("revision", pa.int64()),
        pa.field("metadata", pa.json_()),
    ]
)

_found_good: set[str] = set()
"""The releases that were probed in this process: one."""


async def require_known() -> None:
    """Raise InternalError if this release of LanceDB lacks what the store relies on.

    Probes minor releases other than `TRIED`, once in a process, in a directory of its own.
    """
    release = lancedb.__version__
    if release in _found_good or ".".join(release.split(".")[:2]) == TRIED:
        return
    with tempfile.TemporaryDirectory(prefix="lance-context-") as folder:
        engine = await lancedb.connect_async(folder)
        handle = await engine.create_table("t", schema=_SCHEMA)
        for step, works in _STEPS.items():
            cause = None
            try:
                is_good = await works(handle, Path(folder) / "t.lance")
            except Exception as error:  # noqa: BLE001 - whatever it is, the engine cannot be used
                is_good, cause = False, error
            if not is_good:
                raise InternalError(
                    f"lancedb {release} failed to {step}. This release of lance-context-core was "
                    f"tested with lancedb {TRIED} and cannot use it. Install a newer "
                    f'lance-context-core, or "lancedb~={TRIED}.0". Nothing was written'
                ) from cause
    _found_good.add(release)


def _rows(*given: tuple[str, int]) -> pa.Table:
    metadata = ['{"n": 1, "who": "Ada"}' for _ in given]
    columns = [[key for key, _ in given], [revision for _, revision in given], metadata]
    return pa.table(dict(zip(_SCHEMA.names, columns, strict=True)))


async def _replaces(handle: Any, _: Path) -> bool:
    a, b = new_revision(), new_revision()
    await writes.merge(handle, _rows(("a", a), ("b", b)), over=SUCCEEDS)
    later, stale = next_revision(a), next_revision(next_revision(b))
    done = await writes.merge(handle, _rows(("a", later), ("b", stale)), over=SUCCEEDS)
    found = (await reads.scan(handle, None, [KEY, "revision"])).to_pylist()
    return done.n_replaced == 1 and {row[KEY]: row["revision"] for row in found} == {
        "a": later,
        "b": b,
    }


async def _claims(handle: Any, _: Path) -> bool:
    rows = _rows(("c", new_revision()), ("a", new_revision()))
    try:
        await asked("merge", writes.merge(handle, rows, over=writes.claiming(["a"])))
    except ContextStoreError as error:
        return is_division_by_zero(error) and int(await handle.count_rows()) == 2
    return False


async def _filters(handle: Any, _: Path) -> bool:
    where = "json_extract(`metadata`, '$.who') = '\"Ada\"'"
    return int(await handle.count_rows(where)) == 2


async def _has_manifests(handle: Any, table: Path) -> bool:
    version = int(await handle.version())

    def look() -> bool:
        manifest = manifests.path(table, version)
        manifests.require_whole(manifest, version)
        files = manifests.contents(manifest, table).files
        data = [one for one in files if one.suffix == ".lance"]
        return bool(data) and all(one.is_file() for one in files)

    return await asyncio.to_thread(look)


async def _moves(handle: Any, _: Path) -> bool:
    version = int(await handle.version())
    await handle.delete(f"{KEY} = 'b'")
    rows = await reads.scan(handle, None, [KEY])
    return int(await handle.version()) == version + 1 and rows.num_rows == 1


_STEPS: dict[str, Callable[[Any, Path], Awaitable[bool]]] = {
    "replace rows by their revisions": _replaces,
    "refuse a merge of rows that another writer has taken": _claims,
    "filter by JSON": _filters,
    "write manifests of the known layout": _has_manifests,
    "count its versions": _moves,
}
