"""The blocking API: the same words as the asynchronous one, from threads and notebooks."""

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import UnionType
from typing import get_args, get_origin

import pytest

import lance_context_core.fleet.blocking as fleet_module
import lance_context_core.sync.store as context_module
import lance_context_core.sync.store as store_module
from lance_context_core._loop import block_on
from lance_context_core.audit.audit import AsyncAudit
from lance_context_core.blobs.blobs import AsyncBlobs
from lance_context_core.coordination.checkpoints import AsyncCheckpoints
from lance_context_core.coordination.locks import Acquiring, AsyncLock, AsyncLocks
from lance_context_core.coordination.plans import AsyncPlans
from lance_context_core.coordination.state import AsyncShortTermState
from lance_context_core.coordination.tasks import AsyncTaskBoard, AsyncTaskStore
from lance_context_core.coordination.templates import AsyncTemplates
from lance_context_core.documents.documents import AsyncDocuments
from lance_context_core.errors import (
    BlockingCallError,
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
    StoreClosedError,
)
from lance_context_core.fleet import AsyncStoreFleet, StoreFleet
from lance_context_core.graph.contradictions import AsyncStatements
from lance_context_core.graph.graph import AsyncGraph
from lance_context_core.information.tables import AsyncInformationTables
from lance_context_core.jobs.jobs import AsyncJobs, AsyncJobWorker
from lance_context_core.knowledge.knowledge import AsyncKnowledge
from lance_context_core.media.images import AsyncImages
from lance_context_core.messages import Message
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.store.transactions import AsyncTransaction
from lance_context_core.stores.history import AsyncHistory
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.stores.memory import AsyncMemory
from lance_context_core.stores.records.context import AsyncContext
from lance_context_core.stores.sessions import AsyncSessions
from lance_context_core.stores.vectors import AsyncVectors
from lance_context_core.sync import (
    Checkpoints,
    Context,
    ContextStore,
    Documents,
    History,
    Jobs,
    KeyValues,
    Knowledge,
    Lock,
    Locks,
    ManagedMemory,
    Memory,
    Plans,
    Sessions,
    ShortTermState,
    TaskBoard,
    TaskStore,
    Templates,
    Vectors,
    Windows,
)
from lance_context_core.sync.store import Transaction, blocking_over
from lance_context_core.sync.stores import (
    Audit,
    Blobs,
    Graph,
    Images,
    InformationTables,
    JobWorker,
    Statements,
    TieredMemory,
)
from lance_context_core.tiers.tiers import AsyncTieredMemory
from lance_context_core.types import Document
from lance_context_core.window.windows import AsyncWindows

BLOCKING = {
    AsyncBlobs: Blobs,
    AsyncCheckpoints: Checkpoints,
    AsyncContext: Context,
    AsyncContextStore: ContextStore,
    AsyncDocuments: Documents,
    AsyncGraph: Graph,
    AsyncHistory: History,
    AsyncImages: Images,
    AsyncJobs: Jobs,
    AsyncJobWorker: JobWorker,
    AsyncKeyValues: KeyValues,
    AsyncLock: Lock,
    AsyncLocks: Locks,
    AsyncKnowledge: Knowledge,
    AsyncMemory: Memory,
    AsyncSessions: Sessions,
    AsyncPlans: Plans,
    AsyncShortTermState: ShortTermState,
    AsyncStatements: Statements,
    AsyncTaskBoard: TaskBoard,
    AsyncTaskStore: TaskStore,
    AsyncTemplates: Templates,
    AsyncTieredMemory: TieredMemory,
    AsyncVectors: Vectors,
    AsyncAudit: Audit,
    AsyncTransaction: Transaction,
    AsyncWindows: Windows,
    AsyncInformationTables: InformationTables,
    AsyncStoreFleet: StoreFleet,
}
ONLY_SYNC = {ContextStore: {"aio"}, StoreFleet: {"aio"}}
NOT_AWAITED = {
    AsyncBlobs: {"stream"},
    AsyncContextStore: {"context", "kv", "open", "scope", "transaction", "vectors", "writing_as"},
    AsyncContext: {"branch", "scan", "uri"},
    AsyncTransaction: {"context", "kv", "scope", "vectors"},
    AsyncLock: {"fencing"},
    AsyncLocks: {"acquire", "using"},
    AsyncPlans: {"tasks"},
    AsyncTaskStore: {"board", "here"},
    AsyncInformationTables: {"names", "schema"},
    AsyncStoreFleet: {"open", "scope"},
    AsyncJobs: {"worker"},
    AsyncKnowledge: {"using"},
    AsyncTieredMemory: {"grant", "using"},
    AsyncWindows: {"jobs"},
}

