"""A network that refuses, loses, cuts and delays, and a server that says why it refuses.

An error is one of the store's, and says what is the matter; what was acknowledged stays; what raised is
there as a whole or not at all, and is there once when it was written again; and once the trouble is
over, a store that is open works, as does one that is opened.
"""

import asyncio
from contextlib import suppress

import pytest
from proofs.soak.asking import failure, heard, say, seen
from proofs.soak.fates import First, Listening, calm
from proofs.soak.proxy import Proxy, answer

from lance_context_core import AsyncContextStore, Message, StorageError

ONCE = {"client_max_retries": "0", "client_retry_timeout": "1"}
"""Nothing is asked twice."""
IMPATIENT = {**ONCE, "timeout": "1s", "connect_timeout": "1s"}
"""Nor waited for: which a busy machine may find too short for anything."""


@pytest.fixture
def proxy(s3_server):
    with Proxy(int(s3_server.endpoint.rpartition(":")[2])) as proxy:
        yield proxy


@pytest.fixture
def there(s3_server):
    """A place on the server that no fault befalls."""
    return s3_server.backend()


@pytest.fixture
def far(there, proxy):
    """Opens the same place from the other side of the proxy."""

    def open_(**more):
        options = {**there.storage_options, "aws_endpoint": proxy.endpoint, **more}
        return AsyncContextStore.open(there.uri, storage_options=options, maintenance=None)

    return open_


FATES = ["throttled", "dropped", "unanswered", "cut", "disowned"]


# Requests that go astray


@pytest.mark.parametrize("fate", FATES)
async def test_whichever_request_of_a_write_goes_astray_it_is_there_once_and_whole(
    fate, far, proxy, there
):
    async with far() as store:
        await say(store, "first")
        proxy.fate = listening = Listening()
        await say(store, "second")
        expected = ["first", "second"]
        assert listening.kinds >= {"PUT data", "PUT _transactions", "PUT _versions"}
        for kind_ in sorted(listening.kinds):
            names = [f"{kind_} {n}" for n in range(3)]
            proxy.fate = first = First(kind_, fate)
            if error := await failure(say(store, *names)):
                assert "'records'" in error
                assert "try again" in error
                proxy.fate = calm
                assert await heard(store) in (expected, [*expected, *names])
                await say(store, *names)
            proxy.fate = calm
            assert first.has_struck
            expected += names
            assert await heard(store) == expected
    assert await seen(there) == expected


@pytest.mark.parametrize("fate", FATES)
async def test_a_message_without_an_id_is_never_doubled_by_a_request_that_goes_astray(
    fate, far, proxy, there
):
    """Without an id the store cannot know it again: it must not be written twice by one call."""
    kinds = ["PUT data", "PUT _transactions", "PUT _versions"]
    acknowledged = []
    async with far() as store:
        await say(store, "first")
        for text in kinds:
            proxy.fate = first = First(text, fate)
            work = store.history.append("a", Message.user(text), session_id="s")
            acknowledged += [] if await failure(work) else [text]
            assert first.has_struck
    async with there.open() as store:
        _, *said = [one.text for one in await store.history.get_messages("a", session_id="s")]
    assert len(said) == len(set(said))
    assert set(acknowledged) <= set(said)
    assert len(acknowledged) >= 2, "most of it the engine makes good by itself"


@pytest.mark.parametrize("fate", FATES)
async def test_whichever_request_of_a_read_goes_astray_it_reads_all_or_says_that_it_cannot(
    fate, far, proxy
):
    expected = ["first", "second", "third"]
    async with far() as store:
        for name in expected:
            await say(store, name)
    proxy.fate = listening = Listening()
    async with far() as store:
        assert await heard(store) == expected
    n_read = 0
    for kind_ in sorted(listening.kinds):
        proxy.fate = first = First(kind_, fate)
        async with far() as store:
            (outcome,) = await asyncio.gather(heard(store), return_exceptions=True)
            if isinstance(outcome, StorageError):
                assert "try again" in str(outcome)
                proxy.fate = calm
            else:
                assert outcome == expected
                n_read += 1
            assert first.has_struck
            assert await heard(store) == expected
    assert n_read >= len(listening.kinds) / 2, "what is read may be read again: the engine does it"


FOR_EVER = {
    "throttled": "the object store asks for fewer requests: wait a while",
    "dropped": "the storage failed: check that it can be reached",
    "silent": "the storage failed: check that it can be reached",
}


