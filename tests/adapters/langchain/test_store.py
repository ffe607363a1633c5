"""What LangGraph's contract of a store asks for, and where the framework's own stores fall short."""

import asyncio
import inspect
import math
import subprocess
import sys
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import pytest
from core.conformance.doubles import START
from langchain_lance_context import LanceContextStore
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

from lance_context_core import ContextStore, InvalidRequestError
from lance_context_core.errors import StoreClosedError

USERS = ("users", "ada")


@pytest.fixture
def memory(context_store):
    return LanceContextStore(context_store)


@pytest.fixture(params=["sync", "async"])
def call(request, memory):
    return calling(memory, request.param)


def calling(memory, kind):
    """Calls a method, or awaits the asynchronous one."""

    def called(method, *args, **kwargs):
        if kind == "sync":
            return getattr(memory, method)(*args, **kwargs)
        return asyncio.run(getattr(memory, f"a{method}")(*args, **kwargs))

    return called


@pytest.fixture(scope="module")
def read_only(tmp_path_factory):
    """A store for what is written once, and only read by the tests."""
    with ContextStore.open(tmp_path_factory.mktemp("read only")) as opened:
        yield opened


def keys(found):
    return [one.key for one in found]


def values(found):
    return [one.value for one in found]


# Reading and writing


def test_what_was_put_is_read(call):
    value = {"name": "Ada", "likes": ["tea", {"kind": "green"}], "n": 1.5, "no": None, "yes": True}
    call("put", USERS, "profile", value)
    found = call("get", USERS, "profile")
    assert (found.namespace, found.key, found.value) == (USERS, "profile", value)
    assert isinstance(found.namespace, tuple)
    assert call("get", USERS, "nothing") is None


def test_what_was_deleted_is_gone(call):
    call("put", USERS, "a", {"n": 1})
    call("delete", USERS, "a")
    call("delete", USERS, "a")
    call("delete", ("nobody",), "a")
    assert call("get", USERS, "a") is None
    assert call("search", USERS) == []


def test_times_are_in_utc_and_aware(call):
    call("put", USERS, "a", {})
    found = call("get", USERS, "a")
    assert (found.created_at, found.updated_at) == (START, START)
    assert found.created_at.utcoffset() == timedelta(0)


def test_overwriting_keeps_created_at_and_moves_updated_at(call, clock):
    call("put", USERS, "a", {"n": 1})
    later = clock.advance(minutes=5)
    call("put", USERS, "a", {"n": 2})
    found = call("get", USERS, "a")
    assert (found.value, found.created_at, found.updated_at) == ({"n": 2}, START, later)


def test_overwriting_keeps_nothing_of_the_old_value(call):
    call("put", USERS, "a", {"old": 1, "both": 1})
    call("put", USERS, "a", {"both": 2})
    assert call("get", USERS, "a").value == {"both": 2}


def test_reading_a_namespace_does_not_make_it(call):
    assert call("get", ("ghost",), "a") is None
    assert call("search", ("ghost",)) == []
    assert call("list_namespaces") == []


def test_a_namespace_ends_with_its_last_item(call):
    call("put", USERS, "a", {})
    call("delete", USERS, "a")
    assert call("list_namespaces") == []


def test_a_value_is_not_shared_with_who_put_it(call):
    value = {"likes": ["tea"]}
    call("put", USERS, "a", value)
    value["likes"].append("coffee")
    assert call("get", USERS, "a").value == {"likes": ["tea"]}


def test_a_value_is_not_shared_between_readers(call):
    call("put", USERS, "a", {"likes": ["tea"]})
    one, other = call("batch", [GetOp(USERS, "a"), GetOp(USERS, "a")])
    one.value["likes"].append("coffee")
    assert other.value == {"likes": ["tea"]}
    assert call("get", USERS, "a").value == {"likes": ["tea"]}


