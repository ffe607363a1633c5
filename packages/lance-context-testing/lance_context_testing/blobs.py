"""Conformance tests of `BlobStore`."""

import asyncio
import io
from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest

from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.protocols import BlobStore
from lance_context_testing._contract import Contract, assert_has_the_methods

MIB = 1024 * 1024


class BlobStoreTests(Contract):
    """Give the fixture `blobs`: an empty `BlobStore`, another one for each test."""

    hooks: ClassVar = {"blobs": "an empty BlobStore"}

    def test_it_has_the_methods_of_the_protocol(self, blobs: BlobStore) -> None:
        assert_has_the_methods(blobs, BlobStore)

    # Putting and getting

    @pytest.mark.parametrize(
        "size",
        [
            pytest.param(0, id="none"),
            pytest.param(1, id="one"),
            pytest.param(64 * 1024, id="a page of them"),
            pytest.param(64 * 1024 + 1, id="one more than a page"),
            pytest.param(MIB, id="a MiB"),
            pytest.param(2 * MIB + 7, id="some MiB"),
        ],
    )
    async def test_bytes_of_any_number_come_back_as_they_were_put(
        self, blobs: BlobStore, size: int
    ) -> None:
        content = Random(size).randbytes(size)
        put = await blobs.put(content, content_type="image/png")
        assert (put.hash, put.size) == (sha256(content).hexdigest(), size)
        assert put.content_type == "image/png"
        assert await blobs.get(put) == content
        assert await blobs.get(put.hash) == await blobs.get(put.uri) == content
        assert await blobs.info(put.uri) == put
        assert await blobs.exists(put)

    async def test_a_file_and_a_path_are_read_to_their_end(
        self, blobs: BlobStore, tmp_path: Path
    ) -> None:
        content = Random(0).randbytes(MIB + 3)
        path = tmp_path / "ä b.bin"
        await asyncio.to_thread(path.write_bytes, content)
        ways = [await blobs.put(one) for one in (content, path, io.BytesIO(content))]
        assert {one.hash for one in ways} == {sha256(content).hexdigest()}
        assert await blobs.get(ways[0]) == content

    async def test_the_same_bytes_are_there_once(self, blobs: BlobStore) -> None:
        first = await blobs.put(b"tea", content_type="text/plain")
        again = await blobs.put(b"tea", content_type="image/png")
        assert again == first
        assert await blobs.delete(first)
        assert not await blobs.exists(again)

    async def test_the_same_bytes_may_be_put_by_several_at_once(self, blobs: BlobStore) -> None:
        content = Random(1).randbytes(MIB + 1)
        put = await asyncio.gather(*(blobs.put(content) for _ in range(4)))
        assert len({one.hash for one in put}) == 1
        assert await blobs.get(put[0]) == content

    async def test_what_is_no_bytes_is_refused(self, blobs: BlobStore) -> None:
        for wrong in ("a text", 3, None, io.StringIO("text")):
            with pytest.raises(InvalidRequestError):
                await blobs.put(wrong)  # type: ignore[arg-type]

    # Ranges

    async def test_any_part_of_it_is_what_a_slice_is(self, blobs: BlobStore) -> None:
        content = Random(2).randbytes(2 * MIB + 11)
        put = await blobs.put(content)
        for start, length in [
            (0, 1),
            (0, None),
            (5, 0),
            (MIB - 1, 2),
            (MIB, MIB),
            (MIB + 1, None),
            (2 * MIB, 100),
            (len(content), 1),
            (len(content) + 9, None),
        ]:
            wanted = content[start:][:length]
            assert await blobs.read(put, start=start, length=length) == wanted
            parts = [part async for part in blobs.stream(put, start=start, length=length)]
            assert b"".join(parts) == wanted
            assert all(0 < len(part) <= MIB for part in parts)

    async def test_a_part_of_a_negative_place_is_refused(self, blobs: BlobStore) -> None:
        put = await blobs.put(b"tea")
        for start, length in ((-1, None), (0, -1)):
            with pytest.raises(InvalidRequestError):
                await blobs.read(put, start=start, length=length)

    # Missing blobs

    async def test_what_is_not_there_is_not_found(self, blobs: BlobStore) -> None:
        unknown = sha256(b"never put").hexdigest()
        assert await blobs.info(unknown) is None
        assert not await blobs.exists(unknown)
        assert not await blobs.delete(unknown)
        for ask in (blobs.get, blobs.read, blobs.url, blobs.pin, blobs.unpin):
            with pytest.raises(NotFoundError):
                await ask(unknown)

    async def test_what_names_no_blob_is_refused(self, blobs: BlobStore) -> None:
        for wrong in ("", "x", "blob:sha256:12", "A" * 64, 7, None):
            with pytest.raises(InvalidRequestError):
                await blobs.get(wrong)  # type: ignore[arg-type]

    # Lifetimes

    async def test_what_has_expired_is_not_there_and_is_swept(
        self, blobs: BlobStore, later: Callable[[], None]
    ) -> None:
        short = await blobs.put(b"short", ttl=timedelta(milliseconds=1))
        long = await blobs.put(b"long", ttl=timedelta(days=1))
        assert short.expires_at is not None
        await asyncio.to_thread(later)
        assert not await blobs.exists(short)
        with pytest.raises(NotFoundError):
            await blobs.get(short)
        assert await blobs.sweep() == 1
        assert await blobs.sweep() == 0
        assert await blobs.get(long) == b"long"
        assert (await blobs.put(b"short")).expires_at is None
        assert await blobs.get(short) == b"short"

    async def test_put_again_it_stays_for_the_longer_of_both_times(self, blobs: BlobStore) -> None:
        first = await blobs.put(b"tea", ttl=timedelta(days=2))
        assert (await blobs.put(b"tea", ttl=timedelta(days=1))).expires_at == first.expires_at
        assert (await blobs.put(b"tea")).expires_at is None
        assert (await blobs.put(b"tea", ttl=timedelta(days=1))).expires_at is None

    async def test_what_is_pinned_outlives_its_time_and_is_not_deleted(
        self, blobs: BlobStore, later: Callable[[], None]
    ) -> None:
        put = await blobs.put(b"tea", ttl=timedelta(milliseconds=1), pinned=True)
        await asyncio.to_thread(later)
        assert await blobs.sweep() == 0
        assert await blobs.get(put) == b"tea"
        with pytest.raises(InvalidRequestError):
            await blobs.delete(put)
        assert not (await blobs.unpin(put)).is_pinned
        assert await blobs.sweep() == 1
        with pytest.raises(NotFoundError):
            await blobs.pin(put)

    async def test_a_time_of_no_sense_is_refused(self, blobs: BlobStore) -> None:
        for wrong in (timedelta(0), timedelta(seconds=-1), 5):
            with pytest.raises(InvalidRequestError):
                await blobs.put(b"tea", ttl=wrong)  # type: ignore[arg-type]

    # Other handles

    async def test_it_has_a_url(self, blobs: BlobStore) -> None:
        put = await blobs.put(b"tea", content_type="text/plain")
        assert ":" in await blobs.url(put)
