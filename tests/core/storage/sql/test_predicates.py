"""A clause says of a row in memory what the engine says of the row in a table."""

import inspect
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from itertools import product
from zoneinfo import ZoneInfo

import lancedb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lancedb.index import Bitmap, BTree, LabelList

from lance_context_core._loop import block_on
from lance_context_core.codecs import records
from lance_context_core.codecs.items import encoded
from lance_context_core.filters import Columns, ColumnType, Field, parse
from lance_context_core.protocols import LISTING
from lance_context_core.storage import sql
from lance_context_core.storage.lance.open_table import STABLE_ROW_IDS
from lance_context_core.storage.lance.schema import KEY, TIMESTAMP
from lance_context_core.storage.sql import predicates
from lance_context_core.stores.key_value_writes import Selection

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)
TWICE = datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
ELSEWHERE = timezone(timedelta(hours=-5))

TEXTS = [
    "", "a", "A", "a%", "a_b", "axb", "ab", "a\\b", "a\\", "it's", '"a"', "é", "e\u0301", "\uffff",
    "\U0001f600", "a\nb", "a\n", ".*", "a|b", "^a$", "null", "\x01",
]  # fmt: skip
SEGMENTS = ["", "a", "b", "a%", "a.b", "a\n", "é", "it's", "\x01", "*"]
PATHS = [path for n in range(4) for path in product(SEGMENTS[:4] if n == 3 else SEGMENTS, repeat=n)]
TIMES = [
    datetime.min.replace(tzinfo=UTC), NOON - TICK, NOON, NOON + TICK, NOON.astimezone(ELSEWHERE), TWICE,
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime.max.replace(tzinfo=UTC),
]  # fmt: skip
NUMBERS = [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1]
LEAST_AND_A_HALF = Decimal(-(2**63)) + Decimal("0.5")
LISTS = [
    [],
    ["a"],
    ["a", "b"],
    ["b", "a"],
    ["a", "a"],
    [""],
    ["it's", "é"],
    ["a", "a\nb", "\uffff"],
]
STATUSES = ["active", "contradicted", "superseded", "Active"]

TEXT_COLUMNS = ("id", "role", "lifecycle_status", "superseded_by_id")
TIME_COLUMNS = ("expires_at", "retired_at")
LIST_COLUMNS = ("tags", "edges")
SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.string(), nullable=False),
        *(pa.field(name, pa.string()) for name in ("namespace", *TEXT_COLUMNS)),
        *(pa.field(name, TIMESTAMP) for name in TIME_COLUMNS),
        pa.field("payload_size", pa.int64()),
        *(pa.field(name, pa.list_(pa.string())) for name in LIST_COLUMNS),
    ]
)
FILTERED = Columns(
    types={
        **dict.fromkeys(("id", "role"), ColumnType.TEXT),
        **dict.fromkeys(TIME_COLUMNS, ColumnType.TIMESTAMP),
        "payload_size": ColumnType.INTEGER,
        "tags": ColumnType.TEXT_LIST,
        "relationships": ColumnType.TARGETS,
        "metadata": ColumnType.JSON,
    },
    stored_as={"relationships": "edges"},
)