def test_a_value_is_read_when_the_call_is_made(context_store):
    class Slow:
        async def __call__(self, texts):
            value["text"] = "changed while the vectors were made"
            return [[1.0] for _ in texts]

    value = {"text": "as it was"}
    memory = LanceContextStore(context_store, index={"embed": Slow(), "dims": 1})
    asyncio.run(memory.aput(USERS, "a", value))
    assert memory.get(USERS, "a").value == {"text": "as it was"}


# Batches


def test_results_are_in_the_order_of_the_operations(call):
    call("put", USERS, "a", {"n": 1})
    results = call(
        "batch",
        [
            ListNamespacesOp(),
            PutOp(USERS, "b", {"n": 2}),
            GetOp(USERS, "a"),
            SearchOp(("users",)),
            GetOp(USERS, "none"),
        ],
    )
    assert results[0] == [USERS]
    assert results[1] is None
    assert results[2].value == {"n": 1}
    assert keys(results[3]) == ["a"]
    assert results[4] is None


def test_reads_see_what_was_there_before_the_batch(call):
    call("put", USERS, "a", {"n": 1})
    changed = [PutOp(USERS, "a", {"n": 2}), PutOp(USERS, "b", {"n": 3})]
    *_, read, found, named = call(
        "batch", [*changed, GetOp(USERS, "a"), SearchOp(()), ListNamespacesOp()]
    )
    assert read.value == {"n": 1}
    assert values(found) == [{"n": 1}]
    assert named == [USERS]


def test_the_last_put_of_a_key_counts(call):
    call("batch", [PutOp(USERS, "a", {"n": 1}), PutOp(USERS, "a", None), PutOp(USERS, "b", None)])
    assert call("get", USERS, "a") is None
    call("batch", [PutOp(USERS, "a", None), PutOp(USERS, "a", {"n": 2}), PutOp(USERS, "b", {})])
    assert call("get", USERS, "a").value == {"n": 2}


def test_a_batch_is_one_commit(memory, context_store):
    memory.put(USERS, "the first one makes the table", {})
    table = context_store.aio.kv("langgraph_store")._table
    before = asyncio.run(table.version())
    memory.batch(
        [PutOp(("a", str(n)), "k", {"n": n}) for n in range(20)]
        + [PutOp(USERS, "the first one makes the table", None), GetOp(USERS, "x"), SearchOp(())]
    )
    assert asyncio.run(table.version()) == before + 1


def test_a_batch_without_puts_writes_nothing(memory, context_store):
    memory.put(USERS, "a", {})
    table = context_store.aio.kv("langgraph_store")._table
    before = asyncio.run(table.version())
    memory.batch([GetOp(USERS, "a"), SearchOp(()), ListNamespacesOp()])
    assert asyncio.run(table.version()) == before


def test_operations_may_come_from_a_generator_and_may_be_none(call):
    assert call("batch", []) == []
    assert call("batch", (op for op in [PutOp(USERS, "a", {}), GetOp(USERS, "a")])) == [None, None]


def test_nothing_of_a_batch_is_written_if_one_operation_is_refused(call):
    for refused in (
        PutOp(("a.b",), "k", {}),
        PutOp(USERS, "k", {"at": object()}),
        PutOp(USERS, "k", {}, ttl=0),
        SearchOp((), filter={"n": {"$near": 1}}),
        SearchOp((), limit=-1),
        "put",
        None,
    ):
        with pytest.raises(ValueError):
            call("batch", [PutOp(USERS, "a", {}), refused])
    assert call("list_namespaces") == []


def test_hundreds_of_writers_at_once(memory):
    async def main():
        await asyncio.gather(
            *(memory.aput(("n", str(n % 7)), str(n), {"n": n}) for n in range(300))
        )
        return await memory.asearch(("n",), limit=1000)

    assert sorted(one.value["n"] for one in asyncio.run(main())) == list(range(300))


# Searching


@pytest.fixture(scope="module", params=["sync", "async"])
def filled(request, read_only):
    call = calling(LanceContextStore(read_only, name=f"filled {request.param}"), request.param)
    for key, value in VALUES.items():
        call("put", ("docs",), key, value)
    return call


