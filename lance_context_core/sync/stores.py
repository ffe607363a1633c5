"""The blocking stores: a wrapper over each asynchronous one."""

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Self, TypedDict

import pyarrow as pa

from lance_context_core._loop import WOULD_BLOCK, block_on
from lance_context_core.audit.audit import AsyncAudit
from lance_context_core.blobs.blobs import AsyncBlobs
from lance_context_core.coordination.checkpoints import AsyncCheckpoints
from lance_context_core.coordination.conversations import current_owner
from lance_context_core.coordination.locks import LEASE, Acquiring, AsyncLock, AsyncLocks
from lance_context_core.coordination.plans import AsyncPlans
from lance_context_core.coordination.state import AsyncShortTermState
from lance_context_core.coordination.tasks import AsyncTaskBoard, AsyncTaskStore
from lance_context_core.coordination.templates import AsyncTemplates
from lance_context_core.documents.documents import AsyncDocuments
from lance_context_core.graph.contradictions import AsyncStatements
from lance_context_core.graph.graph import AsyncGraph
from lance_context_core.information.schema import Family
from lance_context_core.information.tables import AsyncInformationTables
from lance_context_core.jobs.jobs import AsyncJobs, AsyncJobWorker
from lance_context_core.knowledge.knowledge import AsyncKnowledge
from lance_context_core.media.images import AsyncImages
from lance_context_core.stores.history import AsyncHistory
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.stores.memory import AsyncMemory
from lance_context_core.stores.sessions import AsyncSessions
from lance_context_core.stores.vectors import AsyncVectors
from lance_context_core.sync._blocking import (
    Blocking,
    Named,
    blocking,
    field,
    giving,
    handing,
    iterating,
    showing,
)
from lance_context_core.tiers.tiers import AsyncTieredMemory
from lance_context_core.tiers.types import TierConfig, WriteGrant
from lance_context_core.window.windows import AsyncWindows


class Audit(Blocking[AsyncAudit]):
    """The audit log of a whole store. `AsyncAudit` is the asynchronous one."""

    seal = blocking(AsyncAudit.seal)
    head = blocking(AsyncAudit.head)
    entries = blocking(AsyncAudit.entries)
    of = blocking(AsyncAudit.of)
    note_read = blocking(AsyncAudit.note_read)
    verify = blocking(AsyncAudit.verify)
    export = blocking(AsyncAudit.export)
    why = blocking(AsyncAudit.why)


# Blobs, for blocking code.


class Blobs(Blocking[AsyncBlobs]):
    """Bytes, each stored once under its hash; `AsyncBlobs` is the asynchronous one."""

    put = blocking(AsyncBlobs.put)
    get = blocking(AsyncBlobs.get)
    read = blocking(AsyncBlobs.read)
    stream = iterating(AsyncBlobs.stream, at_once=1)
    info = blocking(AsyncBlobs.info)
    exists = blocking(AsyncBlobs.exists)
    url = blocking(AsyncBlobs.url)
    list = blocking(AsyncBlobs.list)
    holders = blocking(AsyncBlobs.holders)
    pin = blocking(AsyncBlobs.pin)
    unpin = blocking(AsyncBlobs.unpin)
    delete = blocking(AsyncBlobs.delete)
    sweep = blocking(AsyncBlobs.sweep)


# Checkpoints of agents, for blocking code.


class Checkpoints(Blocking[AsyncCheckpoints]):
    """The checkpoints of all agents; `AsyncCheckpoints` is the asynchronous one."""

    save = blocking(AsyncCheckpoints.save)
    last = blocking(AsyncCheckpoints.last)
    list = blocking(AsyncCheckpoints.list)
    latest = blocking(AsyncCheckpoints.latest)
    agents = blocking(AsyncCheckpoints.agents)
    delete = blocking(AsyncCheckpoints.delete)


# Source documents, for blocking code.


