"""A store whose searches PostgreSQL answers, also where it is away, damaged or another release's."""

from datetime import timedelta
from random import Random
from uuid import uuid4

import pytest
from core.conformance.doubles import WordVectors
from postgres import PASSWORD, PostgresServer

from lance_context_core import ContextStore, Message
from lance_context_core.engines import (
    FIELDS,
    EngineRow,
    EngineState,
    MemoryEngine,
    PostgresEngine,
    SearchEngines,
)
from lance_context_core.errors import InvalidRequestError, StorageError

WORDS = [
    "cat",
    "dog",
    "bird",
    "tree",
    "house",
    "vase",
    "museum",
    "train",
    "running",
    "kite",
    "日本",
    "東京",
]
NEVER = timedelta(0)


@pytest.fixture
def open_store(tmp_path):
    opened = []

    def open_store(engine=None):
        given = None if engine is None else SearchEngines(text=engine, vector=engine, pause=NEVER)
        options = {"embedder": WordVectors(), "search_cache": None, "maintenance": None}
        opened.append((ContextStore.open(tmp_path, search_engines=given, **options), engine))
        return opened[-1][0]

    yield open_store
    for store, engine in opened:
        store.close()
        if engine is not None:
            engine.close()


def say(store, n):
    random = Random(n)
    texts = [" ".join(random.choices(WORDS, k=random.randrange(1, 8))) for _ in range(n)]
    return store.history.append_many("", [Message.user(text) for text in texts], session_id="s")


def answered(hits):
    return {name for hit in hits for name in hit.engines.values()}


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "hnsw"])
def test_it_finds_what_lancedb_finds_with_the_same_scores(open_store, postgres_server, exact):
    engine = PostgresEngine(postgres_server.address(), schema=f"s{uuid4().hex}", exact=exact)
    store, plain = open_store(engine), open_store()
    say(store, 60)
    store.maintain()
    for mode in ("hybrid", "vector", "text"):
        for query in ("cat", "running museum", "日本 kite"):
            found = store.search(query, mode=mode, limit=20)
            wanted = plain.search(query, mode=mode, limit=20)
            assert answered(found) == {"postgres"}
            assert [hit.score for hit in found] == pytest.approx(
                [hit.score for hit in wanted], abs=1e-4
            )


@pytest.mark.process
def test_a_server_that_is_away_is_said_and_the_store_goes_on(open_store):
    with PostgresServer() as server:
        engine = PostgresEngine(server.address())
        store, plain = open_store(engine), open_store()
        said = say(store, 20)
        store.maintain()
        assert answered(store.search("cat dog")) == {"postgres"}
        server.stop()
        for _ in range(2):
            found = store.search("cat dog")
            assert answered(found) == {"lancedb"}
            assert [hit.score for hit in found] == [hit.score for hit in plain.search("cat dog")]
        (told,) = store.stats().search_engines
        assert told.last_fallback.startswith("StorageError: the search engine 'postgres'")
        store.maintain()
        assert store.erase(ids=[said[0]]).engines_pending == ("postgres",)
        (told,) = store.stats().search_engines
        assert "cannot be reached" in told.last_error
        assert PASSWORD not in repr(told) + repr(engine) + repr(store)
        server.start()
        assert len(engine.revisions("records")) == 20
        assert store.erase(ids=[said[0]]).engines_pending == ()
        assert len(engine.revisions("records")) == 19
        assert answered(store.search("cat dog")) == {"postgres"}
        engine.close()


def test_tables_that_others_have_changed_are_made_anew_or_refused(open_store, postgres_server):
    schema = f"s{uuid4().hex}"
    engine = PostgresEngine(postgres_server.address(), schema=schema)
    store = open_store(engine)
    say(store, 20)
    store.maintain()
    for change in (
        "DELETE FROM {0}.rows_1 WHERE key IN (SELECT key FROM {0}.rows_1 LIMIT 3)",
        "TRUNCATE {0}.rows_1",
        "DROP TABLE {0}.rows_1",
        "DELETE FROM {0}.indexes",
    ):
        postgres_server.run(change.format(schema))
        assert answered(store.search("cat dog")) == {"lancedb"}
        store.maintain()
        assert answered(store.search("cat dog")) == {"postgres"}
        assert len(engine.revisions("records")) == 20
    postgres_server.run(f"UPDATE {schema}.indexes SET format = 99")
    assert answered(store.search("cat dog")) == {"lancedb"}
    store.maintain()
    (told,) = store.stats().search_engines
    assert "has format 99" in told.last_error
    assert "upgrade" in told.last_error


