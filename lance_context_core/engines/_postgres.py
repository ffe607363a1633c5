"""PostgreSQL as a search engine: full text by BM25, and vectors by the extension pgvector."""

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from lance_context_core._util.checks import check_count, check_name, shown
from lance_context_core._util.extras import require
from lance_context_core.engines._protocol import (
    FIELDS,
    EngineChannel,
    EngineHits,
    EngineRow,
    EngineState,
)
from lance_context_core.errors import InvalidRequestError, StorageError

_FORMAT = 1
"""Of the tables; incremented when an older release cannot use them."""

_MOST_INDEXED = 2_000
"""The most numbers of a vector in an index of pgvector; longer ones are compared one by one."""

_MOST_SEEN = 1_000
"""The most rows that pgvector lets a search of an HNSW index look at."""

_MOST_REPETITIONS = 200
"""A word counts so often at most: PostgreSQL stores up to 256 positions, and BM25 has levelled off."""

_SPARE = 4
"""The connections that stay open."""

_LOCK = 0x1A_7CE5_EA6C
"""The advisory lock of those that create the tables."""

_COUNTED = """
CREATE OR REPLACE FUNCTION {schema}.count_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        UPDATE {schema}.indexes SET n_rows = n_rows + (SELECT count(*) FROM changed)
        WHERE number = TG_ARGV[0]::int;
    ELSIF TG_OP = 'DELETE' THEN
        UPDATE {schema}.indexes SET n_rows = n_rows - (SELECT count(*) FROM changed)
        WHERE number = TG_ARGV[0]::int;
    ELSE
        UPDATE {schema}.indexes SET n_rows = 0 WHERE number = TG_ARGV[0]::int;
    END IF;
    RETURN NULL;
END $$"""

_INDEXES = """
CREATE TABLE IF NOT EXISTS {schema}.indexes (
    name text COLLATE "C" PRIMARY KEY, number int GENERATED ALWAYS AS IDENTITY,
    format int NOT NULL, dimension int, position text NOT NULL DEFAULT '',
    n_rows bigint NOT NULL DEFAULT 0, n_written bigint NOT NULL DEFAULT 0
)"""

_ROWS = """
CREATE TABLE {rows} (
    key text COLLATE "C" PRIMARY KEY, revision bigint NOT NULL,
    words tsvector NOT NULL, n_words int NOT NULL, {fields} {vector}
);
CREATE TRIGGER inserted AFTER INSERT ON {rows} REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.count_rows({number});
CREATE TRIGGER deleted AFTER DELETE ON {rows} REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.count_rows({number});
CREATE TRIGGER emptied AFTER TRUNCATE ON {rows}
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.count_rows({number})"""

_SEARCHED = """
CREATE INDEX ON {rows} USING gin (words) WITH (fastupdate = off);
CREATE INDEX ON {rows} ({names}) INCLUDE (n_words);
ANALYZE {rows}"""

# Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009, with 1 added in the
# logarithm, as in LanceDB; the statistics are those of the rows that meet the conditions.
_MATCH = """
WITH asked AS (SELECT * FROM unnest(%(words)s::text[], %(times)s::int[]) AS t (lexeme, times)),
matched AS MATERIALIZED (
    SELECT key, words, n_words FROM {rows} WHERE words @@ %(query)s::tsquery {where}
),
texts AS (
    SELECT count(*) AS n, avg(n_words) AS mean FROM {rows} WHERE n_words > 0 {where}
),
said AS MATERIALIZED (
    SELECT key, n_words, w.lexeme, cardinality(w.positions) AS frequency
    FROM matched, unnest(words) AS w WHERE w.lexeme = ANY(%(words)s)
),
weights AS (
    SELECT lexeme, times * 2.2 * ln(1 + (n - there + 0.5) / (there + 0.5)) AS weight
    FROM (SELECT lexeme, count(*) AS there FROM said GROUP BY lexeme) AS s
    JOIN asked USING (lexeme) CROSS JOIN texts
)
SELECT key, sum(weight * frequency / (frequency + 1.2 * (0.25 + 0.75 * n_words / mean)))::float8 AS score
FROM said JOIN weights USING (lexeme) CROSS JOIN texts
GROUP BY key ORDER BY score DESC LIMIT %(limit)s"""

_NEAREST = """
SELECT key, 1 - (vector <=> %(vector)s::{public}.vector) AS score FROM {rows}
WHERE vector IS NOT NULL {where} ORDER BY vector <=> %(vector)s::{public}.vector LIMIT %(limit)s"""