@pytest.mark.parametrize("fate", FOR_EVER)
async def test_what_goes_on_for_ever_is_an_error_and_over_when_it_is_over(fate, far, proxy, there):
    options = IMPATIENT if fate == "silent" else ONCE
    async with far(**options) as store, far(**options) as other:
        await patiently(say, store, "first")
        proxy.fate = lambda request: fate
        works = {
            "insert into table 'records'": say(store, "second"),
            f"open {there.uri!r}": heard(other),
        }
        outcomes = await asyncio.gather(*works.values(), return_exceptions=True)
        for action, outcome in zip(works, outcomes, strict=True):
            assert type(outcome) is StorageError, outcome
            assert str(outcome).startswith(f"cannot {action}: {FOR_EVER[fate]}")
            assert len(str(outcome)) < 700
        proxy.fate = calm
        assert await patiently(heard, other) == ["first"]
        await patiently(say, store, "second", "third")
        assert await patiently(heard, store) == ["first", "second", "third"]
    assert await seen(there) == ["first", "second", "third"]


async def patiently(ask, *what):
    """What `ask(*what)` returns, which is asked again when it took too long."""
    for _ in range(30):
        with suppress(StorageError):
            return await ask(*what)
    return await ask(*what)


async def test_a_server_that_goes_away_under_an_open_store_may_come_back(far, proxy, there):
    async with far(**ONCE) as store:
        await say(store, "first")
        proxy.close()
        for work in (say(store, "second"), heard(store)):
            assert "table 'records': the storage failed" in str(await failure(work))
        proxy.open()
        await say(store, "second")
        assert await heard(store) == ["first", "second"]
    assert await seen(there) == ["first", "second"]


async def test_a_read_shows_what_was_acknowledged_though_another_meanwhile_opens_the_table_anew(
    tmp_path,
):
    """Which happens after an error: what it opened may be older than what was written since."""
    async with AsyncContextStore.open(tmp_path, maintenance=None) as store:
        await say(store, "first")
        access = store._resources.records.access
        older = await access._opening.open()
        await say(store, "second")
        handle = access.handle
        access.handle = Overtaken(handle, lambda: setattr(access, "handle", older))
        assert await heard(store) == ["first", "second"]


class Overtaken:
    """A handle of the engine: something happens while it looks for newer versions."""

    def __init__(self, handle, happens):
        self._handle = handle
        self._happens = happens

    async def checkout_latest(self):
        await self._handle.checkout_latest()
        self._happens()

    def __getattr__(self, name):
        return getattr(self._handle, name)


async def test_an_upload_that_died_before_its_commit_is_not_seen_and_in_nobody_s_way(
    far, proxy, there
):
    async with far() as store:
        await say(store, "first")
        proxy.fate = lambda request: (
            "dropped" if request.startswith("PUT") and "_versions" in request else None
        )
        for _ in range(3):  # The data is there each time, and the version that names it is not.
            assert await failure(say(store, "second"))
        proxy.fate = calm
    async with there.open() as store:
        assert await heard(store) == ["first"]
        await say(store, "second")
        await store.maintain()
        await store.thin()
        assert await heard(store) == ["first", "second"]
        assert [hit.record.id for hit in await store.search("second", mode="text")] == ["second"]


# What the server says


SAID = {
    "a full disk": (answer("507 Insufficient Storage", "XMinioStorageFull"), "the disk is full"),
    "a clock": (
        answer("403 Forbidden", "RequestTimeTooSkewed"),
        "the object store takes the clock",
    ),
    "rights": (answer("403 Forbidden", "AccessDenied"), "permission denied"),
    "keys that are over": (answer("400 Bad Request", "ExpiredToken"), "permission denied"),
}


@pytest.mark.parametrize("what", SAID)
async def test_a_refusal_of_the_server_is_told_by_its_reason(what, far, proxy, there):
    answer, says = SAID[what]
    async with far(**ONCE) as store:
        await say(store, "first")
        proxy.fate = lambda request: answer if request.startswith("PUT") else None
        error = str(await failure(say(store, "second")))
        assert error.startswith(f"cannot insert into table 'records': {says}")
        proxy.fate = calm
        assert await heard(store) == ["first"]
        await say(store, "second")
    assert await seen(there) == ["first", "second"]
