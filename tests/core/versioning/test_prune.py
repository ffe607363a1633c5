"""Old versions go, those that are kept can be read whole, and the disk gets its space back."""

import subprocess
import sys
from bisect import bisect
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from core.conformance.backends import local
from core.conformance.doubles import ManualClock
from core.versioning.samples import dump, write, written
from efforts import in_proofs
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.errors import InvalidRequestError, NotFoundError, ReadOnlyError
from lance_context_core.messages import Message
from lance_context_core.storage.lance import branches, fragments, manifests, versions
from lance_context_core.storage.lance.retention import VersionRetention, choose
from lance_context_core.types import Document, Version
from lance_context_core.versioning import prune as thinning
from lance_context_core.versioning.locations import Whole

DEFAULT = VersionRetention()
GRID = VersionRetention(all_for=timedelta(0))
NOW = datetime(2026, 3, 31, 15, 20, tzinfo=UTC)
NEVER = 10**9


async def thin(store, *, kept=DEFAULT, dry_run=False):
    whole = Whole(store._resources, store._scope)
    return await thinning.thin(whole, retention=kept, dry_run=dry_run)


async def thinnable(store, table="records", kept=DEFAULT):
    resources = store._resources
    return await thinning.thinnable(
        getattr(resources.database, table), resources=resources, retention=kept
    )


@pytest.fixture
def clock():
    """It begins with the time of the machine, which is that of the versions."""
    return ManualClock(datetime.now(UTC))


# What is kept


moments = st.lists(
    st.one_of(
        st.timedeltas(timedelta(0), timedelta(hours=3)),
        st.timedeltas(timedelta(0), timedelta(days=3)),
        st.timedeltas(timedelta(0), timedelta(days=60)),
        st.sampled_from([timedelta(hours=1), timedelta(days=1), timedelta(days=30)]),
    ),
    max_size=40,
).map(lambda ages: sorted(NOW - age for age in ages))

lengths = st.sampled_from([timedelta(0), timedelta(hours=1), timedelta(days=1), timedelta(days=30)])
policies = st.builds(VersionRetention, all_for=lengths, hourly_for=lengths, daily_for=lengths)


def listed(times):
    return [Version(number=3 * i + 1, created_at=time) for i, time in enumerate(times)]


def naive(versions, *, now, kept):
    """The numbers that stay, by looking for a reason to drop each of them."""

    def is_last(version, form):
        name = version.created_at.strftime(form)
        return not [
            one
            for one in versions
            if one.number > version.number and one.created_at.strftime(form) == name
        ]

    def age(version):
        return (now - version.created_at).total_seconds()

    return [
        version.number
        for i, version in enumerate(versions)
        if age(version) <= kept.all_for.total_seconds()
        or (is_last(version, "%Y%m%d%H") and age(version) <= kept.hourly_for.total_seconds())
        or (is_last(version, "%Y%m%d") and age(version) <= kept.daily_for.total_seconds())
        or i == len(versions) - 1
    ]


@given(moments, policies)
def test_what_is_kept_is_what_a_naive_reading_of_the_policy_keeps(times, kept):
    known = listed(times)
    assert list(choose(known, now=NOW, retention=kept)) == naive(known, now=NOW, kept=kept)


@given(moments, policies, st.timedeltas(timedelta(0), timedelta(days=40)))
def test_thinning_earlier_makes_no_difference_to_thinning_later(times, kept, pause):
    known = listed(times)
    first = choose(known, now=NOW, retention=kept)
    left = [version for version in known if version.number in first]
    later = NOW + pause
    assert choose(left, now=later, retention=kept) == choose(known, now=later, retention=kept)


@given(moments, moments)
def test_what_was_newest_at_a_moment_is_kept(times, wanted):
    known = listed(times)
    nothing = VersionRetention(
        all_for=timedelta(0), hourly_for=timedelta(0), daily_for=timedelta(0)
    )
    now = NOW + timedelta(seconds=1)
    kept = choose(known, now=now, retention=nothing, moments=[(time, "tag") for time in wanted])
    expected = {
        max((v.number for v in known if v.created_at <= time), default=0) for time in wanted
    }
    assert {number for number, reason in kept.items() if reason == "tag"} == expected - {0}


