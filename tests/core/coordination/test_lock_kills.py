"""Processes share locks, and some are killed; at length in `make proofs`."""

from random import Random

import pytest
from proofs.crash import locks


@pytest.mark.slow
def test_no_lock_is_granted_twice_none_is_lost_and_who_waits_has_it_in_the_order_of_the_queue(
    tmp_path,
):
    seen = locks.run(
        tmp_path, n_processes=3, n_turns=400, n_resources=1, n_kills=2, random=Random(7)
    )
    assert isinstance(seen, locks.Seen), seen
    assert (seen.n_turns, seen.n_killed) == (1_200, 2)
    # Three processes that begin together, and one resource: somebody has waited.
    assert seen.handed_on