each_pair = pytest.mark.parametrize(
    ("asynchronous", "blocking"),
    [pytest.param(*pair, id=pair[1].__name__) for pair in BLOCKING.items()],
)


def public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


def methods(cls):
    """The public methods, class methods included, by name."""
    found = {name: getattr(cls, name) for name in public(cls)}
    return {name: one for name, one in found.items() if inspect.isroutine(one) and callable(one)}


def properties(cls):
    found = {name: inspect.getattr_static(cls, name) for name in public(cls)}
    return {name: one for name, one in found.items() if isinstance(one, property)}


def shape(function):
    """Parameters with their kinds, defaults and types, and the result in synchronous words."""
    signature = inspect.signature(function, eval_str=True)
    parameters = [(p.name, p.kind, p.default, p.annotation) for p in signature.parameters.values()]
    result = signature.return_annotation
    if get_origin(result) is AsyncIterator:
        return parameters, Iterator[get_args(result)]
    if result is Acquiring:
        return parameters, Lock
    if is_optional := get_origin(result) is UnionType:
        result, _ = get_args(result)
    blocking = BLOCKING.get(result, result)
    return parameters, blocking | None if is_optional else blocking


def every_method():
    return [
        pytest.param(asynchronous, blocking, name, id=f"{blocking.__name__}.{name}")
        for asynchronous, blocking in BLOCKING.items()
        for name in sorted(methods(blocking))
    ]


# Both have one shape


@each_pair
def test_both_have_the_same_public_names(asynchronous, blocking):
    assert public(asynchronous) == public(blocking) - ONLY_SYNC.get(blocking, set())


@pytest.mark.parametrize(("asynchronous", "blocking", "name"), every_method())
def test_a_method_has_the_same_signature_in_both(asynchronous, blocking, name):
    assert shape(methods(blocking)[name]) == shape(methods(asynchronous)[name])


@each_pair
def test_a_property_has_the_same_type_in_both(asynchronous, blocking):
    shared = properties(asynchronous).keys() & properties(blocking).keys()
    assert {name: shape(properties(blocking)[name].fget)[1] for name in shared} == {
        name: shape(properties(asynchronous)[name].fget)[1] for name in shared
    }


@pytest.mark.parametrize("name", ["enter", "exit"])
@pytest.mark.parametrize("asynchronous", [AsyncContext, AsyncContextStore])
def test_a_with_block_takes_the_same_in_both(asynchronous, name):
    blocking = BLOCKING[asynchronous]
    assert shape(getattr(asynchronous, f"__a{name}__")) == shape(getattr(blocking, f"__{name}__"))


@each_pair
def test_only_the_asynchronous_one_is_awaited(asynchronous, blocking):
    awaited = {
        name for name, one in methods(asynchronous).items() if inspect.iscoroutinefunction(one)
    }
    assert awaited == methods(asynchronous).keys() - NOT_AWAITED.get(asynchronous, set())
    assert not any(inspect.iscoroutinefunction(one) for one in methods(blocking).values())


@each_pair
def test_every_public_method_says_what_it_does(asynchronous, blocking):
    for cls in (asynchronous, blocking):
        undocumented = {name for name, one in methods(cls).items() if not one.__doc__}
        undocumented |= {name for name, one in properties(cls).items() if not one.__doc__}
        assert undocumented == set()


@pytest.mark.parametrize(("asynchronous", "blocking", "name"), every_method())
def test_a_blocking_method_says_what_the_asynchronous_one_says_or_where_to_see_it(
    asynchronous, blocking, name
):
    theirs, own = (inspect.getdoc(methods(cls)[name]) for cls in (asynchronous, blocking))
    if own != theirs:
        itself, _, _ = own.partition("\n\n")  # Options are described below it.
        said, _, see = itself.partition(" See ")
        assert see == f"`{asynchronous.__name__}.{name}`."
        assert said.endswith(".")
        assert "\n" not in said


