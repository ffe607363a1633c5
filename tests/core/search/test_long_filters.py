"""A filter of very many values finds by the engine what it finds of a list of all records."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core import ContextStore, Document
from lance_context_core.storage import prefilter

N = 120
LENGTH = 8
NOBODY = [f"nobody {n} of those who are here" for n in range(2_000)]
"""Makes a list so long that the engine is not told it."""

SHARES = {"none": 0, "one": 1, "a few": 9, "a third": N // 3, "nearly all": N - 2}

VECTORS = np.random.default_rng(0).normal(size=(N, LENGTH))
DOCUMENTS = [
    Document(
        id=f"d{n}",
        text=" ".join(["kite"] * (1 + n % 7) + ["hill"] * (n % 3) + ["sea"]),
        embedding=vector.tolist(),
        metadata={"n": n},
    )
    for n, vector in enumerate(VECTORS)
]


@pytest.fixture(scope="module")
def docs():
    with ContextStore.open("memory://", search_cache=None) as store:
        docs = store.vectors("docs")
        docs.add(DOCUMENTS)
        store.maintain()
        yield docs


@pytest.fixture(params=["few are told by their ids", "many are looked for among the best"])
def _way(request, monkeypatch):
    # How many are few is patched, so that a hundred documents go each of the ways.
    monkeypatch.setattr(prefilter, "_FEW", 0 if request.param.startswith("many") else 1_000)


def by_ids(numbers):
    return {"id": {"$in": [*NOBODY, *(f"d{n}" for n in numbers)]}}


def by_ids_and_more(numbers):
    return {"$and": [by_ids(numbers), {"metadata.n": {"$gte": 0}}]}


def by_metadata(numbers):
    return {"$or": [{"metadata.n": n} for n in [*range(1_000, 2_000), *numbers]]}


FILTERS = pytest.mark.parametrize("filtered", [by_ids, by_ids_and_more, by_metadata])


def nearest_of(numbers, vector, limit):
    cosines = VECTORS @ vector / np.linalg.norm(VECTORS, axis=1)
    return [f"d{n}" for n in sorted(numbers, key=lambda n: -cosines[n])][:limit]


@pytest.mark.usefixtures("_way")
@FILTERS
@pytest.mark.parametrize("limit", [1, 5, 200])
@pytest.mark.parametrize("share", SHARES.values(), ids=SHARES)
def test_the_nearest_of_those_named_are_found(docs, share, limit, filtered):
    numbers = np.random.default_rng(share).permutation(N)[:share].tolist()
    vector = -VECTORS[: N // 2].mean(axis=0)
    hits = docs.search(None, vector=vector.tolist(), limit=limit, filter=filtered(numbers))
    assert [hit.record.id for hit in hits] == nearest_of(numbers, vector, limit)


@pytest.mark.usefixtures("_way")
@FILTERS
@pytest.mark.parametrize("limit", [1, 2])
def test_those_named_are_found_though_all_others_are_nearer(docs, limit, filtered):
    vector = VECTORS[0]
    numbers = [int(one[1:]) for one in nearest_of(range(N), vector, N)[-12:]]
    hits = docs.search(None, vector=vector.tolist(), limit=limit, filter=filtered(numbers))
    assert [hit.record.id for hit in hits] == nearest_of(numbers, vector, limit)


@pytest.mark.usefixtures("_way")
@FILTERS
@pytest.mark.parametrize("share", SHARES.values(), ids=SHARES)
def test_words_and_vectors_find_those_named_with_the_scores_that_they_have_among_all(
    docs, share, filtered
):
    numbers = set(np.random.default_rng(share).permutation(N)[:share].tolist())
    every = {hit.record.id: hit for hit in docs.search("kite hill", mode="text", limit=N)}
    hits = docs.search("kite hill", mode="text", limit=N, filter=filtered(numbers))
    assert {hit.record.id for hit in hits} == {f"d{n}" for n in numbers if f"d{n}" in every}
    for hit in hits:
        assert hit.channels["text"].raw == pytest.approx(every[hit.record.id].channels["text"].raw)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@FILTERS
def test_what_is_written_since_is_found_and_what_is_deleted_is_not(filtered):
    with ContextStore.open("memory://", search_cache=None) as store:
        docs = store.vectors("docs")
        docs.add(DOCUMENTS[:9])
        asked = {"vector": VECTORS[3].tolist(), "filter": filtered([3, 5, 7, 11]), "limit": 9}
        assert {hit.record.id for hit in docs.search(None, **asked)} == {"d3", "d5", "d7"}
        docs.add(DOCUMENTS[9:12])
        docs.delete(ids=["d5"])
        assert {hit.record.id for hit in docs.search(None, **asked)} == {"d3", "d7", "d11"}


@FILTERS
def test_a_listing_is_of_those_named_in_the_order_of_writing(docs, filtered):
    numbers = [100, 3, 77, 40]
    assert [one.id for one in docs.list(filter=filtered(numbers))] == ["d3", "d40", "d77", "d100"]
    assert [one.id for one in docs.list(filter=filtered(numbers), limit=2)] == ["d3", "d40"]
    assert docs.count(filter=filtered(numbers)) == 4


@settings(deadline=None)
@given(
    values=st.lists(st.text(max_size=5) | st.sampled_from(["'", "''", "d1", "é", "\\"]), min_size=1)
)
def test_a_list_of_any_texts_means_what_each_of_them_means(docs, values):
    named = {f"d{n}" for n in range(N)} & set(values)
    found = docs.list(filter={"id": {"$in": [*values, *NOBODY]}})
    assert {one.id for one in found} == named
    assert {one.id for one in docs.list(filter={"id": {"$in": values}})} == named