def test_another_store_with_the_same_schema_is_refused(open_store, postgres_server, tmp_path):
    engine = PostgresEngine(postgres_server.address(), schema=f"s{uuid4().hex}")
    store = open_store(engine)
    say(store, 5)
    store.maintain()
    given = SearchEngines(text=engine, pause=NEVER)
    with ContextStore.open(tmp_path / "other", search_engines=given, search_cache=None) as other:
        say(other, 7)
        other.maintain()
        (told,) = other.stats().search_engines
        assert "belongs to the store" in told.last_error
        assert answered(other.search("cat dog bird")) == {"lancedb"}
    assert len(engine.revisions("records")) == 5


def test_an_engine_for_words_alone_needs_no_pgvector(open_store, postgres_server):
    engine = PostgresEngine(postgres_server.address(), schema=f"s{uuid4().hex}", channels=["text"])
    store = open_store()
    say(store, 9)
    store.close()
    with pytest.raises(InvalidRequestError, match="searches text only"):
        SearchEngines(vector=engine)
    engine.clear("records", dimension=64)
    assert engine.state("records").n_rows == 0
    engine.close()


def test_what_is_no_address_is_refused_without_showing_it():
    for address in ("mysql://user:s3cret@host", 5, ""):
        with pytest.raises(InvalidRequestError) as refused:
            PostgresEngine(address)
        assert "s3cret" not in str(refused.value)
    with pytest.raises(InvalidRequestError, match="ef_search=1001"):
        PostgresEngine("postgresql://host/db", ef_search=1_001)
    with pytest.raises(InvalidRequestError, match="channels"):
        PostgresEngine("postgresql://host/db", channels=["sound"])
    with pytest.raises(StorageError, match="cannot be reached") as refused:
        PostgresEngine("postgresql://user:s3cret@127.0.0.1:1/db").tables()
    assert "s3cret" not in str(refused.value)


def row(key, random, **fields):
    words = random.choices(WORDS, k=random.randrange(1, 9)) + ["cat"] * random.randrange(3)
    known = dict.fromkeys(FIELDS) | fields
    return EngineRow(key=key, revision=1, words=words, vector=[1.0, random.random()], fields=known)


def test_words_are_ranked_by_the_statistics_of_the_rows_that_meet_the_conditions(postgres_server):
    random, model = Random(2), MemoryEngine()
    engine = PostgresEngine(postgres_server.address(), schema=f"s{uuid4().hex}")
    rows = [row(f"k{n}", random, tenant=random.choice(["a", "b", None])) for n in range(60)]
    for one in (engine, model):
        one.clear("records", dimension=2)
        one.write("records", puts=rows, position="1")
    for where in ({}, {"tenant": "a"}, {"tenant": None}):
        asked = {"where": where, "limit": 99}
        found, wanted = (
            one.match("records", ["cat", "museum", "cat"], **asked) for one in (engine, model)
        )
        scores = dict(zip(wanted.keys, wanted.scores, strict=True))
        assert dict(zip(found.keys, found.scores, strict=True)) == pytest.approx(scores, rel=1e-6)
    engine.close()


def test_a_write_that_fails_changes_nothing(postgres_server):
    random = Random(2)
    engine = PostgresEngine(postgres_server.address(), schema=f"s{uuid4().hex}")
    engine.clear("records", dimension=2)
    engine.write("records", puts=[row("a", random), row("b", random)], position="1")
    wrong = EngineRow(key="c", revision=1, vector=[1.0, 2.0, 3.0], fields={})
    with pytest.raises(StorageError, match="expected 2 dimensions"):
        engine.write("records", puts=[wrong], removes=["a"], position="2")
    assert engine.revisions("records") == {"a": 1, "b": 1}
    assert engine.state("records") == EngineState(position="1", n_rows=2, n_lost=0)
    engine.close()
