"""What was indexed when: the clock, the records, and the indexing API over them."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from core.conformance.doubles import START
from langchain_core.documents import Document
from langchain_core.indexing import RecordManager, aindex, index
from langchain_lance_context import LanceContextRecordManager, LanceContextVectorStore

from lance_context_core import InvalidRequestError
from lance_context_core.errors import StoreClosedError


@pytest.fixture
def records(context_store):
    return LanceContextRecordManager("docs", context_store)


@pytest.fixture(params=["sync", "async"])
def call(request, records):
    """Calls a method, or awaits the asynchronous one."""

    def called(method, *args, **kwargs):
        if request.param == "sync":
            return getattr(records, method)(*args, **kwargs)
        return asyncio.run(getattr(records, f"a{method}")(*args, **kwargs))

    return called


# The clock


def test_the_time_is_that_of_the_store(call):
    assert call("create_schema") is None
    assert call("get_time") == pytest.approx(START.timestamp(), abs=1e-3)


def test_no_two_times_are_the_same_while_the_clock_stands(call):
    times = [call("get_time") for _ in range(5)]
    assert times == sorted(set(times))


def test_the_time_goes_on_while_the_clock_is_set_back(call, clock):
    before = call("get_time")
    clock.advance(days=-1)
    assert call("get_time") > before
    call("update", ["a"])
    assert call("list_keys", after=before) == ["a"]


def test_what_is_updated_after_a_time_is_not_before_it(call):
    call("update", ["early"])
    now = call("get_time")
    call("update", ["late"], time_at_least=now)
    assert call("list_keys", before=now) == ["early"]
    assert call("list_keys", after=now) == ["late"]
    assert call("list_keys", before=call("get_time")) == ["early", "late"]


def test_many_threads_get_different_times(records):
    with ThreadPoolExecutor(8) as pool:
        times = list(pool.map(lambda _: records.get_time(), range(16)))
    assert len(set(times)) == 16
    assert records.get_time() > max(times)


def test_the_clock_is_one_item(records, context_store):
    for _ in range(20):
        records.get_time()
    assert context_store.kv("langchain_records").count() == 1


def test_processes_share_the_clock(tmp_path):
    program = """
import sys
from langchain_lance_context import LanceContextRecordManager
with LanceContextRecordManager("docs", sys.argv[1]) as records:
    sys.stdin.readline()
    for n in range(5):
        records.update([f"{sys.argv[2]}{n}"])
        print(repr(records.get_time()))
