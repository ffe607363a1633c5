"""What the vector store does where the framework's suite does not look."""

import asyncio
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.outputs import Generation
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from langchain_lance_context import (
    LanceContextRetriever,
    LanceContextStore,
    LanceContextVectorStore,
)

from lance_context_core import ContextStore, InvalidRequestError
from lance_context_core import Document as StoredDocument
from lance_context_core._loop import StoreLoop
from lance_context_core.adapting import Handle
from lance_context_core.errors import DimensionMismatchError, FilterError
from lance_context_core.settings import SearchOptions

TEXTS = {
    "tea": ("ginger tea", {"color": "red", "minutes": 5}),
    "soup": ("ginger soup", {"color": "blue", "minutes": 40}),
    "cake": ("carrot cake", {"color": "red", "minutes": 90}),
    "odd": ("it's odd", {"color": 'it\'s "red"'}),
}


@pytest.fixture
def empty(store, embedding):
    return LanceContextVectorStore(store, embedding)


@pytest.fixture
def filled(empty):
    texts, metadatas = zip(*TEXTS.values(), strict=True)
    empty.add_texts(texts, list(metadatas), ids=list(TEXTS))
    return empty


def ids(documents):
    return [document.id for document in documents]


# Metadata

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
KEPT = {
    "moment": NOON,
    "naive": NOON.replace(tzinfo=None),
    "day": NOON.date(),
    "price": Decimal("9.90"),
    "id": UUID(int=1),
    "source": Path("a") / "b.txt",
    "box": (1, 2.5),
    "seen": {1, 2},
    "data": b"\0",
    "far": math.inf,
    "nested": [{"at": NOON, 7: "seven"}],
}


def test_metadata_comes_back_equal_and_of_its_types(empty, store):
    empty.add_texts(["tea"], [KEPT], ids=["a"])
    empty.add_documents([Document("tea", id="b", metadata=KEPT)])
    retriever = LanceContextRetriever(store=store, collection="default", mode="text")
    hits = [*empty.similarity_search("tea"), *empty.get_by_ids(["b"]), *retriever.invoke("tea")]
    hits += asyncio.run(empty.asimilarity_search("tea", mode="text"))
    hits += empty.max_marginal_relevance_search("tea")
    assert len(hits) == 9
    for hit in hits:
        assert {key: hit.metadata[key] for key in KEPT} == KEPT
        assert all(type(hit.metadata[key]) is type(value) for key, value in KEPT.items())


def test_a_number_that_is_none_is_kept(empty):
    empty.add_texts(["tea"], [{"n": math.nan, "f": np.float32(0.5), "i": np.int64(3)}])
    metadata = empty.similarity_search("tea")[0].metadata
    assert math.isnan(metadata.pop("n"))
    assert metadata == {"f": 0.5, "i": 3}


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"moment": NOON}, ["a"]),
        ({"moment": {"$gt": NOON - timedelta(hours=1), "$lte": NOON}}, ["a"]),
        ({"moment": {"$lt": NOON}}, []),
        ({"moment": {"$ne": NOON}}, ["b"]),
        ({"day": {"$in": [NOON.date(), "2026-01-02"]}}, ["a"]),
        ({"price": {"$lt": 10}}, ["a", "b"]),
        ({"price": {"$lt": math.inf, "$gte": Decimal("9.9")}}, ["a"]),
        ({"price": math.nan}, []),
        ({"far": {"$gt": 1e308}}, ["a"]),
        ({"id": {"$contains": "b"}}, ["b"]),
        ({"metadata.id": UUID(int=1)}, ["a"]),
        ({"box": {"$contains": 2.5}}, ["a"]),
        ({"seen": {"$contains_all": [1, 2]}}, ["a"]),
    ],
)
def test_what_is_kept_is_found_as_python_compares_it(empty, condition, found):
    empty.add_texts(["tea", "tea"], [KEPT, {"price": 5}], ids=["a", "b"])
    assert sorted(ids(empty.similarity_search("tea", filter=condition))) == found
    retriever = empty.as_retriever(search_kwargs={"filter": condition})
    assert sorted(ids(retriever.invoke("tea"))) == found


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize("value", [object(), Colour.RED, Fraction(1, 2), np.array([1]), Generation])
def test_metadata_that_cannot_be_kept_is_refused_before_anything_is_written(empty, value):
    metadatas = [{}, {"a": [value]}]
    for write in (
        lambda: empty.add_texts(["a", "b"], metadatas),
        lambda: empty.add_documents([Document("a", metadata=one) for one in metadatas]),
        lambda: asyncio.run(empty.aadd_texts(["a", "b"], metadatas)),
    ):
        with pytest.raises(InvalidRequestError, match=r"^metadatas\[1\]\['a'\]\[0\] is a "):
            write()
    with pytest.raises(InvalidRequestError, match=r"^metadatas\[0\] has the key 1"):
        empty.add_texts(["a"], [{1: "a"}])
    assert empty.similarity_search("a") == []


