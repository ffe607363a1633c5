"""The example with a fleet runs, and tells what the page says."""

import pytest

import lance_context_core
from examples import folder_of, printed


@pytest.mark.process
def test_the_example_moves_searches_works_and_erases(tmp_path):
    told = printed("fleet.py", cwd=tmp_path, folders=[folder_of(lance_context_core)])
    assert "acme moved to shard acme-own" in told
    assert "48 hits of 3 tenants" in told
    assert "a worker flushed 5 shards" in told
    assert "erased 48 records" in told