def _rows():
    """Each value once or more, every other one beside nulls, some of which are missing."""
    rows = [{}, dict.fromkeys(SCHEMA.names)]
    for n in range(60):
        row = {
            "namespace": encoded(PATHS[n * 11 % len(PATHS)]),
            "id": TEXTS[n % len(TEXTS)],
            "role": TEXTS[(n * 5 + 1) % len(TEXTS)],
            "lifecycle_status": STATUSES[n % 4],
            "superseded_by_id": None if n % 3 else "x",
            "expires_at": TIMES[n % len(TIMES)].astimezone(UTC),
            "retired_at": None if n % 4 < 3 else TIMES[(n // 4) % len(TIMES)].astimezone(UTC),
            "payload_size": NUMBERS[n % len(NUMBERS)],
            "tags": LISTS[n % len(LISTS)],
            "edges": tuple(LISTS[(n * 3) % len(LISTS)]),
        }
        rows.append(row)
        rows.append({name: value for m, (name, value) in enumerate(row.items()) if (m + n) % 3})
    return [{**row, KEY: f"{n:03}"} for n, row in enumerate(rows)]


ROWS = _rows()
KEYS = st.sampled_from([ROWS[3][KEY], ROWS[8][KEY], ROWS[-1][KEY], "unknown"])


@pytest.fixture(scope="module", params=["scanned", "indexed"])
def table(request, tmp_path_factory):
    """The rows in a table, in several fragments; with scalar indexes that know some of them."""

    async def filled():
        database = await lancedb.connect_async(tmp_path_factory.mktemp("clauses"))
        table = await database.create_table("rows", schema=SCHEMA, storage_options=STABLE_ROW_IDS)
        for part in (ROWS[:70], ROWS[70:]):
            await table.add(pa.Table.from_pylist(part, schema=SCHEMA))
            if request.param == "indexed" and part[0] is ROWS[0]:
                for name in (KEY, "namespace", "id", "expires_at", "payload_size"):
                    await table.create_index(name, config=BTree())
                await table.create_index("role", config=Bitmap())
                await table.create_index("tags", config=LabelList())
        return table

    return block_on(filled())


def agree(table, clause):
    """That the engine and the rows in memory tell the same of it; returns how many match."""

    async def asked():
        found = await table.query().where(clause or "true").select([KEY]).to_arrow()
        return found[KEY].to_pylist(), await table.count_rows(clause or "true")

    assert clause.holds is not None, clause
    expected, count = block_on(asked())
    assert [row[KEY] for row in ROWS if clause.holds(row)] == sorted(expected), clause
    assert len(expected) == count
    assert clause.keys is None or clause.keys >= set(expected), clause
    return count


# One builder after the other

BUILT = {
    "is_absent": [sql.is_absent(name) for name in SCHEMA.names],
    "is_present": [sql.is_present(name) for name in SCHEMA.names],
    "equals": [
        *(sql.equals("role", text) for text in [*TEXTS, None]),
        *(sql.equals("expires_at", moment) for moment in TIMES),
        *(sql.equals("payload_size", number) for number in NUMBERS[1:]),
        sql.equals(KEY, ROWS[3][KEY]),
        sql.equals(KEY, "unknown"),
    ],
    "differs": [
        *(sql.differs("role", text) for text in TEXTS),
        sql.differs("expires_at", NOON),
        sql.differs("payload_size", 1),
    ],
    "in_list": [
        sql.in_list("role", []),
        sql.in_list("role", ["a"]),
        sql.in_list("role", iter(TEXTS[::2])),
        sql.in_list("expires_at", TIMES[1:6]),
        sql.in_list("payload_size", [1, 2**53 + 1]),
        sql.in_list(KEY, [ROWS[3][KEY], "unknown"]),
    ],
    "not_in_list": [
        sql.not_in_list("role", []),
        sql.not_in_list("role", ["a"]),
        sql.not_in_list("role", iter(TEXTS[::2])),
        sql.not_in_list("expires_at", TIMES[1:6]),
    ],
    **{
        name: [
            *(build("role", text) for text in TEXTS),
            *(build("expires_at", moment) for moment in TIMES),
            *(build("payload_size", number) for number in NUMBERS[1:]),
        ]
        for name, build in (
            ("absent_or_after", sql.absent_or_after),
            ("after", sql.after),
            ("at_or_after", sql.at_or_after),
            ("before", sql.before),
            ("at_or_before", sql.at_or_before),
            ("compare", lambda column, value: predicates.compare(column, "eq", value)),
        )
    },
    "starts_with": [sql.starts_with("role", text) for text in TEXTS],
    "ends_with": [
        *(sql.ends_with("role", text) for text in TEXTS),
        sql.ends_with("namespace", "\0a\0"),
    ],
    "has_part": [
        *(predicates.has_part("role", text) for text in TEXTS),
        predicates.has_part("namespace", "a\0"),
    ],
    "matches": [
        sql.matches("namespace", r"^[^\x00]*\x00a\x00"),
        sql.matches("namespace", r"(?:^|\x00)a\n\x00", to_end=True),
        sql.matches("role", "a", to_end=True),
        sql.matches("role", r"^\^a\$", to_end=True),
        sql.matches("role", r"\|"),
    ],
    "is_empty": [predicates.is_empty("tags"), predicates.is_empty("edges")],
    "is_not_empty": [sql.is_not_empty("tags"), sql.is_not_empty("edges")],
    "is_list": [predicates.is_list(name, texts) for name in LIST_COLUMNS for texts in LISTS[1:]],
    "has_element": [sql.has_element(name, text) for name in LIST_COLUMNS for text in TEXTS],
    "has_any": [predicates.has_any(name, texts) for name in LIST_COLUMNS for texts in LISTS],
    "has_all": [predicates.has_all(name, texts) for name in LIST_COLUMNS for texts in LISTS],
    "all_equal": [
        sql.all_equal({}),
        sql.all_equal({"role": "a", "id": None}),
        sql.all_equal({"lifecycle_status": "active", "superseded_by_id": "x"}),
    ],
    "all_of": [
        sql.all_of([]),
        sql.all_of(["", sql.is_present("role")]),
        sql.all_of([sql.is_present("role"), sql.after("expires_at", NOON)]),
        sql.all_of([sql.is_present("role"), sql.after("expires_at", NOON), "true"]),
        sql.all_of([sql.is_present("role"), "false"]),
        sql.all_of([sql.in_list(KEY, ["003", "008"]), sql.in_list(KEY, ["008", "009"])]),
        sql.all_of([sql.is_present("id"), sql.equals(KEY, "003")]),
    ],
    "any_of": [
        sql.any_of([]),
        sql.any_of([""]),
        sql.any_of([sql.is_absent("role"), sql.after("expires_at", NOON)]),
        sql.any_of([sql.equals(KEY, "003"), sql.in_list(KEY, ["008", "009"])]),
        sql.any_of([sql.equals(KEY, "003"), sql.is_present("role")]),
        sql.any_of([sql.equals("role", "a"), sql.is_absent("id"), "false"]),
    ],
    "not_true": [
        predicates.not_true(sql.equals("role", "a")),
        predicates.not_true(sql.has_element("tags", "a")),
        predicates.not_true("true"),
    ],
}


@pytest.mark.parametrize("builder", BUILT)
def test_a_row_in_memory_is_told_what_the_engine_tells(table, builder):
    counts = [agree(table, clause) for clause in BUILT[builder]]
    # What matches all rows, or none, would be told as well by one who does not look.
    assert any(0 < count < len(ROWS) for count in counts)


def test_every_builder_is_tried():
    builders = {
        name
        for room in (predicates, predicates)
        for name, one in inspect.getmembers(room, inspect.isfunction)
        if one.__annotations__.get("return") is sql.Clause and not name.startswith("_")
    }
    assert builders <= BUILT.keys()


def test_nothing_is_one_of_no_values_and_all_that_is_there_is_none_of_them(table):
    assert agree(table, sql.in_list("role", [])) == 0
    assert agree(table, sql.not_in_list("role", [])) == agree(table, sql.is_present("role"))


def test_of_no_clauses_all_hold_and_not_one_does(table):
    assert agree(table, sql.all_of([])) == len(ROWS)
    assert agree(table, sql.any_of([])) == 0
    assert agree(table, sql.any_of(["", sql.is_present("role")])) == len(ROWS)


# What is put together

texts, moments = st.sampled_from(TEXTS), st.sampled_from(TIMES)
segments = st.lists(st.sampled_from(SEGMENTS[:8]), max_size=3)
patterns = st.lists(st.sampled_from([None, *SEGMENTS[:8]]), max_size=3)
simple = st.sampled_from([clause for some in BUILT.values() for clause in some])
nested = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(sql.all_of, st.lists(inner, max_size=4)),
        st.builds(sql.any_of, st.lists(inner, max_size=4)),
        st.builds(predicates.not_true, inner.map(lambda clause: clause or sql.EVERYTHING)),
    ),
    max_leaves=8,
)
selections = st.fixed_dictionaries(
    {},
    optional={
        "prefix": patterns,
        "suffix": patterns,
        "namespace": st.one_of(st.none(), patterns),
        "key_prefix": texts,
        "after": st.one_of(st.none(), texts),
        "before": st.one_of(st.none(), texts),
    },
).map(lambda which: sql.all_of(Selection.of(which, LISTING).clauses))
shown = st.builds(
    lambda **given: sql.all_of(records.conditions(**given)),
    now=moments,
    include_expired=st.booleans(),
    include_retired=st.booleans(),
)

