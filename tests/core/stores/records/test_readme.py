"""The record API's README runs as it stands, save for the line that imports `Context`."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lance_context_core import Context, StorageError

PROGRAM = Path(__file__).with_name("snippets") / "record_api_readme.py"

BUCKET = {
    "aws_access_key_id": "minioadmin",
    "aws_secret_access_key": "minioadmin",
    "aws_region": "us-east-1",
    "aws_endpoint_url": "http://localhost:9000",
    "aws_allow_http": "true",
}
CLOUDS = {
    "s3://my-bucket/context.lance": BUCKET,
    "gs://my-bucket/context.lance": {
        "google_service_account_key": json.dumps({"type": "service_account", "private_key": "none"})
    },
    "az://my-container/context.lance": {
        "azure_storage_account_name": "...",
        "azure_storage_account_key": "...",
    },
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What the program saw, in a process and an empty directory of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", PROGRAM],
        cwd=tmp_path_factory.mktemp("empty"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def port_9000():
    """An S3 server where the README expects one, with the bucket that it expects."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", 9000))
        except OSError as error:
            pytest.fail(f"the README's S3 server needs port 9000 of this machine: {error}")
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "9000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _make_bucket(server, deadline=time.monotonic() + 60)
        yield
    finally:
        server.kill()
        server.wait()


def _make_bucket(server, *, deadline):
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", 9000, timeout=300)
        try:
            connection.request("PUT", "/my-bucket")
            assert connection.getresponse().status == 200
        except ConnectionError:
            assert server.poll() is None, "the S3 server ended by itself"
            assert time.monotonic() < deadline, "the S3 server does not answer"
            time.sleep(0.1)
        else:
            return
        finally:
            connection.close()


def test_a_turn_is_found_by_its_external_id(seen):
    turn = seen["turn"]
    assert (turn["role"], turn["content"]) == ("user", "Which coast is warm in March?")
    assert turn["content_type"] == "text/plain"
    assert turn["metadata"] == {
        "tenant": "acme",
        "scope": "holidays",
        "source_uri": "chat://chat-7",
        "tags": ["travel", "wish"],
    }


def test_records_are_filtered_by_columns_metadata_and_tags(seen):
    (record,) = seen["records"]
    assert record["content"] == "The on-call rota belongs to the storage crew."
    assert (record["bot_id"], record["session_id"]) == ("helper", "outage-9")


def test_a_search_shows_relationships_when_asked_to(seen):
    (hit,) = seen["hits"]
    assert hit["relationships"] == [
        {"target_id": "docs://rota", "relation": "cites", "weight": 0.92},
        {"target_id": "service://billing", "relation": "describes", "weight": None},
    ]


def test_records_are_found_from_what_they_point_at(seen):
    assert [one["id"] for one in seen["describing"]] == [seen["records"][0]["id"]]
    assert [one["content"] for one in seen["related_now"]] == [
        "The on-call rota belongs to the storage crew.",
        "First half of a handbook",
    ]


def test_a_hybrid_hit_says_by_which_channels_it_was_found(seen):
    channels, score = seen["best"]
    assert sorted(channels) == ["text", "vector"]
    assert 0 < score <= 1


def test_a_record_whose_vector_comes_later_is_searched_by_vector_from_then_on(seen):
    assert "handbook#page-1" not in seen["found_before"]
    assert "handbook#page-1" in seen["found_after"]
    (page,) = [one for one in seen["listed"] if one["external_id"] == "handbook#page-1"]
    assert page["metadata"] == {"embedding_status": "ready"}


def test_records_are_listed_in_the_order_in_which_they_were_added(seen):
    assert [(one["role"], one["content_type"]) for one in seen["listed"]] == [
        ("assistant", "text/plain"),
        ("assistant", "image/png"),
        ("source", "text/markdown"),
        ("source", "text/markdown"),
        ("source", "text/plain"),
    ]


def test_a_version_that_was_checked_out_has_what_it_had(seen):
    assert 0 < seen["version_with_image"] < seen["first_version"]
    assert seen["entries_before_checkout"] == 6
    assert seen["entries_after_checkout"] == 5


def test_compaction_merges_the_fragments_of_many_small_writes(seen):
    # Small writes that follow each other are folded into one fragment, others are one each.
    assert seen["removed"] >= seen["stats"]["total_fragments"] > 1
    assert seen["stats_after"]["total_fragments"] < 10
    assert seen["entries"] == 106


@pytest.mark.parametrize(("uri", "options"), CLOUDS.items())
def test_opening_an_object_store_keeps_its_options_and_connects_to_nothing(uri, options):
    with Context.create(uri, storage_options=options) as ctx:
        connection = ctx._aio._live.resources.database.connection
        assert (ctx.uri(), connection.storage_options) == (uri, options)
        assert connection._engine is None


@pytest.mark.parametrize("uri", [uri for uri in CLOUDS if not uri.startswith("s3")])
def test_credentials_that_are_none_are_refused_at_the_first_use(uri):
    with (
        Context.create(uri, storage_options=CLOUDS[uri]) as ctx,
        pytest.raises(StorageError, match=uri),
    ):
        ctx.add("user", "Which coast is warm in March?")


@pytest.mark.usefixtures("port_9000")
def test_a_bucket_keeps_records_for_the_next_process():
    uri = "s3://my-bucket/context.lance"
    with Context.create(uri, storage_options=BUCKET) as ctx:
        ctx.add("user", "Which coast is warm in March?", external_id="turn-1")
    program = (
        "import json, os; from lance_context_core import Context;"
        f"ctx = Context.create({uri!r}, storage_options=json.loads(os.environ['BUCKET']));"
        "print(ctx.get(external_id='turn-1')['content'], ctx.entries())"
    )
    said = subprocess.check_output(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "BUCKET": json.dumps(BUCKET)},
        text=True,
        timeout=300,
    )
    assert said == "Which coast is warm in March? 1\n"
