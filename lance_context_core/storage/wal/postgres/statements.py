"""The statements of a log session on PostgreSQL."""

from lance_context_core.storage.locks.requests import COLUMNS

LOOK = """
SELECT s.last, t.id, t.version, t.folded, t.folding, t.token, t.stamp,
    e.seq, e.how, e.key, e.payload, e.told, e.at, e.crc
FROM lance_context.stores s
LEFT JOIN lance_context.tables t ON t.store = s.id AND t.name = %b AND t.ref = %b
LEFT JOIN LATERAL (
    SELECT * FROM lance_context.entries
    WHERE store = s.id AND tbl = t.id AND seq > %b AND t.stamp <> %b ORDER BY seq LIMIT %b
) e ON true
WHERE s.id = %b ORDER BY e.seq
"""
AT_ONCE = 129
"""The number of new entries that a look returns: one more than a reader takes at once."""

LOCK = "SELECT last, tables, locks, epoch FROM lance_context.stores WHERE id = %b FOR UPDATE"
COUNTS = "UPDATE lance_context.stores SET last = %b, tables = %b, locks = %b WHERE id = %b"
WRITE = (
    "SELECT lance_context.write(%b, %b, %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], "
    "%b::bigint[], %b::bytea[], %b::bytea[], %b::bigint[], %b::bigint[], %b::bigint[])"
)
APPEND = f"SELECT lance_context.append({', '.join(['%b'] * 11)})"
INSERT = """
INSERT INTO lance_context.entries (store, tbl, seq, how, key, payload, told, at, crc)
SELECT %b, %b, * FROM unnest(%b::bigint[], %b::bigint[], %b::bytea[], %b::bytea[], %b::bigint[],
    %b::bigint[], %b::bigint[])
"""
CHANGE = "UPDATE lance_context.tables SET token = token + 1, stamp = stamp + 1 WHERE store = %b AND id = %b"
FIELDS = "seq, how, key, payload, told, at, crc"
ENTRIES = (
    f"SELECT {FIELDS} FROM lance_context.entries WHERE store = %b AND tbl = %b AND seq > %b "
    "ORDER BY seq LIMIT %b"
)
ALL = f"SELECT {FIELDS} FROM lance_context.entries WHERE store = %b ORDER BY seq"
LAST_AT = (
    "SELECT at FROM lance_context.entries WHERE store = %b AND tbl = %b ORDER BY seq DESC LIMIT 1"
)
PARTS = "SELECT name, ref FROM lance_context.tables WHERE store = %b ORDER BY name, ref"
PARTS_WITH_ENTRIES = (
    "SELECT name, ref FROM lance_context.tables t WHERE store = %b AND EXISTS "
    "(SELECT FROM lance_context.entries e WHERE e.store = t.store AND e.tbl = t.id)"
)
REFS = "SELECT ref FROM lance_context.tables WHERE store = %b AND name = %b"
ID = "(SELECT id FROM lance_context.tables WHERE store = %b AND name = %b AND ref = %b)"
FULLNESS = (
    "SELECT count(*), coalesce(sum(length(payload)), 0)::bigint FROM lance_context.entries "
    f"WHERE store = %b AND tbl = {ID}"
)
NOTE = """
INSERT INTO lance_context.tables AS t (store, id, name, ref, version, folded, folding, token, stamp)
VALUES (%b, %b, %b, %b, %b, 0, 0, %b, %b)
ON CONFLICT (store, name, ref) DO UPDATE SET version = greatest(t.version, excluded.version),
    token = t.token + %b, stamp = t.stamp + 1
"""
WHERE = "WHERE store = %b AND name = %b AND ref = %b"
DOUBT = f"UPDATE lance_context.tables SET version = -abs(version), stamp = stamp + 1 {WHERE}"
BEGIN_FLUSH = (
    "UPDATE lance_context.tables t SET stamp = stamp + 1, folding = coalesce((SELECT max(seq) "
    "FROM lance_context.entries e WHERE e.store = t.store AND e.tbl = t.id AND seq <= %b), folding) "
    f"{WHERE}"
)
FLUSHED = (
    "UPDATE lance_context.tables SET version = %b, folded = greatest(folded, %b), "
    f"stamp = stamp + 1 {WHERE}"
)
KEEP_NAMES = (
    "INSERT INTO lance_context.names SELECT DISTINCT store, tbl, told, %b "
    "FROM lance_context.entries WHERE seq <= %b AND told <> %b AND store = %b AND tbl = "
    f"{ID} ON CONFLICT (store, tbl, told) DO UPDATE SET version = excluded.version"
)
KEEP_REMOVALS = (
    "INSERT INTO lance_context.removals SELECT store, tbl, key, at FROM lance_context.entries "
    f"WHERE seq <= %b AND payload IS NULL AND store = %b AND tbl = {ID}"
)
FORGET_REMOVALS = "DELETE FROM lance_context.removals WHERE store = %b AND at < %b"
FORGET_ENTRIES = f"DELETE FROM lance_context.entries WHERE seq <= %b AND store = %b AND tbl = {ID}"
LOSE = (
    (
        "UPDATE lance_context.tables SET token = token + 1, stamp = stamp + 1 WHERE store = %b "
        "AND id = (SELECT tbl FROM lance_context.entries WHERE store = %b AND seq = %b)"
    ),
    "DELETE FROM lance_context.entries WHERE store = %b AND seq = %b",
)
NAMES = f"SELECT told, version FROM lance_context.names WHERE store = %b AND tbl = {ID}"
FORGET_NAMES = f"DELETE FROM lance_context.names WHERE version = ANY(%b::bigint[]) AND store = %b AND tbl = {ID}"
REMOVALS = (
    "SELECT key, at FROM lance_context.removals WHERE at > %b AND at <= %b AND store = %b "
    f"AND tbl = {ID} ORDER BY at"
)
DISCARD = (
    *(
        f"DELETE FROM lance_context.{table} WHERE store = %b AND tbl = {ID}"
        for table in ("entries", "names", "removals")
    ),
    f"DELETE FROM lance_context.tables {WHERE}",
)
LOCK_COLUMNS = ", ".join(COLUMNS)
LOCKS_OF = f"SELECT {LOCK_COLUMNS} FROM lance_context.locks WHERE store = %b"
PUT_LOCK = f"""
INSERT INTO lance_context.locks (store, {LOCK_COLUMNS}) VALUES (%b, {", ".join(["%b"] * len(COLUMNS))})
ON CONFLICT (store, seq) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name != "seq")}
"""
MONTH = 31 * 24 * 3600 * 1_000_000
"""How long removals of rows are recorded, in microseconds, as in the file."""