numbers = st.one_of(
    st.sampled_from(
        [
            *NUMBERS,
            LEAST_AND_A_HALF,
            0.5,
            -0.5,
            2.0**53,
            float("inf"),
            float("-inf"),
            float("nan"),
            1e300,
        ]
    ),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-3, max_value=3, places=1),
)
orders = st.sampled_from(["gt", "gte", "lt", "lte"])


def _compared(fields, operands):
    return st.builds(lambda field, order, operand: getattr(field, order)(operand),
                     fields, st.one_of(st.just("eq"), st.just("ne"), orders), operands)  # fmt: skip


def _listed(fields, operands):
    return st.builds(lambda field, method, some: getattr(field, method)(some), fields,
                     st.sampled_from(["is_in", "not_in"]),
                     st.lists(st.one_of(st.none(), operands), max_size=3))  # fmt: skip


text_fields = st.sampled_from([Field("id"), Field("role")])
time_fields = st.sampled_from([Field(name) for name in TIME_COLUMNS])
list_fields = st.sampled_from([Field("tags"), Field("relationships")])
list_operands = st.lists(texts, max_size=2)
leaves = st.one_of(
    _compared(text_fields, texts),
    _listed(text_fields, st.one_of(texts, st.just(5))),
    st.builds(Field.contains, text_fields, texts),
    _compared(st.just(Field("payload_size")), numbers),
    _listed(st.just(Field("payload_size")), numbers),
    _compared(time_fields, moments),
    _listed(time_fields, moments),
    st.builds(Field.contains, list_fields, st.one_of(texts, st.none(), st.just(5))),
    st.builds(Field.contains_any, list_fields, list_operands),
    st.builds(Field.contains_all, list_fields, list_operands),
    st.builds(Field.eq, st.just(Field("tags")), st.sampled_from(LISTS)),
    st.builds(Field.is_in, st.just(Field("tags")), st.lists(st.sampled_from(LISTS), max_size=2)),
    st.builds(Field.exists, st.one_of(text_fields, time_fields, list_fields)),
)
filters = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda one, other: one & other, inner, inner),
        st.builds(lambda one, other: one | other, inner, inner),
        st.builds(lambda one: ~one, inner),
    ),
    max_leaves=5,
)
filtered = filters.map(lambda one: sql.compile(one, columns=FILTERED))


