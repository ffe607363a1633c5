"""The bytes that erased things named, and nothing else does: they go with the last one."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from lance_context_core.codecs import blobs
from lance_context_core.erasure.references import State
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage import sql
from lance_context_core.storage.database import COLD_TABLE, DOCUMENTS_TABLE, RECORDS_TABLE, Database
from lance_context_core.storage.lance import purge
from lance_context_core.storage.lance.purge import TableRef
from lance_context_core.storage.lance.schema import KEY, TableSpec
from lance_context_core.types.media import SCHEME, uri_of

_NAMES = "payload_uri"
_HOLDERS = (RECORDS_TABLE, COLD_TABLE, DOCUMENTS_TABLE)
"""The tables whose rows name blobs."""


class Named(NamedTuple):
    """That something names a blob, and whose that is."""

    uri: str
    scope: tuple[str | None, ...]

    @property
    def hash(self) -> str:
        """The hash in the URI."""
        return self.uri.removeprefix(SCHEME)

    def is_of(self, state: State) -> bool:
        """Whether the blob is the one that is meant: the scope it is in is one that this is within."""
        whose = state.tenant, state.user_id, state.agent_id
        within = all(a is None or a == b for a, b in zip(whose, self.scope, strict=True))
        return within and self.uri == uri_of(blobs.hash_of(state.id))


async def once_named(
    database: Database, name: str, refs: Sequence[TableRef], gone: Collection[str], scope: str
) -> set[Named]:
    """What the rows with these keys name, or named in any version, on any ref."""
    if name not in _HOLDERS:
        return set()
    where = sql.all_of([sql.starts_with(_NAMES, SCHEME), scope])
    found: set[Named] = set()
    access = database.table(name, refs[0].table.spec).access
    async with access.separately(is_settled=True) as main:
        for ref in refs:
            async for _, (rows,) in purge.past(ref, [(where, [KEY, _NAMES, *SCOPE_PARTS])], main):
                found |= _named(row for row in rows.to_pylist() if row[KEY] in gone)
    return found


async def unheld(
    database: Database,
    specs: Mapping[str, TableSpec],
    states: Collection[State],
    named: Collection[Named],
    gone: Mapping[str, Collection[str]],
) -> set[State]:
    """Those of the blobs' states that were `named`, and that nothing which stays names on any ref.

    `gone` are the keys of what goes, by table.
    """
    meant = {one for one in states if any(name.is_of(one) for name in named)}
    if not meant:
        return set()
    uris = sorted({name.uri for name in named})
    staying: set[Named] = set()
    for name in _HOLDERS:
        if name not in specs:
            continue
        async with database.table(name, specs[name]).access.separately() as main:
            refs = await purge.table_refs(database, name, specs[name], main)
        for ref in refs:
            rows = await _present(ref, sql.in_list(_NAMES, uris))
            staying |= _named(row for row in rows if row[KEY] not in gone.get(name, ()))
    return {one for one in meant if not any(name.is_of(one) for name in staying)}


async def pinned(refs: Sequence[TableRef], states: Collection[State]) -> set[str]:
    """The keys of those blobs that are pinned on some ref, with those of their pieces."""
    where = sql.all_of(
        [sql.equals("kind", blobs.BLOB), sql.in_list(KEY, sorted({one.key for one in states}))]
    )
    found = set()
    for ref in refs:
        rows = await purge.present(ref.table, where, ["id", "is_pinned", *SCOPE_PARTS])
        found |= {_whose(row) for row in rows.to_pylist() if row["is_pinned"]}
    return {one.key for one in states if _whose(one._asdict()) in found}


async def _present(ref: TableRef, where: str) -> list[dict[str, Any]]:
    async with ref.table.access.separately() as handle:
        if _NAMES not in (await handle.schema()).names:
            return []
    return list((await purge.present(ref.table, where, [KEY, _NAMES, *SCOPE_PARTS])).to_pylist())


def _named(rows: Any) -> set[Named]:
    return {Named(row[_NAMES], tuple(row[part] for part in SCOPE_PARTS)) for row in rows}


def _whose(row: Mapping[str, Any]) -> tuple[str | None, ...]:
    return (blobs.hash_of(row["id"]), *(row[part] for part in SCOPE_PARTS))