"""
    uri = str(tmp_path / "shared")
    with LanceContextRecordManager("docs", uri) as records:
        start = records.get_time()
        others = [
            subprocess.Popen(
                [sys.executable, "-c", program, uri, name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in "ab"
        ]
        said = []
        for one in others:
            one.stdin.write("\n")
            one.stdin.flush()
        for one in others:
            said.append([float(line) for line in one.communicate(timeout=120)[0].split()])
            assert one.returncode == 0
        assert all(times == sorted(times) for times in said)
        times = [time for some in said for time in some]
        assert len(set(times)) == 10
        assert min(times) > start
        assert records.get_time() > max(times)
        assert len(records.list_keys(after=start)) == 10
        assert records.list_keys(before=start) == []


# The records


def test_what_was_updated_exists(call):
    assert call("exists", ["a", "b"]) == [False, False]
    call("update", ["a"])
    assert call("exists", ["b", "a", "a"]) == [False, True, True]
    call("delete_keys", ["a", "nothing"])
    assert call("exists", ["a"]) == [False]


def test_keys_are_listed_by_group_and_by_time(call, clock):
    call("update", ["a", "b"], group_ids=["x", "y"])
    clock.advance(seconds=10)
    call("update", ["c", "d"], group_ids=["x", None])
    middle = (START + timedelta(seconds=5)).timestamp()
    assert call("list_keys") == ["a", "b", "c", "d"]
    assert call("list_keys", group_ids=["x"]) == ["a", "c"]
    assert call("list_keys", group_ids=["x", "y"]) == ["a", "b", "c"]
    assert call("list_keys", group_ids=["z"]) == []
    assert call("list_keys", before=middle) == ["a", "b"]
    assert call("list_keys", after=middle) == ["c", "d"]
    assert call("list_keys", after=middle, before=middle) == []
    assert call("list_keys", group_ids=["x"], before=middle) == ["a"]
    assert call("list_keys", limit=3) == ["a", "b", "c"]
    assert call("list_keys", limit=0) == []


def test_an_update_moves_the_time_and_the_group(call, clock):
    call("update", ["a"], group_ids=["x"])
    clock.advance(seconds=10)
    call("update", ["a"], group_ids=["y"])
    assert call("list_keys", group_ids=["x"]) == []
    assert call("list_keys", before=START.timestamp() + 5) == []
    assert call("list_keys", group_ids=["y"]) == ["a"]


def test_bounds_are_excluded_and_exact(call, context_store):
    call("update", ["a"])
    [item] = context_store.kv("langchain_records").list(namespace=("docs", "records"))
    moment = item.value["updated_at"]
    assert call("list_keys", before=moment) == []
    assert call("list_keys", after=moment) == []
    assert call("list_keys", before=moment + 1e-6) == ["a"]
    assert call("list_keys", after=moment - 1e-6) == ["a"]


def test_of_no_groups_no_key_is_one(call):
    call("update", ["a"], group_ids=["x"])
    assert call("list_keys", group_ids=[]) == []


def test_an_update_is_one_commit(records, context_store):
    records.update(["first"])
    table = context_store.aio.kv("langchain_records")._table
    before = asyncio.run(table.version())
    records.update([f"{n}" for n in range(100)], group_ids=["x"] * 100)
    assert asyncio.run(table.version()) == before + 1


def test_nothing_is_a_call_of_its_own(call, context_store):
    call("update", [])
    call("delete_keys", [])
    assert call("exists", []) == []
    assert call("list_keys") == []
    assert context_store.kv("langchain_records").count() == 0


def test_bad_input_is_refused_before_anything_is_written(call, context_store):
    for args, kwargs in (
        (["ab"], {}),
        ([None], {}),
        ([["a", None]], {}),
        ([["a"]], {"group_ids": ["x", "y"]}),
        ([["a"]], {"group_ids": []}),
        ([["a", "b"]], {"group_ids": "xy"}),
        ([["a"]], {"group_ids": [object()]}),
        ([["a"]], {"time_at_least": START.timestamp() + 60}),
    ):
        with pytest.raises(InvalidRequestError):
            call("update", *args, **kwargs)
    for method in ("exists", "delete_keys"):
        with pytest.raises(InvalidRequestError):
            call(method, "ab")
    with pytest.raises(InvalidRequestError):
        call("list_keys", limit=-1)
    assert context_store.kv("langchain_records").count() == 0


def test_generators_are_read_once(call):
    call("update", (key for key in "ab"), group_ids=(group for group in "xy"))
    assert call("list_keys", group_ids=(one for one in "y")) == ["b"]
    assert call("exists", (key for key in "abc")) == [True, True, False]


def test_namespaces_and_scopes_keep_records_apart(context_store):
    one = LanceContextRecordManager("one", context_store)
    other = LanceContextRecordManager("other", context_store)
    ada = LanceContextRecordManager("one", context_store.scope(user_id="ada"))
    one.update(["a"])
    other.update(["b"])
    ada.update(["c"])
    ada.delete_keys(["a"])
    assert (other.list_keys(), ada.list_keys()) == (["b"], ["c"])
    assert one.exists(["a", "b", "c"]) == [True, False, False]


def test_records_and_clock_outlive_the_process(tmp_path):
    with LanceContextRecordManager("docs", tmp_path) as first:
        first.update(["a"])
        before = first.get_time()
    with pytest.raises(StoreClosedError):
        first.get_time()
    with LanceContextRecordManager("docs", tmp_path) as second:
        assert second.list_keys(before=before) == ["a"]
        assert second.get_time() > before


def test_all_of_the_contract_is_there():
    assert issubclass(LanceContextRecordManager, RecordManager)
    assert LanceContextRecordManager.__abstractmethods__ == frozenset()


# The indexing API

FIRST = [("a", "one"), ("a", "two"), ("b", "three")]
CHANGED = [("a", "one"), ("a", "two again")]
LEFT = {
    None: {"one", "two", "three", "two again"},
    "incremental": {"one", "three", "two again"},
    "scoped_full": {"one", "three", "two again"},
    "full": {"one", "two again"},
}
"""What is there after `FIRST`, and then `CHANGED`, were indexed: of source b nothing was said."""


def documents(pairs):
    return [Document(text, metadata={"source": source}) for source, text in pairs]


def texts(store):
    return sorted(one.text for one in store.vectors().list())


@pytest.mark.parametrize("cleanup", LEFT)
@pytest.mark.parametrize(("batch_size", "kind"), [(1, "async"), (100, "sync")])
def test_what_was_indexed_is_there_once(
    context_store, records, embedding, cleanup, batch_size, kind
):
    """The clock of the machine stands still all the while."""
    vectorstore = LanceContextVectorStore(context_store, embedding)

    def run(pairs, **more):
        how = {
            "cleanup": cleanup,
            "source_id_key": "source",
            "batch_size": batch_size,
            "key_encoder": "sha256",
            **more,
        }
        if kind == "sync":
            return index(documents(pairs), records, vectorstore, **how)
        return asyncio.run(aindex(documents(pairs), records, vectorstore, **how))

    assert run(FIRST)["num_added"] == 3
    again = run(FIRST)
    # With smaller batches the framework deletes and adds what the next batch has of a source.
    assert batch_size == 1 or again["num_skipped"] == 3
    assert texts(context_store) == ["one", "three", "two"]
    run(CHANGED)
    assert texts(context_store) == sorted(LEFT[cleanup])
    run(CHANGED, force_update=True)
    assert texts(context_store) == sorted(LEFT[cleanup])
    assert len(records.list_keys()) == len(LEFT[cleanup])


@pytest.mark.parametrize("cleanup", ["full", "scoped_full"])
def test_indexing_nothing_deletes_what_the_mode_says(context_store, records, embedding, cleanup):
    vectorstore = LanceContextVectorStore(context_store, embedding)
    how = {"cleanup": cleanup, "source_id_key": "source", "key_encoder": "sha256"}
    index(documents(FIRST), records, vectorstore, **how)
    index([], records, vectorstore, **how)
    assert texts(context_store) == ([] if cleanup == "full" else ["one", "three", "two"])


def test_a_clock_that_is_set_back_deletes_nothing_new(context_store, records, embedding, clock):
    vectorstore = LanceContextVectorStore(context_store, embedding)
    how = {"cleanup": "full", "key_encoder": "sha256"}
    index(documents(FIRST), records, vectorstore, **how)
    clock.advance(hours=-1)
    index(documents(CHANGED), records, vectorstore, **how)
    assert texts(context_store) == ["one", "two again"]
    clock.advance(hours=-1)
    index(documents(FIRST), records, vectorstore, **how)
    assert texts(context_store) == ["one", "three", "two"]