VALUES = {
    "one": {"n": 1, "kind": "note", "meta": {"by": "ada", "stars": 5}, "tags": ["x", "y"]},
    "two": {"n": 2.5, "kind": "note", "meta": {"by": "ben", "stars": 1}},
    "three": {"n": 3, "kind": "page", "meta": "none", "at": "2026-01-01"},
    "four": {"kind": "page", "n": None, "a.b": 1, "flag": True},
}


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (None, "one two three four"),
        ({}, "one two three four"),
        ({"kind": "note"}, "one two"),
        ({"kind": "note", "n": 1}, "one"),
        ({"kind": {"$eq": "note"}}, "one two"),
        ({"kind": {"$ne": "note"}}, "three four"),
        ({"n": {"$gt": 1}}, "two three"),
        ({"n": {"$gte": 2.5}}, "two three"),
        ({"n": {"$lt": 3}}, "one two"),
        ({"n": {"$lte": 1}}, "one"),
        ({"n": {"$gt": 1, "$lt": 3}}, "two"),
        ({"n": {"$ne": 1}}, "two three four"),
        ({"n": None}, "four"),
        ({"at": {"$gt": "2025-12-31"}}, "three"),
        ({"meta": {"by": "ada"}}, "one"),
        ({"meta": {"by": "ada", "stars": 5}}, "one"),
        ({"meta": {"by": "ada", "stars": 4}}, ""),
        ({"meta": {"stars": {"$gte": 2}}}, "one"),
        ({"meta": {"stars": {"$eq": 1}, "by": {"$ne": "ada"}}}, "two"),
        ({"meta": {"$eq": {"stars": 1, "by": "ben"}}}, "two"),
        ({"meta": {"$eq": {"by": "ben"}}}, ""),
        ({"meta": "none"}, "three"),
        ({"kind": "note", "meta": {"nothing": None}}, "one two"),
        ({"n": None, "meta": {"nothing": None}}, ""),
        ({"n": None, "meta": {"by": {"$ne": "ada"}}}, ""),
        ({"tags": ["x", "y"]}, "one"),
        ({"tags": ("x", "y")}, "one"),
        ({"tags": ["y", "x"]}, ""),
        ({"a.b": 1}, "four"),
        ({"flag": True}, "four"),
        ({"n": True}, ""),
        ({"nothing": {"$gt": 1}}, ""),
        ({"nothing": {"$lte": "z"}}, ""),
        ({"nothing": 1}, ""),
        ({"nothing": {"deeper": 1}}, ""),
        ({"key": "one"}, ""),
        ({"created_at": {"$gt": 1}}, ""),
    ],
)
def test_a_filter_finds(filled, filter, expected):
    assert sorted(keys(filled("search", ("docs",), filter=filter))) == sorted(expected.split())


@pytest.mark.parametrize(
    "filter",
    [
        {"n": {"$near": 1}},
        {"n": {"$in": [1]}},
        {"n": {"$gt": 1, "other": 2}},
        {"$or": [{"n": 1}]},
        {"meta": {"stars": {"$exists": True}}},
        {"n": {"$gt": None}},
        {1: 2},
        "n = 1",
    ],
)
def test_a_filter_that_is_not_understood_is_a_value_error_even_where_nothing_is(call, filter):
    with pytest.raises(ValueError):
        call("search", ("nowhere",), filter=filter)


def test_what_was_written_last_comes_first(call, clock):
    for key in ("a", "b", "c"):
        call("put", USERS, key, {})
        clock.advance(seconds=1)
    call("put", USERS, "a", {"again": True})
    assert keys(call("search", USERS)) == ["a", "c", "b"]


def test_pages_are_parts_of_one_list(call):
    call("batch", [PutOp(("n",), f"{n:02}", {}) for n in range(25)])
    whole = keys(call("search", ("n",), limit=100))
    assert len(set(whole)) == 25
    pages = [keys(call("search", ("n",), limit=10, offset=offset)) for offset in (0, 10, 20, 30)]
    assert pages == [whole[:10], whole[10:20], whole[20:], []]
    assert len(call("search", ("n",))) == 10
    assert call("search", ("n",), limit=0) == []


