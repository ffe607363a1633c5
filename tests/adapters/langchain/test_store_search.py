"""How LangGraph's store finds items by meaning."""

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings
from langchain_lance_context import LanceContextStore
from langgraph.store.base import PutOp, SearchOp

from lance_context_core import ContextStore, EmbeddingError, InvalidRequestError
from lance_context_core.errors import DimensionMismatchError

# About our own code, whatever the release of the framework.
pytestmark = pytest.mark.one_release

DOCS = ("docs",)


@pytest.fixture
def make(store, embedding):
    """A store of LangGraph's with this index."""

    def made(**index):
        return LanceContextStore(store, index={"dims": 64, "embed": embedding, **index})

    return made


def keys(found):
    return [one.key for one in found]


def scores(found):
    return {one.key: one.score for one in found}


def cosine(embedding, one, other):
    a, b = (np.array(embedding.embed_query(text)) for text in (one, other))
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def test_the_nearest_comes_first_with_its_cosine(make, embedding):
    memory = make(fields=["text"])
    texts = {"a": "green tea", "b": "green soup", "c": "carrot cake"}
    memory.batch([PutOp(DOCS, key, {"text": text}) for key, text in texts.items()])
    found = memory.search(DOCS, query="green tea")
    assert keys(found)[:2] == ["a", "b"]
    for key, score in scores(found).items():
        assert score == pytest.approx(cosine(embedding, "green tea", texts[key]), abs=1e-5)
    assert found == asyncio.run(memory.asearch(DOCS, query="green tea"))
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_the_whole_value_is_found_by_default(store):
    seen = []

    def embed(texts):
        seen.extend(texts)
        return [[1.0] for _ in texts]

    memory = LanceContextStore(store, index={"dims": 1, "embed": embed})
    memory.put(DOCS, "a", {"b": 1, "a": "ü"})
    assert seen == ['{"a": "ü", "b": 1}']


def test_only_the_fields_of_the_index_count(make):
    memory = make(fields=["title"])
    memory.put(DOCS, "a", {"title": "tea", "text": "soup"})
    memory.put(DOCS, "b", {"title": "soup", "text": "tea"})
    assert keys(memory.search(DOCS, query="tea")) == ["a", "b"]
    assert memory.search(DOCS, query="tea")[0].score == pytest.approx(1, abs=1e-5)


def test_a_put_may_say_other_fields_or_none(make):
    memory = make(fields=["title"])
    memory.put(DOCS, "text", {"title": "cake", "text": "tea"}, index=["text"])
    memory.put(DOCS, "none", {"title": "tea"}, index=False)
    memory.put(DOCS, "empty", {"title": "tea"}, index=[])
    found = memory.search(DOCS, query="tea")
    assert keys(found)[0] == "text"
    assert scores(found)["text"] == pytest.approx(1, abs=1e-5)
    assert (scores(found)["none"], scores(found)["empty"]) == (None, None)


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        (["notes[*].text"], {"notes[*].text.0": "tea", "notes[*].text.1": "soup"}),
        (["notes[0].text"], {"notes[0].text": "tea"}),
        (["notes[-1].text"], {"notes[-1].text": "soup"}),
        (["meta.title", "nothing"], {"meta.title": "cake"}),
        (["tags[*]"], {"tags[*].0": "red", "tags[*].1": "7"}),
    ],
)
def test_each_path_and_each_element_is_a_vector_of_its_own(make, store, embedding, fields, texts):
    value = {
        "notes": [{"text": "tea"}, {"text": "soup"}],
        "meta": {"title": "cake"},
        "tags": ["red", 7, None, "  "],
    }
    make(fields=fields).put(DOCS, "a", value)
    [item] = store.kv("langgraph_store").list(include_vectors=True)
    assert {one.path: list(one.vector) for one in item.vectors} == {
        path: embedding.embed_query(text) for path, text in texts.items()
    }


def test_an_item_is_found_once_and_by_the_nearest_of_its_vectors(make, embedding):
    memory = make(fields=["tags[*]"])
    memory.put(DOCS, "both", {"tags": ["soup", "tea", "cake"]})
    memory.put(DOCS, "near", {"tags": ["tea leaf"]})
    found = memory.search(DOCS, query="tea")
    assert keys(found) == ["both", "near"]
    assert scores(found)["both"] == pytest.approx(1, abs=1e-5)
    assert scores(found)["near"] == pytest.approx(cosine(embedding, "tea", "tea leaf"), abs=1e-5)