def test_every_version_has_its_first_reason():
    ages = {"daily": 50, "hourly": 20, "recent": 0.5}
    known = listed([NOW - timedelta(hours=hours) for hours in [2_000, 1_000, *ages.values()]])
    kept = choose(known, now=NOW, retention=DEFAULT, held={1: "branch", 13: "tag", 99: "tag"})
    assert kept == {1: "branch", 7: "daily", 10: "hourly", 13: "tag"}
    assert choose(known[:2], now=NOW, retention=DEFAULT) == {4: "newest"}
    assert choose(known[:2], now=NOW, retention=DEFAULT, is_superseded=True) == {}
    assert choose(known[:2], now=NOW, retention=VersionRetention.everything()) == {
        1: "recent",
        4: "recent",
    }


def test_a_version_of_the_future_is_recent():
    known = listed([NOW + timedelta(days=1), NOW + timedelta(days=2)])
    assert choose(known, now=NOW, retention=GRID) == {1: "recent", 4: "recent"}


@pytest.mark.parametrize("value", [timedelta(seconds=-1), 3600, None])
@pytest.mark.parametrize("name", ["all_for", "hourly_for", "daily_for"])
def test_what_is_no_duration_is_refused(name, value):
    with pytest.raises(InvalidRequestError, match=name):
        VersionRetention(**{name: value})


# What becomes of a store


async def test_nothing_goes_within_the_hour(store, clock):
    seen = await written(store, 2)
    clock.advance(minutes=59)
    assert (await thin(store)).n_dropped == 0
    for version, expected in seen.items():
        assert await dump(await store.checkout(version)) == expected


@pytest.mark.slow
async def test_a_month_later_only_the_newest_is_left(store, clock):
    seen = await written(store, 3)
    now = await dump(store)
    clock.advance(days=31)
    done = await thin(store)
    assert done.bytes_freed == sum(table.bytes_freed for table in done.tables) > 0
    assert {table.table for table in done.tables} == {
        *["records", "sessions"],
        *(await store._resources.database.table_names()),
    } - {"upkeep"}
    for table in await store._whole().tables():
        assert [one.number for one in await versions.versions(table)] == [await table.version()]
    assert await dump(store) == now
    assert await dump(await store.checkout(await store.version())) == now
    for version in [*seen][:-1]:
        with pytest.raises(NotFoundError, match=str(version)):
            await store.checkout(version)
    assert (await thin(store)).n_dropped == 0


@pytest.mark.slow
async def test_of_a_version_that_went_those_beside_it_are_told(store, clock):
    await written(store, 3)
    numbers = [one.number for one in await store.versions()]
    first, tagged, gone = numbers[0], numbers[1], numbers[2]
    await store.tag("kept", version=tagged)
    clock.advance(days=31)
    await thin(store)
    newest = await store.version()
    for number, told in (
        (gone, f"version {gone} was pruned; the nearest: {tagged} and {newest}"),
        (first, f"version {first} was pruned; the nearest: {tagged}"),
        (newest + 1, f"version {newest + 1} does not exist: the newest is {newest}"),
        (0, f"version 0 does not exist: the newest is {newest}"),
    ):
        with pytest.raises(NotFoundError, match=told):
            await store.checkout(number)


async def test_everything_can_be_kept(store, clock):
    seen = await written(store, 2)
    clock.advance(days=10_000)
    done = await thin(store, kept=VersionRetention.everything())
    assert done.n_dropped == 0
    for version, expected in seen.items():
        assert await dump(await store.checkout(version)) == expected


