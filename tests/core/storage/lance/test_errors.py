"""What the engine says when something fails, and which error of the store it becomes.

The engine tells its failures apart by their texts alone: each is provoked here, so that a release
of the engine with other texts is noticed.
"""

import asyncio
import errno
import os
import urllib.request

import lancedb
import pyarrow as pa
import pytest
from core.conformance.backends import S3Server

from lance_context_core import (
    AlreadyExistsError,
    AsyncContextStore,
    ConflictError,
    ContextStoreError,
    InvalidRequestError,
    Message,
    NotFoundError,
    ReadOnlyError,
    StorageError,
)
from lance_context_core.errors import InternalError
from lance_context_core.storage.lance.errors import meaning, translated

# Nothing listens there: connecting fails at once.
NOWHERE = "http://127.0.0.1:1"
IMPATIENT = {
    "timeout": "2s",
    "connect_timeout": "2s",
    "client_max_retries": "0",
    "client_retry_timeout": "1",
    "allow_http": "true",
}
S3_KEYS = {
    "aws_region": "us-east-1",
    "aws_access_key_id": "test",
    "aws_secret_access_key": "test",
}


async def read(store):
    return await store.history.get_messages("a", session_id="s")


async def write(store):
    return await store.history.append("a", Message.user("more", id="more"), session_id="s")


async def failure(work):
    """The error that `work` ends with, which has the engine's as its cause."""
    with pytest.raises(ContextStoreError) as caught:
        await work
    error = caught.value
    assert error.__cause__ is not None
    assert not isinstance(error.__cause__, ContextStoreError)
    return error


def assert_is(error, kind, *says):
    assert type(error) is kind, repr(error)
    assert len(str(error)) < 700
    for part in says:
        assert part in str(error)


# Places


UNREACHABLE = {
    "s3://bucket/store": {"aws_endpoint": NOWHERE, **S3_KEYS},
    "az://container/store": {
        "azure_storage_endpoint": f"{NOWHERE}/account",
        "azure_storage_account_name": "account",
        "azure_storage_account_key": "a2V5",
    },
    "gs://bucket/store": {
        "google_service_account_key": '{"gcs_base_url": "http://127.0.0.1:1", "private_key": "", '
        '"private_key_id": "", "client_email": "", "disable_oauth": true}'
    },
}


async def test_an_object_store_that_does_not_answer_is_a_storage_error():
    async def call(uri, verb):
        options = UNREACHABLE[uri] | IMPATIENT
        error = await failure(verb(AsyncContextStore.open(uri, storage_options=options)))
        assert_is(error, StorageError, f"cannot open {uri!r}", "can be reached", "refused")

    # At once, because each is tried for some seconds.
    await asyncio.gather(*(call(uri, verb) for uri in UNREACHABLE for verb in (read, write)))


async def test_a_bucket_that_does_not_exist_is_a_storage_error(s3_server):
    options = {"aws_endpoint": s3_server.endpoint, **S3_KEYS, **IMPATIENT}
    stores = [AsyncContextStore.open("s3://none/x", storage_options=options) for _ in range(2)]
    for error in await asyncio.gather(failure(read(stores[0])), failure(write(stores[1]))):
        assert_is(
            error, StorageError, "'s3://none/x'", "the bucket does not exist: create it first"
        )


async def test_keys_that_the_object_store_does_not_know_are_a_storage_error(s3_server):
    backend = s3_server.backend()
    store = AsyncContextStore.open(
        backend.uri, storage_options={**backend.storage_options, **IMPATIENT}
    )
    with unknown_keys(s3_server):
        error = await failure(read(store))
    assert_is(error, StorageError, backend.uri, "permission denied", "storage_options")