@given(some=st.lists(st.one_of(nested, selections, shown, filtered), min_size=12, max_size=12))
@settings(max_examples=settings.default.max_examples // 2)
def test_whatever_is_put_together_of_them(table, some):
    for clause in some:
        agree(table, clause)


@given(some=st.lists(leaves, min_size=20, max_size=20))
@settings(max_examples=settings.default.max_examples // 2)
def test_a_filter_and_its_negation(table, some):
    for filter in some:
        n_matching = agree(table, sql.compile(filter, columns=FILTERED))
        assert agree(table, sql.compile(~filter, columns=FILTERED)) == len(ROWS) - n_matching


def test_no_integer_is_the_least_one_and_a_half(table):
    assert agree(table, _filter({"payload_size": -(2**63)})) > 0
    assert agree(table, _filter({"payload_size": LEAST_AND_A_HALF})) == 0


# What only the engine can tell


def _filter(condition):
    return sql.compile(parse(condition, columns=FILTERED), columns=FILTERED)


@pytest.mark.parametrize(
    "clause",
    [
        sql.all_of([sql.equals("role", "a"), "_rowid > 3"]),
        sql.any_of([sql.equals("role", "a"), "_rowid > 3"]),
        predicates.not_true("_rowid > 3"),
        _filter({"metadata.color": NOON}),
        _filter({"role": "a", "metadata.color": NOON}),
        _filter({"$not": {"metadata.color": NOON}}),
    ],
)
def test_what_only_the_engine_can_tell_is_not_guessed(clause):
    assert clause.holds is None


@pytest.mark.parametrize(
    ("clause", "keys"),
    [
        (sql.equals(KEY, "a"), {"a"}),
        (sql.in_list(KEY, ["a", "b"]), {"a", "b"}),
        (sql.in_list(KEY, []), set()),
        (sql.in_list("id", ["a"]), None),
        (sql.not_in_list(KEY, ["a"]), None),
        (sql.all_of([sql.in_list(KEY, ["a", "b"]), sql.is_present("role")]), {"a", "b"}),
        (sql.all_of([sql.in_list(KEY, ["a", "b"]), sql.in_list(KEY, ["b", "c"])]), {"b"}),
        (sql.all_of(["_rowid > 3", sql.equals(KEY, "a")]), {"a"}),
        (sql.all_of([sql.is_present("role"), "true"]), None),
        (sql.any_of([sql.equals(KEY, "a"), sql.in_list(KEY, ["b"])]), {"a", "b"}),
        (sql.any_of([sql.equals(KEY, "a"), sql.is_present("role")]), None),
        (sql.any_of([sql.equals(KEY, "a"), "false"]), {"a"}),
        (sql.any_of([sql.equals(KEY, "a"), ""]), None),
        (predicates.not_true(sql.equals(KEY, "a")), None),
    ],
)
def test_a_clause_knows_the_keys_of_what_it_can_match(clause, keys):
    assert clause.keys == keys


def test_what_stands_on_which_side_of_a_bound_is_as_the_names_say():
    """Apart from the engine: a builder that is wrong in both of its meanings agrees with it."""
    rows = {n: {"n": n, "tags": ["a"]} for n in (1, 2, 3)}

    def holding(clause):
        return [n for n, row in rows.items() if clause.holds(row)]

    assert holding(sql.before("n", 2)) == [1]
    assert holding(sql.at_or_before("n", 2)) == [1, 2]
    assert holding(sql.at_or_after("n", 2)) == [2, 3]
    assert holding(sql.after("n", 2)) == [3]
    assert holding(predicates.has_any("tags", [])) == []
    assert holding(predicates.has_all("tags", [])) == [1, 2, 3]
    assert holding(sql.all_equal({"n": 2, "role": None})) == [2]
    assert holding(sql.all_equal({"n": 2, "role": "a"})) == []
