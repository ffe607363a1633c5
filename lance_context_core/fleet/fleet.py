"""A fleet of stores: tenants in many stores under one place, used as one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack
from weakref import WeakValueDictionary

from lance_context_core._handle import Opened
from lance_context_core._opening import DEFAULTS, OpenOptions
from lance_context_core._resources import Resources
from lance_context_core._util.calls import check_options, takes
from lance_context_core._util.checks import check_count, check_name
from lance_context_core.coordination.locks import AsyncLocks
from lance_context_core.embedders import as_embedder
from lance_context_core.embedders._service import EmbeddingService
from lance_context_core.errors import ConflictError, InvalidRequestError
from lance_context_core.fleet import everywhere, moving
from lance_context_core.fleet.catalog import Catalog, TenantPlacement, check_shard, check_tenants
from lance_context_core.fleet.everywhere import Everywhere, FleetSearch, best_of
from lance_context_core.fleet.moving import Moved
from lance_context_core.fleet.routing import Route
from lance_context_core.fleet.shards import Shards
from lance_context_core.fleet.tables import RoutedDatabase, routed
from lance_context_core.maintenance.types import StoreStats, TableUpkeep
from lance_context_core.scope import Scope
from lance_context_core.search.options import AS_USUAL, SearchArguments
from lance_context_core.search.query import DEFAULTS as SEARCH_DEFAULTS
from lance_context_core.storage import transaction
from lance_context_core.storage.database import RECORDS_TABLE
from lance_context_core.storage.lance.branches import MAIN
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.store.transactions import AsyncTransaction
from lance_context_core.stores.records.mappings import one_agent
from lance_context_core.transfer.conversations import (
    Exported,
    ExportFormat,
    Imported,
    ImportFormat,
)
from lance_context_core.types import ContextRecord, Erasure, Progress, SearchHit
from lance_context_core.verify import Verification
from lance_context_core.versioning.locations import turn

_CATALOG = "catalog"
_SHARDS = "shards"

_ENDINGS = {"parquet": ""}

T = TypeVar("T")

_PATIENCE_SECONDS = 0.5
"""How long a call that a move excludes waits for its end."""


class TenantStore(AsyncContextStore):
    """The store of one tenant of a fleet: each call goes to the shard that has the tenant."""

    @property
    def _route(self) -> Route:
        database = self._resources.database
        assert isinstance(database, RoutedDatabase)
        return database.route

    @property
    def _is_routed(self) -> bool:
        """Whether this handle follows the tenant; a view of an earlier version does not."""
        return isinstance(self._resources.database, RoutedDatabase)

    @property
    def locks(self) -> AsyncLocks:
        """Locks between all users of the fleet, in its catalog: tenants move, and locks do not."""
        if not self._is_routed:
            return super().locks
        return AsyncLocks(self._route.catalog.store._resources)  # noqa: SLF001

    def transaction(self) -> AsyncTransaction:
        """As `AsyncContextStore.transaction`; raises ConflictError if the tenant moves meanwhile."""
        return _RoutedTransaction(self._resources, self._scope)

    async def branch(self, name: str) -> Self:
        """As `AsyncContextStore.branch`; a branch stays in its shard."""
        if self._is_routed:
            await self._route.place()
            if name == MAIN:
                return self
        return await super().branch(name)

    async def erase(self, **what: Any) -> Erasure:
        """As `AsyncContextStore.erase`; raises ConflictError while the tenant is moved."""
        if not self._is_routed:
            return await super().erase(**what)
        async with self._staying() as placement:
            done = await super().erase(**what)
            for name in placement.copies:
                # What a move has left there, or an interrupted one.
                await moving.scoped(self._route, name, self._scope).erase(**what)
        return done

    async def import_(
        self,
        source: str | PathLike[str] | None = None,
        *,
        format: ImportFormat | None = None,
        project: str | PathLike[str] | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> Imported:
        """As `AsyncContextStore.import_`; raises ConflictError while the tenant is moved."""
        async with self._staying():
            return await super().import_(source, format=format, project=project, progress=progress)

    @asynccontextmanager
    async def _staying(self) -> AsyncIterator[TenantPlacement]:
        """Keep the tenant in its shard in this context."""
        while True:
            self._route.forget()
            place = await self._route.place()
            if place.placement.blocked_until is not None:
                place = await self._route.place_to_write()
            async with AsyncExitStack() as held:
                held.enter_context(place.shard.in_use())
                connection = place.shard.store._resources.database.root.connection  # noqa: SLF001
                seconds = _PATIENCE_SECONDS if place.placement.is_moving else None
                try:
                    await held.enter_async_context(turn(connection, patience_seconds=seconds))
                except ConflictError as error:
                    if not place.placement.is_moving:
                        raise
                    raise ConflictError(
                        f"tenant {self._route.tenant!r} is being moved to another shard: nothing was "
                        "done, call again when the move has ended"
                    ) from error
                self._route.forget()
                if (await self._route.place()).shard is place.shard:
                    yield await self._route.catalog.placement(self._route.tenant)
                    return


class _RoutedTransaction(AsyncTransaction):
    """A transaction in the shard that has the tenant when the block begins."""

    async def _begin(self) -> transaction.WriteTransaction:
        database = self._resources.database
        if isinstance(database, RoutedDatabase):
            place = await database.route.place_to_write()
            here: Resources = place.shard.store._resources  # noqa: SLF001
            given = self._resources
            self._resources = replace(here, author=given.author, embeddings=given.embeddings)
            written = await super()._begin()
            if place.fence is not None:
                written.depend_on(place.fence)
            return written
        return await super()._begin()


class AsyncStoreFleet(Opened):
    """Many stores under one place, each a shard with the data of some tenants.

    Safe to share between tasks, threads and event loops. Opening does no I/O.
    """

    @classmethod
    @takes(OpenOptions, DEFAULTS)
    def open(
        cls,
        place: str | Path,
        *,
        shards: int | None = None,
        max_open: int = 64,
        **options: Unpack[OpenOptions],
    ) -> Self:
        """Opens the fleet at `place`: a directory, or a URI such as `s3://bucket/agents`.

        - `shards`: the number of numbered shards, fixed when the fleet is made. The first call
          raises InvalidRequestError if the fleet has another number, and NotFoundError without the
          argument if there is no fleet.
        - `max_open`: the number of stores that stay open. Others are closed once they have been
          idle for half a second, those used longest ago first.

        The options are those of every shard. Raises InvalidRequestError for an unknown option or
        an invalid value, for `memory://`, and for the directory of a store.
        """
        return cls(place, shards=shards, max_open=max_open, options=options)

    @classmethod
    async def exists(cls, place: str | Path, **options: Unpack[OpenOptions]) -> bool:
        """Whether a fleet exists at `place`; the options are those of `open`. Creates nothing."""
        if not await asyncio.to_thread(_may_be_fleet, place):
            return False
        fleet = cls.open(place, **options)
        try:
            return await fleet._catalog.exists()  # noqa: SLF001 - of this class
        finally:
            await fleet.close()

    def __init__(
        self, place: str | Path, *, shards: int | None, max_open: int, options: OpenOptions
    ) -> None:
        """Use `open`."""
        check_options(options, DEFAULTS, "a fleet")
        if shards is not None:
            check_count(shards, "shards")
        check_count(max_open, "max_open")
        self._uri = _checked_place(place)
        self._options = options
        plain: dict[str, Any] = {**options, "embedder": None, "search_cache": None}
        catalog = AsyncContextStore.open(f"{self._uri}/{_CATALOG}", **plain)
        self._catalog = Catalog(catalog, shards)
        self._shards = Shards(self._opened, max_open)
        # One for all shards: a local model is loaded once.
        given = options.get("embedder")
        self._embeddings = None if given is None else EmbeddingService(as_embedder(given))
        self._model: Resources = self._opened("0")._resources  # noqa: SLF001 - of its options
        self._routes: WeakValueDictionary[str, Route] = WeakValueDictionary()

    @property
    def uri(self) -> str:
        """The URI of the fleet; a local directory as an absolute path."""
        return self._uri

    @property
    def n_open(self) -> int:
        """The number of shards that this process has open."""
        return self._shards.n_open

    # Tenants

    def scope(
        self,
        *,
        tenant: str,
        user_id: str | None = None,
        agent_id: str | None = None,
        bot_id: str | None = None,
    ) -> AsyncContextStore:
        """Returns the store of one tenant, as `AsyncContextStore.scope` does, in any shard.

        The handle follows the tenant when it is moved. Locks are those of the fleet. Versions and
        branches are those of the shard, and stay there.
        """
        agent = one_agent(agent_id, bot_id)
        scope = Scope().narrow(tenant=check_name(tenant, "tenant"), user_id=user_id, agent_id=agent)
        return TenantStore(routed(self._route(tenant), self._model), scope=scope, is_owner=False)

    async def shards(self) -> list[str]:
        """Returns the names of the shards: the numbered ones, then those of single tenants."""
        return await self._catalog.shards()

    async def placement(self, tenant: str) -> TenantPlacement:
        """Returns the shard of a tenant, which need not have data yet."""
        return await self._catalog.placement(check_name(tenant, "tenant"))

    async def placements(self) -> list[TenantPlacement]:
        """Returns the placements of the tenants that were ever moved, by name."""
        return await self._catalog.placements()

    async def move(
        self,
        tenant: str,
        *,
        to: int | str,
        progress: Callable[[Progress], object] | None = None,
    ) -> Moved:
        """Moves a tenant to another shard, while others read and write its data.

        - `to`: the number of a shard; or a name with a letter, for a shard of its own that is made.
        - `progress`: called after each copy of the rows.

        Handles find the new shard. Writes wait while the last rows are copied, reads do not. Rows
        keep their ids, order, times and vectors; earlier versions and branches are not moved, and
        are erased with the first copy. May be repeated: after an interruption, or an error, the
        data is whole in one of the two shards, and the next call starts from there. Memory holds
        the keys of one table. Takes at least two seconds.

        Raises ConflictError, before anything is done, while another move or an erasure runs in the
        shard; InvalidRequestError without a write-ahead log, and for a shard that cannot exist;
        DimensionMismatchError or EmbeddingModelMismatchError if the shard has other vectors.
        """
        target = check_shard(to, await self._catalog.n_shards())
        return await moving.move(
            self._route(check_name(tenant, "tenant")), target, progress=progress
        )

    # All shards

    @takes(SearchArguments, SEARCH_DEFAULTS)
    async def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        tenants: Sequence[str] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        timeout_seconds: float | None = 10,
        **arguments: Unpack[SearchArguments],
    ) -> FleetSearch:
        """Searches the records of all tenants, or of some, as `AsyncContextStore.search`.

        Shards that fail, or do not answer in time, are named in the result. A score by vector is
        the same in each shard. A score by text depends on how rare a word is in its shard. A hybrid
        search normalises the scores of all hits together, and fuses them again.
        """
        names = check_tenants(tenants)
        options = arguments.get("options") or AS_USUAL
        limit = arguments.get("limit", SEARCH_DEFAULTS["limit"])
        away = await self._away() if names is None else {}

        async def ask(name: str) -> list[SearchHit[ContextRecord]]:
            if names is not None:
                store: AsyncContextStore = self.scope(
                    tenant=name, user_id=user_id, agent_id=agent_id
                )
                return await store.search(query, **arguments)
            return await self._in_shard(
                name,
                lambda store: store.scope(user_id=user_id, agent_id=agent_id).search(
                    query, **_without(arguments, away.get(name))
                ),
            )

        asked = await self._each(ask, names, timeout_seconds=timeout_seconds)
        hits = best_of([*asked.results.values()], limit=int(str(limit)), fusion=options.fusion)
        return FleetSearch(hits=hits, unanswered=asked.failed)

    async def erase(
        self,
        *,
        tenants: Sequence[str] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        dry_run: bool = False,
    ) -> Everywhere[Erasure]:
        """Erases all data of tenants, or of a user or agent in all shards.

        As `AsyncContextStore.erase` in that scope, one shard after the other. Raises
        InvalidRequestError without a tenant, user or agent. May be repeated.
        """
        names = check_tenants(tenants)
        if names is None and user_id is None and agent_id is None:
            raise InvalidRequestError(
                "erase what? pass tenants, user_id or agent_id; to keep nothing, remove the fleet's "
                "directory"
            )

        async def ask(name: str) -> Erasure:
            if names is not None:
                one: AsyncContextStore = self.scope(tenant=name, user_id=user_id, agent_id=agent_id)
                return await one.erase(dry_run=dry_run)
            return await self._in_shard(
                name,
                lambda store: store.scope(user_id=user_id, agent_id=agent_id).erase(
                    dry_run=dry_run
                ),
            )

        return await self._each(ask, names, at_once=1)

    async def verify(
        self, *, shards: Sequence[int | str] | None = None
    ) -> Everywhere[Verification]:
        """Checks all shards, or some, and the catalog, as `AsyncContextStore.verify`."""
        checked = await self._on_stores(lambda store: store.verify(), shards)
        catalog = await self._catalog.store.verify()
        return replace(checked, results={_CATALOG: catalog, **checked.results})

    async def stats(self, *, shards: Sequence[int | str] | None = None) -> Everywhere[StoreStats]:
        """Returns the statistics of all shards, or of some, as `AsyncContextStore.stats`."""
        return await self._on_stores(lambda store: store.stats(), shards)

    async def maintain(
        self, *, shards: Sequence[int | str] | None = None, only_due: bool = False
    ) -> Everywhere[list[TableUpkeep]]:
        """Maintains all shards, or some, as `AsyncContextStore.maintain`.

        Also erases the copies that interrupted moves have left.
        """
        await self._tidied()
        await self._catalog.store.maintain(only_due=only_due)
        return await self._on_stores(lambda store: store.maintain(only_due=only_due), shards)

    async def flush(self, *, shards: Sequence[int | str] | None = None) -> Everywhere[None]:
        """Flushes the write-ahead log of all shards, or of some."""
        return await self._on_stores(lambda store: store.flush(), shards)

    async def export(
        self,
        destination: str | PathLike[str],
        *,
        tenants: Sequence[str] | None = None,
        format: ExportFormat = "jsonl",
    ) -> Everywhere[Exported]:
        """Exports all shards, or some tenants, each to a file or folder in `destination`.

        A file has the name of the shard, or "tenant-" and the position of the tenant among
        `tenants`; see `AsyncContextStore.export`. The destination is made if it does not exist. A
        tenant that is moved meanwhile is exported once, if `tenants` names it.
        """
        names = check_tenants(tenants)
        folder = Path(destination)
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)

        async def ask(name: str) -> Exported:
            if names is not None:
                file = folder / f"tenant-{names.index(name)}{_ENDINGS.get(format, '.jsonl')}"
                return await self.scope(tenant=name).export(file, format=format)
            file = folder / f"{name}{_ENDINGS.get(format, '.jsonl')}"
            return await self._in_shard(name, lambda store: store.export(file, format=format))

        return await self._each(ask, names)

    async def close(self) -> None:
        """Closes all stores of the fleet in this process; closing twice is no error."""
        await self._shards.close()
        await self._catalog.store.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._uri!r})"

    # Helpers

    def _opened(self, name: str) -> AsyncContextStore:
        store = AsyncContextStore.open(f"{self._uri}/{_SHARDS}/{name}", **self._options)
        resources = replace(store._resources, embeddings=self._embeddings)  # noqa: SLF001
        return AsyncContextStore(resources)

    def _route(self, tenant: str) -> Route:
        return self._routes.setdefault(tenant, Route(self._catalog, self._shards, tenant))

    async def _each(
        self,
        ask: Callable[[str], Awaitable[T]],
        names: Sequence[str] | None,
        *,
        timeout_seconds: float | None = None,
        at_once: int = everywhere.AT_ONCE,
    ) -> Everywhere[T]:
        """Asks all shards, or these names."""
        names = await self._catalog.shards() if names is None else names
        return await everywhere.ask_each(
            names, ask, timeout_seconds=timeout_seconds, at_once=at_once
        )

    async def _on_stores(
        self,
        ask: Callable[[AsyncContextStore], Awaitable[T]],
        shards: Sequence[int | str] | None,
    ) -> Everywhere[T]:
        names = None
        if shards is not None:
            n = await self._catalog.n_shards()
            names = [check_shard(one, n) for one in shards]

        return await self._each(lambda name: self._in_shard(name, ask), names)

    async def _in_shard(self, name: str, ask: Callable[[AsyncContextStore], Awaitable[T]]) -> T:
        """Returns what `ask` returns about the store of a shard."""
        await self._catalog.n_shards()
        shard = self._shards.get(name)
        with shard.in_use():
            done = await ask(shard.store)
        await self._shards.trim()
        return done

    async def _tidied(self) -> None:
        """Erase the copies that interrupted moves have left."""
        for one in await self._catalog.placements():
            if one.copies:
                await moving.tidy(self._route(one.tenant))

    async def _away(self) -> dict[str, list[str]]:
        """Returns the tenants of which a shard may have a copy that does not count, by shard."""
        found: dict[str, list[str]] = {}
        for one in await self._catalog.placements():
            for name in one.copies:
                found.setdefault(name, []).append(one.tenant)
        return found


def _without(arguments: SearchArguments, tenants: list[str] | None) -> SearchArguments:
    """Returns the arguments of a search that leaves these tenants out."""
    if not tenants:
        return arguments
    given, only = arguments.get("filter"), {"tenant": {"$nin": tenants}}
    return {**arguments, "filter": only if given is None else {"$and": [given, only]}}


def _may_be_fleet(place: str | Path) -> bool:
    """Whether a directory has a catalog; True for an object store."""
    return "://" in str(place) or (Path(place).expanduser() / _CATALOG).is_dir()


def _checked_place(place: str | Path) -> str:
    """Returns the URI of a fleet. Raises InvalidRequestError for the place of a store."""
    if not isinstance(place, str | Path) or not str(place) or str(place).startswith("memory://"):
        raise InvalidRequestError(
            f"place={place!r:.80}: give a directory, or a URI such as s3://bucket/agents"
        )
    if "://" in str(place):
        return str(place).rstrip("/")
    root = Path(place).expanduser().absolute()
    if (root / f"{RECORDS_TABLE}.lance").exists() or (root / "journal.sqlite").exists():
        raise InvalidRequestError(
            f"place={str(root)!r}: this is a store, and no fleet. Open it with ContextStore, or pass a "
            "directory for a fleet, and import an export of the store through fleet.scope"
        )
    return str(root)
