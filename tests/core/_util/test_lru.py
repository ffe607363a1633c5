"""What was used last is kept, within its bound."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core._util.lru import Made, Recent, forget_all, remembered


def test_what_was_used_longest_ago_is_forgotten_first():
    recent = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert [recent.get(key) for key in "abc"] == [1, None, 3]


def test_a_value_that_takes_another_s_place_counts_once():
    recent = Recent(2)
    for value in range(5):
        recent.put("a", value)
    recent.put("b", 0)
    assert (recent.get("a"), recent.size) == (4, 2)


def test_a_value_that_is_larger_than_the_bound_is_not_kept():
    recent = Recent(10, size_of=len)
    recent.put("a", "x" * 4)
    recent.put("b", "x" * 11)
    assert (recent.get("b"), recent.size) == (None, 0)


@given(
    st.lists(
        st.tuples(st.sampled_from(["get", "put"]), st.sampled_from("abcd"), st.integers(0, 6)),
        max_size=60,
    )
)
def test_it_keeps_what_a_list_in_the_order_of_use_would(steps):
    recent, used = Recent(10, size_of=int), []
    for verb, key, size in steps:
        known = dict(used)
        if verb == "get":
            assert recent.get(key) == known.get(key)
            if key in known:
                used = [one for one in used if one[0] != key] + [(key, known[key])]
        else:
            recent.put(key, size)
            used = [one for one in used if one[0] != key] + [(key, size)]
            while sum(size for _, size in used) > 10:
                used.pop(0)
        assert recent.size == sum(size for _, size in used)


def test_many_threads_use_one():
    recent = Recent(50, size_of=lambda _: 1)

    def work(name):
        for n in range(500):
            recent.put((name, n % 40), n)
            recent.get((name, n % 7))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recent.size == 50


@given(st.lists(st.text(max_size=40), max_size=40))
def test_what_is_made_is_right_whatever_is_forgotten_and_never_more_than_its_bound(keys):
    made = Made(str.upper, max_bytes=600)
    for key in keys:
        assert made[key] == key.upper()
        assert made.n_bytes <= 600
        sizes = [sys.getsizeof(one) + sys.getsizeof(one.upper()) for one in made]
        assert sum(sizes) == made.n_bytes


def test_a_value_is_made_once_until_it_is_forgotten():
    asked = []
    made = Made(lambda key: asked.append(key) or len(asked), max_bytes=1_000)
    assert [made["a"], made["b"], made["a"]] == [1, 2, 1]
    made.empty()
    assert (made["a"], made.n_bytes) == (3, made.n_bytes)
    forget_all()
    assert made["a"] == 4


def test_what_is_too_large_is_made_each_time():
    asked = []
    made = Made(lambda key: asked.append(key) or "x" * 1_000, max_bytes=500)
    assert made["a"] == made["a"]
    assert (len(asked), len(made), made.n_bytes) == (2, 0, 0)


def test_what_is_forgotten_while_it_is_made_is_not_kept():
    made = Made(lambda key: made.empty() or key, max_bytes=1_000)
    assert (made["a"], len(made)) == ("a", 0)


def test_a_function_is_remembered_by_its_arguments_and_may_raise():
    asked = []

    @remembered(1_000)
    def quotient(one, other):
        asked.append((one, other))
        return one / other

    assert quotient(1, 2) == quotient(1, 2) == 0.5
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            quotient(1, 0)
    assert asked == [(1, 2), (1, 0), (1, 0)]


def test_many_threads_get_what_is_made():
    made = Made(lambda number: number * 2, max_bytes=1_000)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: made[number % 50], range(4_000)))
    assert found == [number % 50 * 2 for number in range(4_000)]
    assert made.n_bytes == 128 * len(made) <= 1_000


def test_what_two_threads_make_at_the_same_time_is_counted_once():
    both = threading.Barrier(2, timeout=30)
    made = Made(lambda key: (both.wait(), key)[1], max_bytes=1_000)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(made.__getitem__, [1, 1])) == [1, 1]
    assert (len(made), made.n_bytes) == (1, 128)
