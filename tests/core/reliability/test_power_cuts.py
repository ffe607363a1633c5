"""A power cut while something is written: whatever it tears, the store has what was acknowledged.

A store is built once for each thing that can be under way, up to where that is in the tables, and the
journal does not know it yet. Its files are then torn in copies of it.
"""

import errno
import os
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import lancedb
import pytest
from efforts import in_proofs

from lance_context_core.errors import StorageError
from lance_context_core.messages import Message
from lance_context_core.settings import JournalPolicy
from lance_context_core.storage.lance import manifests
from lance_context_core.storage.wal.table_log import TableLog
from lance_context_core.store.store import AsyncContextStore

SMALL = JournalPolicy(batch_rows=4)
BULK = ("1", "2", "3", "4", "5")
"""More than that: a commit beside the journal."""


@dataclass(frozen=True)
class Cut:
    """A store whose power was cut."""

    place: Path
    there: tuple[str, ...]
    """What was acknowledged, by id, in its order."""
    new: tuple[Path, ...]
    """The files that the journal does not know of, as they are called in the store."""
    branch: str | None = None

    def copied(self, place, pattern, tear):
        """A copy in which all new files of that sort are torn."""
        shutil.copytree(self.place, place)
        files = [place / one for one in self.new if one.match(pattern)]
        assert files, f"nothing new is called {pattern}"
        for file in files:
            tear(file)
        return place


def opened(place, **options):
    return AsyncContextStore.open(place, durability="fsync", journal=SMALL, **options)


async def say(store, *names):
    messages = [Message.user(f"tea {name}", id=name) for name in names]
    await store.history.append_many("a", messages, session_id="s")


async def heard(store):
    return tuple(one.id for one in await store.history.get_messages("a", session_id="s"))


@contextmanager
def power_cut(step):
    """What comes after this step of the journal's is never done."""

    async def cut(*_, **__):
        raise KeyError("the power is cut")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TableLog, step, cut)
        with suppress(KeyError):
            yield
            pytest.fail(f"nobody came to {step!r}")


def files_in(place):
    return {one.relative_to(place) for one in place.rglob("*") if one.is_file()}


async def cut_while(place, work, *, branch=None):
    async with opened(place) as store:
        await say(store, "a", "b", "c")
        await store.flush()
        await store.tag("t")
        at = store if branch is None else await store.create_branch(branch)
        there, before = await work(at, place)
    # The journal is one file again once it is closed, and was changed by what was acknowledged.
    return Cut(place, there, tuple(files_in(place) - before), branch)


async def folding(store, place):
    before = files_in(place)
    await say(store, "d", "e")
    with power_cut("forget"):
        await store.flush()
    return ("a", "b", "c", "d", "e"), before


async def folding_changes(store, place):
    before = files_in(place)
    await store.context().delete(id="b")
    await say(store, "d")
    with power_cut("forget"):
        await store.flush()
    return ("a", "c", "d"), before


async def writing_in_bulk(store, place):
    await say(store, "d")
    before = set()
    doubt = TableLog.doubt

    async def doubt_first(ledger):
        # What was in the journal is folded by then, and acknowledged.
        before.update(files_in(place))
        return await doubt(ledger)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TableLog, "doubt", doubt_first)
        with power_cut("note"):
            await say(store, *BULK)
    return ("a", "b", "c", "d"), before


async def maintaining(store, place):
    before = files_in(place)
    await say(store, "d")
    table = await (await lancedb.connect_async(str(place))).open_table("records")
    await table.optimize()
    return ("a", "b", "c", "d"), before


WORKS = {
    "a fold": (folding, None),
    "a fold of changes": (folding_changes, None),
    "a commit beside the journal": (writing_in_bulk, None),
    "an upkeep": (maintaining, None),
    "a fold on a branch": (folding, "draft"),
}


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """The store in which that was under way; it is not to be changed."""
    made = {}

    async def cut_(what):
        if what not in made:
            work, branch = WORKS[what]
            place = tmp_path_factory.mktemp("cut") / "store"
            made[what] = await cut_while(place, work, branch=branch)
        return made[what]

    return cut_


# How files are torn


def missing(file):
    file.unlink()


def empty(file):
    file.write_bytes(b"")


def cut_short(file):
    file.write_bytes(file.read_bytes()[:-7])


def zeroed(file):
    file.write_bytes(b"\0" * file.stat().st_size)