# Writing


def test_two_calls_add_up(empty):
    empty.add_texts(["a"])
    empty.add_texts(["b"])
    assert len(empty.similarity_search("a b", k=9)) == 2


def test_a_call_is_one_commit(empty, store):
    empty.add_texts(["the first one makes the table"])
    table = store.aio.vectors()._table
    before = asyncio.run(table.version())
    empty.add_documents([Document(f"text {n}") for n in range(20)])
    assert asyncio.run(table.version()) == before + 1


def test_an_id_that_is_none_is_generated(empty):
    made, given_ = empty.add_documents([Document("a"), Document("b", id="b")])
    assert given_ == "b"
    assert made
    assert {one.id: one.page_content for one in empty.get_by_ids([made, "b"])} == {
        made: "a",
        "b": "b",
    }
    first, second = empty.add_texts(["c", "d"], ids=[None, "d"])
    assert second == "d"
    assert first not in {None, made, "b", "d"}


def test_ids_that_are_passed_precede_those_of_the_documents(empty):
    assert empty.add_documents([Document("a", id="x")], ids=["y"]) == ["y"]


def test_generators_are_read_once(empty):
    made = empty.add_texts(
        (text for text in "ab"), ({"n": n} for n in (1, 2)), ids=(one for one in "xy")
    )
    assert made == ["x", "y"]
    assert [one.metadata for one in empty.get_by_ids(["x", "y"])] == [{"n": 1}, {"n": 2}]
    assert empty.add_documents(Document(text) for text in "cd") != []
    assert ids(empty.get_by_ids(one for one in ["y"])) == ["y"]


def test_nothing_is_a_call_of_its_own(empty):
    assert empty.add_texts([]) == []
    assert empty.add_documents([]) == []
    assert empty.get_by_ids([]) == []
    assert empty.delete([]) is True
    assert empty.similarity_search("anything") == []


def test_an_empty_list_of_ids_deletes_nothing(filled):
    filled.delete([])
    assert len(filled.get_by_ids(list(TEXTS))) == len(TEXTS)


def test_deleting_without_saying_what_deletes_everything(filled):
    assert filled.delete() is True
    assert filled.similarity_search("ginger") == []


def test_a_filter_that_matches_everything_deletes_nothing(filled):
    with pytest.raises(InvalidRequestError, match="matches everything"):
        filled.delete(filter={})
    assert len(filled.get_by_ids(list(TEXTS))) == len(TEXTS)


def test_deleting_by_filter_spares_the_others(filled):
    filled.delete(filter={"color": "red"})
    assert ids(filled.get_by_ids(list(TEXTS))) == ["soup", "odd"]


def test_metadata_has_the_keys_that_were_given_and_no_other(empty):
    empty.add_texts(["a", "b", "c"], [{"a": 1}, {"b": "x"}, None], ids=["1", "2", "3"])
    found = empty.similarity_search("a b c", k=3)
    assert {one.id: one.metadata for one in found} == {"1": {"a": 1}, "2": {"b": "x"}, "3": {}}


def test_documents_are_not_changed(empty):
    document = Document("a", metadata={"tags": ["x"]})
    empty.add_documents([document])
    assert document == Document("a", metadata={"tags": ["x"]})
    metadata = {"tags": ["x"]}
    empty.add_texts(["b"], [metadata], ids=["b"])
    assert metadata == {"tags": ["x"]}
    empty.get_by_ids(["b"])[0].metadata["tags"].append("y")
    assert empty.get_by_ids(["b"])[0].metadata == metadata


def test_what_is_replaced_is_found_as_what_it_became(filled):
    filled.add_documents([Document("bread", id="tea", metadata={"new": True})])
    assert filled.get_by_ids(["tea"]) == [Document("bread", id="tea", metadata={"new": True})]
    assert ids(filled.similarity_search("bread", k=1)) == ["tea"]
    assert "tea" not in ids(filled.similarity_search("ginger", k=9, filter={"color": "red"}))
    assert "tea" not in ids(filled.similarity_search("ginger", k=9, mode="text"))


