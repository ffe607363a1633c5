"""Turns the options of `open` into the resources that handles share."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict

from lance_context_core._resources import Resources, SystemClock
from lance_context_core._util.calls import check_options
from lance_context_core._util.checks import check_name, shown
from lance_context_core.audit import derive_events
from lance_context_core.audit.log import Log
from lance_context_core.codecs.sources import DOCUMENT
from lance_context_core.embedders import as_embedder
from lance_context_core.embedders._service import EmbeddingService
from lance_context_core.engines import SearchEngines
from lance_context_core.errors import InvalidRequestError
from lance_context_core.maintenance.background_embedding import BackgroundEmbedding
from lance_context_core.maintenance.compaction import RecordCompaction
from lance_context_core.maintenance.maintenance import Upkeep
from lance_context_core.maintenance.types import DEFAULT_MAINTENANCE, Maintenance
from lance_context_core.memory_index.cache import DEFAULT_SEARCH_CACHE, SearchCache
from lance_context_core.memory_index.scopes import HotScopes
from lance_context_core.protocols import Clock
from lance_context_core.routing.router import Router
from lance_context_core.storage import sql
from lance_context_core.storage.database import DOCUMENTS_TABLE, Database
from lance_context_core.storage.lance import purge
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.lance.durability import Durability
from lance_context_core.storage.lance.indexes import TextIndex
from lance_context_core.storage.lance.retention import VersionRetention
from lance_context_core.storage.table import Table
from lance_context_core.storage.wal.policy import DEFAULT_JOURNAL, JournalPolicy, policy_of
from lance_context_core.text.composer import DEFAULT_COMPOSER, Composer
from lance_context_core.versioning.prune import thin_if_due


class OpenOptions(TypedDict, total=False):
    """How a store is opened.

    - `embedder`: computes the vectors. `"local"`, another name such as
      `"fastembed:BAAI/bge-small-en-v1.5"`, an `Embedder`, an object of LangChain, LlamaIndex or
      LanceDB's registry; see `as_embedder`. Its model's name is recorded with the
      vectors, and another model is refused with EmbeddingModelMismatchError. Without one,
      callers pass vectors, or search by words.
    - `storage_options`: credentials and endpoints of the object store, as LanceDB names them.
    - `clock`: the source of the time.
    - `author`: the author of all writes: a person, a program, an agent; stored with each row.
    - `composer`: chooses the text of a record to embed and the text to index.
    - `text_index`: the tokenizer; used only when the store is created.
    - `defer_embedding`: True stores now, and embeds when `embed_pending` is called;
      `"background"` embeds soon after each write, and until then finds by words.
    - `read_consistency`: the maximum age of the view of other processes' writes; None never
      refreshes it. The handle's own writes are always visible.
    - `durability`: what an acknowledged write survives. `"process"`: the end of this process,
      `kill -9` included, not a power cut. `"fsync"`: a power cut too, if all writers and
      maintainers open the store so; every file and folder of a commit is synced before the
      call returns. An object store is durable either way; `memory://` refuses.
    - `retention`: how long versions are kept; by default all of an hour, one an hour of a day,
      one a day of a month, and versions named by tags and branches.
    - `journal`: the policy of the write-ahead log of a store in a directory: which small writes it
      acknowledges, and when they are flushed into the tables; None: each write is a commit. A text is the address
      of a PostgreSQL database that has the log, for an object store or a directory that machines
      share: `"postgresql://user:password@host:5432/database"`, which needs the extra `postgres`.
      No text of ours shows it.
    - `search_cache`: holds scopes in memory, so that a search of one does not use the engine; by
      default all stores of a process share one. None: the engine searches.
    - `search_engines`: engines that search instead of LanceDB, such as PostgreSQL or Milvus; see
      `SearchEngines`. None: LanceDB searches.
    - `maintenance`: when the store maintains itself in the background; None leaves that to
      `maintain`.
    - `read_only`: only read an existing store, also without write permission, and while others
      write to it. Nothing on the disk changes, and each write raises ReadOnlyError. Raises
      NotFoundError if the directory holds no store; of an object store the first call does.
    """

    embedder: Any
    storage_options: Mapping[str, str] | None
    clock: Clock | None
    author: str | None
    composer: Composer | None
    text_index: TextIndex | None
    defer_embedding: bool | Literal["background"]
    read_consistency: timedelta | None
    durability: Durability
    retention: VersionRetention | None
    journal: JournalPolicy | str | None
    search_cache: SearchCache | None
    search_engines: SearchEngines | None
    maintenance: Maintenance | None
    read_only: bool


DEFAULTS: OpenOptions = {
    "embedder": None,
    "storage_options": None,
    "clock": None,
    "author": None,
    "composer": None,
    "text_index": None,
    "defer_embedding": False,
    "read_consistency": timedelta(0),
    "durability": "process",
    "retention": None,
    "journal": DEFAULT_JOURNAL,
    "search_cache": DEFAULT_SEARCH_CACHE,
    "search_engines": None,
    "maintenance": DEFAULT_MAINTENANCE,
    "read_only": False,
}
"""The defaults of the options."""

_TYPES: dict[str, tuple[type, str]] = {
    "composer": (Composer, "a Composer"),
    "text_index": (TextIndex, "a TextIndex"),
    "read_consistency": (timedelta, "a timedelta, or None"),
    "retention": (VersionRetention, "a VersionRetention"),
    "journal": (JournalPolicy, "a JournalPolicy, the address of a database, or None"),
    "search_cache": (SearchCache, "a SearchCache, or None"),
    "search_engines": (SearchEngines, "SearchEngines(text=..., vector=...), or None"),
    "maintenance": (Maintenance, "a Maintenance, or None"),
}
"""The types of options that may also be None. `as_embedder` checks embedders, and the database
checks storage options and durability."""


def opened(uri: str | Path, given: OpenOptions) -> Resources:
    """The resources of the store at `uri`; nothing is read or written yet.

    Raises InvalidRequestError for an unknown option, and for a value that an option cannot have.
    """
    options = _checked(given)
    connection = Connection(
        uri,
        storage_options=options["storage_options"],
        read_consistency=options["read_consistency"],
        text_index=options["text_index"],
        durability=options["durability"],
        journal=policy_of(options["journal"]),
        is_read_only=options["read_only"],
    )
    if options["read_only"]:
        connection.require_store()
    database = Database(connection)
    clock = options["clock"] or connection.clock or SystemClock()
    settings = None if options["read_only"] else options["maintenance"]
    upkeep = Upkeep(database, clock, settings=settings)
    connection.on_commit = upkeep.committed
    engines: Router | None = None
    if options["search_engines"] is not None:
        engines = Router(options["search_engines"], connection)
        engines.follows_commits = settings is not None
        connection.on_commit = partial(_committed, upkeep=upkeep, engines=engines)
    embedder, cache = options["embedder"], options["search_cache"]
    hot = None if cache is None else HotScopes(cache)
    if hot is not None:
        connection.on_move = hot.forget_table
        if connection.journal is not None:
            connection.journal.on_break(lambda part: hot.forget_table(part.name, part.ref or None))
    is_behind = options["defer_embedding"] == "background" and not options["read_only"]
    behind = BackgroundEmbedding() if is_behind and embedder is not None else None
    resources = Resources(
        database=database,
        clock=clock,
        composer=options["composer"] or DEFAULT_COMPOSER,
        embeddings=None if embedder is None else EmbeddingService(as_embedder(embedder)),
        defer_embedding=bool(options["defer_embedding"]),
        behind=behind,
        retention=options["retention"] or VersionRetention(),
        upkeep=upkeep,
        author=options["author"],
        compaction=RecordCompaction(database.records, clock),
        hot=hot,
        engines=engines,
    )
    if behind is not None:
        connection.on_write = behind.written
    upkeep.thin = partial(_thin, resources=resources)
    upkeep.mend = _mend
    return resources


def _committed(table: Table, *, upkeep: Upkeep, engines: Router) -> None:
    upkeep.committed(table)
    engines.committed(table)


async def _mend(table: Table) -> None:
    """Remove duplicates left by two concurrent writers of which one was killed.

    Also removes the order of turns that an earlier release stored.
    """
    await purge.forget(table)
    if table.name == DOCUMENTS_TABLE:
        await table.take_back_later(sql.equals("kind", DOCUMENT))


async def _thin(table: Table, *, resources: Resources) -> int:
    """Prune a table if that pays; first records the changes of its versions in the audit log, if enabled."""
    if await Log(resources.database).is_begun():
        await derive_events.seal(resources, only=(table.name,))
    return await thin_if_due(table, resources=resources, retention=resources.retention)


def _checked(given: OpenOptions) -> OpenOptions:
    """All options, those that are not given at their defaults."""
    check_options(given, DEFAULTS, "a store")
    options: OpenOptions = {**DEFAULTS, **given}
    for name, (kind, words) in _TYPES.items():
        if name == "journal" and isinstance(options["journal"], str):
            continue  # and is not shown: it may hold a password
        value = options[name]  # type: ignore[literal-required]  # of those that `_TYPES` names
        if not isinstance(value, kind | None):
            raise InvalidRequestError(f"{name}={shown(value)}: give {words}")
    for name, others in (("defer_embedding", ("background",)), ("read_only", ())):
        value = options[name]  # type: ignore[literal-required]  # as above
        if not isinstance(value, bool) and value not in others:
            words = "".join(f', or "{one}"' for one in others)
            raise InvalidRequestError(f"{name}={shown(value)}: give True or False{words}")
    if not callable(getattr(clock := options["clock"], "now", None)) and clock is not None:
        raise InvalidRequestError(f"clock={shown(clock)}: give an object with the method now()")
    if options["author"] is not None:
        options["author"] = check_name(options["author"], "author")
    return options