@pytest.mark.parametrize(("asynchronous", "blocking", "name"), every_method())
def test_a_blocking_method_is_one_of_its_class_to_whoever_asks(asynchronous, blocking, name):
    method = methods(blocking)[name]
    assert method.__qualname__ == f"{blocking.__name__}.{name}"
    assert not inspect.iscoroutinefunction(inspect.unwrap(method))


# Every argument arrives under its own name


class Echo:
    """Stands for an asynchronous object, or its class, and remembers what it was asked."""

    def __init__(self, cls):
        self.cls = cls
        self.calls = []

    def __getattr__(self, name):
        method = getattr(self.cls, name)
        own = () if inspect.ismethod(method) else (self,)

        def call(*args, **kwargs):
            arguments = inspect.signature(method).bind(*own, *args, **kwargs).arguments
            arguments.pop("self", None)
            if name.startswith("_"):
                return None  # What would be an answer at once, with the same arguments.
            self.calls.append((name, arguments))
            return answer() if inspect.iscoroutinefunction(method) else self

        async def answer():
            return self

        return call

    def __await__(self):
        yield from ()
        return self


@pytest.mark.parametrize(("asynchronous", "blocking", "name"), every_method())
def test_a_method_hands_on_every_argument_under_its_own_name(
    asynchronous, blocking, name, monkeypatch
):
    echo = Echo(asynchronous)
    monkeypatch.setattr(context_module, "AsyncContext", echo)
    monkeypatch.setattr(store_module, "AsyncContextStore", echo)
    monkeypatch.setattr(fleet_module, "AsyncStoreFleet", echo)
    made = blocking_over(echo, blocking) if blocking is Context else blocking(echo)
    method = getattr(blocking if inspect.ismethod(methods(blocking)[name]) else made, name)
    given, several = {}, ()
    for parameter in inspect.signature(method).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            given[parameter.name] = several = ([parameter.name],)
            continue
        is_rest = parameter.kind is inspect.Parameter.VAR_KEYWORD
        given[parameter.name] = {"tags": ["tags"]} if is_rest else [parameter.name]
    spread = {
        k: v for name, value in given.items() for k, v in (value if isinstance(value, dict) else {name: value}).items()
        if value is not several
    }  # fmt: skip

    method(*several, **spread)

    assert echo.calls == [(name, given)]


# What a blocking call answers


@pytest.fixture(params=["memory", "directory"])
def store(request, tmp_path):
    uri = "memory://" if request.param == "memory" else tmp_path / "store"
    with ContextStore.open(uri) as opened:
        yield opened


def texts(messages):
    return [message.text for message in messages]


def test_all_stores_write_and_read_without_an_event_loop(store):
    store.history.append("ada", Message.user("hello"), session_id="s")
    store.memory.add(["likes tea"], user_id="u")
    store.vectors("docs").add([Document(id="d", text="a text")])
    store.context("notes").add("user", "a note", id="n")

    assert texts(store.history.get_messages("ada", session_id="s")) == ["hello"]
    assert [one.text for one in store.memory.list(user_id="u").items] == ["likes tea"]
    assert [one.text for one in store.vectors("docs").get(["d"])] == ["a text"]
    assert [one["text"] for one in store.context("notes").list()] == ["a note"]
    assert [one.id for one in store.sessions.list()] == ["s"]


def test_the_handles_that_a_store_gives_out_are_synchronous_too(store):
    store.history.append("", Message.user("x"), session_id="s")
    handles = [
        store.history,
        store.memory,
        store.sessions,
        store.vectors("docs"),
        store.context("notes"),
        store.scope(tenant="t"),
        store.checkout(store.version()),
    ]
    assert [type(handle) for handle in handles] == [
        History,
        Memory,
        Sessions,
        Vectors,
        Context,
        ContextStore,
        ContextStore,
    ]
    assert handles[3].collection == "docs"
    assert handles[4].name == "notes"


def test_a_handle_shows_itself_under_its_own_name(store):
    assert repr(store.scope(user_id="u")) == f"ContextStore({store.uri!r}, user_id='u')"
    assert repr(store.context("notes")) == f"Context({store.uri!r}, name='notes')"