def test_the_same_text_twice_in_a_batch_is_embedded_once(store):
    calls = []

    def embed(texts):
        calls.append(list(texts))
        return [[1.0, 2.0] for _ in texts]

    memory = LanceContextStore(store, index={"dims": 2, "embed": embed, "fields": ["text"]})
    memory.batch([PutOp(DOCS, key, {"text": "same"}) for key in "abc"])
    assert calls == [["same"]]
    found = memory.search(DOCS, query="same")
    assert sorted(keys(found)) == ["a", "b", "c"]
    assert all(one.score == pytest.approx(1, abs=1e-5) for one in found)


def test_an_update_leaves_no_vectors_behind(make):
    memory = make(fields=["title", "text"])
    memory.put(DOCS, "a", {"title": "tea", "text": "soup"})
    memory.put(DOCS, "a", {"title": "cake"})
    assert scores(memory.search(DOCS, query="tea"))["a"] < 0.9
    memory.put(DOCS, "a", {"title": "tea"}, index=False)
    assert scores(memory.search(DOCS, query="tea")) == {"a": None}


def test_what_has_no_vectors_fills_up(make):
    memory = make(fields=["text"])
    memory.put(DOCS, "found", {"text": "tea"})
    memory.put(DOCS, "other", {"nothing": "here"})
    memory.put(DOCS, "blank", {"text": " "})
    found = memory.search(DOCS, query="tea")
    assert keys(found)[0] == "found"
    assert scores(found) == {"found": pytest.approx(1, abs=1e-5), "other": None, "blank": None}


@settings(max_examples=20)
@given(
    n_ranked=st.integers(0, 9),
    n_others=st.integers(0, 9),
    limit=st.integers(0, 8),
    offset=st.integers(0, 20),
)
def test_a_page_is_the_same_part_of_the_whole_list_at_any_offset(n_ranked, n_others, limit, offset):
    def embed(texts):
        return [[1.0, float(text)] for text in texts]

    index = {"dims": 2, "embed": embed, "fields": ["n"]}
    with ContextStore.open("memory://") as opened:
        memory = LanceContextStore(opened, index=index)
        memory.batch(
            [PutOp(DOCS, f"v{n}", {"n": str(n), "even": n % 2 == 0}) for n in range(n_ranked)]
            + [PutOp(DOCS, f"w{n}", {"even": n % 2 == 0}) for n in range(n_others)]
        )
        expected = [f"v{n}" for n in range(n_ranked)]
        found = keys(memory.search(DOCS, query="0", limit=100))
        assert found[:n_ranked] == expected
        assert sorted(found[n_ranked:]) == sorted(f"w{n}" for n in range(n_others))
        page = memory.search(DOCS, query="0", limit=limit, offset=offset)
        assert keys(page) == found[offset : offset + limit]
        even = memory.search(DOCS, query="0", filter={"even": True}, limit=limit, offset=offset)
        evens = [key for key in found if int(key[1:]) % 2 == 0]
        assert keys(even) == evens[offset : offset + limit]


def test_five_at_offset_ten_of_thirty(make):
    memory = make(fields=["text"])
    memory.batch([PutOp(DOCS, f"{n}", {"text": f"tea {n}"}) for n in range(30)])
    assert len(memory.search(DOCS, query="tea", limit=5, offset=10)) == 5


def test_a_filter_and_a_prefix_narrow_before_the_best_are_taken(make):
    memory = make(fields=["text"])
    memory.batch([PutOp(DOCS, f"{n}", {"text": "tea", "rare": n == 40}) for n in range(50)])
    memory.put(("docs", "far"), "far", {"text": "soup"})
    assert keys(memory.search(DOCS, query="tea", filter={"rare": True}, limit=1)) == ["40"]
    assert keys(memory.search(("docs", "far"), query="tea", limit=1)) == ["far"]


def test_without_an_index_a_query_is_ignored(store):
    memory = LanceContextStore(store)
    memory.put(DOCS, "a", {"text": "tea"}, index=["text"])
    assert scores(memory.search(DOCS, query="tea")) == {"a": None}


def test_an_empty_query_is_none(make):
    memory = make()
    memory.put(DOCS, "a", {"text": "tea"})
    assert scores(memory.search(DOCS, query="")) == {"a": None}


class Asymmetric(Embeddings):
    """Queries are embedded in another way than what they look for."""

    def embed_documents(self, texts):
        return [[1.0, 0.0] if "tea" in text else [0.0, 1.0] for text in texts]

    def embed_query(self, text):
        return [0.0, 1.0] if "tea" in text else [1.0, 0.0]