def test_a_prefix_is_matched_segment_by_segment(call):
    for namespace in (("user", "1"), ("user", "10"), ("user", "1", "notes"), ("users", "1")):
        call("put", namespace, "k", {})
    assert {one.namespace for one in call("search", ("user", "1"))} == {
        ("user", "1"),
        ("user", "1", "notes"),
    }
    assert len(call("search", ())) == 4


def test_odd_labels_and_keys_are_themselves(call):
    odd = ["%", "_", "it's", "*", 'a"b', "a/b", "ü\n", "\\", "[x]", "DROP TABLE x;--"]
    for label in odd:
        call("put", ("odd", label), label, {label: label})
    for label in odd:
        assert call("get", ("odd", label), label).value == {label: label}
        assert keys(call("search", ("odd", label))) == [label]
        assert keys(call("search", ("odd",), filter={label: label})) == [label]


# Namespaces


@pytest.fixture(scope="module", params=["sync", "async"])
def named(request, read_only):
    call = calling(LanceContextStore(read_only, name=f"named {request.param}"), request.param)
    for namespace in NAMESPACES:
        call("put", namespace, "k", {})
    return call


NAMESPACES = [
    ("a", "b", "c"),
    ("a", "b", "d", "e"),
    ("a", "b", "d", "i"),
    ("a", "b", "f"),
    ("a", "c", "f"),
    ("b", "a", "f"),
]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, NAMESPACES),
        ({"prefix": ("a", "b")}, NAMESPACES[:4]),
        ({"prefix": ("a", "*", "f")}, [("a", "b", "f"), ("a", "c", "f")]),
        ({"prefix": ("*", "b")}, NAMESPACES[:4]),
        ({"suffix": ("f",)}, [("a", "b", "f"), ("a", "c", "f"), ("b", "a", "f")]),
        ({"suffix": ("b", "*")}, [("a", "b", "c"), ("a", "b", "f")]),
        ({"prefix": ("a",), "suffix": ("d", "*")}, [("a", "b", "d", "e"), ("a", "b", "d", "i")]),
        ({"prefix": ("a", "b"), "suffix": ("b", "f")}, [("a", "b", "f")]),
        ({"prefix": ("a", "b", "c", "d", "e")}, []),
        ({"max_depth": 1}, [("a",), ("b",)]),
        (
            {"prefix": ("a", "b"), "max_depth": 3},
            [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")],
        ),
        ({"max_depth": 2, "limit": 2, "offset": 1}, [("a", "c"), ("b", "a")]),
        ({"limit": 2}, NAMESPACES[:2]),
        ({"limit": 2, "offset": 5}, NAMESPACES[5:]),
        ({"offset": 6}, []),
    ],
)
def test_namespaces_are_listed(named, how, expected):
    assert named("list_namespaces", **how) == expected


def test_conditions_of_one_kind_all_hold(named):
    def listed(*conditions):
        op = ListNamespacesOp(tuple(MatchCondition(*one) for one in conditions))
        return named("batch", [op])[0]

    assert listed(("prefix", ("*", "b")), ("prefix", ("a", "*", "d"))) == NAMESPACES[1:3]
    assert listed(("prefix", ("a",)), ("prefix", ("b",))) == []
    assert listed(("suffix", ("f",)), ("suffix", ("c", "*"))) == [("a", "c", "f")]
    with pytest.raises(ValueError, match="prefix"):
        listed(("infix", ("a",)))


# What is refused


@pytest.mark.parametrize(
    "namespace", [(), ("",), ("a", ""), ("a.b",), (1,), (None,), ("a\0b",), ("langgraph", "x"), "a"]
)
def test_a_namespace_that_is_none_is_refused(call, namespace):
    with pytest.raises(InvalidNamespaceError):
        call("put", namespace, "k", {})
    assert call("search", ()) == []