def test_every_read_says_which_document_it_is(filled, embedding):
    whole = Document("ginger tea", id="tea", metadata=TEXTS["tea"][1])
    near = embedding.embed_query("ginger tea")
    for found in (
        filled.get_by_ids(["tea"])[0],
        filled.similarity_search("ginger tea", k=1)[0],
        filled.similarity_search_with_score("ginger tea", k=1)[0][0],
        filled.similarity_search_with_relevance_scores("ginger tea", k=1)[0][0],
        filled.similarity_search_by_vector(near, k=1)[0],
        filled.max_marginal_relevance_search("ginger tea", k=1)[0],
        filled.max_marginal_relevance_search_by_vector(near, k=1)[0],
        filled.search("ginger tea", "similarity", k=1)[0],
        filled.as_retriever(search_kwargs={"k": 1}).invoke("ginger tea")[0],
    ):
        assert found == whole


@pytest.mark.parametrize(
    "write",
    [
        lambda one: one.add_texts(["a", "b"], [{}]),
        lambda one: one.add_texts(["a", "b"], ids=["1"]),
        lambda one: one.add_texts(["a", "b"], ids=["1", "1"]),
        lambda one: one.add_texts(["a", "b"], [{}, {"x": object()}]),
        lambda one: one.add_texts(["a", "b"], ids=["1", ""]),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(empty, store, write):
    with pytest.raises(ValueError, match=r".") as refused:
        write(empty)
    assert isinstance(refused.value, InvalidRequestError)
    assert store.vectors().count() == 0


def test_an_unknown_keyword_is_refused(filled):
    with pytest.raises(TypeError, match="overwrite"):
        filled.add_texts(["a"], overwrite=True)
    with pytest.raises(TypeError, match="where"):
        filled.similarity_search("a", where={"color": "red"})


def test_a_vector_of_another_length_is_refused(filled, store):
    class Short:
        def embed_documents(self, texts):
            return [[1.0, 0.0] for _ in texts]

        def embed_query(self, text):
            return [1.0, 0.0]

    with pytest.raises(DimensionMismatchError):
        filled.similarity_search_by_vector([1.0, 0.0])
    with pytest.raises(InvalidRequestError):
        LanceContextVectorStore(store, Short()).add_texts(["a"])


# Hostile ids and values


NAMES = ["it's", 'a "b"', "x' OR '1'='1", "'); DROP TABLE x; --", "%", "ö", "a.b"]


@pytest.mark.parametrize("name", NAMES)
def test_an_id_is_a_name_and_nothing_else(filled, name):
    assert filled.delete([name]) is True
    assert len(filled.get_by_ids(list(TEXTS))) == len(TEXTS)
    filled.add_texts(["named"], [{"name": name}], ids=[name])
    assert ids(filled.similarity_search("named", k=9, filter={"name": name})) == [name]
    filled.delete([name])
    assert ids(filled.get_by_ids([name, *TEXTS])) == list(TEXTS)


def test_none_among_the_ids_to_delete_is_refused(filled):
    with pytest.raises(InvalidRequestError, match=r"ids\[1\]"):
        filled.delete(["tea", None])
    assert ids(filled.get_by_ids(["tea"])) == ["tea"]


# Filters


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        ({"color": "red"}, {"tea", "cake"}),
        ({"metadata.color": "red"}, {"tea", "cake"}),
        ({"minutes": 40}, {"soup"}),
        ({"color": 'it\'s "red"'}, {"odd"}),
        ({"minutes": {"$gte": 40}}, {"soup", "cake"}),
        ({"color": {"$in": ["blue", "green"]}}, {"soup"}),
        ({"$and": [{"color": "red"}, {"minutes": {"$lt": 9}}]}, {"tea"}),
        ({"$or": [{"color": "blue"}, {"minutes": 5}]}, {"tea", "soup"}),
        ({"color": {"$ne": "red"}}, {"soup", "odd"}),
        ({"minutes": None}, {"odd"}),
        ({}, set(TEXTS)),
        ("color = 'red' AND minutes < 9", {"tea"}),
        ("metadata.color IN ('blue', 'green') OR minutes = 90", {"soup", "cake"}),
        ("color = 'it''s \"red\"'", {"odd"}),
    ],
)
def test_a_filter_says_what_may_be_found(filled, filter_, expected):
    assert set(ids(filled.similarity_search("ginger", k=9, filter=filter_))) == expected


