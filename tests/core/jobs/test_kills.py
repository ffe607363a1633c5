"""Workers are killed inside jobs at random moments; at length in `make proofs`."""

from random import Random

import pytest
from proofs.crash import jobs


@pytest.mark.slow
@pytest.mark.process
def test_whoever_dies_in_a_job_leaves_all_of_it_or_nothing(tmp_path):
    seen = jobs.Seen()
    assert jobs.run(tmp_path, n_kills=5, random=Random(7), seen=seen) is None
    assert seen.n_killed == 5
    assert seen.n_facts > 0