def zeroed_in_part(file):
    data = file.read_bytes()
    file.write_bytes(data[:-100] + b"\0" * 40 + data[-60:])


def garbage(file):
    file.write_bytes(b"\xa5\x5a" * (file.stat().st_size // 2))


TEARS = [
    *[("a fold", "*.manifest", how) for how in (empty, cut_short, zeroed, zeroed_in_part, garbage)],
    *[("a fold", "data/*.lance", how) for how in (missing, empty, cut_short, zeroed, garbage)],
    *[("a fold", "_transactions/*.txn", how) for how in (missing, empty, cut_short, zeroed)],
    *[("a fold of changes", "_deletions/*", how) for how in (missing, empty, cut_short, zeroed)],
    *[("an upkeep", "_indices/*/*", how) for how in (missing, empty, cut_short, zeroed)],
    *[("a commit beside the journal", one, empty) for one in ("*.manifest", "data/*.lance")],
    *[("a fold on a branch", one, empty) for one in ("*.manifest", "data/*.lance")],
]


@pytest.mark.parametrize(
    ("what", "files", "tear"), TEARS, ids=[f"{w}-{f}-{t.__name__}" for w, f, t in TEARS]
)
async def test_what_a_power_cut_tore_is_dropped_and_folded_again(cut, tmp_path, what, files, tear):
    before = await cut(what)
    place = before.copied(tmp_path / "store", files, tear)
    async with opened(place) as store:
        at = store if before.branch is None else await store.branch(before.branch)
        assert await heard(at) == before.there
        hits = await at.search("tea", mode="text", limit=20)
        assert {hit.record.id for hit in hits} == set(before.there)
        await say(at, "z")
        await store.flush()
        assert await heard(await store.checkout("t")) == ("a", "b", "c")
        assert [one.number for one in await at.versions()]
    # All of it is in the tables, for whatever reads them.
    table = await (await lancedb.connect_async(str(place))).open_table("records")
    if before.branch is not None:
        table = await table.branches.checkout(f"heads/{before.branch}")
    rows = (await table.query().select(["id"]).to_arrow())["id"].to_pylist()
    assert sorted(rows) == sorted([*before.there, "z"])


@pytest.mark.parametrize("what", WORKS)
async def test_what_is_whole_is_kept_though_the_journal_does_not_know_it(cut, tmp_path, what):
    before = await cut(what)
    shutil.copytree(before.place, tmp_path / "store")
    async with opened(tmp_path / "store") as store:
        at = store if before.branch is None else await store.branch(before.branch)
        bulk = BULK if what == "a commit beside the journal" else ()
        assert await heard(at) == (*before.there, *bulk)
    assert files_in(before.place) <= files_in(tmp_path / "store")


async def test_what_was_acknowledged_is_never_dropped_and_the_error_names_the_way_out(
    cut, tmp_path
):
    place = tmp_path / "store"
    shutil.copytree((await cut("a fold")).place, place)
    async with opened(place) as store:
        await store.flush()
        await say(store, "lost")
        await store.flush()
        await say(store, "y")
    _, newest = max(manifests.listed(place / "records.lance").items())
    cut_short(newest)
    before = files_in(place)
    async with opened(place) as store:
        for work in (heard(store), say(store, "z"), store.search("tea", mode="text")):
            with pytest.raises(StorageError, match=r"'records'.*restore it from a copy") as caught:
                await work
            assert f"{str(newest)!r} is not whole: put it back" in str(caught.value)
            assert "or call accept_loss()" in str(caught.value)
    assert files_in(place) == before
    # To remove it is no way out: less would be read than was acknowledged.
    kept = newest.rename(tmp_path / "kept")
    async with opened(place) as store:
        with pytest.raises(StorageError, match=r"lacks acknowledged data.*accept_loss\(\)"):
            await heard(store)
    kept.rename(newest)
    # That way out is one: what that version brought is lost, what the journal holds is not.
    async with opened(place) as store:
        (lost,) = await store.accept_loss()
        assert str(newest) in lost.what
        assert await store.accept_loss() == ()
        assert await heard(store) == (*"abcde", "y")
        await say(store, "z")
        await store.flush()
        assert await heard(store) == (*"abcde", "y", "z")


@pytest.mark.parametrize("error", [errno.EACCES, errno.EMFILE, errno.EIO])
async def test_what_cannot_be_looked_at_is_not_taken_for_torn(cut, tmp_path, monkeypatch, error):
    before = await cut("a fold")
    place = before.copied(tmp_path / "store", "data/*.lance", zeroed)

    def refuse(*_):
        raise OSError(error, os.strerror(error))

    there = files_in(place)
    async with opened(place) as store:
        with monkeypatch.context() as patched:
            patched.setattr("lance_context_core.storage.lance.torn_manifests._end", refuse)
            # The journal says which version it reads.
            assert await heard(store) == before.there
            assert files_in(place) >= there
        # As soon as one can look, it is mended.
        await store.flush()
        assert await heard(store) == before.there


async def test_who_may_only_read_mends_nothing_and_reads_what_was_noted(cut, tmp_path, monkeypatch):
    before = await cut("a fold")
    place = before.copied(tmp_path / "store", "data/*.lance", zeroed)
    monkeypatch.setattr(os, "access", lambda *_: False)
    there = files_in(place)
    async with opened(place) as store:
        assert await heard(store) == before.there
    assert files_in(place) == there


@pytest.mark.parametrize("tear", [empty, cut_short, zeroed])
async def test_a_table_that_was_being_made_is_made_anew(tmp_path, tear):
    place = tmp_path / "store"
    async with opened(place) as store:
        # The journal does not know the table before somebody writes there.
        await store._resources.database.records.access.opened()
    for manifest in place.glob("records.lance/_versions/*.manifest"):
        tear(manifest)
    async with opened(place) as store:
        await say(store, "a")
        await store.flush()
        assert await heard(store) == ("a",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "tear"), [("*.manifest", empty), *in_proofs(("data/*.lance", missing))]
)
async def test_a_claim_to_maintain_is_nobodys_loss(tmp_path, files, tear):
    place = tmp_path / "store"
    async with opened(place) as store:
        await say(store, "a")
        await store.maintain()
        n_claims = len(manifests.versions(place / "upkeep.lance"))
    assert n_claims > 1
    tear(max((place / "upkeep.lance").rglob(files), key=lambda one: one.stat().st_mtime_ns))
    async with opened(place) as store:
        await store.maintain()
        assert await heard(store) == ("a",)


async def test_of_a_table_that_is_written_in_bulk_alone_the_journal_knows_what_was_acknowledged(
    tmp_path,
):
    place = tmp_path / "store"
    async with opened(place) as store:
        await say(store, *BULK)
        with power_cut("note"):
            await say(store, "6", "7", "8", "9", "10")
    table = place / "records.lance"
    empty(max(manifests.listed(table).items())[1])
    async with opened(place) as store:
        assert await heard(store) == BULK


@pytest.mark.parametrize("tear", [missing, cut_short, *in_proofs(empty, zeroed)])
@pytest.mark.parametrize("ref", ["heads/draft", "bases/draft.0"])
@pytest.mark.parametrize("files", ["_refs/branches/{}.json", "tree/{}/_versions/*.manifest"])
async def test_a_branch_that_was_being_made_can_be_made(tmp_path, monkeypatch, files, ref, tear):
    place = tmp_path / "store"
    discard = TableLog.discard

    async def cut(ledger):
        if ledger.part.ref.endswith(ref):
            raise KeyError("the power is cut")
        await discard(ledger)

    async with opened(place) as store:
        await say(store, "a")
        await store.tag("t")
        with monkeypatch.context() as patched:
            patched.setattr(TableLog, "discard", cut)
            with pytest.raises(KeyError, match="is cut"):
                await store.create_branch("draft")
    pattern = files.format(ref.replace("/", "%2F") if "json" in files else ref)
    new = list((place / "records.lance").glob(pattern))
    assert new
    for file in new:
        tear(file)
    async with opened(place) as store:
        assert [one.name for one in await store.branches()] == []
        assert await heard(await store.checkout("t")) == ("a",)
        draft = await store.create_branch("draft")
        await say(draft, "b")
        assert await heard(draft) == ("a", "b")


async def test_a_branch_that_somebody_was_told_of_is_kept(tmp_path):
    place = tmp_path / "store"
    async with opened(place) as store:
        await say(store, "a")
        await store.create_branch("draft")
    for file in (place / "records.lance").glob("_refs/branches/heads*.json"):
        empty(file)
    before = files_in(place)
    async with opened(place) as store:
        with pytest.raises(StorageError, match="cannot list the branches of table 'records'"):
            await store.branches()
    assert files_in(place) == before