class Documents(Blocking[AsyncDocuments]):
    """Source documents and their passages; `AsyncDocuments` is the asynchronous one."""

    add = blocking(AsyncDocuments.add)
    add_many = blocking(AsyncDocuments.add_many)
    sync = blocking(AsyncDocuments.sync)
    search = blocking(AsyncDocuments.search)
    around = blocking(AsyncDocuments.around)
    get = blocking(AsyncDocuments.get)
    list = blocking(AsyncDocuments.list)
    count = blocking(AsyncDocuments.count)
    chunks = blocking(AsyncDocuments.chunks)
    text = blocking(AsyncDocuments.text)
    content = blocking(AsyncDocuments.content)
    update = blocking(AsyncDocuments.update)
    delete = blocking(AsyncDocuments.delete)
    erase = blocking(AsyncDocuments.erase)


# The graph, for blocking code.


class Statements(Blocking[AsyncStatements]):
    """Statements about entities of a graph; `AsyncStatements` is the asynchronous one."""

    add = blocking(AsyncStatements.add)
    list = blocking(AsyncStatements.list)
    contradictions = blocking(AsyncStatements.contradictions)
    resolve = blocking(AsyncStatements.resolve)
    decide = blocking(AsyncStatements.decide)
    undecide = blocking(AsyncStatements.undecide)
    delete = blocking(AsyncStatements.delete)
    outdated_sources = blocking(AsyncStatements.outdated_sources)


class Graph(Blocking[AsyncGraph]):
    """Entities and the relations between them; `AsyncGraph` is the asynchronous one."""

    statements = showing(AsyncGraph.statements, Statements)

    add = blocking(AsyncGraph.add)
    add_entities = blocking(AsyncGraph.add_entities)
    add_relations = blocking(AsyncGraph.add_relations)
    add_mentions = blocking(AsyncGraph.add_mentions)
    delete_entity = blocking(AsyncGraph.delete_entity)
    delete_relation = blocking(AsyncGraph.delete_relation)
    forget = blocking(AsyncGraph.forget)
    conflicts = blocking(AsyncGraph.conflicts)
    propose_aliases = blocking(AsyncGraph.propose_aliases)
    merge = blocking(AsyncGraph.merge)
    unmerge = blocking(AsyncGraph.unmerge)
    mergers = blocking(AsyncGraph.mergers)
    extract = blocking(AsyncGraph.extract)
    get = blocking(AsyncGraph.get)
    get_relation = blocking(AsyncGraph.get_relation)
    find = blocking(AsyncGraph.find)
    named_in = blocking(AsyncGraph.named_in)
    entities = blocking(AsyncGraph.entities)
    relations = blocking(AsyncGraph.relations)
    mentions = blocking(AsyncGraph.mentions)
    aliases = blocking(AsyncGraph.aliases)
    count = blocking(AsyncGraph.count)
    cypher = blocking(AsyncGraph.cypher)
    neighbours = blocking(AsyncGraph.neighbours)
    path = blocking(AsyncGraph.path)
    impact = blocking(AsyncGraph.impact)
    subgraph = blocking(AsyncGraph.subgraph)
    central = blocking(AsyncGraph.central)
    communities = blocking(AsyncGraph.communities)


# Conversations, for blocking code.


class History(Blocking[AsyncHistory]):
    """The history of conversations; `AsyncHistory` is the asynchronous one."""

    append = blocking(AsyncHistory.append)
    append_many = blocking(AsyncHistory.append_many)
    replace = blocking(AsyncHistory.replace)
    pop = blocking(AsyncHistory.pop)
    replace_tail = blocking(AsyncHistory.replace_tail)
    rewrite = blocking(AsyncHistory.rewrite)
    annotate = blocking(AsyncHistory.annotate)
    get_messages = blocking(AsyncHistory.get_messages)
    count = blocking(AsyncHistory.count)
    session_ids = blocking(AsyncHistory.session_ids)
    clear = blocking(AsyncHistory.clear)
    clear_run = blocking(AsyncHistory.clear_run)
    touch = blocking(AsyncHistory.touch)
    sweep = blocking(AsyncHistory.sweep)
    search = blocking(AsyncHistory.search)