def test_as_many_come_back_as_asked_for_if_as_many_match(empty):
    empty.add_texts(["far away"] * 3 + ["right here"] * 50, [{"n": 1}] * 3 + [{"n": 2}] * 50)
    assert len(empty.similarity_search("right here", k=3, filter={"n": 1})) == 3


@pytest.mark.parametrize(
    "filter_",
    [
        {"a": {"$near": 1}},
        {"$xor": []},
        lambda document: True,
        ["a"],
        "a = 1; DROP TABLE x",
        "1 = 1",
    ],
)
def test_a_filter_that_is_not_understood_is_refused(filled, filter_):
    with pytest.raises(FilterError):
        filled.similarity_search("ginger", filter=filter_)


# Scores


def test_scores_are_cosines_moved_into_0_to_1(filled, embedding):
    query = np.array(embedding.embed_query("ginger tea"))
    for document, score in filled.similarity_search_with_score("ginger tea", k=9):
        vector = np.array(embedding.embed_query(document.page_content))
        cosine = query @ vector / np.linalg.norm(query) / np.linalg.norm(vector)
        assert score == pytest.approx((1 + cosine) / 2, abs=1e-5)


@pytest.mark.parametrize("mode", ["vector", "text", "hybrid"])
def test_relevance_lies_between_0_and_1_best_first(filled, mode):
    found = filled.similarity_search_with_relevance_scores("ginger tea", k=9, mode=mode)
    scores = [score for _, score in found]
    assert found[0][0].id == "tea"
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_opposite_vectors_have_relevance_0(store):
    class Poles:
        def embed_documents(self, texts):
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text):
            return [1.0, 0.0] if text == "north" else [-1.0, 0.0]

    poles = LanceContextVectorStore.from_texts(["north", "south"], Poles(), store=store)
    found = poles.similarity_search_with_relevance_scores("north")
    assert [(one.page_content, score) for one, score in found] == [("north", 1.0), ("south", 0.0)]


def test_a_threshold_leaves_out_what_scores_less(filled):
    scored = {
        one.id: score for one, score in filled.similarity_search_with_score("ginger tea", k=9)
    }
    retriever = filled.as_retriever(
        search_type="similarity_score_threshold",
        search_kwargs={"score_threshold": scored["soup"], "k": 9},
    )
    expected = [name for name, score in scored.items() if score >= scored["soup"]]
    assert ids(retriever.invoke("ginger tea")) == expected
    assert 2 <= len(expected) < len(TEXTS)


# Modes


def test_words_are_found_as_words(filled):
    assert ids(filled.similarity_search("carrot", mode="text")) == ["cake"]


def test_a_hybrid_search_asks_both_channels(store, embedding):
    hybrid = LanceContextVectorStore(store, embedding, mode="hybrid")
    hybrid.add_texts(["ginger tea", "carrot cake"], ids=["tea", "cake"])
    stored = store.vectors(embedder=embedding).search("carrot", mode="hybrid")
    assert [(one.id, score) for one, score in hybrid.similarity_search_with_score("carrot")] == [
        (hit.record.id, hit.score) for hit in stored
    ]


def test_options_reach_the_store(filled):
    asked = []

    def fusion(vector, text):
        asked.append((set(vector), set(text)))
        return dict.fromkeys([*vector, *text], 0.5)

    filled.similarity_search("carrot", mode="hybrid", options=SearchOptions(fusion=fusion))
    assert len(asked) == 1


def test_a_store_without_embeddings_is_searched_by_words(store):
    words = LanceContextVectorStore(store, mode="text")
    words.add_texts(["ginger tea", "carrot cake"])
    assert [one.page_content for one in words.similarity_search("carrot")] == ["carrot cake"]
    assert words.embeddings is None
    with pytest.raises(InvalidRequestError, match="embedder"):
        words.similarity_search("carrot", mode="vector")


def test_the_embedder_of_the_store_embeds_where_no_other_does(embedding_store):
    assert LanceContextVectorStore(embedding_store).add_texts(["ginger tea"])
    (found,) = LanceContextVectorStore(embedding_store).similarity_search("tea")
    assert found.page_content == "ginger tea"


# Maximal marginal relevance


VECTORS = st.lists(st.integers(-3, 3), min_size=3, max_size=3).filter(any)


