"""The indexing API ends with what the loader has, whichever clean-up is asked for."""

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_lance_context import LanceContextVectorStore

FIRST = [("a", "one"), ("a", "two"), ("b", "three")]
CHANGED = [("a", "one"), ("a", "two again")]

LEFT = {
    None: {"one", "two", "three", "two again"},
    "incremental": {"one", "three", "two again"},
    "scoped_full": {"one", "three", "two again"},
    "full": {"one", "two again"},
}
"""What is there after `FIRST`, and then `CHANGED`, were indexed: of source b nothing was said."""


@pytest.fixture
def records():
    manager = InMemoryRecordManager("namespace")
    manager.create_schema()
    return manager


@pytest.fixture
def vectorstore(store, embedding):
    return LanceContextVectorStore(store, embedding)


def documents(pairs):
    return [Document(text, metadata={"source": source}) for source, text in pairs]


def contents(store):
    return {one.text for one in store.vectors().list()}


def counts(result):
    return tuple(result[f"num_{what}"] for what in ("added", "skipped", "deleted"))


@pytest.mark.parametrize("cleanup", LEFT)
@pytest.mark.parametrize("batch_size", [1, 100])
def test_what_was_indexed_is_there_once(store, vectorstore, records, cleanup, batch_size):
    def run(pairs, **more):
        return counts(
            index(
                documents(pairs),
                records,
                vectorstore,
                cleanup=cleanup,
                source_id_key="source",
                batch_size=batch_size,
                key_encoder="sha256",
                **more,
            )
        )

    assert run(FIRST) == (3, 0, 0)
    again = run(FIRST)
    assert contents(store) == {"one", "two", "three"}
    # With smaller batches the framework deletes and adds what the next batch has of a source.
    assert batch_size == 1 or again == (0, 3, 0)
    run(CHANGED)
    assert contents(store) == LEFT[cleanup]
    run(CHANGED, force_update=True)
    assert contents(store) == LEFT[cleanup]
    assert store.vectors().count() == len(LEFT[cleanup])


@pytest.mark.parametrize("cleanup", LEFT)
async def test_what_was_indexed_is_there_once_asynchronously(store, vectorstore, records, cleanup):
    for pairs in (FIRST, FIRST, CHANGED):
        await aindex(
            documents(pairs),
            records,
            vectorstore,
            cleanup=cleanup,
            source_id_key="source",
            key_encoder="sha256",
        )
    found = await store.aio.vectors().list()
    assert sorted(one.text for one in found) == sorted(LEFT[cleanup])
