"""`lance-ctx` about a store on an object store: what it says of a directory, and nothing is written."""

import pytest
from apps.test_cli import LOOKING

from lance_context_core import ContextStore

OF_THE_PLACE = {"status", "log", "erase", "thin", "doctor"}
"""What tells of files, of when versions were made, and of what is due."""


@pytest.fixture
def uri(s3_server, written, monkeypatch):
    """A copy of the store on the server, which the environment says how to reach."""
    there = s3_server.backend()
    with ContextStore.open(written, maintenance=None) as store:
        store.copy(there.uri, storage_options=there.storage_options)
    for name, value in there.storage_options.items():
        known = name.upper() if name.startswith("aws_") else f"AWS_{name.upper()}"
        monkeypatch.setenv(known, value)
    return there.uri


def test_what_looks_says_the_same_of_an_object_store_and_writes_nothing(ctx, uri, written):
    before = ctx("-C", uri, "--json", "log").out
    for command in LOOKING:
        ended = ctx("-C", uri, *command)
        assert (ended.code, "Traceback" in ended.err) == (0, False), (command, ended.err)
        if command[0] not in OF_THE_PLACE:
            there = ctx("-C", str(written), *command)
            assert ended.out == there.out, command
    assert ctx("-C", uri, "--json", "log").out == before


def test_a_place_on_an_object_store_that_is_none_is_not_found(ctx, uri):
    ended = ctx("-C", f"{uri}-elsewhere", "status")
    assert (ended.code, ended.out) == (3, "")
    assert "no store at" in ended.err