@settings(max_examples=30)
@given(
    st.lists(VECTORS, min_size=1, max_size=8, unique_by=tuple),
    VECTORS,
    st.integers(1, 5),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]),
)
def test_diversity_is_weighed_as_langchain_does(vectors, query, k, lambda_mult):
    """LangChain's function, given the same vectors, picks documents that are as near and diverse."""
    with ContextStore.open("memory://") as store:
        store.vectors().add(
            [
                StoredDocument(id=str(n), text="x", embedding=vector)
                for n, vector in enumerate(vectors)
            ]
        )
        found = LanceContextVectorStore(store).max_marginal_relevance_search_by_vector(
            query, k=k, fetch_k=9, lambda_mult=lambda_mult
        )
    rows = np.array(vectors, dtype=float)
    expected = maximal_marginal_relevance(
        np.array(query, dtype=float), list(rows), lambda_mult=lambda_mult, k=k
    )

    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    near = unit @ np.array(query) / np.linalg.norm(query)

    def gain(one, before):
        """What it is worth to pick one behind those before."""
        if not before:
            return near[one]
        return lambda_mult * near[one] - (1 - lambda_mult) * max(unit[before] @ unit[one])

    def are_the_best(order):
        """Whether each pick was worth what the best was then: of equals it may be any."""
        return all(
            gain(one, order[:n])
            == pytest.approx(max(gain(left, order[:n]) for left in rest), abs=1e-5)
            for n, one in enumerate(order)
            if (rest := [other for other in range(len(rows)) if other not in order[:n]])
        )

    picked = [int(one.id) for one in found]
    assert len(picked) == len(set(picked)) == len(expected)
    assert are_the_best(expected)
    assert are_the_best(picked)


def test_maximal_marginal_relevance_prefers_what_is_new(empty):
    empty.add_texts(["ginger tea", "ginger tea !", "ginger cake"], ids=["tea", "again", "cake"])
    assert ids(empty.similarity_search("ginger tea", k=2)) == ["tea", "again"]
    assert ids(empty.max_marginal_relevance_search("ginger tea", k=2, lambda_mult=0.3)) == [
        "tea",
        "cake",
    ]
    assert ids(
        empty.as_retriever(search_type="mmr", search_kwargs={"k": 2, "lambda_mult": 1.0}).invoke(
            "ginger tea"
        )
    ) == ["tea", "again"]


def test_maximal_marginal_relevance_keeps_the_order_in_which_it_picks(empty):
    empty.add_texts(["ginger tea", "ginger tea !", "ginger cake"], ids=["tea", "again", "cake"])
    assert ids(empty.similarity_search("ginger tea")) == ["tea", "again", "cake"]
    assert ids(empty.max_marginal_relevance_search("ginger tea", lambda_mult=0.3)) == [
        "tea",
        "cake",
        "again",
    ]


def test_maximal_marginal_relevance_takes_a_filter(filled):
    found = filled.max_marginal_relevance_search("ginger", k=9, filter={"color": "red"})
    assert set(ids(found)) == {"tea", "cake"}


# Opening and closing


def test_from_texts_takes_ids_and_metadata(store, embedding):
    made = LanceContextVectorStore.from_texts(
        ["a", "b"], embedding, [{"n": 1}, {"n": 2}], ids=["x", None], store=store, collection="c"
    )
    assert made.get_by_ids(["x"]) == [Document("a", id="x", metadata={"n": 1})]
    assert store.vectors("c").count() == 2


def test_from_documents_keeps_their_ids(store, embedding):
    made = LanceContextVectorStore.from_documents(
        [Document("a", id="x"), Document("b")], embedding, store=store
    )
    assert ids(made.get_by_ids(["x"])) == ["x"]


def test_documents_outlive_the_process_that_wrote_them(tmp_path, embedding):
    uri = str(tmp_path / "there")
    with LanceContextVectorStore.from_texts(["tea"], embedding, ids=["t"], store=uri):
        pass
    with LanceContextVectorStore(uri, embedding) as again:
        assert ids(again.similarity_search("tea")) == ["t"]


def test_a_store_is_closed_by_whoever_opened_it(tmp_path, store, embedding):
    with LanceContextVectorStore(store, embedding) as handed:
        handed.add_texts(["a"])
    assert store.vectors().count() == 1
    with LanceContextVectorStore(tmp_path / "own", embedding) as own:
        own.add_texts(["a"])
    with pytest.raises(RuntimeError, match="closed"):
        own.similarity_search("a")
    own.close()


def test_what_fails_to_be_made_is_closed(tmp_path, embedding, monkeypatch):
    closed = []
    monkeypatch.setattr(Handle, "close", lambda handle: closed.append(handle))  # noqa: PLW0108 - a builtin is no method
    with pytest.raises(InvalidRequestError):
        LanceContextVectorStore.from_texts(["a"], embedding, ids=[""], store=tmp_path / "x")
    assert len(closed) == 1


