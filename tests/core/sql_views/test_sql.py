"""SQL finds what the records API finds, of any moment, and can do nothing else."""

import asyncio
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from core.conformance.doubles import ManualClock, WordVectors

from lance_context_core import (
    AsyncContextStore,
    ContextStore,
    Document,
    InvalidRequestError,
    Item,
    Message,
    NotFoundError,
)
from lance_context_core.graph import Entity, Mention, Relation, Statement
from lance_context_core.storage.lance import reads

WORDS = ("soup", "tea", "rain", "Oslo", "it's", "100%", "naïve", "", "a\tb")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """A store of several users, on a directory; part of it is in the journal alone."""
    clock = ManualClock(BEGIN)
    chance = random.Random(5)
    with ContextStore.open(tmp_path_factory.mktemp("sql") / "memory", clock=clock) as store:

        def say(n, start=0):
            store.context().add_many(
                [
                    {
                        "role": chance.choice(["user", "assistant"]),
                        "content": " ".join(chance.choices(WORDS, k=3)),
                        "id": f"r{i}",
                        "session_id": f"s{i % 4}",
                        "user_id": chance.choice(["ada", "bob", None]),
                        "tags": chance.choice([None, ["x"], ["x", "y"]]),
                        "metadata": chance.choice([{}, {"n": i}, {"n": None, "who": {"a": "b"}}]),
                        "created_at": BEGIN + timedelta(hours=i),
                    }
                    for i in range(start, start + n)
                ]
            )

        say(40)
        store.tag("monday")
        store.create_branch("try")
        store.branch("try").memory.add(["likes soup"], user_id="ada")
        store.flush()
        say(30, 40)
        store.context().forget(id="r3")
        yield store


COLUMNS = ("id", "kind", "role", "session_id", "user_id", "text", "tags", "metadata", "created_at")


def copied(store):
    """All messages, as a table that no code under test has made."""
    rows = store.context().list(filters={"kind": "message"})
    cells = [
        {name: row[name] for name in COLUMNS} | {"metadata": json.dumps(row["metadata"])}
        for row in rows
    ]
    schema = {name: pa.string() for name in COLUMNS} | {
        "tags": pa.list_(pa.string()),
        "created_at": pa.timestamp("us", "UTC"),
    }
    return pa.Table.from_pylist(cells, schema=pa.schema(list(schema.items())))


@pytest.fixture(scope="module")
def copy(lived):
    return copied(lived)


def answer(table, query):
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("messages", table)
        return connection.sql(query).to_arrow_table().to_pylist()


