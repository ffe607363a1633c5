"""A table that is laid in batches is indexed once, and not written a second time."""

import time

import pyarrow as pa
import pytest

from lance_context_core import ContextStore
from lance_context_core.maintenance import maintenance

N = 33_000


def lay(store, first, n):
    ids = [f"e{one}" for one in range(first, first + n)]
    store.graph.add(pa.table({"id": ids, "name": ids}))


def indexes(path):
    return [one.name for one in (path / "graph.lance" / "_indices").glob("*")]


def data(path):
    return {one.name for one in (path / "graph.lance" / "data").glob("*.lance")}


@pytest.mark.parametrize("n_rows", [N, 1_500], ids=["large commits", "batches"])
def test_an_index_is_built_once_the_rows_have_all_come(tmp_path, monkeypatch, n_rows):
    monkeypatch.setattr(maintenance, "_QUIET_SECONDS", 1_000)
    monkeypatch.setattr(maintenance, "_MOST_QUIET_SECONDS", 1_000)
    with ContextStore.open(tmp_path) as store:
        for n in range(3):
            lay(store, n * n_rows, n_rows)
            time.sleep(0.2)
        assert indexes(tmp_path) == []
    # Closing ends the wait, and what is due is done.
    with ContextStore.open(tmp_path, maintenance=None) as store:
        (stats,) = [one for one in store.stats().tables if one.table == "graph"]
        assert (stats.due, stats.unindexed_rows, stats.rows) == ((), 0, 3 * n_rows)
        n_indexes = len(indexes(tmp_path))
        assert store.maintain()
        assert len(indexes(tmp_path)) == n_indexes


def test_an_empty_column_gets_an_index_with_its_first_value(tmp_path):
    with ContextStore.open(tmp_path, maintenance=None) as store:
        lay(store, 0, 3_000)
        (done,) = [one for one in store.maintain() if one.table == "graph"]
        assert {"key", "id", "node", "name_key", "kind"} == set(done.indexes_built)
        graph = store.scope(tenant="t").graph
        graph.add(pa.table({"name": [f"x{one}" for one in range(3_000)]}))
        (done,) = [one for one in store.maintain() if one.table == "graph"]
        assert "tenant" in done.indexes_built
        assert len(graph.entities()) == 3_000


@pytest.mark.parametrize(("n", "is_kept"), [(N, True), (3_000, False)])
def test_only_large_fragments_stay_as_they_are(tmp_path, n, is_kept):
    with ContextStore.open(tmp_path, maintenance=None) as store:
        for part in range(2):
            lay(store, part * n, n)
        before = data(tmp_path)
        store.maintain()
        assert (data(tmp_path) == before) is is_kept
        (stats,) = [one for one in store.stats().tables if one.table == "graph"]
        assert (stats.rows, stats.unindexed_rows) == (2 * n, 0)
        assert store.graph.get(f"e{2 * n - 1}").name == f"e{2 * n - 1}"
