"""Declared fields answer filters as the metadata does, at every moment of a collection."""

import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from lance_context_core import ContextStore, Document, InvalidRequestError
from lance_context_core.adapting import JsonCodec
from lance_context_core.filters import Field
from lance_context_core.memory_index.cache import DEFAULT_SEARCH_CACHE
from lance_context_core.settings import IndexPolicy
from lance_context_core.storage.declared_fields import DeclaredFields

FIELDS = {"page": int, "author": str, "score": float, "open": bool, "day": datetime}
START = datetime(2026, 1, 1, tzinfo=UTC)
CODEC = JsonCodec()

PAGES = [0, 1, 2, 3, -1, 2**53 + 1, None]
AUTHORS = ["ann", "ben", 'o"b\\', "", "é b", None]
SCORES = [0.0, 0.5, -1.25, 3, 1e300, None]
OPEN = [True, False, None]
DAYS = [START, START + timedelta(microseconds=1), START + timedelta(days=400), None]
POOLS = {"page": PAGES, "author": AUTHORS, "score": SCORES, "open": OPEN, "day": DAYS}


def a_row(rng, number):
    metadata = {name: one for name, pool in POOLS.items() if (one := rng.choice(pool)) is not None}
    return {"id": f"d{number}", "metadata": metadata, "vector": [rng.gauss(0, 1) for _ in range(4)]}


def a_document(row):
    metadata = {name: CODEC.encode(one, name) for name, one in row["metadata"].items()}
    return Document(
        id=row["id"], text=f"row {row['id']}", embedding=row["vector"], metadata=metadata
    )


def a_table(rows):
    types = {
        "page": pa.int64(),
        "author": pa.string(),
        "score": pa.float64(),
        "open": pa.bool_(),
        "day": pa.timestamp("us", "UTC"),
    }
    columns = {
        name: pa.array([row["metadata"].get(name) for row in rows], kind)
        for name, kind in types.items()
    }
    return pa.table(
        {
            "id": [row["id"] for row in rows],
            "text": [f"row {row['id']}" for row in rows],
            "vector": [row["vector"] for row in rows],
            **columns,
        }
    )


# Filters, and what they mean in Python. `x` is the value, or None.


FILTERS = [
    ({"page": 2}, lambda m: m.get("page") == 2),
    ({"page": 2.0}, lambda m: m.get("page") == 2),
    ({"page": "2"}, lambda _: False),
    ({"page": {"$ne": 2}}, lambda m: m.get("page") != 2),
    ({"page": {"$gt": 0.5, "$lte": 2}}, lambda m: "page" in m and 0.5 < m["page"] <= 2),
    ({"page": {"$gte": 2**53}}, lambda m: "page" in m and m["page"] >= 2**53),
    ({"page": {"$in": [1, 3, "x", 2**53 + 1]}}, lambda m: m.get("page") in (1, 3, 2**53 + 1)),
    ({"page": {"$nin": [1, 3]}}, lambda m: m.get("page") not in (1, 3)),
    ({"page": None}, lambda m: "page" not in m),
    ({"page": {"$exists": True}}, lambda m: "page" in m),
    ({"page": {"$gt": "a"}}, lambda _: False),
    ({"author": "ann"}, lambda m: m.get("author") == "ann"),
    ({"author": 'o"b\\'}, lambda m: m.get("author") == 'o"b\\'),
    ({"author": {"$ne": ""}}, lambda m: m.get("author") != ""),
    ({"author": {"$gt": "ann"}}, lambda m: "author" in m and m["author"] > "ann"),
    ({"author": {"$in": ["ben", "é b", 3]}}, lambda m: m.get("author") in ("ben", "é b")),
    ({"author": {"$contains": "b"}}, lambda m: "b" in m.get("author", "")),
    ({"author": {"$text": "ANN"}}, lambda m: "ann" in m.get("author", "").lower()),
    ({"author": 7}, lambda _: False),
    ({"score": 3}, lambda m: m.get("score") == 3),
    ({"score": {"$lt": 0.5}}, lambda m: "score" in m and m["score"] < 0.5),
    ({"score": {"$not": {"$gte": 0.5}}}, lambda m: not ("score" in m and m["score"] >= 0.5)),
    ({"score": {"$gt": 10}}, lambda m: "score" in m and m["score"] > 10),
    ({"open": True}, lambda m: m.get("open") is True),
    ({"open": {"$ne": True}}, lambda m: m.get("open") is not True),
    ({"open": 1}, lambda _: False),
    ({"day": {"$gt": START}}, lambda m: "day" in m and m["day"] > START),
    ({"day": START}, lambda m: m.get("day") == START),
    ({"day": {"$ne": START}}, lambda m: m.get("day") != START),
    (
        {"day": {"$in": [START, START + timedelta(days=400)]}},
        lambda m: m.get("day") in (START, DAYS[2]),
    ),
    ({"day": {"$lt": START.replace(tzinfo=None)}}, lambda _: False),
    (
        {"$or": [{"page": 1}, {"author": "ben", "open": False}]},
        lambda m: m.get("page") == 1 or (m.get("author") == "ben" and m.get("open") is False),
    ),
    (
        "page >= 1 AND author <> 'ann'",
        lambda m: m.get("page", 0) >= 1 and m.get("author", "ann") != "ann",
    ),
    (
        ~Field("metadata", "page").eq(1) & Field("metadata", "other").eq(None),
        lambda m: m.get("page") != 1,
    ),
]