def test_queries_are_embedded_as_queries(store):
    memory = LanceContextStore(store, index={"dims": 2, "embed": Asymmetric(), "fields": ["text"]})
    memory.put(DOCS, "tea", {"text": "tea"})
    memory.put(DOCS, "soup", {"text": "soup"})
    assert keys(memory.search(DOCS, query="tea")) == ["soup", "tea"]
    assert keys(asyncio.run(memory.asearch(DOCS, query="tea"))) == ["soup", "tea"]


def test_several_searches_in_a_batch_are_answered_each(make):
    memory = make(fields=["text"])
    memory.batch([PutOp(DOCS, word, {"text": word}) for word in ("tea", "soup")])
    tea, soup, plain = memory.batch(
        [SearchOp(DOCS, query="tea"), SearchOp(DOCS, query="soup"), SearchOp(DOCS, limit=1)]
    )
    assert (keys(tea)[0], keys(soup)[0], len(plain)) == ("tea", "soup", 1)


def test_the_stores_own_embedder_will_do(embedding_store):
    memory = LanceContextStore(embedding_store, index={"fields": ["text"]})
    memory.put(DOCS, "a", {"text": "soup"})
    memory.put(DOCS, "b", {"text": "green tea"})
    found = memory.search(DOCS, query="green tea")
    assert keys(found) == ["b", "a"]
    assert found[0].score == pytest.approx(1, abs=1e-5)
    assert keys(asyncio.run(memory.asearch(DOCS, query="soup")))[0] == "a"


def test_a_coroutine_function_embeds_for_asynchronous_code(store):
    async def embed(texts):
        await asyncio.sleep(0)
        return [[1.0, float(len(text))] for text in texts]

    memory = LanceContextStore(store, index={"dims": 2, "embed": embed, "fields": ["text"]})

    async def main():
        await memory.aput(DOCS, "a", {"text": "tea"})
        return await memory.asearch(DOCS, query="tea")

    assert keys(asyncio.run(main())) == ["a"]


def test_a_vector_of_zeros_is_none(store):
    def embed(texts):
        return [[0.0, 0.0] for _ in texts]

    memory = LanceContextStore(store, index={"dims": 2, "embed": embed})
    memory.put(DOCS, "a", {"text": "tea"})
    assert scores(memory.search(DOCS, query="tea")) == {"a": None}


def test_vectors_of_another_length_are_refused_before_anything_is_written(store):
    def embed(texts):
        return [[1.0, 2.0] for _ in texts]

    memory = LanceContextStore(store, index={"dims": 3, "embed": embed})
    with pytest.raises(DimensionMismatchError, match="dims=3"):
        memory.put(DOCS, "a", {"text": "tea"})
    with pytest.raises(DimensionMismatchError, match="dims=3"):
        memory.search(DOCS, query="tea")
    assert memory.get(DOCS, "a") is None


def test_too_few_vectors_are_refused(store):
    memory = LanceContextStore(store, index={"dims": 1, "embed": lambda _: []})
    with pytest.raises(EmbeddingError):
        memory.put(DOCS, "a", {"text": "tea"})


def test_an_embedder_that_fails_leaves_nothing_behind(store):
    def embed(texts):
        raise RuntimeError("no network")

    memory = LanceContextStore(store, index={"dims": 1, "embed": embed})
    with pytest.raises(RuntimeError, match="no network"):
        memory.put(DOCS, "a", {"text": "tea"})
    assert memory.get(DOCS, "a") is None


@pytest.mark.parametrize("index", ["title", True, 1, [1]])
def test_paths_that_are_none_are_refused(make, index):
    memory = make()
    with pytest.raises(InvalidRequestError):
        memory.put(DOCS, "a", {"title": "tea"}, index=index)
    with pytest.raises(InvalidRequestError):
        make(fields=index)


def test_the_walls_of_a_scope_stand_in_a_search_too(store, embedding):
    index = {"embed": embedding, "fields": ["text"]}
    ada, ben = (LanceContextStore(store.scope(user_id=who), index=index) for who in ("ada", "ben"))
    ada.put(DOCS, "a", {"text": "tea"})
    ben.put(DOCS, "a", {"text": "soup"})
    ben.put(DOCS, "b", {"no": "text"})
    assert [one.value for one in ada.search(DOCS, query="soup")] == [{"text": "tea"}]
    whole = LanceContextStore(store, index=index)
    found = whole.search(DOCS, query="soup")
    assert [one.value for one in found] == [{"text": "soup"}, {"text": "tea"}, {"no": "text"}]
