"""What maintenance builds, and that nobody can tell from the answers that it was there."""

import asyncio
import os
import subprocess
import sys
import tempfile

import lancedb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_context_core import ContextStore, Document, InvalidRequestError, StorageError
from lance_context_core.settings import IndexPolicy

DIMENSION = 8
EAGER = IndexPolicy(scalar_rows=1, vector_rows=1)
IN_ONE_PIECE = IndexPolicy(scalar_rows=1, vector_rows=1, max_segments=1)


def vectors(n, *, seed=0):
    drawn = np.random.default_rng(seed).normal(size=(n, DIMENSION)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def documents(rows):
    return [
        Document(id=key, text=f"common word{i % 5}", embedding=row.tolist())
        for i, (key, row) in enumerate(rows.items())
    ]


def fill(collection, rows, *, start=0):
    """Add rows called d0, d1 and so on, in several fragments."""
    named = [(f"d{start + i}", row) for i, row in enumerate(rows)]
    for first in range(0, len(named), 200):
        collection.add(documents(dict(named[first : first + 200])))


def nearest(rows, query, k):
    """The numbers of the nearest rows, by brute force."""
    return [int(i) for i in np.argsort(-(rows @ query), kind="stable")[:k]]


def indexes_of(store, table):
    async def listed():
        connection = await lancedb.connect_async(store.uri)
        handle = await connection.open_table(table)
        return {index.columns[0]: index for index in await handle.list_indices()}

    return asyncio.run(listed())


@pytest.mark.slow
def test_an_index_that_was_split_as_it_grew_still_finds_the_nearest(tmp_path):
    rows = vectors(40_000)
    half = len(rows) // 2
    with ContextStore.open(tmp_path / "store", maintenance=None) as store:
        docs = store.vectors("docs")
        for start in (0, half):
            named = {f"d{start + i}": row for i, row in enumerate(rows[start : start + half])}
            docs.add(documents(named))
            store.maintain()
        assert indexes_of(store, "vectors.docs")["vector"].num_unindexed_rows == 0
        for query in vectors(20, seed=1):
            found = [hit.record.id for hit in docs.search(vector=query.tolist(), limit=10)]
            assert found == [f"d{number}" for number in nearest(rows, query, 10)]


@pytest.mark.slow
@pytest.mark.parametrize("n_deleted", [1, 15, 100])
def test_after_deletions_and_maintenance_a_search_still_finds_as_many_as_match(tmp_path, n_deleted):
    rows = vectors(3_000)
    query = rows[7]
    order = nearest(rows, query, len(rows))
    with ContextStore.open(tmp_path / "store") as store:
        docs = store.vectors("docs")
        for start in range(0, 3_000, 1_000):
            docs.add(
                [
                    # The nearer a row is, the shorter its text, and the better it matches.
                    Document(id=f"d{i}", text="word" + " and" * place, embedding=rows[i].tolist())
                    for i in range(start, start + 1_000)
                    for place in [min(order.index(i), 300)]
                ]
            )
            store.maintain(policy=IN_ONE_PIECE)
        docs.delete(ids=[f"d{i}" for i in order[:n_deleted]])
        store.maintain(policy=EAGER)

        expected = [f"d{i}" for i in order[n_deleted:][:10]]
        by_vector = docs.search(query.tolist(), mode="vector", limit=10)
        by_words = docs.search("word", mode="text", limit=10)
        assert [hit.record.id for hit in by_vector] == expected
        assert [hit.record.id for hit in by_words] == expected


def test_maintenance_builds_what_pays_at_the_size_of_a_table_and_nothing_before(tmp_path):
    policy = IndexPolicy(scalar_rows=300, vector_rows=500)
    rows = vectors(600)
    with ContextStore.open(tmp_path / "store") as store:
        docs = store.vectors("docs")
        for until, expected in (
            (200, set()),
            (400, {"key", "id"}),  # no row has an owner
            (600, {"vector"}),
        ):
            fill(docs, rows[until - 200 : until], start=until - 200)
            built = [
                column for done in store.maintain(policy=policy) for column in done.indexes_built
            ]
            assert set(built) == expected
        assert set(indexes_of(store, "vectors.docs")) == {"search_text", "key", "id", "vector"}
        assert all(i.num_unindexed_rows == 0 for i in indexes_of(store, "vectors.docs").values())


def test_rows_without_vectors_do_not_count_toward_a_vector_index(tmp_path):
    with ContextStore.open(tmp_path / "store") as store:
        docs = store.vectors("docs")
        docs.add([Document(id="with", text="a", embedding=[1.0, 0.0])])
        docs.add([Document(id=f"{i}", text="b") for i in range(20)])
        store.maintain(policy=IndexPolicy(scalar_rows=1_000, vector_rows=2))
        assert set(indexes_of(store, "vectors.docs")) == {"search_text"}


@pytest.mark.slow
def test_rows_without_vectors_join_a_table_with_a_large_vector_index(tmp_path):
    with ContextStore.open(tmp_path / "store", maintenance=None) as store:
        docs, rows = store.vectors("docs"), vectors(20_000)
        fill(docs, rows)
        store.maintain()
        docs.add([Document(id="without", text="no vector")])
        store.maintain()
        found = [hit.record.id for hit in docs.search(rows[7].tolist(), limit=10)]
        assert found == [f"d{i}" for i in nearest(rows, rows[7], 10)]


def test_a_vector_index_that_the_engine_cannot_fold_rows_into_is_made_anew(tmp_path, monkeypatch):
    # What it says of a large partition that it divides where the new rows have no vectors, which
    # depends on how the vectors happened to be divided before.
    failures = [RuntimeError("lance error: Not found: /tmp/.tmpS0j0jv/ivf_4.lance")]
    optimize = lancedb.table.AsyncTable.optimize

    async def failing(self, **options):
        if failures and "vectors.docs" in self.name:
            raise failures.pop()
        return await optimize(self, **options)

    with ContextStore.open(tmp_path / "store", maintenance=None) as store:
        docs, rows = store.vectors("docs"), vectors(400)
        fill(docs, rows)
        store.maintain(policy=EAGER)
        docs.add([Document(id="without", text="no vector")])
        monkeypatch.setattr(lancedb.table.AsyncTable, "optimize", failing)
        store.maintain(policy=EAGER)
        assert not failures
        assert indexes_of(store, "vectors.docs")["vector"].num_unindexed_rows == 0
        found = [hit.record.id for hit in docs.search(rows[7].tolist(), limit=10)]
        assert found == [f"d{i}" for i in nearest(rows, rows[7], 10)]
        failures.append(RuntimeError("lance error: Not found: /data/records.lance/data/1.lance"))
        with pytest.raises(StorageError):
            store.maintain(policy=EAGER)


@pytest.mark.slow
def test_an_index_in_too_many_pieces_is_made_anew(tmp_path):
    policy = IndexPolicy(scalar_rows=1, vector_rows=1, max_segments=3)
    with ContextStore.open(tmp_path / "store") as store:
        docs = store.vectors("docs")
        rows = vectors(400)
        for start in range(0, 400, 20):
            fill(docs, rows[start : start + 20], start=start)
            store.maintain(policy=policy)
            pieces = {c: i.num_segments for c, i in indexes_of(store, "vectors.docs").items()}
            assert max(pieces.values()) <= 3, pieces
        query = vectors(1, seed=1)[0]
        found = [hit.record.id for hit in docs.search(query.tolist(), limit=10)]
        assert found == [f"d{i}" for i in nearest(rows, query, 10)]


@pytest.mark.slow
@settings(
    max_examples=settings.default.max_examples // 4,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_answers_are_the_same_with_indexes_and_without(data):
    steps = st.lists(
        st.sampled_from(["add", "delete", "replace", "maintain"]), min_size=6, max_size=14
    )
    drawn = iter(vectors(2_000, seed=data.draw(st.integers(0, 5))))
    alive = {}
    with tempfile.TemporaryDirectory() as directory, ContextStore.open(directory) as store:
        docs = store.vectors("docs")
        for step in ["add", "maintain", *data.draw(steps)]:
            if step == "add":
                new = {
                    f"d{len(alive)}-{i}": next(drawn) for i in range(data.draw(st.integers(1, 60)))
                }
                alive |= new
                docs.upsert(documents(new))
            elif step == "delete" and len(alive) > 3:
                gone = sorted(alive)[:: data.draw(st.integers(2, 4))]
                docs.delete(ids=gone)
                alive = {key: row for key, row in alive.items() if key not in gone}
            elif step == "replace" and alive:
                new = {key: next(drawn) for key in sorted(alive)[::3]}
                alive |= new
                docs.upsert(documents(new))
            elif step == "maintain":
                store.maintain(policy=EAGER)
            query = next(drawn)
            keys = sorted(alive)
            best = nearest(np.array([alive[key] for key in keys]), query, 5)
            hits = docs.search(query.tolist(), mode="vector", limit=5)
            assert [hit.record.id for hit in hits] == [keys[i] for i in best]
            some = keys[:: max(len(keys) // 7, 1)]
            assert [document.id for document in docs.get(some)] == some
            assert docs.count() == len(alive)
            assert len(docs.search("common", mode="text", limit=1_000)) == len(alive)


def test_with_indexes_every_kind_of_change_still_works(tmp_path):
    with ContextStore.open(tmp_path / "store") as store:
        context = store.context()
        for i in range(5):
            context.add("user", f"text {i}", external_id=f"e{i}", metadata={"n": i})
        store.sessions.create("s", title="before")
        store.maintain(policy=EAGER)

        assert context.update(external_id="e1", metadata={"n": 10})["record"]["metadata"] == {
            "n": 10
        }
        upserted = context.upsert("user", "new text", external_id="e2", metadata={"n": 20})
        assert not upserted["inserted"]
        assert context.upsert("user", "text 9", external_id="e9")["inserted"]
        context.delete(external_id="e3")
        assert store.sessions.update("s", title="after").title == "after"
        assert {one["external_id"]: one["metadata"].get("n") for one in context.list()} == {
            "e0": 0, "e1": 10, "e2": 20, "e4": 4, "e9": None,
        }  # fmt: skip


@pytest.mark.parametrize("bad", [{"scalar_rows": 0}, {"vector_rows": "many"}, {"max_segments": -1}])
def test_a_policy_of_no_sense_is_refused(bad):
    ((name, value),) = bad.items()
    with pytest.raises(InvalidRequestError, match=f"{name}={value!r}"):
        IndexPolicy(**bad)


@pytest.mark.parametrize("said", ["", "7"], ids=["by default", "as the user says"])
def test_half_of_the_processors_make_an_index_of_words_unless_the_user_says(said):
    others = {name: value for name, value in os.environ.items() if name != "LANCE_FTS_NUM_SHARDS"}
    code = "import os, lance_context_core; print(os.environ['LANCE_FTS_NUM_SHARDS'])"
    told = subprocess.run(
        [sys.executable, "-c", code],
        env=others | ({"LANCE_FTS_NUM_SHARDS": said} if said else {}),
        capture_output=True,
        check=True,
        text=True,
    ).stdout.strip()
    assert told == (said or str(max((os.cpu_count() or 1) // 2, 1)))