@pytest.mark.slow
async def test_tags_and_branches_keep_the_whole_store_as_it_was(store, clock):
    seen = await written(store, 6)
    numbers = list(seen)
    await store.tag("t", version=numbers[1])
    branch = await store.create_branch("b", at=numbers[3])
    own = await written(branch, 3)
    await branch.tag("on-b", version=list(own)[1])
    kept = {
        "t": seen[numbers[1]],
        numbers[1]: seen[numbers[1]],
        numbers[3]: seen[numbers[3]],
        "on-b": own[list(own)[1]],
        "b": await dump(branch),
        "main": await dump(store),
    }
    clock.advance(days=31)
    done = await thin(store)
    why = next(one.kept for one in done.tables if one.table == "records" and one.branch == "main")
    assert why == {numbers[1]: "tag", numbers[3]: "branch"}
    for ref, expected in kept.items():
        assert await dump(await store.checkout(ref)) == expected
    again = await store.branch("b")
    assert await dump(await again.checkout(list(own)[1])) == own[list(own)[1]]
    with pytest.raises(NotFoundError):
        await again.checkout(min(own))
    with pytest.raises(NotFoundError):
        await store.checkout(numbers[2])
    assert await store.tags() == {"t": numbers[1], "on-b": list(own)[1]}
    assert [one.name for one in await store.branches()] == ["b"]


@pytest.fixture
def timed(monkeypatch):
    """Gives every version the time that a function of it says, once and for all."""

    def use(time_of):
        plain, times = versions._versions, {}

        async def seen(handle, name, ref, **page):
            found = []
            for version in await plain(handle, name, ref, **page):
                key = (name, version.number)
                if key not in times:
                    times[key] = time_of(version)
                found.append(replace(version, created_at=times[key]))
            return found

        async def no_files(handle, ref):
            """What the files say of the times is not what is to count."""

        monkeypatch.setattr(versions, "_versions", seen)
        monkeypatch.setattr(versions, "moments_of_ref", no_files)

    return use


@pytest.fixture
def stretched(timed, clock):
    """Spreads the versions of a store evenly over so many days, which end at noon."""

    async def stretch(store, *, days):
        tables = await Whole(store._resources, store._scope).tables()
        moments = sorted(
            {one.created_at for table in tables for one in await versions.versions(table)}
        )
        reached = (clock.now() + timedelta(days=100)).replace(hour=12, minute=0, second=0)
        clock.advance(seconds=(reached - clock.now()).total_seconds())
        step = timedelta(days=days) / len(moments)
        timed(lambda one: reached - step * (len(moments) - bisect(moments, one.created_at)))

    return stretch


@pytest.mark.slow
@pytest.mark.parametrize("days", [4, *in_proofs(1 / 3, 50)])
async def test_what_is_kept_of_the_records_all_other_tables_show_as_it_was(store, stretched, days):
    seen = await written(store, 12)
    await stretched(store, days=days)
    times = await versions.versions(store._resources.records)
    expected = naive(times, now=store._resources.clock.now(), kept=GRID)[:-1]
    done = await thin(store, kept=GRID)
    stays = [number for number in done.tables[0].kept if number != times[-1].number]
    assert stays == expected
    assert len(stays) < len(times) - 1
    for version in set(seen) & set(stays):
        assert await dump(await store.checkout(version)) == seen[version]
    gone = {number for one in done.tables if one.table == "records" for number in one.dropped}
    assert gone
    for version in gone:
        with pytest.raises(NotFoundError):
            await store.checkout(version)
    assert await store.tags() == {}
    assert await store.branches() == []


@pytest.mark.usefixtures("each_write_commits")
async def test_a_collection_has_a_history_without_any_records(store, stretched):
    notes = store.vectors("notes")
    for step in range(12):
        await notes.add([Document(id=f"{step}", text="x")])
    await stretched(store, days=10)
    times = await versions.versions(notes._table)
    expected = naive(times, now=store._resources.clock.now(), kept=GRID)[:-1]
    (done,) = (await thin(store, kept=GRID)).tables
    assert [number for number in done.kept if number != times[-1].number] == expected
    assert 2 < len(expected) < 12