class unknown_keys:  # noqa: N801 - reads as what it is
    """The server refuses all keys inside the block."""

    def __init__(self, server: S3Server) -> None:
        self._url = f"{server.endpoint}/moto-api/reset-auth"

    def __enter__(self):
        self._allow(0)

    def __exit__(self, *_):
        self._allow(2**62)

    def _allow(self, n_requests: int) -> None:
        request = urllib.request.Request(  # noqa: S310 - our own
            self._url, data=f"{n_requests}".encode(), headers={"Content-Type": "text/plain"}
        )
        urllib.request.urlopen(request).close()  # noqa: S310


@pytest.mark.parametrize("uri", ["s3://", "az://container/x"])
async def test_a_uri_that_names_no_storage_is_refused(uri):
    error = await failure(write(AsyncContextStore.open(uri, storage_options=IMPATIENT)))
    assert_is(error, InvalidRequestError, f"cannot open {uri!r}", "give a directory")


# The system


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EDQUOT, "disk is full"),
        (errno.EACCES, "permission denied"),
        (errno.EPERM, "permission denied"),
        (errno.EROFS, "permission denied"),
        (errno.ENOTDIR, "name another directory"),
        (errno.EFBIG, "raise the limit"),
        (errno.EIO, "the storage failed"),
        (errno.ESTALE, "the storage failed"),
    ],
    ids=lambda value: errno.errorcode.get(value) if isinstance(value, int) else "",
)
def test_what_the_system_says_is_understood_in_both_forms_that_the_engine_gives_it(number, says):
    # How the engine's language prints an error of the system, for people and for programmers.
    for text in (
        f"LanceError(IO): {os.strerror(number)} (os error {number})",
        f'LanceError(IO) Os {{ code: {number}, kind: X, message: "{os.strerror(number)}" }}',
    ):
        assert_is(
            meaning(OSError(text), "write"), StorageError, "cannot write", says, text[-40:-15]
        )


# Tables and versions, through the engine itself

SCHEMA = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("n", pa.int64())])


async def of_a_table_that_exists(connection):
    await connection.create_table("t", schema=SCHEMA)


async def of_a_table_that_does_not(connection):
    await connection.open_table("none")


async def of_a_version_that_does_not(connection):
    await connection.open_table("t", version=99)


async def of_a_tag_that_exists(connection):
    tags = (await connection.open_table("t")).tags
    await tags.create("x", 1)
    await tags.create("x", 1)


async def of_a_tag_that_does_not(connection):
    await (await connection.open_table("t")).tags.update("none", 1)


async def of_checking_out_a_tag_that_does_not(connection):
    await (await connection.open_table("t")).checkout("none")


async def of_a_tag_of_a_version_that_does_not(connection):
    await (await connection.open_table("t")).tags.create("x", 99)


async def of_writing_into_the_past(connection):
    table = await connection.open_table("t", version=1)
    await table.add([{"key": "a", "n": 1}])


async def of_two_new_columns_at_once(connection):
    tables = [await connection.open_table("t") for _ in range(2)]
    for n, table in enumerate(tables):
        await table.add_columns(pa.field(f"c{n}", pa.int64()))


async def of_an_append_onto_a_restored_table(connection):
    table, other = [await connection.open_table("t") for _ in range(2)]
    await other.restore(1)
    await table.add([{"key": "a", "n": 1}])


async def of_an_append_of_a_column_that_is_gone(connection):
    await (await connection.open_table("t")).add([{"key": "a", "n": 1, "gone": 1}])


async def of_a_merge_of_a_column_that_is_gone(connection):
    merge = (await connection.open_table("t")).merge_insert("key").when_not_matched_insert_all()
    await merge.execute([{"key": "a", "n": 1, "gone": 1}])


async def of_a_condition_that_is_none(connection):
    await (await connection.open_table("t")).count_rows("n = 'connection refused (os error 28)")


async def of_a_column_that_does_not(connection):
    await (await connection.open_table("t")).count_rows("none = 'Table t was not found'")


async def of_a_condition_of_another_type(connection):
    await (await connection.open_table("t")).count_rows("n = 'permission denied'")