class PostgresEngine:
    """A `SearchEngine` in a PostgreSQL database, from version 15 on; needs the extra `postgres`.

    Words are matched by PostgreSQL's full text search and ranked by BM25. Vectors need the
    extension pgvector, from 0.8 on, which the engine creates in the database if it may.
    """

    max_words_bytes = 400_000

    def __init__(
        self,
        address: str,
        *,
        schema: str = "lance_context_search",
        channels: Collection[EngineChannel] = ("text", "vector"),
        exact: bool = False,
        ef_search: int = 200,
        name: str = "postgres",
    ) -> None:
        """Connect with the first call. No text of ours shows the address.

        - `address`: that of the database, as "postgresql://user:password@host:5432/database".
        - `schema`: the schema with the tables, which are created if they do not exist. Stores that
          share a database need a schema each.
        - `channels`: what is indexed; without "vector" no pgvector is needed.
        - `exact`: vectors are compared one by one, instead of by an HNSW index, which may miss
          some of the nearest ones.
        - `ef_search`: the rows that a search of the HNSW index looks at, at least `limit`, from 1
          to 1,000; more find more of the nearest ones and take longer.

        Raises InvalidRequestError for invalid values, and MissingExtraError without the extra.
        """
        require("psycopg", extra="postgres", by="a search engine in PostgreSQL")
        if not isinstance(address, str) or not address.startswith(("postgresql://", "postgres://")):
            raise InvalidRequestError(
                "address=…: this is not an address of a PostgreSQL database (it is not shown, because "
                'it may hold a password): give "postgresql://user:password@host:5432/database"'
            )
        if not channels or not {*channels} <= {"text", "vector"}:
            raise InvalidRequestError(f"channels={shown(channels)}: give 'text', 'vector' or both")
        self.name = check_name(name, "name")
        self.channels = frozenset(channels)
        self._address = address
        self._schema = '"' + check_name(schema, "schema").replace('"', '""') + '"'
        self._is_exact = exact
        if check_count(ef_search, "ef_search") > _MOST_SEEN:
            raise InvalidRequestError(f"ef_search={ef_search!r}: at most {_MOST_SEEN}")
        self._ef_search = ef_search
        self._spare: list[Any] = []
        self._lock = threading.Lock()
        self._is_ready = False
        self._public = ""
        """The schema of pgvector."""

    def __repr__(self) -> str:
        return f"PostgresEngine(…, schema={self._schema}, name={self.name!r})"

    def tables(self) -> list[str]:
        """The tables that have an index."""
        with self._connection() as one:
            found = one.execute(f"SELECT name FROM {self._schema}.indexes").fetchall()
        return [name for (name,) in found]

    def state(self, table: str) -> EngineState | None:
        """The state of a table's index; None without one, and if its rows' table was dropped."""
        with self._connection() as one:
            found = self._index(one, table)
        return None if found is None else found[1]

    def clear(self, table: str, *, dimension: int | None) -> None:
        """Replace a table's index by an empty one. Raises StorageError without pgvector."""
        with self._connection() as one, one.transaction():
            self._drop(one, table)
            length = dimension if "vector" in self.channels else None
            (number,) = one.execute(
                f"INSERT INTO {self._schema}.indexes (name, format, dimension) VALUES (%s, %s, %s) "
                "RETURNING number",
                (table, _FORMAT, length),
            ).fetchone()
            rows = self._rows(number)
            public = self._pgvector(one) if length is not None else ""
            one.execute(
                _ROWS.format(
                    rows=rows,
                    schema=self._schema,
                    number=number,
                    fields=", ".join(f'{name} text COLLATE "C"' for name in FIELDS),
                    vector="" if length is None else f", vector {public}.vector({length})",
                )
            )

    def drop(self, table: str) -> None:
        """Remove the index of a table."""
        with self._connection() as one, one.transaction():
            self._drop(one, table)

    def write(
        self,
        table: str,
        *,
        puts: Sequence[EngineRow] = (),
        removes: Sequence[str] = (),
        position: str | None = None,
    ) -> None:
        """Put and remove rows, and set the position, in one transaction."""
        with self._connection() as one, one.transaction():
            found = one.execute(
                f"SELECT number, dimension, position FROM {self._schema}.indexes WHERE name = %s FOR UPDATE",
                (table,),
            ).fetchone()
            if found is None:
                raise _no_index(table)
            number, dimension, former = found
            rows = self._rows(number)
            if removes:
                one.execute(f"DELETE FROM {rows} WHERE key = ANY(%s)", ([*removes],))
            if puts:
                one.execute(*self._put(one, rows, puts, has_vectors=dimension is not None))
            if position is not None and not former:
                self._make_indexes(one, rows, dimension)
            one.execute(
                f"UPDATE {self._schema}.indexes SET n_written = n_rows, "
                "position = coalesce(%s, position) WHERE number = %s",
                (position, number),
            )

    def revisions(self, table: str) -> dict[str, int]:
        """The revision of each row, by key."""
        with self._connection() as one:
            rows, _ = self._known(one, table)
            return dict(one.execute(f"SELECT key, revision FROM {rows}").fetchall())

    def match(
        self, table: str, words: Sequence[str], *, where: Mapping[str, str | None], limit: int
    ) -> EngineHits:
        """The rows that have any of the words, by the BM25 of the rows that meet `where`."""
        asked = Counter(words)
        condition, values = _condition(where)
        values |= {"words": [*asked], "times": [*asked.values()], "limit": limit}
        values["query"] = " | ".join(f"'{word}'" for word in asked)
        with self._connection() as one:
            rows, state = self._known(one, table)
            query = _MATCH.format(rows=rows, where=condition)
            found = one.execute(query, values).fetchall() if asked else []
        return _hits(state, found)

    def nearest(
        self, table: str, vector: Sequence[float], *, where: Mapping[str, str | None], limit: int
    ) -> EngineHits:
        """The rows with the highest cosine; exactly these without an HNSW index."""
        condition, values = _condition(where)
        values |= {"vector": _written(vector), "limit": limit}
        with self._connection() as one, one.transaction():
            rows, state = self._known(one, table)
            query = _NEAREST.format(rows=rows, where=condition, public=self._pgvector(one))
            if not self._is_exact:
                n_seen = min(max(limit, self._ef_search), _MOST_SEEN)
                one.execute(f"SET LOCAL hnsw.ef_search = {n_seen}")
                one.execute("SET LOCAL hnsw.iterative_scan = strict_order")
            found = one.execute(query, values).fetchall()
            if len(found) < limit and not self._is_exact:
                # The index gives up where few of its rows meet the conditions.
                one.execute("SET LOCAL enable_indexscan = off")
                found = one.execute(query, values).fetchall()
        return _hits(state, found)

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            spare, self._spare = self._spare, []
        for one in spare:
            one.close()

    # Helpers

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """A connection in autocommit mode. Raises StorageError if it cannot be had."""
        import psycopg

        with self._lock:
            one = self._spare.pop() if self._spare else None
        if one is None:
            try:
                one = psycopg.connect(self._address, autocommit=True)
            except psycopg.Error as error:
                raise StorageError(
                    f"the search engine {self.name!r} in PostgreSQL cannot be reached "
                    f"({type(error).__name__}): check that the server is up, and the address"
                ) from None
        try:
            if not self._is_ready:
                self._make_ready(one)
            yield one
        except psycopg.Error as error:
            if one.broken:
                self.close()  # The others may be, too.
            raise StorageError(
                f"the search engine {self.name!r} in PostgreSQL refused: "
                f"{error.diag.message_primary or type(error).__name__}"
            ) from error
        finally:
            with self._lock:
                is_kept = not one.broken and len(self._spare) < _SPARE
                if is_kept:
                    self._spare.append(one)
            if not is_kept:
                one.close()

    def _make_ready(self, one: Any) -> None:
        """Create the schema and the table of indexes. Raises StorageError for a later format."""
        with one.transaction():
            one.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            there = one.execute("SELECT to_regclass(%s)", (f"{self._schema}.indexes",)).fetchone()
            if there == (None,):
                one.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
                one.execute(_INDEXES.format(schema=self._schema))
                one.execute(_COUNTED.format(schema=self._schema))
        self._is_ready = True

    def _pgvector(self, one: Any) -> str:
        """The schema of pgvector, which is created in the database if necessary."""
        if self._public:
            return self._public
        asked = (
            "SELECT quote_ident(n.nspname) FROM pg_extension e "
            "JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
        )
        if one.execute(asked).fetchone() is None:
            known = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
            if one.execute(known).fetchone() is None:
                raise StorageError(
                    f"the search engine {self.name!r}: the server lacks the extension pgvector: install "
                    "it there, or use PostgresEngine(channels=['text'])"
                )
            one.execute("CREATE EXTENSION IF NOT EXISTS vector")
        self._public = str(one.execute(asked).fetchone()[0])
        return self._public

    def _index(self, one: Any, table: str) -> tuple[int, EngineState] | None:
        found = one.execute(
            "SELECT number, format, position, n_rows, n_written, "
            f"to_regclass(%s || number) IS NOT NULL FROM {self._schema}.indexes WHERE name = %s",
            (f"{self._schema}.rows_", table),
        ).fetchone()
        if found is None:
            return None
        number, kind, position, n_rows, n_written, is_there = found
        if kind != _FORMAT:
            raise StorageError(
                f"the index {table!r} of the search engine {self.name!r} has format {kind}, this release "
                f"uses {_FORMAT}: upgrade lance-context-core, or give another schema"
            )
        if not is_there:
            return None
        return number, EngineState(position=position, n_rows=n_rows, n_lost=n_written - n_rows)

    def _known(self, one: Any, table: str) -> tuple[str, EngineState]:
        """The table of an index's rows, and the state. Raises LookupError without an index."""
        found = self._index(one, table)
        if found is None:
            raise _no_index(table)
        return self._rows(found[0]), found[1]

    def _rows(self, number: int) -> str:
        return f"{self._schema}.rows_{int(number)}"

    def _make_indexes(self, one: Any, rows: str, dimension: int | None) -> None:
        """Index a table that has been filled, which takes far less time than each row alone."""
        one.execute(_SEARCHED.format(rows=rows, names=", ".join(FIELDS)))
        if dimension is not None and dimension <= _MOST_INDEXED and not self._is_exact:
            one.execute("SET LOCAL maintenance_work_mem = '256MB'")
            operators = f"{self._pgvector(one)}.vector_cosine_ops"
            one.execute(f"CREATE INDEX ON {rows} USING hnsw (vector {operators})")

    def _drop(self, one: Any, table: str) -> None:
        gone = f"DELETE FROM {self._schema}.indexes WHERE name = %s RETURNING number"
        for (number,) in one.execute(gone, (table,)).fetchall():
            one.execute(f"DROP TABLE IF EXISTS {self._rows(number)}")

    def _put(
        self, one: Any, rows: str, puts: Sequence[EngineRow], *, has_vectors: bool
    ) -> tuple[str, list[Any]]:
        """The statement that puts rows, and its values: one array for each column."""
        columns = ["key", "revision", "words", "n_words", *FIELDS]
        types = ["text", "bigint", "text", "int", *["text"] * len(FIELDS)]
        values: list[Any] = [
            [row.key for row in puts],
            [row.revision for row in puts],
            [_lexemes(row.words) for row in puts],
            [len(row.words) for row in puts],
            *([row.fields.get(name) for row in puts] for name in FIELDS),
        ]
        asked = [f"t.{name}::tsvector" if name == "words" else f"t.{name}" for name in columns]
        if has_vectors:
            columns, types = [*columns, "vector"], [*types, "text"]
            asked.append(f"t.vector::{self._pgvector(one)}.vector")
            values.append([row.vector and _written(row.vector) for row in puts])
        given = ", ".join(f"%s::{kind}[]" for kind in types)
        told = ", ".join(f"{name} = excluded.{name}" for name in columns[1:])
        statement = (
            f"INSERT INTO {rows} ({', '.join(columns)}) SELECT {', '.join(asked)} "
            f"FROM unnest({given}) AS t ({', '.join(columns)}) ON CONFLICT (key) DO UPDATE SET {told}"
        )
        return statement, values


def _no_index(table: str) -> LookupError:
    return LookupError(f"no index of {table!r}: call clear() first")


def _condition(where: Mapping[str, str | None]) -> tuple[str, dict[str, Any]]:
    parts = [
        f" AND {name} IS NULL" if where[name] is None else f" AND {name} = %({name})s"
        for name in FIELDS
        if name in where
    ]
    return "".join(parts), {name: value for name, value in where.items() if value is not None}


def _lexemes(words: Sequence[str]) -> str:
    """The words as a tsvector, each at as many positions as it occurs."""
    said = []
    for word, times in Counter(words).items():
        places = ",".join(map(str, range(1, min(times, _MOST_REPETITIONS) + 1)))
        said.append(f"'{word}':{places}")
    return " ".join(said)


def _written(vector: Sequence[float]) -> str:
    return f"[{','.join(map(repr, map(float, vector)))}]"


def _hits(state: EngineState, found: Sequence[tuple[str, float]]) -> EngineHits:
    scores = cast("list[float]", [score for _, score in found])
    return EngineHits(state=state, keys=[key for key, _ in found], scores=scores)
