"""The index store."""

import asyncio
import pickle

import pytest
from llama_index.core.data_structs.data_structs import IndexDict, IndexList
from llama_index_lance_context import LanceContextIndexStore


@pytest.fixture
def indexes(store):
    return LanceContextIndexStore(store)


def struct(id, struct_class=IndexDict):
    return struct_class(index_id=id, summary=f"what {id} is about")


def test_an_index_reads_back_with_its_class(indexes):
    for one in (struct("a"), struct("b'", IndexList)):
        indexes.add_index_struct(one)
        read = indexes.get_index_struct(one.index_id)
        assert (type(read), read) == (type(one), one)


def test_the_only_index_need_not_be_named(indexes):
    indexes.add_index_struct(struct("a"))
    assert indexes.get_index_struct() == struct("a")


def test_an_index_is_replaced_and_deleted(indexes):
    indexes.add_index_struct(struct("a"))
    indexes.add_index_struct(IndexDict(index_id="a", summary="new"))
    assert [one.summary for one in indexes.index_structs()] == ["new"]
    indexes.delete_index_struct("a")
    indexes.delete_index_struct("a")
    assert indexes.index_structs() == []
    assert indexes.get_index_struct("a") is None


def test_the_asynchronous_methods_do_the_same(indexes):
    async def main():
        await indexes.async_add_index_struct(struct("a"))
        await indexes.async_add_index_struct(struct("b"))
        await indexes.adelete_index_struct("a")
        assert await indexes.aget_index_struct("b") == struct("b")
        return await indexes.async_index_structs()

    assert asyncio.run(main()) == indexes.index_structs() == [struct("b")]


def test_namespaces_are_apart(store):
    LanceContextIndexStore(store, namespace="a").add_index_struct(struct("i"))
    assert LanceContextIndexStore(store, namespace="b").index_structs() == []


def test_given_by_its_uri_it_can_be_sent_to_another_process(tmp_path):
    with LanceContextIndexStore(tmp_path / "s", namespace="mine") as indexes:
        indexes.add_index_struct(struct("a"))
        with pickle.loads(pickle.dumps(indexes)) as copy:  # noqa: S301 - what has just been pickled
            assert copy.index_structs() == [struct("a")]