QUERIES = [
    "SELECT count(*) n FROM messages",
    "SELECT id FROM messages WHERE id = 'r7' ORDER BY id",
    "SELECT id FROM messages WHERE id IN ('r7', 'r60', 'r3', 'nobody') ORDER BY id",
    "SELECT id FROM messages WHERE id > 'r5' AND id <= 'r60' ORDER BY id",
    "SELECT id FROM messages WHERE user_id IS NULL ORDER BY id",
    "SELECT id FROM messages WHERE user_id IS NOT NULL AND role = 'user' ORDER BY id",
    "SELECT id FROM messages WHERE user_id = 'ada' OR session_id = 's1' ORDER BY id",
    "SELECT id FROM messages WHERE user_id <> 'ada' ORDER BY id",
    "SELECT id FROM messages WHERE user_id NOT IN ('ada') ORDER BY id",
    "SELECT id FROM messages WHERE NOT (user_id = 'ada' AND role = 'user') ORDER BY id",
    "SELECT id FROM messages WHERE coalesce(user_id, 'x') = 'x' ORDER BY id",
    "SELECT id FROM messages WHERE text LIKE '%it''s%' ORDER BY id",
    "SELECT id FROM messages WHERE text LIKE 'soup%' ORDER BY id",
    "SELECT id FROM messages WHERE text ILIKE '%OSLO%' ORDER BY id",
    "SELECT id FROM messages WHERE text = 'naïve 100% it''s' ORDER BY id",
    "SELECT id FROM messages WHERE length(text) > 12 ORDER BY id",
    "SELECT id FROM messages WHERE 'y' = ANY(tags) ORDER BY id",
    "SELECT id, len(tags) n FROM messages WHERE tags <> [] ORDER BY id",
    "SELECT unnest(tags) tag, count(*) n FROM messages GROUP BY 1 ORDER BY 1",
    "SELECT id FROM messages WHERE (metadata->>'n')::INT > 20 ORDER BY id",
    "SELECT id FROM messages WHERE (metadata->'who'->>'a') = 'b' ORDER BY id",
    "SELECT id FROM messages WHERE created_at > TIMESTAMPTZ '2026-01-02 03:00+01' ORDER BY id",
    "SELECT id FROM messages WHERE created_at BETWEEN '2026-01-01 05:00Z' AND '2026-01-02 00:00Z' ORDER BY id",
    "SELECT date_trunc('day', created_at) d, count(*) n FROM messages GROUP BY 1 ORDER BY 1",
    "SELECT session_id, count(*) n FROM messages GROUP BY ALL HAVING n > 16 ORDER BY 1",
    "SELECT a.id, b.id FROM messages a JOIN messages b ON a.id = b.id WHERE a.role = 'user' ORDER BY 1",
    "SELECT id FROM messages m WHERE EXISTS (FROM messages o WHERE o.text = m.text AND o.id < m.id) ORDER BY 1",
    "SELECT id, row_number() OVER (PARTITION BY session_id ORDER BY created_at) n FROM messages ORDER BY 1",
    "SELECT id, text FROM messages ORDER BY created_at DESC LIMIT 5",
    "WITH few AS (FROM messages WHERE id < 'r2') SELECT role, count(*) n FROM few GROUP BY 1 ORDER BY 1",
    "SELECT DISTINCT role FROM messages WHERE session_id = 's1' UNION SELECT 'x' ORDER BY 1",
    "SELECT id FROM messages WHERE id = 'r7' AND id = 'r8'",
    "SELECT id FROM messages WHERE NULL = id",
    "SELECT max(created_at) m, min(id) i FROM messages WHERE user_id = 'bob'",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_finds_what_it_finds_in_a_full_copy(lived, copy, query):
    assert lived.sql(query).to_pylist() == answer(copy, query)


@pytest.mark.parametrize("moment", ["monday", "try"])
def test_a_query_of_a_moment_finds_what_it_finds_in_a_copy_of_then(lived, moment):
    then = copied(lived.checkout(moment))
    for query in QUERIES[::5]:
        expected = answer(then, query)
        assert lived.sql(query, at=moment).to_pylist() == expected
        assert lived.checkout(moment).sql(query).to_pylist() == expected
    query = f"SELECT id FROM messages m AT (VERSION => '{moment}') WHERE m.role = 'user' ORDER BY 1"
    assert lived.sql(query).to_pylist() == answer(
        then, query.split(" AT ")[0] + " WHERE m.role = 'user' ORDER BY 1"
    )


def test_two_moments_are_compared_in_one_statement(lived):
    new = lived.sql(
        "SELECT id FROM messages EXCEPT SELECT id FROM messages AT (VERSION => 'monday')"
    )
    told = lived.sql("SELECT id FROM diff('monday') WHERE change = 'added'")
    found = lived.diff("monday")
    assert {*new["id"].to_pylist()} == {one.id for one in found.added} == {*told["id"].to_pylist()}
    gone = lived.sql("SELECT id, before FROM diff('monday', 'main') d WHERE d.change = 'removed'")
    assert gone.to_pylist() == [{"id": one.id, "before": one.text} for one in found.removed]
    when = BEGIN.isoformat()
    with pytest.raises(NotFoundError):
        lived.sql(f"FROM messages AT (TIMESTAMP => '{when}')")
    with pytest.raises(NotFoundError, match="no-such"):
        lived.sql("FROM messages AT (VERSION => 'no-such')")


def test_each_family_has_its_views(tmp_path):
    options = {"embedder": WordVectors(), "clock": ManualClock()}
    with ContextStore.open(tmp_path / "memory", **options) as store:
        store.history.append("bot", Message.user("I live in Oslo.", id="m"), session_id="s")
        store.sessions.update("s", title="first")
        [memory] = store.memory.add(["likes tea"], user_id="ada")
        store.knowledge.add("I like rain.", user_id="ada")
        store.documents.add(b"Soup is hot.", name="soup.txt")
        store.kv("box").put([Item(key="k", namespace=("a", "b"), value={"n": 1}, data=b"x")])
        store.vectors("shelf").add([Document(id="d", text="book")])
        one = {
            view: store.sql(f"SELECT * FROM {view}").to_pylist()
            for view in (
                "sessions",
                "memories",
                "facts",
                "documents",
                "passages",
                "items",
                "vectors",
                "jobs",
            )
        }
        described = [row for row in one["sessions"] if row["id"] == "s"]
        assert [(row["title"], row["n_messages"]) for row in described] == [("first", 1)]
        assert [(row["collection"], row["text"]) for row in one["vectors"]] == [("shelf", "book")]
        assert [row["id"] for row in one["memories"]] == [memory]
        assert [row["text"] for row in one["facts"]] == ["I like rain."]
        assert [row["name"] for row in one["documents"]] == ["soup.txt"]
        assert [row["text"] for row in one["passages"]] == ["Soup is hot."]
        assert [(row["store"], row["item_key"], row["namespace"]) for row in one["items"]] == [
            ("box", "k", ["a", "b"])
        ]
        assert [row["kind"] for row in one["jobs"]] == ["extract"]
        for name in store.tables.names():
            got = store.sql(f"SELECT * FROM {name}")
            assert sorted(map(str, got.to_pylist())) == sorted(
                map(str, store.tables.read(name).to_pylist())
            )
        numbers = store.sql("SELECT number FROM versions ORDER BY 1")["number"].to_pylist()
        assert numbers == [one.number for one in store.versions()]


def test_the_graph_is_asked_as_it_is_and_as_it_was(tmp_path):
    with ContextStore.open(tmp_path) as store:
        ada, tea = store.graph.add_entities(
            [Entity(name="Ada", type="person", properties={"born": 1815}), Entity(name="tea")]
        )
        store.graph.add_relations(
            [
                Relation(source_id=ada.id, target_id=tea.id, type="likes", weight=0.5),
                Relation(source_id=tea.id, target_id=ada.id, type="wakes", valid_from=BEGIN),
            ]
        )
        store.graph.add_mentions(
            [Mention(entity_id=ada.id, source_id="m1", text="Ada", start=3, end=6)]
        )
        store.graph.statements.add(
            [Statement(subject_id=ada.id, predicate="home", object="Oslo", source_ids=["m1"])]
        )
        store.tag("then")
        store.graph.delete_entity(tea.id)

        def rows(query):
            return [tuple(row.values()) for row in store.sql(query).to_pylist()]

        joined = (
            "SELECT a.name AS one, r.type, r.weight, b.name AS other FROM relations r "
            "JOIN entities a ON a.id = r.source_id JOIN entities b ON b.id = r.target_id "
            "ORDER BY r.type"
        )
        assert rows(joined) == []
        assert [tuple(row.values()) for row in store.sql(joined, at="then").to_pylist()] == [
            ("Ada", "likes", 0.5, "tea"),
            ("tea", "wakes", None, "Ada"),
        ]
        assert rows("SELECT name, properties->>'born' FROM entities") == [("Ada", "1815")]
        assert rows('SELECT text, start, "end" FROM mentions') == [("Ada", 3, 6)]
        assert rows("SELECT predicate, object, source_ids FROM statements") == [
            ("home", "Oslo", ["m1"])
        ]
        assert store.scope(user_id="bob").sql("SELECT * FROM entities").num_rows == 0


def test_vectors_and_bytes_are_there_if_they_are_named(tmp_path):
    with ContextStore.open(tmp_path / "memory", embedder=WordVectors()) as store:
        store.context().add("user", b"bytes", content_type="image/png", id="b")
        store.memory.add([Message.user("tea", id="t")], user_id="ada")
        columns = store.sql("SELECT * FROM records").column_names
        assert {"embedding", "blob", "search_text", "revision", "key"} & {*columns} == set()
        rows = store.sql("SELECT id, blob, len(embedding) n FROM records ORDER BY 1").to_pylist()
        assert rows == [
            {"id": "b", "blob": b"bytes", "n": None},
            {"id": "t", "blob": None, "n": 64},
        ]
        store.flush()
        rows = store.sql("SELECT id, embedding FROM records WHERE id = 't'").to_pylist()
        assert rows[0]["embedding"] == pytest.approx(WordVectors().embed_query("tea").tolist())


def test_what_another_writes_is_found_at_once_and_what_is_hidden_never(tmp_path):
    clock = ManualClock()
    mine, theirs = (ContextStore.open(tmp_path / "memory", clock=clock) for _ in range(2))
    with mine as store, theirs as other:
        other.memory.add([Message.user("one", id="one")], user_id="ada")
        assert store.sql("SELECT id FROM memories").to_pylist() == [{"id": "one"}]
        other.context().add("user", "two", id="two", expires_at=clock.now() + timedelta(hours=1))
        other.context().add("user", "three", id="three", lifecycle_status="archived")
        assert store.sql("SELECT id FROM records ORDER BY 1").to_pylist() == [
            {"id": "one"},
            {"id": "two"},
        ]
        clock.advance(hours=2)
        other.context().forget(id="one")
        assert store.sql("SELECT id FROM records").to_pylist() == []


HOSTILE = [
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP VIEW messages",
    "INSERT INTO messages VALUES (1)",
    "WITH x AS (INSERT INTO messages VALUES (1) RETURNING 1) FROM x",
    "DELETE FROM messages",
    "UPDATE messages SET text = ''",
    "DROP VIEW messages",
    "CREATE TABLE x AS SELECT * FROM messages",
    "COPY messages TO '{file}'",
    "COPY (SELECT 1) TO '{file}'",
    "EXPORT DATABASE '{file}'",
    "ATTACH '{file}' AS x",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "SELECT * FROM '{file}'",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_json('{file}')",
    "SELECT * FROM parquet_scan('{file}')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('messages')",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM python_map_function(1, 2, 3)",
    "SELECT getenv('HOME')",
    "SELECT * FROM secret_of_the_caller",
    "SELECT (SELECT content FROM read_text('{file}'))",
    "SELECT /* */ * FROM messages -- ; \n; DELETE FROM messages",
    "VACUUM",
    "CHECKPOINT",
    "EXECUTE x",
    "BEGIN",
    "",
    "   ",
    "nonsense",
    "SELECT * FROM sessions AT (VERSION => (SELECT 1))",
    "SELECT * FROM nowhere AT (VERSION => 1)",
    "SELECT * FROM diff(1, 2, 3)",
]


@pytest.mark.parametrize("query", HOSTILE)
def test_what_does_more_than_read_the_store_is_refused(lived, tmp_path, query):
    secret_of_the_caller = pa.table({"a": [1]})  # noqa: F841 - by its name it must not be found
    file = tmp_path / "secret.csv"
    file.write_text("a\nb\n")
    before = lived.version()
    with pytest.raises(InvalidRequestError):
        lived.sql(query.replace("{file}", str(file)))
    assert [one.name for one in tmp_path.iterdir()] == ["secret.csv"]
    assert file.read_text() == "a\nb\n"
    assert lived.version() == before


@pytest.mark.slow
def test_a_scope_sees_nobody_elses_by_any_query(lived):
    ada = lived.scope(user_id="ada")
    chance = random.Random(7)
    views = ["messages", "memories", "records", "sessions", "agent_l2_raw", "diff('monday')"]
    mine = {one["id"] for one in ada.context().list()}
    others = {one["id"] for one in lived.context().list()} - mine
    assert mine
    assert others
    for _ in range(100):
        view = chance.choice(views[:3])
        condition = chance.choice(
            ["true", "user_id = 'bob'", "user_id IS NULL", "1 = 1 OR user_id <> 'ada'"]
            + [f"id = '{one}'" for one in chance.sample(sorted(others), 2)]
        )
        moment = chance.choice(["", " AT (VERSION => 'monday')", " AT (VERSION => 'main')"])
        found = ada.sql(f"SELECT id, user_id FROM {view}{moment} WHERE {condition}").to_pylist()
        assert {one["id"] for one in found} & others == set()
        assert {one["user_id"] for one in found} <= {"ada"}
    for view in views:
        told = ada.sql(f"SELECT * FROM {view}").to_pylist()
        assert [one for one in told if one.get("user_id") not in (None, "ada")] == []
        ids = {one.get("id") or one.get("raw_id") for one in told}
        assert ids & others == set()


def test_an_endless_query_ends_at_its_time_and_the_next_one_works(lived):
    endless = "SELECT count(*) FROM range(100000000000) a, range(100000000000) b"
    with pytest.raises(InvalidRequestError, match="timeout_seconds"):
        lived.sql(endless, timeout_seconds=0.2)
    assert lived.sql("SELECT 1 one").to_pylist() == [{"one": 1}]


@pytest.mark.slow
def test_too_much_for_the_memory_is_an_error_and_no_more(lived):
    with pytest.raises(InvalidRequestError, match="emory"):
        lived.sql("SELECT list(a) FROM range(1000000000) t(a)")
    assert lived.sql("SELECT 1 one").num_rows == 1


def test_parameters_are_values_and_never_sql(lived):
    hostile = "' OR 1 = 1 --"
    assert lived.sql("SELECT id FROM messages WHERE id = ?", parameters=[hostile]).num_rows == 0
    assert (
        lived.sql("SELECT id FROM messages WHERE id = $id", parameters={"id": "r7"}).num_rows == 1
    )
    moment = "SELECT id FROM messages AT (VERSION => 'monday') WHERE id = $id"
    assert lived.sql(moment, parameters={"id": "r7"}).num_rows == 1
    with pytest.raises(InvalidRequestError):
        lived.sql("SELECT id FROM messages WHERE id = ?")


def test_no_more_rows_are_returned_than_asked_for(lived):
    assert lived.sql("SELECT id FROM messages", max_rows=3).num_rows == 3


@pytest.mark.parametrize(
    "limits",
    [
        *(
            {"timeout_seconds": one}
            for one in (0, -1, float("nan"), float("inf"), 1e300, True, "5")
        ),
        *({"max_rows": one} for one in (-1, 1.5, True, "5")),
    ],
    ids=lambda one: " ".join(f"{name}={value!r}" for name, value in one.items()),
)
def test_a_limit_that_is_none_is_named(lived, limits):
    with pytest.raises(InvalidRequestError, match=f"^{next(iter(limits))}="):
        lived.sql("SELECT id FROM messages", **limits)
    assert lived.sql("SELECT id FROM messages", timeout_seconds=None, max_rows=0).num_rows == 0


def test_conditions_and_columns_reach_the_engine(lived, monkeypatch):
    asked = []
    stream = reads.stream

    def noted(handle, where, columns, batch_rows):
        asked.append((where, columns))
        return stream(handle, where, columns, batch_rows)

    monkeypatch.setattr(reads, "stream", noted)
    lived.sql(
        "SELECT text FROM messages WHERE id IN ('r7', 'r8') AND created_at > '2026-01-01 00:00Z'"
    )
    [(where, columns)] = asked
    assert {*columns} == {"id", "text", "created_at"}
    assert "`id` IN ('r7', 'r8')" in where
    assert "`created_at` > " in where


def test_vectors_and_blobs_are_not_read_unless_they_are_named(tmp_path):
    n, size, draw = 40, 250_000, random.Random(1)
    records = [
        {
            "role": "user",
            "content": draw.randbytes(size),
            "content_type": "image/png",
            "embedding": [draw.random() for _ in range(2_000)],
        }
        for _ in range(n)
    ]
    with ContextStore.open(tmp_path / "memory", journal=None) as store:
        store.context().add_many(records)

    def n_read(query):
        with ContextStore.open(tmp_path / "memory", maintenance=None) as store:
            before = _bytes_read()
            assert store.sql(query).num_rows == n
            return _bytes_read() - before

    assert n_read("SELECT blob FROM records") > n * size
    assert n_read("SELECT * FROM records") < n * 2_000 * 4


def _bytes_read():
    """What this process has read of files so far, as the system counts it."""
    told = Path("/proc/self/io").read_text(encoding="ascii")
    return int(told.split("rchar:")[1].split()[0])


async def test_a_cancelled_query_ends():
    async with AsyncContextStore.open("memory://") as store:
        await store.memory.add(["tea"], user_id="ada")
        endless = "SELECT count(*) FROM range(100000000000) a, range(100000000000) b"
        task = asyncio.create_task(store.sql(endless))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await store.sql("SELECT count(*) n FROM memories")).to_pylist() == [{"n": 1}]


