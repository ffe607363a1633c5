"""Entries that grow at their end, beside lists that are copied at each moment."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.storage.wal.entries import Log

KEYS = "abc"


class Made(NamedTuple):
    seq: int
    key: str
    replaces: bool


def made(keys):
    """One entry for each key, at every third place; capitals replace."""
    return [Made(3 * (n + 1), key.lower(), key.isupper()) for n, key in enumerate(keys)]


@given(
    st.text(KEYS + KEYS.upper(), max_size=12),
    st.integers(0, 12),
    st.sets(st.sampled_from(KEYS + "d")),
)
def test_what_was_seen_of_a_log_stays_as_it_was_whatever_is_added(keys, n, asked):
    entries = made(keys)
    log = Log(entries[:n])
    seen = log.now()
    log.add(entries[n:])
    for shown, expected in ((seen, entries[:n]), (log.now(), entries)):
        assert (list(shown), len(shown), shown[-3:]) == (expected, len(expected), expected[-3:])
        assert shown.about(asked) == [one for one in expected if one.key in asked]
        assert shown.replacing() == [one for one in expected if one.replaces]
        for key in KEYS:
            of_key = [one for one in expected if one.key == key]
            assert shown.last_of(key) == (of_key[-1] if of_key else None)
        for seq in range(3 * len(entries) + 4):
            assert shown.after(seq) == [one for one in expected if one.seq > seq]


def test_an_entry_beyond_the_end_is_not_seen_although_it_came_later():
    log = Log(made("ab"))
    seen = log.now()
    log.add(made("abc")[2:])
    assert (seen[1].key, seen[-2].key, log.now()[2].key) == ("b", "a", "c")
    for index in (2, -3):
        with pytest.raises(IndexError):
            seen[index]
