"""What every test may use: a clock, an embedder, places to put a store, and tests that await."""

import asyncio
import inspect
import os
from collections.abc import Iterator

import cheaper
import naming
import needs
import postgres
import pytest
import slowest
from core.conformance.backends import Backend, LogInMemory, LogInPostgres, S3Server, local, memory
from core.conformance.doubles import ManualClock, WordVectors
from hypothesis import is_hypothesis_test, settings

from lance_context_core._opening import DEFAULTS

CONTRACTS = [
    f"core.conformance.{name}" for name in ("history", "kv", "memory", "sessions", "vectors")
]
pytest.register_assert_rewrite(*CONTRACTS, "core.conformance.writers")

EXAMPLES = {"check": 7, "test": 20, "proofs": 200}
"""By how much is to be proven: the examples of a property that asks for no number of its own."""
LEFT_OUT = {"check": {"server", "process", "slow", "long"}, "test": {"long"}, "proofs": set()}
"""The marks of tests that are not for that occasion."""


def pytest_addoption(parser):
    parser.addoption(
        "--effort",
        choices=EXAMPLES,
        default="test",
        help="check: what is quick and needs no server or process; test: all but what is long; "
        "proofs: what is long, and properties at length",
    )
    parser.addoption("--examples", type=int, help="of a property, in place of the effort's")


def pytest_configure(config):
    for marker in (
        "server: needs a server (marked by itself)",
        "process: starts processes (marked by itself)",
        "slow: takes more than a second of processor time, or is listed in slow.txt (by itself)",
        "verdict: what a contributor is told at once, however long it takes",
        "long: takes minutes; run by `make proofs`",
        "one_release: about our own code; run with the framework's newest release alone",
        "s3: what an object store can break; run there, too",
        "anywhere: the place is of no account; run in two of them",
        "local: run on a directory alone, through one API",
    ):
        config.addinivalue_line("markers", marker)
    effort = config.getoption("--effort")
    if effort != "proofs":
        cheaper.keep_temporary_files_in_memory()
    examples = config.getoption("--examples") or EXAMPLES[effort]
    # A shared machine may be slow at any moment, so that no single example has a deadline. The same
    # examples are drawn of the same code, so that a verdict is about the change; proofs draw anew.
    settings.register_profile(
        effort, deadline=None, max_examples=examples, derandomize=effort != "proofs"
    )
    settings.load_profile(effort)
    if path := os.environ.get(slowest.VARIABLE):
        config.pluginmanager.register(slowest.Notes(path))


def pytest_make_parametrize_id(val, argname):
    return naming.words(val, argname)


@pytest.hookimpl(tryfirst=True)  # so that `-m` knows what is marked here
def pytest_collection_modifyitems(config, items):
    _require_names(items)
    slow = slowest.listed()
    for item in items:
        if slowest.test_of(item.nodeid) in slow and not item.get_closest_marker("verdict"):
            item.add_marker("slow")
        if needs.needs_server(item):
            item.add_marker("server")
        if needs.starts_processes(item):
            item.add_marker("process")
    effort = config.getoption("--effort")
    left_out = [item for item in items if not _is_for(item, effort)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _is_for(item, effort)]


def _require_names(items):
    found = naming.nameless(
        (item.nodeid.partition("[")[0], item.callspec.params, item.callspec.id)
        for item in items
        if hasattr(item, "callspec")
    )
    if found:
        listed = "\n  ".join(found)
        raise pytest.UsageError(f"cases without a name: give each an id in words\n  {listed}")


def _is_for(item, effort):
    marks = {mark.name for mark in item.iter_markers()}
    if effort == "proofs":
        return "long" in marks or is_hypothesis_test(item.obj)
    return not marks & LEFT_OUT[effort]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Hold what `make check` runs to starting no processes."""
    before = slowest.spent()[1]
    result = yield
    if item.config.getoption("--effort") == "check" and slowest.spent()[1] > before:
        pytest.fail(f"{item.nodeid} starts a process: mark it with @pytest.mark.process")
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run an `async def` test on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture
def pauses(monkeypatch):
    """For how long calls of services would have waited, instead of waiting."""
    waited = []
    monkeypatch.setattr("lance_context_core._util.http.sleep", waited.append)
    return waited


@pytest.fixture
def run():
    """Awaits a coroutine from a test that does not."""
    return asyncio.run


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until it is told otherwise."""
    return ManualClock()


@pytest.fixture
def embedder() -> WordVectors:
    """Texts that share words are near to each other."""
    return WordVectors()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An object store on this machine, for this run."""
    with S3Server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.PostgresServer]:
    """A PostgreSQL server on this machine, for this run."""
    with postgres.PostgresServer() as server:
        yield server


@pytest.fixture
def each_write_commits(monkeypatch):
    """Whatever store is opened has no journal, unless it is told to: a write is a version."""
    monkeypatch.setitem(DEFAULTS, "journal", None)


@pytest.fixture
def local_backend(tmp_path) -> Backend:
    """A directory that does not exist yet."""
    return local(tmp_path / "store")


@pytest.fixture
def log_backend(tmp_path) -> Backend:
    """A place in a directory for one store, whose log is not in a file."""
    return LogInMemory(uri=str(tmp_path / "store"))


@pytest.fixture(name="directory+postgres_backend")
def postgres_backend(postgres_server, tmp_path) -> Backend:
    """A directory that does not exist yet, whose log is in PostgreSQL."""
    return LogInPostgres(uri=str(tmp_path / "store"), address=postgres_server.address())


@pytest.fixture
def memory_backend() -> Backend:
    """The memory of this process."""
    return memory()


@pytest.fixture
def s3_backend(s3_server) -> Backend:
    """A prefix of its own in an object store."""
    return s3_server.backend()


@pytest.fixture(name="s3+postgres_backend")
def s3_postgres_backend(s3_server, postgres_server) -> Backend:
    """A prefix of its own in an object store, for a store whose log is in PostgreSQL."""
    place = s3_server.backend()
    return LogInPostgres(
        uri=place.uri, storage_options=place.storage_options, address=postgres_server.address()
    )


@pytest.fixture
def open_store(local_backend, clock) -> Iterator:
    """Opens stores, all of them in one directory, and closes them in the end."""
    opened = []

    def open_(**options):
        store = local_backend.open(**{"clock": clock, **options})
        opened.append(store)
        return store

    yield open_
    for store in opened:
        asyncio.run(store.close())


@pytest.fixture
def store(open_store):
    """A store in a directory, without an embedder."""
    return open_store()