def nearest(rows, query, limit):
    def distance(row):
        vector = np.array(row["vector"], np.float32)
        return -float(vector @ query / np.linalg.norm(vector))

    return [row["id"] for row in sorted(rows, key=distance)[:limit]]


def check(collection, rows, *, filters=FILTERS):
    """Everything that is filtered is what Python and numpy find in `rows`."""
    query = np.array([1.0, -0.5, 0.25, 2.0], np.float32)
    for filter, holds in filters:
        wanted = [row for row in rows.values() if holds(row["metadata"])]
        ids = sorted(row["id"] for row in wanted)
        assert sorted(one.id for one in collection.list(filter=filter)) == ids, filter
        assert collection.count(filter=filter) == len(ids), filter
        found = [hit.record.id for hit in collection.search(query.tolist(), filter=filter, limit=5)]
        assert found == nearest(wanted, query, 5), filter


INDEXED = IndexPolicy(scalar_rows=10, vector_rows=10)


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "store")


@pytest.fixture
def asked_columns(monkeypatch):
    """The names of the fields that each filter could ask by their columns, call by call."""
    seen = []
    usable = DeclaredFields.usable

    async def noting(self):
        found = await usable(self)
        seen.append(set(found))
        return found

    monkeypatch.setattr(DeclaredFields, "usable", noting)
    return seen


def opened(place, **options):
    return ContextStore.open(place, **{"maintenance": None, "search_cache": None, **options})


def test_filters_find_what_python_finds_at_every_moment(place, asked_columns):
    rng = random.Random(7)
    rows = {row["id"]: row for row in (a_row(rng, n) for n in range(60))}

    def is_by_column():
        return asked_columns[-1] == set(FIELDS)

    with opened(place) as store:
        plain = store.vectors("c")
        plain.add_arrow(a_table([*rows.values()][:40]))
        plain.add([a_document(row) for row in [*rows.values()][40:]])
        check(plain, rows)
        assert not any(asked_columns)
        store.tag("before")

        # Declared later: the first write, or maintain, fills the columns.
        fielded = store.vectors("c", fields=FIELDS)
        check(fielded, rows, filters=FILTERS[::5])
        store.maintain(policy=INDEXED)
        check(fielded, rows)
        assert is_by_column()
        check(plain, rows, filters=FILTERS[::5])
        assert is_by_column()
        branch = store.create_branch("draft")

        # Each write keeps them right, through a handle that declares them or not.
        for row in (a_row(rng, n) for n in range(50, 70)):
            rows[row["id"]] = row
        changed = [*rows.values()]
        plain.upsert([a_document(row) for row in changed[50:60]])
        fielded.upsert([a_document(row) for row in changed[60:65]])
        fielded.add_arrow(a_table(changed[65:]))
        fielded.delete(["d3"])
        del rows["d3"]
        gone = {id for id, row in rows.items() if row["metadata"].get("page") == 1}
        assert fielded.delete(filter={"page": 1}) == len(gone)
        for id in gone:
            del rows[id]
        check(fielded, rows)
        assert is_by_column()
        store.maintain(policy=INDEXED)
        check(fielded, rows)

        # On a branch, at an old version, in another store.
        in_branch = {f"d{n}": row for n, row in enumerate(before_of(7))}
        check(branch.vectors("c"), in_branch, filters=FILTERS[::3])
        check(store.checkout("before").vectors("c"), in_branch, filters=FILTERS[::3])
        assert asked_columns[-1] == set()

    with opened(place) as store:
        check(store.vectors("c"), rows)
        assert is_by_column()


