"""Rows that have most values in common are kept as every other row is."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.storage.wal.entries import Alike, decoded, encoded

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["", '"', "\\", "\0", "a\nb", '{"a":1}', "ü", "\U0001f600"]
)


@given(TEXTS, TEXTS, TEXTS, st.integers(-(2**62), 2**62), st.datetimes(timezones=st.just(UTC)))
def test_a_row_made_of_what_many_share_is_read_as_one_that_was_made_whole(
    namespace, tenant, value, revision, moment
):
    shared = {"namespace": namespace, "tenant": tenant}
    own = {"value": value, "revision": revision, "created_at": moment}
    alike = Alike(shared, times=["created_at"])
    payload = alike.encoded(
        texts={"value": value},
        numbers={"revision": revision},
        times={"created_at": moment.isoformat()},
    )
    assert decoded(payload) == decoded(encoded({**shared, **own})) == {**shared, **own}


def test_rows_with_nothing_in_common_are_read_as_well():
    moment = datetime(2026, 11, 25, tzinfo=UTC)
    payload = Alike({}, times=["at"]).encoded(
        texts={}, numbers={}, times={"at": moment.isoformat()}
    )
    assert decoded(payload) == {"at": moment}
