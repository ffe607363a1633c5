"""What was used last is kept, within its bound."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from lance_context_core._recent import Recent


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