def test_a_scope_isolates(store, embedding):
    ada = LanceContextVectorStore(store.scope(user_id="ada"), embedding)
    ben = LanceContextVectorStore(store.scope(user_id="ben"), embedding)
    ada.add_texts(["hers"], ids=["1"])
    ben.add_texts(["his"], ids=["1"])
    assert [one.page_content for one in ada.similarity_search("his", k=9)] == ["hers"]
    ben.delete()
    assert ids(ada.get_by_ids(["1"])) == ["1"]


def test_a_retriever_is_named_after_the_store_and_its_embeddings(filled):
    assert filled.as_retriever().tags == ["LanceContextVectorStore", "WordEmbeddings"]


def test_the_store_reads_what_was_written_here_and_the_reverse(store, embedding, empty):
    empty.add_texts(["ginger tea"], [{"n": 1}], ids=["t"])
    (stored,) = store.vectors().get(["t"], include_embedding=True)
    assert (stored.text, stored.metadata) == ("ginger tea", {"n": 1})
    assert list(stored.embedding) == embedding.embed_documents(["ginger tea"])[0]
    store.vectors(embedder=embedding).add(
        [StoredDocument(id="c", text="carrot cake", metadata={"n": 2})]
    )
    assert empty.similarity_search("carrot", k=1) == [
        Document("carrot cake", id="c", metadata={"n": 2})
    ]


# Asynchronously


async def test_every_asynchronous_method_awaits_the_store(store, embedding, monkeypatch):
    """None of them makes the blocking call that would stall the event loop."""
    monkeypatch.setattr(StoreLoop, "run", lambda *_: pytest.fail("a blocking call"))
    made = await LanceContextVectorStore.afrom_texts(
        ["ginger tea", "ginger soup"], embedding, ids=["tea", "soup"], store=store.aio
    )
    assert await made.aadd_texts(["carrot cake"], ids=["cake"]) == ["cake"]
    assert await made.aadd_documents([Document("bread", id="bread")]) == ["bread"]
    assert ids(await made.aget_by_ids(["cake", "tea"])) == ["cake", "tea"]
    assert ids(await made.asimilarity_search("ginger tea", k=2)) == ["tea", "soup"]
    near = embedding.embed_query("carrot cake")
    assert ids(await made.asimilarity_search_by_vector(near, k=1)) == ["cake"]
    ((best, score),) = await made.asimilarity_search_with_score("bread", k=1)
    assert (best.id, score) == ("bread", pytest.approx(1))
    scored = await made.asimilarity_search_with_relevance_scores("bread", score_threshold=0.99)
    assert ids([one for one, _ in scored]) == ["bread"]
    assert ids(await made.amax_marginal_relevance_search("ginger tea", k=1)) == ["tea"]
    assert ids(await made.amax_marginal_relevance_search_by_vector(near, k=1)) == ["cake"]
    for search_type in ("similarity", "mmr", "similarity_score_threshold"):
        how = {"k": 1, "score_threshold": 0.5} if "score" in search_type else {"k": 1}
        retriever = made.as_retriever(search_type=search_type, search_kwargs=how)
        assert ids(await retriever.ainvoke("ginger soup")) == ["soup"]
    assert await made.adelete(["cake"]) is True
    assert await made.aget_by_ids(["cake"]) == []
    assert await made.adelete(filter={"missing": None}) is True
    assert await made.asimilarity_search("bread") == []
    await made.aclose()


def test_it_can_have_its_store_looked_after(tmp_path, embedding):
    with ContextStore.open(tmp_path, journal=None) as store:
        kept = LanceContextVectorStore(store, embedding)
        kept.add_texts(["a"])
        kept.add_texts(["b"])
        done = {one.table: one for one in kept.maintain()}["vectors.default"]
        assert (done.fragments_removed, done.fragments_added) == (2, 1)
        again = {one.table: one for one in asyncio.run(kept.amaintain(only_due=True))}
        assert again["vectors.default"].skipped == "nothing is due"


def test_a_long_term_memory_can_have_its_store_looked_after(tmp_path):
    with ContextStore.open(tmp_path, journal=None) as store:
        kept = LanceContextStore(store)
        kept.put(("a",), "1", {"n": 1})
        kept.put(("a",), "2", {"n": 2})
        done = {one.table: one for one in kept.maintain()}["kv.langgraph_store"]
        assert (done.fragments_removed, done.fragments_added) == (2, 1)
