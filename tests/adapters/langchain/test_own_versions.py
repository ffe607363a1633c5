"""Which versions are wholly one's own, beside a look at each of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_lance_context._known import OwnVersions

from lance_context_core.results import ItemsAppended

pytestmark = pytest.mark.one_release

_VERSIONS = st.integers(min_value=1, max_value=12)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wrote"), _VERSIONS, st.integers(min_value=1, max_value=2)),
        st.tuples(st.just("asked"), _VERSIONS, _VERSIONS),
    ),
    max_size=40,
)


@given(steps=_STEPS)
def test_what_was_asked_before_never_changes_what_is_said_of_a_span(steps):
    own, missing = OwnVersions(), {}
    for step, one, other in steps:
        if step == "asked":
            every = one <= other and all(missing.get(v) == 0 for v in range(one + 1, other + 1))
            assert own.cover(after=one, until=other) == every
        elif missing.get(one, 2) >= other:
            # Two items came in each version, of which one writer knows one or both.
            missing[one] = missing.get(one, 2) - other
            done = ItemsAppended(version=one, n_items=2, grows_since=one)
            own.note(done, n_items=other)
