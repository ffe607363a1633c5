"""Each conformance test, in each place and through each face."""

import asyncio

import pytest
from core.conformance.back_door import BackDoor
from core.conformance.faces import Threaded

from lance_context_core.sync import History, Memory, Sessions, Vectors

PLACES = [("local", "async"), ("local", "sync"), ("memory", "async"), ("memory", "sync"), ("s3", "async")]  # fmt: skip
FEWER_PLACES = {
    "costly": PLACES[:4],
    "anywhere": [("local", "async"), ("memory", "sync")],
    "local": [("local", "async")],
}
"""By the marks of the tests that are content with them."""


def pytest_generate_tests(metafunc):
    if "place" not in metafunc.fixturenames:
        return
    marks = (name for name in FEWER_PLACES if metafunc.definition.get_closest_marker(name))
    places = FEWER_PLACES.get(next(marks, ""), PLACES)
    metafunc.parametrize("place", places, ids="-".join, indirect=True)


@pytest.fixture
def place(request):
    """The backend, and the name of the face that is tested."""
    kind, face = request.param
    return request.getfixturevalue(f"{kind}_backend"), face


@pytest.fixture
def store(place, clock, embedder):
    """A store that embeds, in an empty place."""
    store = place[0].open(clock=clock, embedder=embedder)
    yield store
    asyncio.run(store.close())


@pytest.fixture
def back_door(store):
    return BackDoor(store)


@pytest.fixture
def faced(place):
    """An asynchronous object, or its blocking twin in asynchronous words."""

    def faced(twin, blocking):
        return twin if place[1] == "async" else Threaded(blocking(twin))

    return faced


@pytest.fixture
def history(store, faced):
    return faced(store.history, History)


@pytest.fixture
def sessions(store, faced):
    return faced(store.sessions, Sessions)


@pytest.fixture
def memory(store, faced):
    return faced(store.memory, Memory)


@pytest.fixture
def collection(store, faced):
    """Vector stores by name."""
    return lambda name: faced(store.vectors(name), Vectors)


@pytest.fixture
def vectors(collection):
    return collection("default")