async def of_a_number_that_is_too_large(connection):
    await (await connection.open_table("t")).query().limit(2**62).to_list()


FAILURES = [
    (of_a_table_that_exists, AlreadyExistsError, "choose another name"),
    (of_a_table_that_does_not, NotFoundError, "no such table"),
    (of_a_version_that_does_not, NotFoundError, "no such version or tag"),
    (of_a_tag_that_exists, AlreadyExistsError, "choose another name"),
    (of_a_tag_that_does_not, NotFoundError, "no such version or tag"),
    (of_checking_out_a_tag_that_does_not, NotFoundError, "no such version or tag"),
    (of_a_tag_of_a_version_that_does_not, NotFoundError, "no such version or tag"),
    (of_writing_into_the_past, ReadOnlyError, "write through the store itself"),
    (of_two_new_columns_at_once, ConflictError, "try again"),
    (of_an_append_onto_a_restored_table, ConflictError, "try again"),
    (of_an_append_of_a_column_that_is_gone, ConflictError, "try again"),
    (of_a_merge_of_a_column_that_is_gone, ConflictError, "try again"),
    (of_a_condition_that_is_none, InternalError, "does not understand the condition"),
    (of_a_column_that_does_not, InternalError, "does not understand the condition"),
    (of_a_condition_of_another_type, InternalError, "does not understand the condition"),
    (of_a_number_that_is_too_large, InternalError, "OverflowError"),
]


@pytest.mark.parametrize(
    ("work", "kind", "says"), FAILURES, ids=[work.__name__ for work, _, _ in FAILURES]
)
async def test_the_engine_s_word(work, kind, says):
    connection = await lancedb.connect_async("memory://")
    table = await connection.create_table("t", schema=SCHEMA)
    await table.add([{"key": "k", "n": 0}])

    async def act():
        with translated("do 'that'"):
            await work(connection)

    assert_is(await failure(act()), kind, "cannot do 'that'", says)


# The translation itself


@pytest.mark.parametrize(
    "error",
    [
        StopIteration("value"),
        StopAsyncIteration(),
        OverflowError("too large"),
        TypeError("of another type"),
        KeyError("name"),
        pa.ArrowInvalid("no such array"),
        pa.ArrowNotImplementedError("not yet"),
        RecursionError("too deep"),
    ],
)
def test_whatever_fails_inside_the_block_is_an_error_of_the_store(error):
    with pytest.raises(InternalError) as caught, translated("do 'that'"):
        raise error
    assert caught.value.__cause__ is error
    assert_is(caught.value, InternalError, "cannot do 'that'", type(error).__name__, str(error))


def test_an_iterator_that_ends_inside_the_block_does_not_end_the_caller_s_loop():
    def numbers():
        yield 1
        with translated("go on"):
            next(iter(()))
        yield 2

    with pytest.raises(InternalError, match="cannot go on"):
        list(numbers())


@pytest.mark.parametrize(
    "error", [ConflictError("c"), asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(3)]
)
def test_errors_of_the_store_and_interrupts_pass_as_they_are(error):
    with pytest.raises(type(error)) as caught, translated("do 'that'"):
        raise error
    assert caught.value is error
    assert error.__cause__ is None


def test_a_long_text_is_read_whole_and_shown_by_its_beginning_and_its_end():
    source = "/root/.cargo/registry/src/index-1949/lance-13.0.0/src/dataset.rs:775:26"
    text = f"lance error: first {'x' * 5_000} NoSuchBucket {'y' * 5_000} last, {source}"
    error = meaning(RuntimeError(text), "open 'x'")
    assert_is(
        error, StorageError, "the bucket does not exist", "lance error: first xxx", "yyy last)"
    )
    assert ".rs" not in str(error)


def test_a_directory_called_like_the_engine_s_sources_is_shown():
    error = meaning(RuntimeError("LanceError(IO): /data/registry/src/store is gone, a.rs:1:2"), "x")
    assert_is(error, StorageError, "/data/registry/src/store is gone)")
