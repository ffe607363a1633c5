"""Conformance tests of `VectorStore`."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar

import pytest

from lance_context_core import Document
from lance_context_core.errors import AlreadyExistsError
from lance_context_core.protocols import SearchMode, VectorStore
from lance_context_core.results import SearchHit
from lance_context_testing._contract import Contract, assert_has_the_methods, needs
from lance_context_testing.samples import METADATA, NAMES, TEXTS

Collections = Callable[[str], VectorStore]
"""The collection of a name; the same name returns the same collection."""
AXES = [[float(n == axis) for n in range(4)] for axis in range(4)]


class VectorStoreTests(Contract):
    """Give the fixture `collection`: a function from a name to the collection of that name.

    All collections of one test share a place that is empty at first.
    """

    hooks: ClassVar = {"collection": "a function from a name to the VectorStore of that name"}

    embeds_texts: ClassVar[bool] = True
    """Whether documents and text queries without vectors are embedded.

    Texts that share words must be nearer to each other than to those that do not.
    """
    search_modes: ClassVar[Sequence[SearchMode]] = ("hybrid", "vector", "text")
    """The supported search modes."""
    supports_filters: ClassVar[bool] = True
    """Whether `search`, `delete` and `count` take a `filter`."""

    @pytest.fixture
    def vectors(self, collection: Collections) -> VectorStore:
        """One of the collections."""
        return collection("default")

    def test_it_has_the_methods_of_the_protocol(self, vectors: VectorStore) -> None:
        assert_has_the_methods(vectors, VectorStore)

    # Adding and getting

    async def test_documents_come_back_in_the_order_in_which_they_are_asked_for(
        self, vectors: VectorStore
    ) -> None:
        given = described("a", "b", "c")
        assert await vectors.add(given) == ["a", "b", "c"]
        assert told(await vectors.get(["c", "unknown", "a"])) == told([given[2], given[0]])
        assert await vectors.get([]) == []
        assert await vectors.get(["unknown"]) == []
        assert await vectors.count() == 3

    async def test_a_document_without_an_id_is_given_one_of_its_own(
        self, vectors: VectorStore
    ) -> None:
        same = Document(text="again", embedding=AXES[0])
        ids = [*await vectors.add([same, same]), *await vectors.upsert([same])]
        assert len(set(ids)) == 3
        assert [one.text for one in await vectors.get(ids)] == ["again"] * 3

    async def test_a_retry_changes_nothing(self, vectors: VectorStore) -> None:
        documents = described("a", "b", metadata={"k": [1, 0.5, None]})
        await vectors.add(documents)
        assert await vectors.add(documents) == ["a", "b"]
        assert await vectors.add([*described("c"), *documents]) == ["c", "a", "b"]
        assert await vectors.count() == 3

    async def test_an_id_that_another_text_has_is_refused_and_nothing_is_written(
        self, vectors: VectorStore
    ) -> None:
        given = described("a")
        await vectors.add(given)
        with pytest.raises(AlreadyExistsError):
            await vectors.add([*described("b"), *described("a", text="else")])
        assert await vectors.count() == 1
        assert told(await vectors.get(["a", "b"])) == told(given)

    async def test_an_upsert_replaces_what_exists_and_adds_the_rest(
        self, vectors: VectorStore
    ) -> None:
        old = described("a", "b", metadata={"old": True})
        await vectors.add(old)
        new = described("b", "c", text="new {}", metadata={"old": False}, embedding=AXES[2])
        assert await vectors.upsert(new) == ["b", "c"]
        assert told(await vectors.get(["a", "b", "c"])) == told([old[0], *new])
        assert await vectors.count() == 3
        # Its searchable fields are new, too.
        assert set(ids_of(await vectors.search(AXES[2], limit=2))) == {"b", "c"}

    async def test_texts_and_metadata_of_every_shape_come_back_equal(
        self, vectors: VectorStore
    ) -> None:
        given = [
            *(Document(id=f"t{n}", text=one, embedding=AXES[0]) for n, one in enumerate(TEXTS)),
            *(Document(id=f"m{n}", text="m", embedding=AXES[1], metadata=one) for n, one in enumerate(METADATA)),
        ]  # fmt: skip
        ids = await vectors.add(given)
        assert told(await vectors.get(ids)) == told(given)

    async def test_any_text_can_name_a_document(self, vectors: VectorStore) -> None:
        given = [Document(id=name, text=name, embedding=AXES[0]) for name in NAMES]
        assert await vectors.add(given) == NAMES
        assert ids_of(await vectors.get(NAMES[::-1])) == NAMES[::-1]
        assert await vectors.delete(NAMES[:3]) == 3
        assert ids_of(await vectors.get(NAMES)) == NAMES[3:]

    async def test_changing_what_was_given_or_found_changes_nothing_that_is_kept(
        self, vectors: VectorStore
    ) -> None:
        metadata: dict[str, Any] = {"list": [1]}
        embedding = list(AXES[0])
        await vectors.add([Document(id="a", text="a", embedding=embedding, metadata=metadata)])
        metadata["list"].append(2)
        embedding[:] = AXES[1]
        (found,) = await vectors.get(["a"])
        found.metadata["list"].append(3)
        (hit,) = await vectors.search(AXES[0])
        assert hit.record.metadata == {"list": [1]}
        assert hit.score == pytest.approx(1)

    async def test_additions_at_the_same_time_lose_nothing(self, vectors: VectorStore) -> None:
        await asyncio.gather(*(vectors.add(described(f"{n}")) for n in range(8)))
        assert ids_of(await vectors.get([f"{n}" for n in range(8)])) == [f"{n}" for n in range(8)]

    # Searching

    async def test_a_search_by_vector_finds_the_nearest_best_first(
        self, vectors: VectorStore
    ) -> None:
        random = Random(7)
        angles = [random.uniform(0, math.pi) for _ in range(40)]
        given = [
            Document(id=f"{n}", text="t", embedding=[math.cos(one), math.sin(one), 0.0, 0.0])
            for n, one in enumerate(angles)
        ]
        await vectors.add(given)
        best = [f"{n}" for n in sorted(range(40), key=angles.__getitem__)]
        for limit in (0, 1, 5, 40, 99):
            hits = await vectors.search(AXES[0], limit=limit)
            assert ids_of(hits) == best[:limit]
            scores = [hit.score for hit in hits]
            assert scores == sorted(scores, reverse=True)
            assert all(0 <= score <= 1 for score in scores)
        assert ids_of(await vectors.search(vector=AXES[0])) == best[:10]

    @needs("embeds_texts")
    async def test_documents_without_vectors_are_found_by_those_of_their_texts(
        self, vectors: VectorStore
    ) -> None:
        given = [Document(id=text, text=text) for text in ("ginger tea", "carrot cake", "old wine")]
        await vectors.add(given)
        for mode in (*(one for one in self.search_modes if one != "text"), None):
            assert ids_of(await vectors.search("carrot", mode=mode))[0] == "carrot cake"
        await vectors.upsert([Document(id="carrot cake", text="plum jam")])
        assert ids_of(await vectors.search("plum", mode=None))[0] == "carrot cake"

    async def test_a_search_by_words_finds_what_holds_them(self, vectors: VectorStore) -> None:
        if "text" not in self.search_modes:
            pytest.skip(f"{type(self).__name__} declares search_modes = {self.search_modes}")
        texts = {
            "both": "the cat met a dog",
            "dog": "a dog, and a long sentence about some other matter",
            "none": "birds",
        }
        await vectors.add(
            [Document(id=id, text=text, embedding=AXES[0]) for id, text in texts.items()]
        )
        assert ids_of(await vectors.search("cat dog", mode="text")) == ["both", "dog"]
        assert len(await vectors.search("dog", mode="text", limit=1)) == 1
        assert await vectors.search("unheard", mode="text") == []

    async def test_a_hybrid_search_finds_what_either_channel_finds(
        self, vectors: VectorStore
    ) -> None:
        if "hybrid" not in self.search_modes:
            pytest.skip(f"{type(self).__name__} declares search_modes = {self.search_modes}")
        await vectors.add(
            [
                Document(id="words", text="rare", embedding=AXES[0]),
                Document(id="vector", text="else", embedding=AXES[1]),
                Document(id="both", text="rare", embedding=[0.5, 1.0, 0.0, 0.0]),
                Document(id="neither", text="else", embedding=[0.0, -1.0, 0.0, 0.0]),
            ]
        )
        hits = await vectors.search("rare", vector=AXES[1], mode="hybrid", limit=3)
        assert ids_of(hits)[0] == "both"
        assert set(ids_of(hits)) == {"words", "vector", "both"}

    @needs("supports_filters")
    async def test_a_filtered_search_finds_as_many_as_match(self, vectors: VectorStore) -> None:
        near = [
            Document(id=f"n{n}", text="t", embedding=AXES[0], metadata={"kept": False})
            for n in range(60)
        ]
        far = [
            Document(id=f"f{n}", text="t", embedding=AXES[1], metadata={"kept": True, "n": n})
            for n in range(6)
        ]
        await vectors.add([*near, *far])
        cases: list[tuple[Mapping[str, Any], set[str]]] = [
            ({"kept": True}, {f"f{n}" for n in range(6)}),
            ({"n": {"$lt": 3}}, {"f0", "f1", "f2"}),
            ({"n": {"$gte": 3}, "kept": True}, {"f3", "f4", "f5"}),
            ({"n": {"$in": [1, 4, 7]}}, {"f1", "f4"}),
            ({"$or": [{"n": 0}, {"n": 5}]}, {"f0", "f5"}),
            ({"n": 99}, set()),
        ]
        for filter, expected in cases:
            assert set(ids_of(await vectors.search(AXES[0], filter=filter))) == expected
            assert await vectors.count(filter=filter) == len(expected)
        assert len(await vectors.search(AXES[0], filter={"kept": False}, limit=50)) == 50

    # Dimensions

    async def test_a_vector_of_another_length_is_refused_and_nothing_is_written(
        self, vectors: VectorStore
    ) -> None:
        await vectors.add(described("a"))
        for length in (3, 5):
            wrong = Document(id="c", text="c", embedding=[1.0] * length)
            for verb in (vectors.add, vectors.upsert):
                with pytest.raises(ValueError, match=r"\d"):
                    await verb([*described("b"), wrong])
            with pytest.raises(ValueError, match=r"\d"):
                await vectors.search([1.0] * length)
        assert await vectors.count() == 1

    async def test_collections_of_different_dimensions_stand_side_by_side(
        self, collection: Collections
    ) -> None:
        sizes = {"two": 2, "four": 4, "eight": 8}
        for name, size in sizes.items():
            await collection(name).add([Document(id="a", text=name, embedding=[1.0] * size)])
        for name, size in sizes.items():
            (hit,) = await collection(name).search([1.0] * size)
            assert hit.record.text == name
        assert await collection("two").list_collections() == sorted(sizes)

    # Deleting

    async def test_documents_are_deleted_by_id(self, vectors: VectorStore) -> None:
        await vectors.add(described("a", "b", "c"))
        assert await vectors.delete(["a", "unknown"]) == 1
        assert await vectors.delete(["a"]) == 0
        assert await vectors.delete([]) == 0
        assert ids_of(await vectors.get(["a", "b", "c"])) == ["b", "c"]
        assert set(ids_of(await vectors.search(AXES[0]))) == {"b", "c"}

    @needs("supports_filters")
    async def test_documents_are_deleted_by_filter_or_by_both(self, vectors: VectorStore) -> None:
        ids = [f"d{n}" for n in range(10)]
        await vectors.add(
            [
                Document(id=f"d{n}", text="d", embedding=AXES[0], metadata={"n": n})
                for n in range(10)
            ]
        )
        assert await vectors.delete(filter={"n": {"$gte": 8}}) == 2
        assert ids_of(await vectors.get(ids)) == ids[:8]
        assert await vectors.delete(["d1", "d2", "d9"], filter={"n": {"$gt": 1}}) == 1
        assert await vectors.delete([], filter={"n": {"$gt": 1}}) == 0
        assert ids_of(await vectors.get(ids)) == ["d0", "d1", *ids[3:8]]

    async def test_a_deleted_document_can_be_added_again_with_another_text(
        self, vectors: VectorStore
    ) -> None:
        await vectors.add(described("a"))
        await vectors.delete(["a"])
        new = described("a", text="new {}")
        await vectors.add(new)
        assert told(await vectors.get(["a"])) == told(new)

    # Collections

    async def test_a_collection_that_nobody_wrote_to_is_empty(
        self, vectors: VectorStore, collection: Collections
    ) -> None:
        async def assert_nothing() -> None:
            assert await vectors.count() == 0
            assert await vectors.get(["a"]) == []
            assert await vectors.search(AXES[0]) == []
            assert await vectors.delete(["a"]) == 0
            assert await vectors.delete_collection() == 0

        await assert_nothing()
        assert await vectors.list_collections() == []
        await collection("another").add(described("a"))
        await assert_nothing()
        assert await vectors.list_collections() == ["another"]

    async def test_nothing_to_add_makes_no_collection(self, vectors: VectorStore) -> None:
        assert await vectors.add([]) == []
        assert await vectors.upsert([]) == []
        assert await vectors.list_collections() == []

    async def test_deleting_a_collection_leaves_the_others(self, collection: Collections) -> None:
        first, second = collection("first"), collection("second")
        for one in (first, second):
            await one.add(described("a", "b"))
        assert await first.delete_collection() == 2
        assert await first.list_collections() == ["second"]
        assert (await first.count(), await second.count()) == (0, 2)
        assert await first.get(["a"]) == []
        assert await first.search(AXES[0]) == []
        assert await first.delete_collection() == 0

    async def test_a_deleted_collection_may_come_back_with_another_dimension(
        self, vectors: VectorStore
    ) -> None:
        await vectors.add(described("a"))
        await vectors.delete_collection()
        await vectors.add([Document(id="b", text="b", embedding=[1.0, 0.0])])
        assert ids_of(await vectors.search([1.0, 0.0])) == ["b"]
        assert await vectors.count() == 1


def described(
    *ids: str,
    text: str = "about {}",
    embedding: Sequence[float] = tuple(AXES[0]),
    metadata: Mapping[str, Any] | None = None,
) -> list[Document]:
    """Documents with texts about their ids."""
    return [
        Document(id=id, text=text.format(id), embedding=embedding, metadata=metadata or {})
        for id in ids
    ]


def told(documents: Sequence[Document]) -> list[tuple[str | None, str | None, Mapping[str, Any]]]:
    """All fields but the vectors, which a store may leave out of its results."""
    return [(one.id, one.text, one.metadata) for one in documents]


def ids_of(found: Sequence[Document] | Sequence[SearchHit[Document]]) -> list[str | None]:
    """The ids of documents, or of hits."""
    return [one.record.id if isinstance(one, SearchHit) else one.id for one in found]