@pytest.mark.parametrize(
    "op",
    [
        PutOp(("a.b",), "k", {}),
        GetOp(("",), "k"),
        SearchOp(("a.b",)),
        SearchOp("ab"),
        ListNamespacesOp((MatchCondition("prefix", ("a.b",)),)),
    ],
)
def test_operations_that_skip_the_methods_are_checked_too(call, op):
    with pytest.raises(InvalidNamespaceError):
        call("batch", [op])


@pytest.mark.parametrize(
    "value",
    [{"x": object()}, {"x": [print]}, {"x": Fraction(1, 2)}, {1: 2}, {"x": "\ud800"}, [1], "x"],
)
def test_a_value_that_cannot_be_kept_is_refused(call, value):
    with pytest.raises(InvalidRequestError):
        call("put", USERS, "a", value)
    assert call("search", ()) == []


@pytest.mark.parametrize(
    "value",
    [START, START.date(), Decimal("1.50"), UUID(int=1), b"\0", (1, "a"), {1, 2}, 2**70, math.inf],
)
def test_a_value_comes_back_equal_and_of_its_type(call, value):
    call("put", USERS, "a", {"x": value, "in": [{"y": value}]})
    read = call("get", USERS, "a").value
    assert read == {"x": value, "in": [{"y": value}]}
    assert type(read["x"]) is type(read["in"][0]["y"]) is type(value)


def test_items_are_found_by_times_and_numbers_as_python_compares_them(call):
    values = [START, START + timedelta(days=1), Decimal("1.5"), 2, math.inf, math.nan, "2"]
    for number, value in enumerate(values):
        call("put", USERS, str(number), {"x": value})

    def keys(condition):
        return sorted(one.key for one in call("search", USERS, filter={"x": condition}))

    assert keys(START) == ["0"]
    assert keys({"$gt": START}) == ["1"]
    assert keys({"$lt": math.inf}) == ["2", "3"]
    assert keys({"$lte": math.inf}) == ["2", "3", "4"]
    assert keys({"$gt": Decimal("1.5")}) == ["3", "4"]
    assert keys({"$gt": -math.inf}) == ["2", "3", "4"]
    assert keys(math.nan) == []
    assert keys({"$ne": math.nan}) == [*"0123456"]


def test_a_value_that_holds_itself_is_refused(call):
    value = {}
    value["itself"] = value
    with pytest.raises(InvalidRequestError):
        call("put", USERS, "a", value)


@pytest.mark.parametrize("how", [{"limit": -1}, {"offset": -1}, {"limit": 1.5}, {"limit": None}])
def test_a_page_that_is_none_is_refused(call, how):
    with pytest.raises(InvalidRequestError):
        call("search", (), **how)
    with pytest.raises(InvalidRequestError):
        call("list_namespaces", **how)


def test_a_depth_that_is_none_is_refused(call):
    with pytest.raises(InvalidRequestError):
        call("list_namespaces", max_depth=0)


# The store around it


def test_it_is_langgraphs_store_with_the_same_signatures():
    assert issubclass(LanceContextStore, BaseStore)
    for name in ("batch", "abatch", "get", "search", "put", "delete", "list_namespaces"):
        ours, theirs = getattr(LanceContextStore, name), getattr(BaseStore, name)
        assert list(inspect.signature(ours).parameters) == list(
            inspect.signature(theirs).parameters
        )


def test_what_is_written_here_is_an_item_of_the_store(memory, context_store):
    memory.put(USERS, "a", {"n": 1})
    [item] = context_store.kv("langgraph_store").list()
    assert (item.namespace, item.key, item.value) == (USERS, "a", {"n": 1})


def test_what_the_store_writes_is_read_here(memory, context_store):
    from lance_context_core import Item

    context_store.kv("langgraph_store").put(
        [Item(namespace=USERS, key="a", value={"n": 1}), Item(namespace=USERS, key="b", data=b"x")]
    )
    assert memory.get(USERS, "a").value == {"n": 1}
    assert memory.get(USERS, "b").value == {}


def test_names_keep_items_apart(context_store):
    one, other = (LanceContextStore(context_store, name=name) for name in ("one", "other"))
    one.put(USERS, "a", {})
    assert other.get(USERS, "a") is None
    assert other.list_namespaces() == []


