"""Rerankers of texts in a search: their scores, and what becomes of a search when one fails."""

import asyncio
import sys
import warnings

import pytest

from lance_context_core import AsyncContextStore, ContextStore
from lance_context_core.errors import (
    InvalidRequestError,
    MissingExtraError,
    NotRerankedWarning,
    RerankingError,
)
from lance_context_core.rerankers import (
    FastEmbedReranker,
    SentenceTransformersReranker,
    TextReranker,
    sigmoid,
)
from lance_context_core.settings import SearchOptions

TEXTS = ["green tea", "black tea with milk", "tea", "coffee"]


class Longest(TextReranker):
    """Longer texts are better."""

    def __init__(self, keep=lambda text: True):
        self.asked = []
        self.keep = keep

    def scores(self, query, texts):
        self.asked.append((query, list(texts)))
        return [len(text) / 100 if self.keep(text) else None for text in texts]


class Returning(TextReranker):
    def __init__(self, given):
        self.given = given

    def scores(self, query, texts):
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


@pytest.fixture
def store(embedder):
    with ContextStore.open("memory://", embedder=embedder) as store:
        store.memory.add(TEXTS)
        yield store


def found(store, reranker, mode=None, **options):
    options = SearchOptions(reranker=reranker, **options)
    hits = store.memory.search("tea", mode=mode, options=options)
    return {hit.record.text: hit.score for hit in hits}


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
def test_a_reranker_of_texts_orders_the_hits_of_every_mode(store, mode):
    reranker = Longest()
    scores = found(store, reranker, mode)
    assert list(scores)[:2] == ["black tea with milk", "green tea"]
    assert all(score == len(text) / 100 for text, score in scores.items())


def test_a_text_that_several_records_have_is_scored_once(store):
    store.memory.add(["tea"], duplicates="keep")
    reranker = Longest()
    hits = store.memory.search("tea", options=SearchOptions(reranker=reranker))
    [(query, texts)] = reranker.asked
    assert query == "tea"
    assert len(texts) == len(set(texts))
    assert [hit.record.text for hit in hits].count("tea") == 2


def test_what_has_no_score_is_dropped(store):
    assert list(found(store, Longest(keep=lambda text: text == "tea"))) == ["tea"]


def test_a_search_without_candidates_asks_no_reranker():
    reranker = Longest()
    with ContextStore.open("memory://") as empty:
        assert found(empty, reranker, "text") == {}
    assert reranker.asked == []


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        pytest.param(lambda n: [0.5] * (n - 1), "scores for . texts", id="too few"),
        pytest.param(lambda n: [0.5] * (n + 1), "scores for . texts", id="too many"),
        pytest.param(lambda n: [float("nan")] * n, "finite", id="NaN"),
        pytest.param(lambda n: ["x"] * n, "no number", id="texts"),
    ],
)
def test_what_are_no_scores_is_refused(store, wrong, problem):
    reranker = Longest()
    reranker.scores = lambda query, texts: wrong(len(texts))
    with pytest.raises(RerankingError, match=problem):
        found(store, reranker)


def test_logits_become_scores_between_0_and_1_in_their_order():
    scores = sigmoid([-1000.0, -2.0, 0.0, 2.0, 1000.0])
    assert scores == sorted(scores)
    assert (scores[0], scores[2], scores[4]) == (0.0, 0.5, 1.0)


# Failure


def test_what_a_reranker_raises_is_raised(store):
    with pytest.raises(ZeroDivisionError):
        found(store, Returning(ZeroDivisionError("boom")))


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
def test_a_search_may_go_without_a_reranker_that_fails(store, mode):
    plain = found(store, None, mode)
    broken = Returning(RerankingError("no answer"))
    with pytest.warns(NotRerankedWarning, match="no answer"):
        assert found(store, broken, mode, on_reranker_error="ignore") == plain


def test_a_failure_that_is_gone_without_is_told_once_of_each_kind(store):
    failures = [OSError("1"), OSError("2"), ValueError("3"), OSError("4")]
    with warnings.catch_warnings(record=True, action="always") as told:
        for error in failures:
            found(store, Returning(error), on_reranker_error="ignore")
    assert [one.category for one in told] == [NotRerankedWarning] * 2


def test_both_faces_go_without_it(embedder):
    async def main():
        async with AsyncContextStore.open("memory://", embedder=embedder) as store:
            await store.memory.add(TEXTS)
            options = SearchOptions(reranker=Returning(OSError()), on_reranker_error="ignore")
            with pytest.warns(NotRerankedWarning):
                return await store.memory.search("coffee", options=options)

    assert asyncio.run(main())[0].record.text == "coffee"


def test_what_is_no_reranker_is_refused_all_the_same(store):
    class OfTheHybridAlone:
        def rerank_hybrid(self, query, vector_results, fts_results):
            return None

    for mode in ("text", "hybrid"):
        with pytest.raises(InvalidRequestError):
            found(store, OfTheHybridAlone(), mode, on_reranker_error="ignore")


def test_what_shall_be_done_with_an_error_is_one_of_two_things():
    with pytest.raises(InvalidRequestError, match="on_reranker_error='warn'"):
        SearchOptions(on_reranker_error="warn")


@pytest.mark.parametrize(
    ("made", "package", "extra"),
    [
        (FastEmbedReranker, "fastembed", "fastembed"),
        (SentenceTransformersReranker, "sentence_transformers", "sentence-transformers"),
    ],
)
def test_a_missing_extra_is_named_with_the_command(monkeypatch, made, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'lance-context-core\[{extra}\]'"):
        made("org/model")