# Images, for blocking code.


class Images(Blocking[AsyncImages]):
    """Images, recordings and films; `AsyncImages` is the asynchronous one."""

    add = blocking(AsyncImages.add)
    search = blocking(AsyncImages.search)
    similar = blocking(AsyncImages.similar)
    get = blocking(AsyncImages.get)
    list = blocking(AsyncImages.list)
    count = blocking(AsyncImages.count)
    content = blocking(AsyncImages.content)
    thumbnail = blocking(AsyncImages.thumbnail)
    update = blocking(AsyncImages.update)
    delete = blocking(AsyncImages.delete)


# The tables of the information layer, for blocking code.


class InformationTables(Blocking[AsyncInformationTables]):
    """The store's content as tables; `AsyncInformationTables` is the asynchronous one."""

    def names(self, family: Family | None = None) -> list[str]:
        """Returns the table names, of one family or all. See `AsyncInformationTables.names`."""
        return self._aio.names(family)

    def schema(self, name: str) -> pa.Schema:
        """Returns the columns of a table. See `AsyncInformationTables.schema`."""
        return self._aio.schema(name)

    read = blocking(AsyncInformationTables.read)


# Key-value items in namespaces, for blocking code.


class KeyValues(Named[AsyncKeyValues]):
    """The items of one name; `AsyncKeyValues` is the asynchronous one."""

    # Calls that are safe in the caller's thread

    get = blocking(AsyncKeyValues.get, at_once=AsyncKeyValues._get_at_once)  # noqa: SLF001
    put = blocking(AsyncKeyValues.put, at_once=AsyncKeyValues._put_at_once)  # noqa: SLF001
    add = blocking(AsyncKeyValues.add, at_once=AsyncKeyValues._add_at_once)  # noqa: SLF001
    delete = blocking(AsyncKeyValues.delete, at_once=AsyncKeyValues._delete_at_once)  # noqa: SLF001
    write = blocking(AsyncKeyValues.write, at_once=AsyncKeyValues._write_at_once)  # noqa: SLF001

    # Calls that run on the store's loop

    list = blocking(AsyncKeyValues.list)
    keys = blocking(AsyncKeyValues.keys)
    count = blocking(AsyncKeyValues.count)
    namespaces = blocking(AsyncKeyValues.namespaces)
    search = blocking(AsyncKeyValues.search)
    append = blocking(AsyncKeyValues.append)
    delete_under = blocking(AsyncKeyValues.delete_under)
    touch = blocking(AsyncKeyValues.touch)
    sweep = blocking(AsyncKeyValues.sweep)
    version = blocking(AsyncKeyValues.version)
    names = blocking(AsyncKeyValues.names)


# Knowledge and its jobs, for blocking code.


class JobWorker(Blocking[AsyncJobWorker]):
    """Runs due jobs in a thread of its own; `AsyncJobWorker` is the asynchronous one."""

    @property
    def error(self) -> Exception | None:
        """The error of the last attempt to read the jobs; None if it succeeded."""
        return self._aio.error

    def __enter__(self) -> Self:
        block_on(self._aio.__aenter__)
        return self

    def __exit__(self, *_: object) -> None:
        block_on(self._aio.__aexit__)


class Jobs(Blocking[AsyncJobs]):
    """The jobs of a store; `AsyncJobs` is the asynchronous one."""

    list = blocking(AsyncJobs.list)
    get = blocking(AsyncJobs.get)
    run_due = blocking(AsyncJobs.run_due)
    worker = giving(AsyncJobs.worker, JobWorker)
    cancel = blocking(AsyncJobs.cancel)
    retry = blocking(AsyncJobs.retry)