async def test_a_version_without_rows_is_kept_like_any_other(store, clock, timed):
    first = clock.now().replace(minute=0)
    timed(lambda version: first + timedelta(hours=version.number // 3))
    sessions, seen = store._resources.database.sessions, {}
    await store.context().add("user", "older than most")
    for step in range(6):
        await store.sessions.create(f"{step}")
        seen[await sessions.version()] = [f"{step}"]
        await store.sessions.delete(f"{step}")
        seen[await sessions.version()] = []
    known = await versions.versions(sessions)
    clock.advance(days=10)
    policy = VersionRetention(all_for=timedelta(0), hourly_for=timedelta(days=30))
    await thin(store, kept=policy)
    kept = naive(known, now=clock.now(), kept=policy)[:-1]
    assert [one.number for one in await versions.versions(sessions)][:-1] == kept
    assert {len(seen[number]) for number in kept[1:]} == {0, 1}
    tags = {f"t{number}": number for number in kept[1:]}
    for tag, number in tags.items():
        await store.tag(tag, version=known[number - 1].created_at)
    for ref, number in [(known[number - 1].created_at, number) for number in kept[1:]] + [
        *tags.items()
    ]:
        view = await store.checkout(ref)
        assert [one.id for one in await view.sessions.list()] == seen[number]
    clock.advance(days=60)
    await thin(store, kept=GRID)
    left = [one.number for one in await versions.versions(sessions)]
    assert 8 in left  # a tag holds what it shows, and of 11 it shows nothing
    assert 11 not in left


@pytest.mark.usefixtures("each_write_commits")
async def test_a_time_without_records_is_kept_too(store, clock, timed):
    noon = clock.now().replace(hour=12)
    timed(lambda one: noon + timedelta(days=one.number > 1, minutes=one.number))
    for text in "ab":
        await store.context().add("user", text)
    n_before = len(await store.versions())
    clock.advance(days=10)
    await thin(store, kept=GRID)
    left = [one.number for one in await store.versions()]
    assert left[0] == 1
    assert 1 < len(left) < n_before
    view = await store.checkout(1)
    assert await view.version() == 1
    assert await view.context().list() == []
    with pytest.raises(NotFoundError, match="no records"):
        await store.tag("t", version=1)
    await store.restore(1)
    assert await store.context().list() == []


@pytest.mark.slow
async def test_holds_that_are_not_wanted_any_more_are_let_go(store, stretched, clock):
    await written(store, 8)
    await stretched(store, days=10)
    await thin(store, kept=GRID)
    handle = await store._resources.records.access.writer()
    before = [ref for ref in await branches.listed(handle, "records") if branches.is_kept(ref)]
    clock.advance(days=60)
    await thin(store, kept=GRID)
    after = [ref for ref in await branches.listed(handle, "records") if branches.is_kept(ref)]
    assert len(before) > 2
    assert len(after) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("days", [1 / 12, 31])
async def test_a_dry_run_changes_nothing_and_tells_what_happens(store, clock, days, tmp_path):
    await written(store, 5)
    await store.tag("t", version=(await store.versions())[2].number)
    clock.advance(days=days)
    files = everything(tmp_path)
    dry = await thin(store, dry_run=True)
    assert everything(tmp_path) == files
    assert dry.is_dry_run
    assert dry.bytes_freed == 0
    done = await thin(store)
    assert not done.is_dry_run
    assert told(done) == told(dry)
    assert dry.n_dropped > 10


def told(thinned):
    return [(one.table, one.branch, one.dropped, dict(one.kept)) for one in thinned.tables]


def everything(directory):
    return sorted((path, path.stat().st_size) for path in directory.rglob("*") if path.is_file())


async def test_a_part_of_the_store_or_its_past_cannot_be_thinned(store):
    await write(store, 0)
    with pytest.raises(InvalidRequestError, match="thin"):
        await thin(store.scope(user_id="u"))
    with pytest.raises(ReadOnlyError, match="thin"):
        await thin(await store.checkout(await store.version()))


async def test_memory_is_thinned_too(memory_backend, clock):
    store = memory_backend.open(clock=clock)
    await written(store, 3)
    now = await dump(store)
    clock.advance(days=31)
    assert (await thin(store)).n_dropped > 3
    assert await dump(store) == now
    assert len(await store.versions()) == 1
    await store.close()


# What pays


async def test_what_could_go_is_counted(store, clock, monkeypatch):
    await written(store, 4)
    n_versions = len(await store.versions())
    assert await thinnable(store) == 0
    clock.advance(days=31)
    assert await thinnable(store) == n_versions - 1
    assert await thinnable(store, "sessions") < len(
        await versions.versions(store._resources.database.sessions)
    )
    dropped = (await thin(store)).tables[0].dropped
    assert len(dropped) == n_versions
    assert await thinnable(store) == 0


@pytest.mark.slow
async def test_versions_are_not_listed_again_while_all_new_ones_are_recent(
    store, clock, monkeypatch
):
    await written(store, 2)
    calls = Counter()
    plain = versions.versions

    async def counted(table):
        calls[table.name] += 1
        return await plain(table)

    monkeypatch.setattr(versions, "versions", counted)
    for _ in range(5):
        await thinnable(store)
        await write(store, 2)
        clock.advance(minutes=10)
    assert calls == {"records": 1}
    clock.advance(minutes=11)
    assert await thinnable(store) > 0
    assert calls == {"records": 2}


@pytest.mark.slow
async def test_a_table_is_thinned_by_itself_only_when_it_pays(store, clock, monkeypatch):
    await written(store, 4)
    now = await dump(store)
    resources = store._resources
    kept = {"resources": resources, "retention": DEFAULT}
    clock.advance(days=31)
    assert await thinning.thin_if_due(resources.records, **kept) == 0
    monkeypatch.setattr(thinning, "MIN_DUE", 3)
    # The sessions of every version of the records are needed until these have gone.
    assert await thinning.thin_if_due(resources.database.sessions, **kept) == 0
    assert await thinning.thin_if_due(resources.records, **kept) > 3
    assert await thinning.thin_if_due(resources.database.sessions, **kept) > 3
    assert await thinning.thin_if_due(resources.records, **kept) == 0
    for version in await store.versions():
        assert await dump(await store.checkout(version.number)) == now


# What is on the disk


@pytest.mark.slow
async def test_no_file_is_left_that_no_version_refers_to(store, stretched, tmp_path):
    seen = await written(store, 12)
    await store.tag("t", version=list(seen)[2])
    await store.maintain()
    await stretched(store, days=10)
    done = await thin(store, kept=GRID)
    assert any(len(one.kept) > 3 for one in done.tables)
    unknown = [path for table in tmp_path.glob("*/*.lance") for path in orphans(table)]
    assert unknown == []


def orphans(table):
    """The files of data, deletions and indexes that no manifest of the table or its refs names."""
    named, folders = set(), set()
    for manifest in table.rglob("*.manifest"):
        found = manifests.contents(manifest, manifest.parents[1])
        named |= {path.resolve() for path in found.files}
        folders |= {path.resolve() for path in found.folders}
    return [
        path
        for path in table.rglob("*")
        if path.is_file()
        and {"data", "_deletions", "_indices"} & set(path.relative_to(table).parts)
        and path.resolve() not in named
        and not folders & set(path.resolve().parents)
    ]


@pytest.mark.usefixtures("each_write_commits")
@pytest.mark.slow
@pytest.mark.parametrize("n", [150, pytest.param(2_000, marks=pytest.mark.long)])
async def test_single_appends_take_little_more_than_one_write_in_the_end(
    open_store, clock, tmp_path, n
):
    messages = [Message.user(f"a message with the number {i}", id=f"{i}") for i in range(n)]
    store = open_store()
    for i, message in enumerate(messages):
        await store.history.append("a", message, session_id="s")
        if i % 100 == 99:
            await store.maintain()
    at_once = local(tmp_path / "b").open()
    await at_once.history.append_many("a", messages, session_id="s")
    await at_once.close()
    clock.advance(days=31)
    records = tmp_path / "store" / "records.lance"
    before = size(records)
    done = await thin(store)
    assert size(records) < 3 * size(tmp_path / "b" / "records.lance")
    assert done.bytes_freed == pytest.approx(before - size(records), rel=0.2)


def size(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


# On branches


@pytest.mark.slow
async def test_a_branch_shows_what_it_began_with_when_its_versions_were_thinned(store, clock):
    await written(store, 3)
    began = await store.version()
    expected = await dump(store)
    branch = await store.create_branch("b")
    await branch.tag("first")
    for step in range(3):
        await write(branch, step)
    now = await dump(branch)
    clock.advance(days=31)
    dry = await thin(store, dry_run=True)
    assert told(await thin(store)) == told(dry)
    assert (await branch.versions())[0].number == began
    assert await dump(await branch.checkout(began)) == expected
    assert await dump(await branch.checkout("first")) == expected
    assert await dump(await store.checkout("first")) == expected
    assert await dump(branch) == now
    child = await branch.create_branch("c", at=began)
    assert await dump(child) == expected


@pytest.mark.slow
async def test_a_branch_with_held_versions_can_be_deleted(store, stretched, clock):
    await written(store, 2)
    branch = await store.create_branch("b.1")
    await written(branch, 10)
    await stretched(branch, days=10)
    await thin(store, kept=GRID)
    table = branch._resources.records
    held = branches.kept_of("b.1", await branches.listed(await table.access.reader(), "records"))
    assert held
    assert await store.delete_branch("b.1") is True
    forks = await branches.listed(await store._resources.records.access.reader(), "records")
    assert not branches.kept_of("b.1", forks)
    await thin(store, kept=GRID)


# Crashes, and others at work


class CrashedError(Exception):
    """The process ended here."""


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [1, 9, *in_proofs(0, 3, 6, 12)])
async def test_a_crash_costs_no_version_that_is_wanted(store, stretched, monkeypatch, n_steps):
    seen = await written(store, 10)
    await stretched(store, days=20)
    times = await versions.versions(store._resources.records)
    wanted = naive(times, now=store._resources.clock.now(), kept=GRID)
    left = [n_steps]

    def crashing(work):
        async def step(*args, **options):
            if left[0] == 0:
                raise CrashedError
            left[0] -= 1
            return await work(*args, **options)

        return step

    with monkeypatch.context() as patch:
        for place, name in (
            (branches, "fork"),
            (branches, "drop"),
            (fragments, "compact"),
            (thinning, "remove"),
        ):
            patch.setattr(place, name, crashing(getattr(place, name)))
        try:
            await thin(store, kept=GRID)
        except CrashedError:
            left[0] = NEVER
    assert left[0] == NEVER
    now = await dump(store)
    for _ in range(2):
        numbers = [version.number for version in await store.versions()]
        for version in set(seen) & set(numbers):
            assert await dump(await store.checkout(version)) == seen[version]
        assert set(wanted[:-1]) <= set(numbers)
        assert await dump(store) == now
        await thin(store, kept=GRID)
    assert set(numbers) & {time.number for time in times[:-1]} == set(wanted[:-1])


WRITER = """
import asyncio, select, sys
from lance_context_core import ContextStore, Message

async def main(place, n):
    store, i = ContextStore.open(place).aio, 0
    while i < n or not select.select([sys.stdin], [], [], 0)[0]:
        await store.history.append("a", Message.user(f"{i}"), session_id="w")
        if i % 5 == 0:
            read = await store.history.get_messages("a", session_id="w")
            assert [one.text for one in read] == [f"{k}" for k in range(i + 1)]
            latest = (await store.versions())[-1].number
            assert await (await store.checkout(latest)).history.count("a", session_id="w") > i - 5
        i += 1
    await store.close()
    print(i)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


async def test_another_process_writes_and_reads_meanwhile(open_store, tmp_path):
    store = open_store(clock=Ahead(timedelta(minutes=1)))
    await write(store, 0)
    # By the engine's clock everything is removed that is older than three seconds.
    short = VersionRetention(
        all_for=timedelta(seconds=3), hourly_for=timedelta(0), daily_for=timedelta(0)
    )
    writer = subprocess.Popen(  # noqa: ASYNC220 - nobody waits for it
        [sys.executable, "-c", WRITER, str(tmp_path / "store"), "50"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    n_dropped = 0
    while writer.poll() is None:
        n_dropped += (await thin(store, kept=short)).n_dropped
        if n_dropped:
            writer.stdin.close()
    with writer:
        n_written, trouble = writer.stdout.read(), writer.stderr.read()
    assert writer.returncode == 0, trouble
    assert n_dropped > 0
    assert await store.history.count("a", session_id="w") == int(n_written)


class Ahead:
    """A clock that runs, and is ahead of the machine's."""

    def __init__(self, by):
        self._by = by

    def now(self):
        return datetime.now(UTC) + self._by