def test_the_views_are_listed_and_what_is_no_view_names_the_one_that_was_meant(lived):
    names = lived.sql("SHOW TABLES")["name"].to_pylist()
    assert {"messages", "memories", "facts", "meta_tables"} <= {*names}
    assert lived.sql("SHOW ALL TABLES").equals(lived.sql("SHOW TABLES"))
    assert lived.sql("SELECT count(*) n FROM (SHOW TABLES)").to_pylist() == [{"n": len(names)}]
    for name in names:
        assert lived.sql(f"DESCRIBE {name}").num_rows
    for query, told in (
        ("SELECT * FROM mesages", "view 'mesages' does not exist: did you mean messages?"),
        ("DESCRIBE memory", "did you mean memories?"),
        ("SELECT 1 FROM facts JOIN mesages USING (id)", "did you mean messages?"),
        ("SELECT * FROM other.memories", "view 'other.memories' does not exist"),
        ("SELECT * FROM information_schema.tables", "SHOW TABLES lists the views"),
        ("SELECT * FROM sqlite_master", "SHOW TABLES lists the views"),
        ("SELECT * FROM pg_catalog.pg_class", "SHOW TABLES lists the views"),
        ("SHOW messages", "DESCRIBE messages has its columns"),
        ("SHOW DATABASES", "SHOW 'databases' is not supported"),
    ):
        with pytest.raises(InvalidRequestError) as refused:
            lived.sql(query)
        assert told in str(refused.value), query
        assert "pg_" not in str(refused.value) or "pg_" in query