class Knowledge(Blocking[AsyncKnowledge]):
    """Knowledge with its evidence; `AsyncKnowledge` is the asynchronous one."""

    using = handing(AsyncKnowledge.using)

    add = blocking(AsyncKnowledge.add)
    search = blocking(AsyncKnowledge.search)
    get = blocking(AsyncKnowledge.get)
    list = blocking(AsyncKnowledge.list)
    update = blocking(AsyncKnowledge.update)
    delete = blocking(AsyncKnowledge.delete)
    delete_all = blocking(AsyncKnowledge.delete_all)
    profile = blocking(AsyncKnowledge.profile)
    episodes = blocking(AsyncKnowledge.episodes)
    explain = blocking(AsyncKnowledge.explain)
    trace = blocking(AsyncKnowledge.trace)
    candidates = blocking(AsyncKnowledge.candidates)
    review = blocking(AsyncKnowledge.review)
    prune = blocking(AsyncKnowledge.prune)
    archive = blocking(AsyncKnowledge.archive)
    unarchive = blocking(AsyncKnowledge.unarchive)
    distill = blocking(AsyncKnowledge.distill)
    schedule = blocking(AsyncKnowledge.schedule)
    replay = blocking(AsyncKnowledge.replay)
    proposal = blocking(AsyncKnowledge.proposal)
    merge = blocking(AsyncKnowledge.merge)
    discard = blocking(AsyncKnowledge.discard)
    undo = blocking(AsyncKnowledge.undo)
    correct = blocking(AsyncKnowledge.correct)
    invalidate = blocking(AsyncKnowledge.invalidate)
    pin = blocking(AsyncKnowledge.pin)
    history = blocking(AsyncKnowledge.history)

    jobs = showing(AsyncKnowledge.jobs, Jobs)


# Locks, for blocking code.

_ACQUIRE = AsyncLocks.acquire
"""As it is here: where it is replaced, as by what tells of calls, that is called."""


class Lock(Blocking[AsyncLock]):
    """A lock that is held until it is released; `AsyncLock` is the asynchronous one."""

    resource = field(AsyncLock.resource, "What is locked.")
    mode = field(AsyncLock.mode, "Which others it excludes.")
    owner = field(AsyncLock.owner, "Who holds it.")
    token = field(
        AsyncLock.token, "The fencing token, larger than that of every lock granted before it."
    )

    release = blocking(AsyncLock.release, at_once=AsyncLock._release_at_once)  # noqa: SLF001
    renew = blocking(AsyncLock.renew)
    is_held = blocking(AsyncLock.is_held)

    def fencing(self) -> AbstractContextManager[None]:
        """Returns a block whose writes depend on the lock. See `AsyncLock.fencing`."""
        return self._aio.fencing()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if not self.release() and kind is None:
            raise self._aio._lost()  # noqa: SLF001


class Locks(Blocking[AsyncLocks]):
    """The locks of a store, owned by the current thread; `AsyncLocks` is the asynchronous one."""

    using = handing(AsyncLocks.using)

    def acquire(
        self,
        resource: str,
        *,
        mode: str = "exclusive",
        lease: timedelta = LEASE,
        wait: timedelta | None = None,
        owner: str | None = None,
    ) -> Lock:
        """Acquires the lock on `resource`, also for a `with` block. See `AsyncLocks.acquire`."""
        owner = current_owner() if owner is None else owner
        asked: Asked = {"mode": mode, "lease": lease, "wait": wait, "owner": owner}
        if getattr(type(self._aio), "acquire", None) is _ACQUIRE:
            held = self._aio._acquire_at_once(resource, **asked)  # noqa: SLF001
            if held is not WOULD_BLOCK:
                return Lock(held)
        return Lock(block_on(lambda: _got(self._aio.acquire(resource, **asked))))

    def try_acquire(
        self,
        resource: str,
        *,
        mode: str = "exclusive",
        lease: timedelta = LEASE,
        owner: str | None = None,
    ) -> Lock | None:
        """Acquires the lock on `resource`, or returns None. See `AsyncLocks.try_acquire`."""
        owner = current_owner() if owner is None else owner
        held = block_on(
            lambda: self._aio.try_acquire(resource, mode=mode, lease=lease, owner=owner)
        )
        return None if held is None else Lock(held)

    list = blocking(AsyncLocks.list)
    stats = blocking(AsyncLocks.stats)
    force_release = blocking(AsyncLocks.force_release)
    release_stale = blocking(AsyncLocks.release_stale)