def test_scopes_isolate(context_store):
    ada, ben = (LanceContextStore(context_store.scope(user_id=who)) for who in ("ada", "ben"))
    ada.put(("notes",), "a", {"by": "ada"})
    ben.put(("notes",), "a", {"by": "ben"})
    ben.put(("secrets",), "b", {})
    assert ada.get(("notes",), "a").value == {"by": "ada"}
    assert values(ada.search(())) == [{"by": "ada"}]
    assert ada.list_namespaces() == [("notes",)]
    ada.delete(("secrets",), "b")
    assert ben.get(("secrets",), "b") is not None
    whole = LanceContextStore(context_store)
    assert len(whole.search(())) == 3
    assert whole.get(("notes",), "a") is None


def test_an_asynchronous_store_will_do(tmp_path):
    from lance_context_core import AsyncContextStore

    async def main():
        async with await AsyncContextStore.open(tmp_path) as opened:
            memory = LanceContextStore(opened)
            await memory.aput(USERS, "a", {"n": 1})
            return (await memory.aget(USERS, "a")).value

    assert asyncio.run(main()) == {"n": 1}


def test_one_that_was_opened_here_is_closed_here(tmp_path):
    with LanceContextStore(tmp_path) as memory:
        memory.put(USERS, "a", {})
    with pytest.raises(StoreClosedError):
        memory.get(USERS, "a")
    with pytest.raises(RuntimeError, match="closed"):
        memory.put(USERS, "a", {})

    async def again():
        async with LanceContextStore(tmp_path) as opened:
            found = await opened.aget(USERS, "a")
        with pytest.raises(StoreClosedError):
            await opened.aget(USERS, "a")
        return found

    assert asyncio.run(again()) is not None


def test_one_that_was_handed_over_stays_open(context_store):
    with LanceContextStore(context_store) as memory:
        memory.put(USERS, "a", {})
    assert memory.get(USERS, "a") is not None


def test_a_new_process_reads_all(tmp_path):
    with LanceContextStore(tmp_path, ttl={"default_ttl": 60}) as memory:
        memory.put(USERS, "a", {"n": 1})
        memory.put((*USERS, "notes"), "b", {"n": 2})
    program = """
import sys
from langchain_lance_context import LanceContextStore
with LanceContextStore(sys.argv[1]) as memory:
    print([one.value for one in memory.search(())], memory.list_namespaces())
    memory.put(("from", "there"), "c", {"n": 3})
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"{[{'n': 2}, {'n': 1}]} {[USERS, (*USERS, 'notes')]}"
    with LanceContextStore(tmp_path) as memory:
        assert memory.get(("from", "there"), "c").value == {"n": 3}


def test_two_processes_write_at_once(tmp_path):
    program = """
import sys
from langchain_lance_context import LanceContextStore
with LanceContextStore(sys.argv[1]) as memory:
    sys.stdin.readline()
    for n in range(8):
        memory.put((sys.argv[2],), f"{n}", {"n": n})
        memory.put(("shared",), f"{n}", {"by": sys.argv[2]})
"""
    with LanceContextStore(tmp_path) as memory:
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", program, tmp_path, name], stdin=subprocess.PIPE, text=True
            )
            for name in "ab"
        ]
        for one in writers:
            one.stdin.write("\n")
            one.stdin.flush()
        for one in writers:
            one.communicate(timeout=120)
            assert one.returncode == 0
        for name in "ab":
            found = memory.search((name,), limit=100)
            assert sorted(one.value["n"] for one in found) == list(range(8))
        assert len(memory.search(("shared",), limit=100)) == 8


def test_the_leaf_of_langgraph_is_the_same_class():
    import langgraph
    import langgraph.store
    from langgraph.store.lance_context import LanceContextStore as Leaf

    assert Leaf is LanceContextStore
    # A package with a file of its own would hide the framework's modules.
    assert langgraph.__file__ is None
    assert langgraph.store.__file__ is None
