"""The store's collections keep the contract of `VectorStore`, and more than that."""

import pytest
from core.conformance.doubles import WordVectors
from core.conformance.places import InEachPlace
from core.conformance.vectors import COLLECTIONS, StoredVectorTests, described
from lance_context_testing.vectors import ids_of

from lance_context_core.errors import EmbeddingModelMismatchError, InvalidRequestError
from lance_context_core.storage.names import collection_of, table_of
from lance_context_core.types import Document


class TestVectors(InEachPlace, StoredVectorTests):
    """The collections of the store itself."""

    @pytest.fixture
    def collection(self, collection):
        return collection


async def test_another_embedding_model_is_refused_before_anything_is_written(open_store):
    await open_store(embedder=WordVectors("one")).vectors("c").add(described("a"))
    other = open_store(embedder=WordVectors("another")).vectors("c")
    for verb in (other.add, other.upsert):
        with pytest.raises(EmbeddingModelMismatchError, match=r"'another'.*'one'"):
            await verb(described("b"))
    for mode in ("vector", "hybrid"):
        with pytest.raises(EmbeddingModelMismatchError, match="'one'"):
            await other.search("a", mode=mode)
    # What needs no model is still possible.
    assert ids_of(await other.search("a", mode="text")) == ["a"]
    assert ids_of(await other.search([1.0] * 64)) == ["a"]
    assert await other.count() == 1


async def test_without_an_embedder_vectors_are_brought_or_words_are_searched(open_store):
    vectors = open_store().vectors("c")
    await vectors.add([*described("a"), Document(id="b", text="about b", embedding=[1.0, 0.0])])
    assert set(ids_of(await vectors.search("about"))) == {"a", "b"}
    assert ids_of(await vectors.search([1.0, 0.0])) == ["b"]
    assert set(ids_of(await vectors.search("about", vector=[1.0, 0.0]))) == {"a", "b"}
    for mode in ("vector", "hybrid"):
        with pytest.raises(InvalidRequestError, match="embedder"):
            await vectors.search("about", mode=mode)


def test_names_of_collections_are_told_apart_where_case_and_accents_are_folded():
    names = [*COLLECTIONS, "aa", "aA", "Aa", "\u0130", "i\u0307", "\ufb01", "fi"]
    tables = [table_of(name) for name in names]
    assert [collection_of(table) for table in tables] == names
    assert all(table.isascii() for table in tables)
    assert len({table.lower() for table in tables}) == len(names)


async def test_documents_are_listed_in_the_order_of_adding(store):
    vectors = store.vectors("c")
    await vectors.add(described("c", "a"))
    await vectors.add(described("b", metadata={"k": 1}))
    await vectors.upsert(described("c", text="new {}"))
    assert ids_of(await vectors.list()) == ["c", "a", "b"]
    assert ids_of(await vectors.list(limit=1, offset=1)) == ["a"]
    assert ids_of(await vectors.list(filter={"k": 1})) == ["b"]


async def test_the_vector_is_read_where_it_is_asked_for(store):
    vectors = store.vectors("c")
    await vectors.add([Document(id="a", text="tea", embedding=[3.0, 4.0])])
    (found,) = await vectors.get(["a"], include_embedding=True)
    (hit,) = await vectors.search("tea", mode="text", include_embedding=True)
    assert list(found.embedding) == list(hit.record.embedding) == [3.0, 4.0]


async def test_a_collection_may_have_an_embedder_of_its_own(open_store, embedder):
    other = WordVectors("other", dimension=8)
    store = open_store(embedder=embedder)
    own = store.vectors("own", embedder=other)
    await own.add([Document(id="a", text="ginger tea"), Document(id="b", text="carrot cake")])
    await store.vectors("c").add([Document(id="a", text="ginger tea")])
    assert ids_of(await own.search("carrot", mode="vector")) == ["b", "a"]
    lengths = {}
    for vectors in (own, store.vectors("c")):
        (found,) = await vectors.get(["a"], include_embedding=True)
        lengths[vectors.collection] = len(found.embedding)
    assert lengths == {"own": 8, "c": 64}
    with pytest.raises(InvalidRequestError):
        await store.vectors("own").add([Document(id="c", text="bread")])
