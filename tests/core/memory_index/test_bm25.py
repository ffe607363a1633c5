"""BM25 over texts that came one after the other, against texts that were there at once."""

import random

import numpy as np
import pytest
from core.search.corpus import WORDS

from lance_context_core.memory_index.bm25 import Postings


@pytest.mark.parametrize("n_first", [0, 1, 200])
def test_texts_that_come_later_count_as_those_that_were_there(n_first):
    rng = random.Random(3)
    texts = [[*rng.choices(WORDS, k=rng.randrange(6)), f"w{n % 90}"] for n in range(500)]
    grown = Postings(texts[:n_first])
    for n, text in enumerate(texts[n_first:], start=n_first + 1):
        grown.add(text)
        if n % 37 == 0 or n == len(texts):
            counts = np.array([rng.random() < 0.8 for _ in range(n)])
            question = [*rng.choices(WORDS, k=2), f"w{rng.randrange(90)}", "unknown"]
            expected = Postings(texts[:n]).bm25(question, counts)
            assert grown.bm25(question, counts) == pytest.approx(expected)
            assert not expected[~counts].any()
            assert len(grown) == n


def test_a_text_with_the_words_of_the_one_before_it_scores_as_both_in_one():
    rng = random.Random(5)
    texts = [rng.choices(WORDS, k=rng.randrange(6)) for _ in range(300)]
    before = np.array([n - 1 if n and rng.random() < 0.5 else -1 for n in range(300)])
    both = [text + (texts[n] if n >= 0 else []) for text, n in zip(texts, before, strict=True)]
    counts, question = np.ones(300, bool), rng.choices(WORDS, k=3)
    expected = Postings(both).bm25(question, counts)
    own, with_before = Postings(texts).bm25_with_before(question, counts, before)
    assert with_before == pytest.approx(expected)
    # As a share of nothing, those words do not exist.
    alone = Postings(texts).bm25(question, counts)
    assert own == pytest.approx(alone)
    _, without = Postings(texts).bm25_with_before(question, counts, before, 0.0)
    assert without == pytest.approx(alone)


def test_no_text_scores_more_than_can_be_attained_and_endless_words_come_near():
    texts = [["red", "kite"], ["kite"] * 10_000, ["vase"]]
    words, counts = Postings(texts), np.ones(3, bool)
    rarity = np.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    assert words.attainable(["kite", "kite"], counts) == pytest.approx(2 * 2.2 * rarity)
    assert words.bm25(["kite"], counts)[1] == pytest.approx(2.2 * rarity, rel=1e-3)
    # What nobody says is the rarest.
    assert words.attainable(["nowhere"], counts) > words.attainable(["vase"], counts)
