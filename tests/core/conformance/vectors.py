"""What the store's collections must do beyond the contract of `VectorStore`."""

import math

import numpy as np
import pytest
from lance_context_testing import VectorStoreTests
from lance_context_testing.samples import METADATA, NAMES, NO_NAMES, TEXTS
from lance_context_testing.vectors import ids_of

from lance_context_core.errors import (
    AlreadyExistsError,
    DimensionMismatchError,
    FilterError,
    InvalidRequestError,
)
from lance_context_core.types import Document

MODES = ("hybrid", "vector", "text")
AXES = np.eye(4)
COLLECTIONS = [name for name in NAMES if len(name) < 60]
"""A collection is a directory: its name may not be arbitrarily long."""


def described(*ids: str, text: str = "about {}", **rest) -> list[Document]:
    return [Document(id=id, text=text.format(id), **rest) for id in ids]


class StoredVectorTests(VectorStoreTests):
    """Needs the fixtures `clock` and `back_door`, too; the store embeds into 64 dimensions."""

    # Adding and getting

    async def test_a_retry_makes_no_commit(self, vectors, back_door):
        documents = described("a", "b", metadata={"k": [1, 0.5, None]})
        await vectors.add(documents)
        before = await back_door.n_commits("vectors.default")
        assert await vectors.add(documents) == ["a", "b"]
        assert await back_door.n_commits("vectors.default") == before
        assert await vectors.add([*described("c"), *documents]) == ["c", "a", "b"]
        assert await vectors.count() == 3

    @pytest.mark.parametrize(
        "other", [{"text": "else"}, {"text": None, "embedding": [1.0] * 64}], ids=repr
    )
    async def test_an_id_that_another_text_has_is_named(self, vectors, other):
        await vectors.add(described("a"))
        with pytest.raises(AlreadyExistsError, match="'a'"):
            await vectors.add([*described("b"), Document(id="a", **other)])
        assert await vectors.count() == 1
        assert await vectors.get(["a", "b"]) == described("a")

    @pytest.mark.s3
    async def test_an_upsert_replaces_what_exists_and_adds_the_rest_in_one_commit(
        self, vectors, back_door
    ):
        await vectors.add(described("a", "b", metadata={"old": True}))
        before = await back_door.n_commits("vectors.default")
        new = described("b", "c", text="new {}", metadata={"old": False})
        assert await vectors.upsert(new) == ["b", "c"]
        assert await back_door.n_commits("vectors.default") == before + 1
        assert await vectors.get(["a", "b", "c"]) == [*described("a", metadata={"old": True}), *new]
        assert await vectors.count() == 3
        # Its vector and its words are those of the new text.
        assert ids_of(await vectors.search("new b", mode="vector", limit=1)) == ["b"]
        assert ids_of(await vectors.search("about", mode="text")) == ["a"]

    @pytest.mark.parametrize("verb", ["add", "upsert"])
    async def test_an_id_twice_in_one_call_is_refused_and_nothing_is_written(
        self, vectors, back_door, verb
    ):
        with pytest.raises(InvalidRequestError, match="'a'"):
            await getattr(vectors, verb)([*described("a", "b"), Document(id="a", text="else")])
        assert await back_door.rows("vectors.default") == []

    @pytest.mark.anywhere
    @pytest.mark.parametrize("verb", ["add", "upsert"])
    async def test_what_is_no_document_is_refused_and_nothing_is_written(
        self, vectors, back_door, verb
    ):
        for nonsense in (
            "text",
            Document(id="b"),
            Document(id="", text="b"),
            Document(id="b", text="b", metadata={"a": float("nan")}),
            Document(id="b", text="b", metadata={"a": {1}}),
            Document(id="b", text="\ud800"),
            *(Document(id=name, text="b") for name in NO_NAMES),
        ):
            with pytest.raises(InvalidRequestError, match=r"documents\[1\]"):
                await getattr(vectors, verb)([*described("a"), nonsense])
        assert await back_door.rows("vectors.default") == []

    async def test_texts_of_every_shape_can_be_embedded_and_written_again(self, vectors):
        documents = [Document(id=f"t{n}", text=text) for n, text in enumerate(TEXTS)]
        documents += [
            Document(id=f"m{n}", text=f"number {n}", metadata=metadata)
            for n, metadata in enumerate(METADATA)
        ]
        await vectors.add(documents)
        assert await vectors.get([one.id for one in documents]) == documents
        assert await vectors.add(documents) == [one.id for one in documents]
        await vectors.upsert(documents)
        assert await vectors.get([one.id for one in documents]) == documents

    async def test_two_thousand_documents_are_one_commit(self, vectors, back_door):
        await vectors.add(described("first"))
        before = await back_door.n_commits("vectors.default")
        ids = await vectors.add(described(*(f"d{n}" for n in range(2_000))))
        assert await back_door.n_commits("vectors.default") == before + 1
        assert await vectors.count() == 2_001
        assert ids_of(await vectors.get(ids[::-1])) == ids[::-1]
        assert ids_of(await vectors.search("d1234", limit=1)) == ["d1234"]

    # Searching

    async def test_a_search_by_vector_orders_by_cosine_and_scores_by_it(self, vectors):
        random = np.random.default_rng(7)
        given = random.normal(size=(40, 4)) * random.uniform(0.1, 9, size=(40, 1))
        query = random.normal(size=4)
        cosines = given @ query / np.linalg.norm(given, axis=1) / np.linalg.norm(query)
        best = np.argsort(-cosines)
        await vectors.add(
            [
                Document(id=f"{n}", embedding=one, metadata={"place": int(np.argmax(best == n))})
                for n, one in enumerate(given)
            ]
        )
        for n_before, limit in ((0, 0), (0, 1), (0, 5), (0, 40), (0, 99), (30, 5), (37, 5)):
            expected = best[n_before:][:limit]
            hits = await vectors.search(
                list(query), filter={"place": {"$gte": n_before}}, limit=limit
            )
            assert ids_of(hits) == [f"{n}" for n in expected]
            scores = [(1 + cosines[n]) / 2 for n in expected]
            assert [hit.score for hit in hits] == pytest.approx(scores, abs=1e-5)
        hits = await vectors.search(vector=list(query), limit=3)
        assert ids_of(hits) == [f"{n}" for n in best[:3]]

    async def test_a_search_by_words_leaves_out_what_has_none(self, vectors):
        await vectors.add(
            [
                Document(id="both", text="the cat met a dog"),
                Document(id="dog", text="a dog, and a long sentence about some other matter"),
                Document(id="none", text="birds"),
                Document(id="no text", embedding=[1.0] * 64),
                Document(id="blank", text=" \n"),
            ]
        )
        assert ids_of(await vectors.search("cat dog", mode="text")) == ["both", "dog"]
        assert ids_of(await vectors.search("DOG", mode="text", limit=1)) in (["both"], ["dog"])
        for nothing in ("", " ", "?!", "unheard"):
            assert await vectors.search(nothing, mode="text") == []

    @pytest.mark.s3
    async def test_a_hybrid_search_says_which_channels_matched(self, vectors):
        await vectors.add(
            [
                Document(id="words", text="rare", embedding=AXES[0]),
                Document(id="vector", text="else", embedding=AXES[1]),
                Document(id="both", text="rare", embedding=AXES[1] + 0.5 * AXES[0]),
                Document(id="neither", text="else", embedding=-AXES[1]),
            ]
        )
        hits = await vectors.search("rare", vector=list(AXES[1]), mode="hybrid", limit=3)
        assert ids_of(hits)[0] == "both"
        assert set(ids_of(hits)) == {"words", "vector", "both"}
        channels = {hit.record.id: hit.matched_channels for hit in hits}
        assert channels["both"] == ("text", "vector")

    async def test_scores_lie_between_0_and_1_and_fall(self, vectors):
        await vectors.add(described(*(f"d{n}" for n in range(20)), text="green tea {}"))
        for mode in (*MODES, None):
            hits = await vectors.search("tea d3", mode=mode, limit=20)
            scores = [hit.score for hit in hits]
            assert len(hits) == 20
            assert hits[0].record.id == "d3"
            assert scores == sorted(scores, reverse=True)
            assert all(0 <= score <= 1 for score in scores)

    async def test_a_filtered_search_finds_as_many_as_match_in_each_mode(self, vectors):
        near = [Document(id=f"n{n}", text="tea", metadata={"kept": False}) for n in range(60)]
        far = [
            Document(id=f"f{n}", text=f"tea {'word ' * n}{n}", metadata={"kept": True, "n": n})
            for n in range(6)
        ]
        await vectors.add(near)
        await vectors.add(far)
        for mode in MODES:
            for filter, expected in (
                ({"metadata.kept": True}, {f"f{n}" for n in range(6)}),
                ({"metadata.n": {"$lt": 3}}, {"f0", "f1", "f2"}),
                ({"metadata.n": 99}, set()),
            ):
                hits = await vectors.search("tea", mode=mode, filter=filter, limit=10)
                assert set(ids_of(hits)) == expected
                assert await vectors.count(filter=filter) == len(expected)
            assert len(await vectors.search("tea", mode=mode, limit=50)) == 50

    async def test_documents_come_with_their_vectors_where_these_are_asked_for(self, vectors):
        written = {f"d{n}": AXES[n] for n in range(3)}
        await vectors.add([Document(id=id, embedding=one) for id, one in written.items()])
        for read in (vectors.list, lambda **more: vectors.get(list(written), **more)):
            plain, whole = await read(), await read(include_embedding=True)
            assert ids_of(plain) == ids_of(whole) == list(written)
            assert [one.embedding for one in plain] == [None] * 3
            assert [list(one.embedding) for one in whole] == [list(one) for one in written.values()]

    async def test_a_vector_of_zeros_is_found_after_what_points_the_same_way(self, vectors):
        zeros = [0.0] * 4
        await vectors.add(
            [
                Document(id="zeros", embedding=zeros),
                Document(id="same", embedding=AXES[0]),
                Document(id="opposite", embedding=-AXES[0]),
            ]
        )
        hits = await vectors.search(list(AXES[0]))
        assert ids_of(hits) == ["same", "zeros", "opposite"]
        assert [hit.score for hit in hits] == pytest.approx([1, 0.5, 0])
        assert len(await vectors.search(zeros)) == 3

    @pytest.mark.anywhere
    async def test_a_search_that_makes_no_sense_is_refused(self, vectors):
        await vectors.add(described("a"))
        for wrong in (
            {},
            {"query": "a", "mode": "semantic"},
            {"vector": [1.0] * 64, "mode": "text"},
            {"vector": [1.0] * 64, "mode": "hybrid"},
            {"query": [1.0] * 64, "vector": [1.0] * 64},
            {"query": "a", "limit": -1},
            {"query": "a", "limit": 1.5},
            {"query": "a", "limit": True},
            {"vector": []},
            {"vector": [[1.0] * 64]},
            {"vector": ["a"] * 16},
            {"vector": [math.nan] * 16},
        ):
            with pytest.raises(InvalidRequestError):
                await vectors.search(**wrong)

    async def test_a_filter_that_cannot_be_understood_is_refused(self, vectors):
        await vectors.add(described("a"))
        wrong = {"metadata.k": {"$like": "a"}}
        for call in (vectors.count, vectors.delete):
            with pytest.raises(FilterError, match="like"):
                await call(filter=wrong)
        with pytest.raises(FilterError, match="like"):
            await vectors.search("a", filter=wrong)
        assert await vectors.count() == 1

    # Dimensions

    @pytest.mark.parametrize("verb", ["add", "upsert"])
    async def test_a_vector_of_another_length_is_refused_with_its_length(self, vectors, verb):
        await vectors.add([Document(id="a", embedding=AXES[0])])
        for length in (3, 5):
            wrong = [Document(id="c", embedding=[1.0] * length)]
            with pytest.raises(DimensionMismatchError, match=str(length)):
                await getattr(vectors, verb)(wrong)
            with pytest.raises(DimensionMismatchError):
                await getattr(vectors, verb)([Document(id="b", embedding=AXES[1]), *wrong])
            with pytest.raises(DimensionMismatchError, match=str(length)):
                await vectors.search([1.0] * length)
        # The embedder's vectors have 64 numbers.
        with pytest.raises(DimensionMismatchError, match="64"):
            await getattr(vectors, verb)(described("d"))
        assert await vectors.count() == 1

    @pytest.mark.parametrize("verb", ["add", "upsert"])
    async def test_vectors_of_two_lengths_in_one_call_are_refused_and_nothing_is_written(
        self, vectors, back_door, verb
    ):
        wrong = [Document(id="a", embedding=[1.0] * 3), Document(id="b", embedding=[1.0] * 4)]
        with pytest.raises(DimensionMismatchError):
            await getattr(vectors, verb)(wrong)
        assert await back_door.rows("vectors.default") == []

    @pytest.mark.anywhere
    @pytest.mark.parametrize(
        "wrong", [[], [[1.0]], ["a"], [math.nan], [math.inf], "text", [1e39]], ids=repr
    )
    async def test_what_is_no_vector_is_refused_and_nothing_is_written(
        self, vectors, back_door, wrong
    ):
        with pytest.raises(InvalidRequestError, match="embedding"):
            await vectors.add([Document(id="a", text="a", embedding=wrong)])
        assert await back_door.rows("vectors.default") == []

    # Deleting

    async def test_deleting_nothing_in_particular_is_refused(self, vectors):
        await vectors.add(described("a"))
        with pytest.raises(InvalidRequestError, match="delete_collection"):
            await vectors.delete()
        assert await vectors.count() == 1

    # Collections

    async def test_a_collection_that_nobody_wrote_to_is_empty_in_each_mode(
        self, vectors, collection
    ):
        async def nothing():
            assert await vectors.count() == 0
            assert await vectors.get(["a"]) == []
            for mode in MODES:
                assert await vectors.search("a", mode=mode) == []
            assert await vectors.search([1.0, 2.0]) == []
            assert await vectors.delete(["a"]) == 0
            assert await vectors.delete_collection() == 0

        await nothing()
        assert await vectors.list_collections() == []
        await collection("another").add(described("a"))
        await nothing()
        assert await vectors.list_collections() == ["another"]

    async def test_any_text_can_name_a_collection(self, collection):
        for name in COLLECTIONS:
            await collection(name).add([Document(id="a", text=name or "-")])
        assert await collection("a").list_collections() == sorted(COLLECTIONS)
        for name in COLLECTIONS:
            (found,) = await collection(name).get(["a"])
            assert found.text == name
        assert await collection(COLLECTIONS[0]).delete_collection() == 1
        assert await collection("a").list_collections() == sorted(COLLECTIONS[1:])

    @pytest.mark.anywhere
    @pytest.mark.parametrize("name", ["", *NO_NAMES, "x" * 5_000], ids=lambda name: ascii(name[:9]))
    async def test_what_cannot_name_a_collection_is_refused(self, collection, back_door, name):
        with pytest.raises(InvalidRequestError, match="collection"):
            await collection(name).add(described("a"))
        assert await collection("a").list_collections() == []

    # Through the back door

    async def test_a_document_is_in_the_table_as_it_was_given(self, vectors, clock, back_door):
        given = Document(id="a", text="tea", embedding=AXES[1], metadata={"k": [1]})
        await vectors.add([given])
        (row,) = await back_door.rows("vectors.default")
        expected = {"id": "a", "text": "tea", "metadata": '{"k":[1]}', "created_at": clock.now()}
        assert {name: row[name] for name in expected} == expected
        assert list(row["vector"]) == [0, 1, 0, 0]

    async def test_what_another_program_wrote_into_the_table_is_read(
        self, vectors, clock, back_door
    ):
        await vectors.add([Document(id="a", text="tea", embedding=AXES[0])])
        moment = clock.now()
        required = {"key": "k", "created_at": moment, "updated_at": moment, "revision": 1}
        written = {"id": "b", "text": "coffee", "search_text": "coffee", "vector": list(AXES[1])}
        await back_door.add("vectors.default", [{**written, **required}])
        assert await vectors.get(["b"]) == [Document(id="b", text="coffee")]
        assert ids_of(await vectors.search(list(AXES[1]))) == ["b", "a"]
        assert ids_of(await vectors.search("coffee", mode="text")) == ["b"]
        assert await vectors.delete(["b"]) == 1