class Asked(TypedDict):
    """The arguments of a lock request."""

    mode: str
    lease: timedelta
    wait: timedelta | None
    owner: str


async def _got(asked: Acquiring) -> AsyncLock:
    return await asked


# Long-term memories, for blocking code.


class Memory(Blocking[AsyncMemory]):
    """The memories of users; `AsyncMemory` is the asynchronous one."""

    add = blocking(AsyncMemory.add)
    search = blocking(AsyncMemory.search)
    get = blocking(AsyncMemory.get)
    get_many = blocking(AsyncMemory.get_many)
    update = blocking(AsyncMemory.update)
    upsert = blocking(AsyncMemory.upsert)
    list = blocking(AsyncMemory.list)
    latest = blocking(AsyncMemory.latest)
    delete = blocking(AsyncMemory.delete)
    clear = blocking(AsyncMemory.clear)


# Boards of tasks, for blocking code.


class TaskBoard(Named[AsyncTaskBoard]):
    """Tasks that belong together; `AsyncTaskBoard` is the asynchronous one."""

    # Calls that run on the store's loop

    get = blocking(AsyncTaskBoard.get)
    list = blocking(AsyncTaskBoard.list)
    ready = blocking(AsyncTaskBoard.ready)
    waits_for = blocking(AsyncTaskBoard.waits_for)
    progress = blocking(AsyncTaskBoard.progress)
    stats = blocking(AsyncTaskBoard.stats)
    tree = blocking(AsyncTaskBoard.tree)
    history = blocking(AsyncTaskBoard.history)
    add = blocking(AsyncTaskBoard.add)
    add_many = blocking(AsyncTaskBoard.add_many)
    depend = blocking(AsyncTaskBoard.depend)
    heartbeat = blocking(AsyncTaskBoard.heartbeat)
    complete_many = blocking(AsyncTaskBoard.complete_many)
    fail = blocking(AsyncTaskBoard.fail)
    release = blocking(AsyncTaskBoard.release)
    skip = blocking(AsyncTaskBoard.skip)
    retry = blocking(AsyncTaskBoard.retry)
    delete = blocking(AsyncTaskBoard.delete)
    work = blocking(AsyncTaskBoard.work)
    settle = blocking(AsyncTaskBoard.settle)

    # Calls that are safe in the caller's thread

    claim = blocking(AsyncTaskBoard.claim, at_once=AsyncTaskBoard._claim_at_once)  # noqa: SLF001
    claim_many = blocking(
        AsyncTaskBoard.claim_many,
        at_once=AsyncTaskBoard._claim_many_at_once,  # noqa: SLF001
    )
    complete = blocking(AsyncTaskBoard.complete, at_once=AsyncTaskBoard._complete_at_once)  # noqa: SLF001


class TaskStore(Blocking[AsyncTaskStore]):
    """The boards of a store; `AsyncTaskStore` is the asynchronous one."""

    board = giving(AsyncTaskStore.board, TaskBoard)
    here = giving(AsyncTaskStore.here, TaskBoard)
    boards = blocking(AsyncTaskStore.boards)
    delete_board = blocking(AsyncTaskStore.delete_board)


# Plans, for blocking code.


class Plans(Blocking[AsyncPlans]):
    """The plans of a store; `AsyncPlans` is the asynchronous one."""

    def tasks(self, id: str) -> TaskBoard:
        """Returns the board with a plan's tasks. See `AsyncPlans.tasks`."""
        return TaskBoard(self._aio.tasks(id))

    get = blocking(AsyncPlans.get)
    list = blocking(AsyncPlans.list)
    versions = blocking(AsyncPlans.versions)
    search = blocking(AsyncPlans.search)
    markdown = blocking(AsyncPlans.markdown)
    export = blocking(AsyncPlans.export)
    load = blocking(AsyncPlans.load)
    add = blocking(AsyncPlans.add)
    edit = blocking(AsyncPlans.edit)
    set_status = blocking(AsyncPlans.set_status)
    branch = blocking(AsyncPlans.branch)
    merge = blocking(AsyncPlans.merge)
    delete = blocking(AsyncPlans.delete)