def before_of(seed):
    rng = random.Random(seed)
    return [a_row(rng, n) for n in range(60)]


def test_a_value_of_another_type_is_refused_by_the_handle_and_found_if_another_wrote_it(
    place, asked_columns
):
    with opened(place) as store:
        fielded, plain = store.vectors("c", fields={"page": int}), store.vectors("c")
        fielded.add([Document(id="a", text="a", metadata={"page": 1})])
        for bad in ("x", 1.5, True, [1], 2**63):
            with pytest.raises(
                InvalidRequestError, match=r"documents\[1\].metadata\['page'\]=.*int"
            ):
                fielded.add([Document(text="b"), Document(text="c", metadata={"page": bad})])
            with pytest.raises(InvalidRequestError, match=r"metadata\['page'\]"):
                fielded.upsert([Document(id="a", text="c", metadata={"page": bad})])
        for kind in (pa.string(), pa.float64(), pa.bool_()):
            table = pa.table({"text": ["x"], "page": pa.array([None], kind)})
            with pytest.raises(InvalidRequestError, match="'page' has the type"):
                fielded.add_arrow(table)
        with pytest.raises(InvalidRequestError, match="'page'"):
            fielded.add_arrow(pa.table({"text": ["x"], "page": pa.array([2**63], pa.uint64())}))
        assert fielded.count() == 1

        plain.add([Document(id="b", text="b", metadata={"page": 1.5})])
        plain.add_arrow(pa.table({"id": ["c", "d"], "text": ["c", "d"], "page": [1.0, 2.5]}))
        for _ in range(2):
            found = [one.id for one in fielded.list(filter={"page": {"$gt": 1}})]
            assert found == ["b", "d"]
            assert fielded.count(filter={"page": 1}) == 2
            store.maintain()
        assert asked_columns[-1] == set()
        plain.delete(["b", "c", "d"])
        assert fielded.count(filter={"page": 1}) == 1
        store.flush()
        assert fielded.count(filter={"page": 1}) == 1
        assert asked_columns[-1] == {"page"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(["page"], "pass a dict", id="a list"),
        pytest.param({"page": "int"}, r"fields\['page'\]=", id="a text as type"),
        pytest.param({"page": list}, r"fields\['page'\]=", id="another type"),
        pytest.param({"id": str}, "'id', which is a column", id="a column"),
        pytest.param({"a.b": str}, r"has 'a\.b'", id="a nested key"),
        pytest.param({"": str}, "has ''", id="no name"),
        pytest.param({"a`b": str}, "has 'a`b'", id="a quote"),
        pytest.param({"Page": int, "page": int}, "differ in case", id="two cases"),
    ],
)
def test_a_bad_declaration_is_refused_by_name(place, fields, message):
    with opened(place) as store, pytest.raises(InvalidRequestError, match=message):
        store.vectors("c", fields=fields)


def test_a_field_has_one_type_in_all_processes(place):
    with opened(place) as store:
        store.vectors("c", fields={"page": int}).add([Document(text="a", metadata={"page": 1})])
        with pytest.raises(InvalidRequestError, match=r"'page': str.*has it as int"):
            store.vectors("c", fields={"page": str})
    with opened(place) as store:
        other = store.vectors("c", fields={"page": str})
        with pytest.raises(InvalidRequestError, match=r"'page': str.*has it as int"):
            other.add([Document(text="b", metadata={"page": "1"})])
        assert other.count() == 1
        with pytest.raises(InvalidRequestError, match="differs in its case"):
            store.vectors("c", fields={"PAGE": int}).add([Document(text="b")])


def test_a_writer_that_has_not_seen_the_fields_keeps_them_right(place, asked_columns):
    with opened(place) as one, opened(place) as two:
        plain = two.vectors("c")
        plain.add([Document(id="a", text="a", metadata={"page": 1})])
        two.flush()
        fielded = one.vectors("c", fields={"page": int})
        fielded.add([Document(id="b", text="b", metadata={"page": 2})])
        plain.add([Document(id="c", text="c", metadata={"page": 2})])
        plain.upsert([Document(id="a", text="a", metadata={"page": 2})])
        assert fielded.count(filter={"page": 2}) == plain.count(filter={"page": 2}) == 3
        two.flush()
        assert fielded.count(filter={"page": 2}) == plain.count(filter={"page": 2}) == 3
        assert asked_columns[-1] == {"page"}


