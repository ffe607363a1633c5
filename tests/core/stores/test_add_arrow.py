"""`add_arrow` of a collection: what it adds is what `add` adds, and bad data adds nothing."""

import json
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lance_context_core import (
    AlreadyExistsError,
    AsyncContextStore,
    ContextStore,
    Document,
    InvalidRequestError,
)
from lance_context_core.adapting import JsonCodec
from lance_context_core.codecs import arrow_json
from lance_context_core.errors import DimensionMismatchError
from lance_context_core.stores import bulk_vectors
from lance_context_core.text.analysis import index_words, index_words_of_all

TEXTS = [
    "the index of a table",
    "Was ist das?",
    "getUserName",
    "日本語",
    "École",
    " ",
    'a "b" \\ \n',
]


@pytest.fixture
def open_store(tmp_path):
    """Opens blocking stores, all of them in one directory, and closes them in the end."""
    opened = []

    def open_(**options):
        opened.append(ContextStore.open(str(tmp_path / "store"), maintenance=None, **options))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One store for all tests that need no other; each uses collections of its own."""
    with ContextStore.open(str(tmp_path_factory.mktemp("store")), maintenance=None) as store:
        yield store


@pytest.fixture
def name(request):
    """A collection that no other test uses."""
    return f"c{abs(hash(request.node.nodeid)):x}"


def a_table(n=6, **columns):
    rows = {
        "id": [f"d{i}" for i in range(n)],
        "text": [TEXTS[i % len(TEXTS)] for i in range(n)],
        "vector": pa.array([[float(i), 1.0, 0.5] for i in range(n)], pa.list_(pa.float32(), 3)),
        "page": [i if i % 3 else None for i in range(n)],
        "author": [f"author {i % 2}" for i in range(n)],
    }
    return pa.table(rows | columns)


def the_documents(table):
    return [
        Document(
            id=row.pop("id"),
            text=row.pop("text"),
            embedding=row.pop("vector"),
            metadata={name: one for name, one in row.items() if one is not None},
        )
        for row in table.to_pylist()
    ]


def everything(collection):
    rows = collection.list(include_embedding=True)
    return [(one.id, one.text, list(one.embedding), one.metadata) for one in rows]


def test_a_table_adds_the_same_documents_as_add(store, name):
    table = a_table(9)
    assert store.vectors(name).add_arrow(table) == 9
    store.vectors(f"{name}-objects").add(the_documents(table))
    mine, others = store.vectors(name), store.vectors(f"{name}-objects")
    assert everything(mine) == everything(others)
    for query in ("index table", "ist", "user name", "日本", "ecole"):
        found = [
            [hit.record.id for hit in one.search(query, mode="text")] for one in (mine, others)
        ]
        assert found[0] == found[1], query
        assert found[0], query
    # The keys are the same, too: the same documents again change nothing.
    assert mine.add(the_documents(table)) == [f"d{i}" for i in range(9)]
    assert others.add_arrow(table) == 0
    assert mine.count() == others.count() == 9


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(lambda table: table, id="a table"),
        pytest.param(lambda table: table.to_reader(max_chunksize=2), id="a reader"),
        pytest.param(lambda table: table.to_batches(max_chunksize=2), id="batches"),
        pytest.param(lambda table: iter(table.to_batches(max_chunksize=2)), id="an iterator"),
        pytest.param(lambda table: table.combine_chunks().to_batches()[0], id="one batch"),
    ],
)
def test_each_form_of_data_is_read_in_its_order(store, name, monkeypatch, form):
    monkeypatch.setattr(bulk_vectors, "_ROWS", 3)
    assert store.vectors(name).add_arrow(form(a_table(8))) == 8
    assert [one.id for one in store.vectors(name).list()] == [f"d{i}" for i in range(8)]


def test_memory_holds_a_few_batches_of_a_reader(store, name, monkeypatch):
    monkeypatch.setattr(bulk_vectors, "_ROWS", 10)
    ahead = []

    def batches():
        for n in range(20):
            yield a_table(10, id=[f"{n}-{i}" for i in range(10)]).to_batches()[0]
            ahead.append(n)

    told = []

    def progress(now):
        told.append((now.n_done, len(ahead)))

    reader = pa.RecordBatchReader.from_batches(a_table().schema, batches())
    assert store.vectors(name).add_arrow(reader, progress=progress) == 200
    # Each step is converted before the next one is read.
    assert [read <= done // 10 for done, read in told[:-1]] == [True] * 20


def test_columns_have_the_names_that_the_caller_gives(store, name):
    table = a_table().rename_columns(["key", "body", "embedding", "page", "author"])
    collection = store.vectors(name)
    collection.add_arrow(table, id="key", text="body", vector="embedding", metadata=["page"])
    assert collection.get(["d1"], include_embedding=True)[0].metadata == {"page": 1}
    assert collection.search([5.0, 1.0, 0.5], limit=1)[0].record.id == "d5"


def test_ids_are_generated_without_a_column_and_differ(store, name):
    table = a_table().drop_columns(["id"])
    collection = store.vectors(name)
    assert collection.add_arrow(table) == collection.add_arrow(table) == 6
    ids = [one.id for one in collection.list()]
    assert len({*ids}) == 12
    assert {len(one) for one in ids} == {32}


def test_texts_without_a_vector_are_embedded(open_store, name, embedder):
    store = open_store(embedder=embedder)
    collection = store.vectors(name)
    texts = ["red wine", "white wine", " ", None]
    given = embedder.embed_documents(["green tea"])[0].tolist()
    table = pa.table({"text": texts, "vector": pa.array([None, None, None, given])})
    collection.add_arrow(table.slice(0, 3).drop_columns(["vector"]))
    collection.add_arrow(table.slice(3), metadata=[])
    by_hand = store.vectors(f"{name}-by-hand")
    by_hand.add([Document(text=text) for text in texts[:3]])
    by_hand.add([Document(embedding=given)])

    def vectors(one):
        found = [row.embedding for row in one.list(include_embedding=True)]
        return [None if vector is None else [*vector] for vector in found]

    assert vectors(collection) == vectors(by_hand)


def test_an_existing_document_is_left_and_another_content_refused(store, name):
    collection = store.vectors(name)
    collection.add(the_documents(a_table(3)))
    assert collection.add_arrow(a_table(5)) == 2
    other = a_table(7, page=[9] * 7)
    with pytest.raises(AlreadyExistsError, match=f"id='d0' is taken in collection '{name}'"):
        collection.add_arrow(other)
    assert collection.count() == 5


def test_a_scope_has_ids_of_its_own(store, name):
    one, two = (store.scope(tenant=tenant).vectors(name) for tenant in ("one", "two"))
    assert one.add_arrow(a_table(4)) == two.add_arrow(a_table(4)) == 4
    assert one.count() == 4
    assert store.vectors(name).count() == 8
    assert one.delete(["d1"]) == 1
    assert [one.count(), two.count()] == [3, 4]


def _nested(table):
    return table.append_column("nested", pa.array([[b"x"]] * len(table)))


@pytest.mark.parametrize(
    ("data", "arguments", "message"),
    [
        pytest.param(a_table(), {"id": "key"}, "id='key' is not a column", id="no such id"),
        pytest.param(a_table(), {"text": "body"}, "text='body' is not a column", id="no such text"),
        pytest.param(a_table(), {"vector": "v"}, "vector='v' is not a column", id="no such vector"),
        pytest.param(
            a_table(), {"metadata": ["day"]}, r"metadata\[0\]='day' is not", id="no such metadata"
        ),
        pytest.param(
            a_table(),
            {"metadata": ["page", "page"]},
            "metadata names 'page' twice",
            id="named twice",
        ),
        pytest.param(
            pa.Table.from_arrays([pa.array(["a"])] * 2, ["text", "text"]),
            {},
            "column 'text' twice",
            id="two columns of one name",
        ),
        pytest.param(
            a_table(), {"id": "page"}, "id='page' is a column of int64", id="ids of numbers"
        ),
        pytest.param(
            a_table(),
            {"vector": "text"},
            "vector='text' is a column of string",
            id="texts as vectors",
        ),
        pytest.param(
            a_table(6, id=["x", "y", "x", "z", "a", "b"]), {}, "id='x' occurs twice", id="twice"
        ),
        pytest.param(
            a_table(6, id=["x", None, "y", "z", "a", "b"]), {}, "row 1 has no id", id="no id"
        ),
        pytest.param(
            a_table(6, id=["x", "", "y", "z", "a", "b"]), {}, "row 1 has an empty id", id="empty"
        ),
        pytest.param(
            pa.table({"id": ["a"], "page": [1]}), {}, "neither a text nor a vector", id="no content"
        ),
        pytest.param(
            pa.table({"text": ["a", None]}),
            {},
            "row 1 has neither a text nor",
            id="a row without content",
        ),
        pytest.param(
            a_table(6, page=[0.5, float("nan"), 1, 1, 1, 1]), {}, "'page' holds a number", id="NaN"
        ),
        pytest.param(_nested(a_table()), {}, "'nested' has the type binary", id="bytes"),
        pytest.param([{"text": "a"}], {}, "pass a pyarrow Table", id="dicts"),
        pytest.param("text", {}, "pass a pyarrow Table", id="a text"),
    ],
)
@pytest.mark.parametrize("rows", [pytest.param(2, id="in steps"), pytest.param(99, id="at once")])
def test_bad_data_is_refused_by_name_and_adds_nothing(
    store, name, monkeypatch, data, arguments, message, rows
):
    monkeypatch.setattr(bulk_vectors, "_ROWS", rows)
    with pytest.raises(InvalidRequestError, match=message):
        store.vectors(name).add_arrow(data, **arguments)
    assert store.vectors(name).count() == 0
    assert name not in store.vectors(name).list_collections()


@pytest.mark.parametrize("rows", [pytest.param(2, id="in steps"), pytest.param(99, id="at once")])
def test_vectors_of_another_length_add_nothing(store, name, monkeypatch, rows):
    monkeypatch.setattr(bulk_vectors, "_ROWS", rows)
    collection = store.vectors(name)
    lengths = pa.array([[1.0, 2.0]] * 4 + [[1.0]] * 2)
    with pytest.raises(DimensionMismatchError):
        collection.add_arrow(a_table(6, vector=lengths))
    collection.add_arrow(a_table(2))  # no vector set the length before
    with pytest.raises(DimensionMismatchError):
        collection.add_arrow(a_table(6, vector=pa.array([[1.0, 2.0]] * 6)))
    with pytest.raises(InvalidRequestError, match="NaN or"):
        collection.add_arrow(a_table(6, vector=pa.array([[1.0, np.inf, 2.0]] * 6)))
    assert collection.count() == 2


def test_an_error_of_the_reader_or_of_progress_adds_nothing(store, name, monkeypatch):
    monkeypatch.setattr(bulk_vectors, "_ROWS", 2)

    def broken():
        yield a_table(2).to_batches()[0]
        raise OSError("no more")

    def stop(now):
        raise KeyError(now.n_done)

    with pytest.raises(OSError, match="no more"):
        store.vectors(name).add_arrow(pa.RecordBatchReader.from_batches(a_table().schema, broken()))
    with pytest.raises(KeyError):
        store.vectors(name).add_arrow(a_table(), progress=stop)
    assert store.vectors(name).count() == 0


def test_a_view_and_a_transaction_refuse_it(store, name):
    store.vectors(name).add_arrow(a_table(2))
    with pytest.raises(InvalidRequestError, match="transaction"), store.transaction() as tx:
        tx.vectors(name).add_arrow(a_table(4))
    assert store.vectors(name).count() == 2


def test_versions_branches_and_reopening_show_it(open_store):
    store = open_store()
    collection = store.vectors("c")
    collection.add_arrow(a_table(2))
    store.tag("before")
    branch = store.create_branch("draft")
    branch.vectors("c").add_arrow(a_table(5))
    assert [collection.count(), branch.vectors("c").count()] == [2, 5]
    collection.add_arrow(a_table(4))
    assert store.checkout("before").vectors("c").count() == 2
    store.close()
    assert open_store().vectors("c").count() == 4


ROUND = [datetime(2026, 1, 1, tzinfo=UTC), datetime.min.replace(tzinfo=UTC)]
"""Their microseconds end in zeros, which the order of times leaves out."""
VALUES = {
    "a text": st.text(alphabet=st.characters(codec="utf-8"), max_size=9),
    "an integer": st.integers(-(2**63), 2**63 - 1),
    "a float": st.floats(allow_nan=False, allow_infinity=False),
    "a boolean": st.booleans(),
    "a date": st.dates(),
    "an instant": st.datetimes(timezones=st.just(UTC)) | st.sampled_from(ROUND),
    "a datetime": st.datetimes(),
    "texts": st.lists(
        st.none() | st.text(alphabet=st.characters(codec="utf-8"), max_size=3), max_size=3
    ),
    "a struct": st.fixed_dictionaries({"x": st.integers(0, 9), "y": st.lists(st.integers(0, 9))}),
}
TYPES = {
    "a date": pa.date32(),
    "an instant": pa.timestamp("us", "UTC"),
    "a datetime": pa.timestamp("us"),
    "texts": pa.list_(pa.string()),
    "a struct": pa.struct([("x", pa.int64()), ("y", pa.list_(pa.int64()))]),
}


def test_times_in_columns_have_the_order_of_the_codec():
    for moment in ROUND:
        [text] = arrow_json.objects({"v": pa.array([moment], TYPES["an instant"])}, 1).to_pylist()
        written = json.loads(JsonCodec().encode_text({"v": moment}, "v"))["v"]
        assert {**json.loads(text)["v"], "value": None} == {**written, "value": None}


@given(st.data())
def test_json_of_columns_is_what_the_codec_of_adapters_writes(data):
    name = data.draw(st.sampled_from(sorted(VALUES)))
    values = data.draw(st.lists(st.none() | VALUES[name], min_size=1, max_size=5))
    column = pa.array(values, TYPES.get(name))
    first = data.draw(st.integers(0, len(values) - 1))
    texts = arrow_json.objects(
        {"v": column.slice(first), 'a "b"': pa.array(values).slice(first)}, 1
    )
    codec = JsonCodec()
    for text, value in zip(texts.to_pylist(), values[first:], strict=True):
        wanted = {} if value is None else {"v": value, 'a "b"': value}
        assert codec.decode_object(json.loads(text)) == wanted
        if value is not None and isinstance(value, date | datetime):
            written, ours = json.loads(codec.encode_text(value, "v")), json.loads(text)["v"]
            assert ours.keys() == written.keys()
            assert all(ours[key] == one for key, one in written.items() if key != "value")


@given(st.lists(st.none() | st.text(alphabet="thewasdi AÉlß日\t.2", max_size=12)))
@example(
    ["was ist das", "the die is cast", "the getUserName", "THE war", "was2 la", "HTTPServer is"]
)
@example(["", " ", "\x1c", "\u3000", "école the", "日本語 the", None])
def test_words_of_many_texts_are_those_of_each(texts):
    wanted = [
        None if one is None or not one or one.isspace() else index_words(one) for one in texts
    ]
    assert index_words_of_all(pa.array(texts, pa.string())).to_pylist() == wanted


def test_the_blocking_store_and_the_asynchronous_one_add_the_same(run, tmp_path):
    async def add():
        store = await AsyncContextStore.open(str(tmp_path / "store"))
        async with store:
            return await store.vectors("c").add_arrow(a_table())

    assert run(add()) == 6
    with ContextStore.open(str(tmp_path / "store")) as store:
        assert store.vectors("c").count() == 6