def test_whatever_a_store_hands_out_tells_its_place_and_whose_part_it_sees_and_nothing_else(store):
    store.history.append("bot", Message.user("Hello"), session_id="s")
    of_ada = store.create_branch("trial").scope(tenant="acme", user_id="ada")
    where = f"{store.uri!r}, branch='trial', tenant='acme', user_id='ada'"
    handed_out = [
        handle
        for name, member in inspect.getmembers(type(of_ada))
        if isinstance(member, property)
        and type(handle := getattr(of_ada, name)).__module__.startswith("lance_context_core.sync")
    ]
    assert len(handed_out) == 18
    handed_on = [of_ada.knowledge.jobs, of_ada.graph.statements, ManagedMemory(of_ada)]
    for handle in [*handed_out, *handed_on, handed_out[0]._aio, of_ada]:
        whose = where if type(handle) is not Locks else f"{store.uri!r}, branch='trial'"
        assert repr(handle) == f"{type(handle).__name__}({whose})"
    assert repr(of_ada.kv("state")) == f"KeyValues({where}, name='state')"
    assert repr(of_ada.vectors("docs")) == f"Vectors({where}, collection='docs')"
    assert repr(of_ada.tasks.board("mine")) == f"TaskBoard({where}, name='mine')"
    assert repr(of_ada.knowledge.jobs.worker()) == "JobWorker(error=None)"


def test_a_wrong_call_is_told_by_the_name_that_was_called(store):
    with pytest.raises(TypeError, match=r"KeyValues\.put\(\) takes 2 positional arguments but 3"):
        store.kv("state").put("key", {"value": 1})
    with pytest.raises(TypeError, match=r"Locks\.try_acquire\(\) got an unexpected keyword"):
        store.locks.try_acquire("file", mod="shared")


@pytest.mark.usefixtures("each_write_commits")
def test_a_context_is_turned_in_place_and_back(store):
    context = store.context()
    before = context.add("user", "early").version
    context.add("user", "late")

    assert context.checkout(before) is context
    assert [one["text"] for one in context.list()] == ["early"]
    with pytest.raises(ReadOnlyError):
        context.add("user", "too late")
    assert context.checkout_latest() is context
    assert context.entries() == 2


def test_a_checked_out_store_is_another_handle(store):
    store.context().add("user", "early")
    past = store.checkout(store.version())
    store.context().add("user", "late")
    assert [past.context().entries(), store.context().entries()] == [1, 2]


def test_a_context_that_create_made_is_found_by_open(tmp_path):
    with Context.create(tmp_path / "store", name="notes") as context:
        context.add("user", "kept")
    with Context.open(tmp_path / "store", name="notes") as context:
        assert [one["text"] for one in context.list()] == ["kept"]
    with Context(tmp_path / "store", name="notes") as context:
        assert [one["text"] for one in context.list()] == ["kept"]


def test_open_refuses_a_place_where_no_store_is(tmp_path):
    with pytest.raises(NotFoundError):
        Context.open(tmp_path / "nothing")


def test_records_may_come_from_a_generator_that_asks_the_store(store):
    context = store.context()
    context.add_many({"role": "user", "content": str(context.entries())} for _ in range(3))
    numbered = ({"role": "user", "content": str(context.entries()), "id": f"{i}"} for i in range(2))
    context.upsert_many(numbered, key="id")
    assert [one["text"] for one in context.list()] == ["0", "0", "0", "3", "3"]


def test_an_error_arrives_as_it_was_raised(store):
    with pytest.raises(InvalidRequestError, match="session_id"):
        store.history.append("ada", Message.user("x"), session_id="")


# Threads, loops and notebooks


def test_a_blocking_call_works_in_a_thread_that_runs_a_loop(store):
    async def cell_of_a_notebook():
        store.history.append("ada", Message.user("hello"), session_id="s")
        return store.history.get_messages("ada", session_id="s")

    assert texts(asyncio.run(cell_of_a_notebook())) == ["hello"]