def test_rows_of_a_program_that_does_not_know_the_fields_are_filled_by_maintain(
    place, asked_columns
):
    import lancedb

    with opened(place) as store:
        fielded = store.vectors("c", fields={"page": int, "author": str})
        fielded.add([a_document(row) for row in before_of(3)])
        store.flush()
        table = lancedb.connect(place).open_table("vectors.c")
        table.update(values={"known:int:page": None, "metadata:int:page": None}, where="id = 'd5'")
    rows = {row["id"]: row for row in before_of(3)}
    some = [one for one in FILTERS if "page" in str(one[0])]
    with opened(place) as store:
        collection = store.vectors("c")
        check(collection, rows, filters=some)
        assert asked_columns[-1] == {"author"}
        store.maintain()
        check(collection, rows, filters=some)
        assert asked_columns[-1] == {"page", "author"}


def test_an_export_and_a_copy_have_the_fields(place, tmp_path, asked_columns):
    rows = {row["id"]: row for row in before_of(5)}
    with opened(place) as store:
        store.vectors("c", fields=FIELDS).add_arrow(a_table([*rows.values()]))
        store.export(tmp_path / "rows.jsonl")
        store.copy(str(tmp_path / "copy"))
    with opened(str(tmp_path / "copy")) as copy:
        check(copy.vectors("c"), rows, filters=FILTERS[::4])
        assert asked_columns[-1] == set(FIELDS)
    with opened(str(tmp_path / "new")) as new:
        fielded = new.vectors("c", fields=FIELDS)
        fielded.add([])
        new.import_(tmp_path / "rows.jsonl")
        check(fielded, rows, filters=FILTERS[::4])
        fielded.add([Document(id="one more", text="x")])
        fielded.delete(["one more"])
        check(fielded, rows, filters=FILTERS[::4])
        assert asked_columns[-1] == set(FIELDS)


def test_a_merged_branch_and_an_erasure_keep_the_fields(place, asked_columns):
    rows = {row["id"]: row for row in before_of(9)}
    documents = [a_document(row) for row in rows.values()]
    with opened(place, search_cache=DEFAULT_SEARCH_CACHE) as store:
        store.vectors("c").add(documents[:30])
        branch = store.create_branch("draft")
        branch.vectors("c").add(documents[30:])
        store.vectors("c", fields=FIELDS).upsert(documents[:5])
        store.merge("draft")
        check(store.vectors("c"), rows, filters=FILTERS[1::4])
        store.maintain()
        check(store.vectors("c"), rows, filters=FILTERS[::4])
        assert asked_columns[-1] == set(FIELDS)
        store.vectors("c").erase(["d7"])
        del rows["d7"]
        check(store.vectors("c"), rows, filters=FILTERS[::4])
        assert asked_columns[-1] == set(FIELDS)


def test_a_transaction_writes_documents_of_declared_fields(place, asked_columns):
    with opened(place) as store:
        store.vectors("c", fields={"page": int}).add(
            [Document(id="a", text="a", metadata={"page": 1})]
        )
        with store.transaction() as tx:
            inside = tx.vectors("c", fields={"page": int})
            inside.add([Document(id="b", text="b", metadata={"page": 1})])
            assert inside.count(filter={"page": 1}) == 2
        assert store.vectors("c").count(filter={"page": 1}) == 2
        store.flush()
        assert store.vectors("c").count(filter={"page": 1}) == 2
        assert asked_columns[-1] == {"page"}


_OTHER = """
import sys
from lance_context_core import ContextStore, Document

with ContextStore.open(sys.argv[1], maintenance=None) as store:
    plain = store.vectors("c")
    for number in range(20):
        plain.upsert([Document(id=f"o{number}", text="o", metadata={"page": number % 4})])
    plain.delete(filter={"page": 3})
    store.flush()
"""


@pytest.mark.process
def test_another_process_keeps_the_fields_right(place, asked_columns):
    with opened(place) as store:
        fielded = store.vectors("c", fields={"page": int})
        fielded.add([Document(id=f"m{n}", text="m", metadata={"page": n % 4}) for n in range(8)])
        other = subprocess.Popen([sys.executable, "-c", _OTHER, place])
        for number in range(20):
            fielded.upsert([Document(id=f"m{number}", text="m", metadata={"page": number % 3})])
        assert other.wait() == 0
        theirs = [f"o{n}" for n in range(20) if n % 4 == 1]
        mine = [f"m{n}" for n in range(20) if n % 3 == 1]
        found = fielded.list(filter={"page": 1})
        assert sorted(one.id for one in found) == sorted(mine + theirs)
        assert asked_columns[-1] == {"page"}