# Sessions, for blocking code.


class Sessions(Blocking[AsyncSessions]):
    """The sessions of the store; `AsyncSessions` is the asynchronous one."""

    create = blocking(AsyncSessions.create)
    get = blocking(AsyncSessions.get)
    update = blocking(AsyncSessions.update)
    list = blocking(AsyncSessions.list)
    count = blocking(AsyncSessions.count)
    delete = blocking(AsyncSessions.delete)
    sweep = blocking(AsyncSessions.sweep)


# The state of sessions, for blocking code.


class ShortTermState(Blocking[AsyncShortTermState]):
    """The state of each session; `AsyncShortTermState` is the asynchronous one."""

    get = blocking(AsyncShortTermState.get)
    set = blocking(AsyncShortTermState.set)
    patch = blocking(AsyncShortTermState.patch)
    clear = blocking(AsyncShortTermState.clear)


# Templates, for blocking code.


class Templates(Blocking[AsyncTemplates]):
    """The templates of a store; `AsyncTemplates` is the asynchronous one."""

    get = blocking(AsyncTemplates.get)
    list = blocking(AsyncTemplates.list)
    search = blocking(AsyncTemplates.search)
    versions = blocking(AsyncTemplates.versions)
    save = blocking(AsyncTemplates.save)
    render = blocking(AsyncTemplates.render)
    delete = blocking(AsyncTemplates.delete)


# The memory in tiers, for blocking code.


class TieredMemory(Blocking[AsyncTieredMemory]):
    """Entries that are hot, warm or cold; `AsyncTieredMemory` is the asynchronous one."""

    using = handing(AsyncTieredMemory.using)

    @property
    def config(self) -> TierConfig:
        """The policy."""
        return self._aio.config

    def grant(self) -> WriteGrant:
        """The grant that `add`, `demote` and `delete` require for a canonical entry."""
        return self._aio.grant()

    add = blocking(AsyncTieredMemory.add)
    get = blocking(AsyncTieredMemory.get)
    list = blocking(AsyncTieredMemory.list)
    delete = blocking(AsyncTieredMemory.delete)
    search = blocking(AsyncTieredMemory.search)
    record_access = blocking(AsyncTieredMemory.record_access)
    flush = blocking(AsyncTieredMemory.flush)
    candidates = blocking(AsyncTieredMemory.candidates)
    demote = blocking(AsyncTieredMemory.demote)
    promote = blocking(AsyncTieredMemory.promote)
    maintain = blocking(AsyncTieredMemory.maintain)
    stats = blocking(AsyncTieredMemory.stats)


# Collections of documents with vectors, for blocking code.


class Vectors(Blocking[AsyncVectors]):
    """One collection of documents; `AsyncVectors` is the asynchronous one."""

    add = blocking(AsyncVectors.add)
    add_arrow = blocking(AsyncVectors.add_arrow)
    upsert = blocking(AsyncVectors.upsert)
    search = blocking(AsyncVectors.search)
    get = blocking(AsyncVectors.get)
    list = blocking(AsyncVectors.list)
    delete = blocking(AsyncVectors.delete)
    erase = blocking(AsyncVectors.erase)
    count = blocking(AsyncVectors.count)
    list_collections = blocking(AsyncVectors.list_collections)
    delete_collection = blocking(AsyncVectors.delete_collection)

    @property
    def collection(self) -> str:
        """The name of the collection."""
        return self._aio.collection


# Kept windows, for blocking code.


class Windows(Blocking[AsyncWindows]):
    """The windows that agents were sent; `AsyncWindows` is the asynchronous one."""

    keep = blocking(AsyncWindows.keep)
    get = blocking(AsyncWindows.get)
    cite = blocking(AsyncWindows.cite)
    list = blocking(AsyncWindows.list)
    jobs = giving(AsyncWindows.jobs, Jobs)
