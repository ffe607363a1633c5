"""Many processes, one store: writers, a maintainer, and one that is killed and started again."""

import itertools
import random

import pytest
from core.reliability.crew import PATIENCE_SECONDS, SHARED, join, read
from efforts import in_proofs

N_WRITERS = 4


@pytest.fixture(params=["local", *in_proofs("s3")])
def backend(request):
    return request.getfixturevalue(f"{request.param}_backend")


@pytest.fixture
def n_batches(backend):
    """Against the server of the tests a commit takes twenty times as long."""
    return 20 if backend.storage_options is None else 6


def test_nothing_is_lost_while_one_maintains_and_one_is_killed_again_and_again(
    backend, n_batches, run
):
    chance = random.Random(7)
    writers = [join("writer", f"w{n}", backend, n_batches=n_batches) for n in range(N_WRITERS)]
    maintainer = join("maintainer", "m", backend)
    for member in (maintainer, *writers):
        member.go()
    victims = []
    for number in range(3):
        victim = join("writer", f"v{number}", backend, n_batches=10_000)
        victim.go()
        for _ in range(chance.randint(1, 12)):
            assert victim.hear(PATIENCE_SECONDS)
        victim.kill()
        victims.append(victim)
    for member in (*writers, maintainer):
        member.wait()

    acknowledged = [batch for member in (*writers, *victims) for batch in member.batches]
    assert len(acknowledged) > N_WRITERS * n_batches
    in_flight = {name for member in victims for name in member.begun[len(member.batches) :]}

    async def look():
        store = backend.open()
        sessions = {SHARED, *(member.name for member in (*writers, *victims))}
        found = {session: await read(store, session) for session in sessions}
        await store.close()
        return found

    found = run(look())
    for session, names in found.items():
        wanted = [batch for batch in acknowledged if batch.session == session]
        assert {batch.name for batch in wanted} <= set(names)
        assert set(names) <= {batch.name for batch in wanted} | in_flight
        assert_in_order(names, wanted)


def assert_in_order(names, batches):
    """No batch stands before one that was acknowledged before it began."""
    place = {name: index for index, name in enumerate(names)}
    in_place = sorted(batches, key=lambda batch: place[batch.name])
    for earlier, later in itertools.combinations(in_place, 2):
        assert earlier.started < later.acknowledged
