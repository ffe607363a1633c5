"""One version among thousands is found without a look at all of them, holes and branches included."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from efforts import in_proofs
from lancedb.table import AsyncTable

from lance_context_core import Document, InvalidRequestError, NotFoundError
from lance_context_core.storage.lance import branches, manifests

pytestmark = pytest.mark.usefixtures("each_write_commits")


@pytest.fixture
def listings(monkeypatch):
    """The calls that have the engine read all manifests."""
    calls = []
    list_versions = AsyncTable.list_versions

    async def counted(self):
        calls.append(self.name)
        return await list_versions(self)

    monkeypatch.setattr(AsyncTable, "list_versions", counted)
    return calls


@pytest.fixture
def reads(monkeypatch):
    """The manifests that are read to know when a version was made."""
    calls = []
    created_at = manifests.created_at

    def counted(directory, version):
        calls.append(version)
        return created_at(directory, version)

    monkeypatch.setattr(manifests, "created_at", counted)
    return calls


async def told(store, table):
    """What the engine tells of all versions of a table: when each was made."""
    handle = await table.access.reader()
    if table.ref is not None:
        handle = await branches.opened(handle, table.name, table.ref)
    return {
        one["version"]: one["timestamp"].astimezone(UTC) for one in await handle.list_versions()
    }


async def filled(store, n):
    for number in range(n):
        await store.memory.add([f"{number}"])
        if number % 5 == 0:
            await store.vectors("notes").add([Document(text=f"{number}")])


@pytest.mark.slow
async def test_a_number_and_a_time_are_found_without_a_list_of_all(store, listings, reads):
    await filled(store, 40)
    versions = await store.versions()
    assert listings == []
    for version in (versions[3], versions[20], versions[-1]):
        reads.clear()
        by_number = await store.checkout(version.number)
        assert await by_number.version() == version.number
        assert reads == []
        by_time = await store.checkout(version.created_at + timedelta(microseconds=1))
        assert await by_time.version() == version.number
        assert len(reads) <= 7
        table = await store._resources.records.access.reader()
        n_rows = await (await branches.opened(table, "records", None, version.number)).count_rows()
        assert (await by_number.memory.list()).total == n_rows
        assert (await by_time.memory.list()).total == n_rows
        await by_number.vectors("notes").count()
        await by_time.vectors("notes").count()
        assert len(reads) < 30
    assert listings == []


async def test_a_page_of_the_versions_reads_no_others(store, listings, reads):
    await filled(store, 20)
    everything = await store.versions()
    for limit in (0, 1, 7, 100):
        for before in (None, 1, everything[5].number, everything[-1].number, 10_000):
            reads.clear()
            found = await store.versions(limit=limit, before=before)
            known = [one for one in everything if before is None or one.number < before]
            assert found == known[max(len(known) - limit, 0) :]
            assert len(reads) == len(found)
    page, read = everything[-1:], []
    while page:
        read = page + read
        page = await store.versions(limit=3, before=page[0].number)
    assert read == everything
    assert await store.context().versions(limit=2) == everything[-2:]
    assert listings == []
    for wrong in ({"limit": -1}, {"limit": True}, {"before": "1"}):
        with pytest.raises(InvalidRequestError, match=next(iter(wrong))):
            await store.versions(**wrong)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *in_proofs(0, 2)])
async def test_holes_are_seen_as_the_list_of_all_shows_them(store, seed):
    random = Random(seed)
    await filled(store, 30)
    branch = await store.create_branch("b")
    await filled(branch, 6)
    named = random.sample(range(2, 28), 4)
    for number in named[:2]:
        await store.tag(f"t{number}", version=number)
    table = store._resources.records
    for number in random.sample(range(3, 29), 12):
        if number not in named:
            manifests.path(Path(store.uri) / "records.lance", number).unlink()
    for one in (store, branch):
        table = one._resources.records
        known = await told(one, table)
        listed = {version.number: version.created_at for version in await one.versions()}
        assert {n: at for n, at in listed.items() if n in known} == known
        for number in range(1, 40):
            if number in listed:
                assert await (await one.checkout(number)).version() == number
            else:
                with pytest.raises(NotFoundError, match=f"version {number} "):
                    await one.checkout(number)
        moments = [
            at + timedelta(microseconds=step) for at in listed.values() for step in (-1, 0, 1)
        ]
        for moment in random.sample(moments, min(30, len(moments))):
            past = [number for number, at in listed.items() if at <= moment]
            if past:
                assert await (await one.checkout(moment)).version() == max(past)
            else:
                with pytest.raises(NotFoundError, match="nothing was stored"):
                    await one.checkout(moment)
    with pytest.raises(NotFoundError):
        await store.checkout(datetime(2000, 1, 1, tzinfo=UTC))
