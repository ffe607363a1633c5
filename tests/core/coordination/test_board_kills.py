"""Workers in processes share a board, and some are killed; at length in `make proofs`."""

from random import Random

import pytest
from proofs.crash import boards


@pytest.mark.slow
@pytest.mark.parametrize("n_at_once", [1, 4])
def test_each_task_is_done_once_by_its_last_claimer_and_never_too_early(tmp_path, n_at_once):
    seen = boards.run(
        tmp_path, n_tasks=60, n_workers=3, n_kills=3, random=Random(7), n_at_once=n_at_once
    )
    assert isinstance(seen, boards.Seen), seen
    assert (seen.n_tasks, seen.n_killed) == (60, 3)
    assert seen.n_claims >= 60
