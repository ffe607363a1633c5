"""The benchmark of rot: what is counted is what is remembered, and the same seed gives the same page."""

import pytest

from benchmarks import rot


def test_the_oracle_counts_what_is_right_said_twice_no_longer_so_and_wrong():
    truth = rot.Truth(now={"residence": "Oslo", "car": "Fiat"}, likes={"chess"})
    truth.ever = {*truth.all_of(), ("residence", "Rome")}
    texts = ["Lives in Oslo", "Resides in Oslo", "Lives in Rome", "Works for Ikea", "Fears dogs"]
    assert rot.judged(texts, truth) == {
        "right": 1,
        "duplicate": 1,
        "stale": 1,
        "wrong": 2,
        "missing": 2,
    }


@pytest.mark.parametrize("name", rot.MEMORIES)
def test_the_same_seed_gives_the_same_memory_and_what_it_counts_adds_up(name):
    counts, review = rot.lived(name, 3, 3)
    again, reviewed = rot.lived(name, 3, 3)
    assert (again, reviewed.counts) == (counts, review.counts)
    n_memories = review.n_facts + review.n_memories
    assert sum(n for kind, n in counts.items() if kind != "missing") == n_memories > 0
    assert rot.lived(name, 4, 3)[0] != counts
