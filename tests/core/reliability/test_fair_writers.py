"""Processes that commit to one table without a pause, where no lock is theirs: none of them starves."""

import itertools
import select

import pytest
from core.reliability.crew import PATIENCE_SECONDS, SHARED, join, read
from efforts import in_proofs

N_WRITERS = 4
N_BATCHES = {"local": 300, "s3": 40}
"""How many the first to have so many has when they are counted: some turns of each."""
N_AT_LEAST = 4
"""A writer that starves has one or two."""


@pytest.mark.parametrize("place", ["local", *in_proofs("s3")])
def test_no_writer_starves_and_what_they_share_is_whole_and_in_order(place, request, run):
    backend = request.getfixturevalue(f"{place}_backend")
    crew = [join("committer", f"w{n}", backend, n_batches=10_000) for n in range(N_WRITERS)]
    for member in crew:
        member.go()
    while max(len(member.batches) for member in crew) < N_BATCHES[place]:
        pipes = [member.process.stdout for member in crew]
        ready, _, _ = select.select(pipes, [], [], PATIENCE_SECONDS)
        assert ready, "nobody got on"
        for member in crew:
            if member.process.stdout in ready:
                assert member.hear(0), f"{member.name} ended"
    counts = [len(member.batches) for member in crew]
    for member in crew:
        member.kill()
    assert min(counts) >= N_AT_LEAST, counts

    async def look():
        store = backend.open()
        found = {name: await read(store, name) for name in [SHARED, *(one.name for one in crew)]}
        await store.close()
        return found

    for session, names in run(look()).items():
        wanted = [batch for one in crew for batch in one.batches if batch.session == session]
        in_flight = {name for one in crew for name in one.begun[len(one.batches) :]}
        assert {batch.name for batch in wanted} <= set(names)
        assert set(names) <= {batch.name for batch in wanted} | in_flight
        place = {name: index for index, name in enumerate(names)}
        in_place = sorted(wanted, key=lambda batch: place[batch.name])
        for earlier, later in itertools.combinations(in_place, 2):
            assert earlier.started < later.acknowledged