def test_a_statement_names_queries_of_its_own(lived):
    for query in (
        "WITH mesages AS (SELECT 1 AS n) SELECT n FROM mesages",
        "WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < 1) SELECT n FROM up",
        "SELECT n FROM (WITH Own AS (SELECT 1 AS n) SELECT n FROM oWN) AS x",
    ):
        assert lived.sql(query).to_pylist() == [{"n": 1}]


def test_a_plan_is_explained_of_what_only_reads_alone(lived):
    plan = lived.sql("EXPLAIN SELECT role, count(*) FROM messages GROUP BY role").to_pylist()
    assert "Group By" in plan[0]["explain_value"]
    ran = lived.sql("explain analyze SELECT id FROM messages AT (VERSION => 'monday')").to_pylist()
    assert "Total Time" in ran[0]["explain_value"]
    for refused in ("EXPLAIN DELETE FROM messages", "EXPLAIN ANALYZE DROP VIEW messages"):
        with pytest.raises(InvalidRequestError, match="is not a statement that only reads"):
            lived.sql(refused)
    with pytest.raises(InvalidRequestError, match="'read_text' is not a source"):
        lived.sql("EXPLAIN ANALYZE SELECT * FROM read_text('/etc/passwd')")
    with pytest.raises(InvalidRequestError, match="2 statements"):
        lived.sql("EXPLAIN SELECT 1; SELECT 2")


def test_values_become_columns_if_they_are_named(lived):
    rows = lived.sql("SELECT role, count(*) n FROM messages GROUP BY role").to_pylist()
    counts = {row["role"]: row["n"] for row in rows}
    pivot = "PIVOT messages ON role IN ('user', 'assistant') USING count(*) GROUP BY context"
    (row,) = lived.sql(pivot).to_pylist()
    assert {name: row[name] for name in counts} == counts
    for query in ("PIVOT messages ON role USING count(*)",
                  "SELECT * FROM (PIVOT messages ON role USING count(*))"):  # fmt: skip
        with pytest.raises(InvalidRequestError, match="PIVOT needs the values"):
            lived.sql(query)


@pytest.mark.parametrize("query", ["SET x = 1", "PRAGMA table_info('messages')", "CHECKPOINT"])
def test_what_is_refused_is_refused_in_words_of_the_store(lived, query):
    with pytest.raises(
        InvalidRequestError, match=r"is not a statement that only reads. Use SELECT"
    ):
        lived.sql(query)