def test_eight_threads_append_to_one_session_and_lose_nothing(store):
    acknowledged = []

    def chat(thread):
        for number in range(25):
            message = Message.user(f"{thread}.{number}")
            acknowledged.append(store.history.append("ada", message, session_id="s"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(chat, range(8)))

    read = store.history.get_messages("ada", session_id="s")
    assert store.history.count("ada", session_id="s") == 200
    assert sorted(message.id for message in read) == sorted(acknowledged)
    for thread in range(8):
        own = [text for text in texts(read) if text.startswith(f"{thread}.")]
        assert own == [f"{thread}.{number}" for number in range(25)]


def test_twenty_gathered_writes_through_aio_are_seen_by_the_blocking_store(store):
    async def gathered():
        context = store.aio.context()
        return await asyncio.gather(*(context.add("user", f"{n}") for n in range(20)))

    results = asyncio.run(gathered())
    records = store.context().list()
    assert sorted(one["text"] for one in records) == sorted(f"{n}" for n in range(20))
    assert {one["id"] for one in records} == {result.id for result in results}


def test_a_thread_and_a_loop_write_to_one_store_at_once(store):
    start = threading.Barrier(2)

    async def gathered():
        history = store.aio.history
        start.wait()
        messages = [Message.user(f"a{n}") for n in range(20)]
        await asyncio.gather(*(history.append("", one, session_id="s") for one in messages))

    def chat():
        start.wait()
        for number in range(20):
            store.history.append("", Message.user(f"b{number}"), session_id="s")

    with ThreadPoolExecutor(1) as pool:
        blocking = pool.submit(chat)
        asyncio.run(gathered())
        blocking.result()

    expected = [f"{who}{number}" for who in "ab" for number in range(20)]
    assert sorted(texts(store.history.get_messages("", session_id="s"))) == sorted(expected)


def test_a_blocking_call_on_the_store_s_own_loop_is_refused_instead_of_hanging(store):
    async def on_the_store_loop():
        store.history.count("ada", session_id="s")

    with pytest.raises(BlockingCallError, match=r"store\.aio"):
        block_on(on_the_store_loop())
    assert store.history.count("ada", session_id="s") == 0


# Closing


ASKED = {
    "history": lambda store: store.history.count("ada", session_id="s"),
    "memory": lambda store: store.memory.list(),
    "sessions": lambda store: store.sessions.list(),
    "vectors": lambda store: store.vectors().count(),
    "context": lambda store: store.context().entries(),
    "search": lambda store: store.search("x", mode="text"),
    "version": lambda store: store.version(),
    "append": lambda store: store.history.append("", Message.user("x"), session_id="s"),
    "aio": lambda store: asyncio.run(store.aio.context().entries()),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_a_closed_store_says_so(store, ask):
    store.history.append("ada", Message.user("x"), session_id="s")
    store.close()
    with pytest.raises(StoreClosedError, match="open it again"):
        ask(store)


def test_the_past_of_a_closed_store_is_closed_too(store):
    store.context().add("user", "x")
    past = store.checkout(store.version())
    assert past.context().entries() == 1
    store.close()
    with pytest.raises(StoreClosedError, match="open it again"):
        past.context().entries()


def test_closing_twice_is_no_error(store):
    store.close()
    store.close()


def test_a_with_block_closes_the_store_also_when_it_fails(tmp_path):
    with pytest.raises(ZeroDivisionError), ContextStore.open(tmp_path / "store") as store:
        raise ZeroDivisionError
    with pytest.raises(StoreClosedError):
        store.version()


def test_what_a_store_handed_out_does_not_close_it(store):
    context = store.context()
    context.add("user", "x")
    with store.scope(user_id="u"), store.checkout(store.version()), context:
        pass
    assert store.context().entries() == 1


# Background compaction


def tasks_of_the_store_loop():
    async def all_tasks():
        return asyncio.all_tasks() - {asyncio.current_task()}

    return block_on(all_tasks())


def wait_until(condition):
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.mark.usefixtures("each_write_commits")
def test_background_compaction_runs_until_the_context_is_closed(tmp_path):
    before = tasks_of_the_store_loop()
    with Context.create(
        tmp_path / "store",
        enable_background_compaction=True,
        compaction_interval_secs=0.01,
        compaction_min_fragments=2,
    ) as context:
        for number in range(3):
            context.add("user", f"{number}")
        wait_until(lambda: context.compaction_stats()["total_compactions"] > 0)
        # One waits for the next time; while a run is at it, it has some of its own.
        wait_until(lambda: len(tasks_of_the_store_loop() - before) == 1)
        assert [one["text"] for one in context.list()] == ["0", "1", "2"]
    wait_until(lambda: tasks_of_the_store_loop() <= before)
