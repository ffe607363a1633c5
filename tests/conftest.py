"""What every test may use: a clock, an embedder, places to put a store, and tests that await."""

import asyncio
import inspect
from collections.abc import Iterator

import pytest
from core.conformance.backends import Backend, S3Server, local, memory
from core.conformance.doubles import ManualClock, WordVectors
from hypothesis import settings

CONTRACTS = [
    f"core.conformance.{name}" for name in ("history", "kv", "memory", "sessions", "vectors")
]
pytest.register_assert_rewrite(*CONTRACTS, "core.conformance.writers")

# A shared machine may be slow at any moment, so that no single example has a deadline.
settings.register_profile("short", deadline=None)
settings.register_profile("long", deadline=None, max_examples=2_000)


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="run long tests, and long forms of others")


def pytest_configure(config):
    config.addinivalue_line("markers", "s3: what an object store can break; run there, too")
    config.addinivalue_line("markers", "anywhere: the place is of no account; run in two of them")
    config.addinivalue_line("markers", "local: run on a directory alone, through one face")
    settings.load_profile("long" if config.getoption("--long") else "short")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="long: run with --long"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run an `async def` test on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


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


@pytest.fixture
def local_backend(tmp_path) -> Backend:
    """A directory that does not exist yet."""
    return local(tmp_path / "store")


@pytest.fixture
def memory_backend() -> Backend:
    """The memory of this process."""
    return memory()


@pytest.fixture
def s3_backend(s3_server) -> Backend:
    """A prefix of its own in an object store."""
    return s3_server.backend()


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
