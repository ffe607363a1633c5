"""Whatever is passed is either kept and read back equal, or refused in words before anything is written."""

import asyncio
import math
import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from core.conformance.backends import memory
from core.conformance.doubles import ManualClock
from hypothesis import given, settings
from hypothesis import strategies as st
from lance_context_testing.samples import NAMES, NO_NAMES, TEXTS

from lance_context_core import ContextStoreError, InvalidRequestError, Message
from lance_context_core.errors import DimensionMismatchError, FilterError
from lance_context_core.types import Document

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - that is the point
MEGABYTE = 1_000_000


async def state(store):
    """The version of each table: what any write, of anything, would change."""
    return {table.name: await table.version() for table in await store._whole().tables()}


async def filled(store):
    await store.history.append("a", Message.user("tea", id="m"), session_id="s", run_id="r")
    await store.memory.add(["tea"], user_id="u", session_id="s")
    await store.sessions.create("s", title="A title")
    await store.vectors("c").add([Document(id="d", text="tea", embedding=[1.0, 2.0])])
    await store.context().add("user", "tea", external_id="e", embedding=[1.0, 2.0])
    return store


@pytest.fixture(scope="module")
def full():
    """A store with a row in each room, which no test changes."""
    store = asyncio.run(filled(memory().open(clock=ManualClock())))
    yield store
    asyncio.run(store.close())


async def assert_refused(store, work, *says, kind=InvalidRequestError):
    """`work` is refused in words that name what is wrong, and nothing was written."""
    before = await state(store)
    with pytest.raises(kind) as caught:
        await work
    for part in says:
        assert part in str(caught.value)
    assert len(str(caught.value)) < 500
    assert await state(store) == before


# Names

text = st.text(st.characters(codec=None), max_size=6)
hostile = st.sampled_from([*NAMES, *NO_NAMES, "", *TEXTS[:8]]) | text


def is_text(value):
    return value == value.encode("utf-8", "replace").decode()


def is_name(value):
    return is_text(value) and "\0" not in value


FIELDS = [
    "external_id",
    "session_id",
    "run_id",
    "user_id",
    "tenant",
    "agent_id",
    "name",
    "layer",
    "source",
]
FIELDS += [
    "payload_uri",
    "retention_policy",
    "supersedes_id",
    "superseded_by_id",
    "payload_checksum",
]


@pytest.mark.slow
@settings(max_examples=2 * settings.default.max_examples)
@given(
    st.dictionaries(st.sampled_from(FIELDS), hostile, max_size=5),
    hostile,
    st.lists(hostile, max_size=3),
)
def test_a_record_whose_names_are_any_text_is_kept_or_refused_by_the_name_of_its_field(
    full, fields, content, tags
):
    asyncio.run(keep_or_refuse(full, fields, content, tags))


async def keep_or_refuse(store, fields, content, tags):
    wrong = {name: value for name, value in fields.items() if not is_name(value)}
    wrong |= {} if is_text(content) else {"content": content}
    wrong |= {} if all(map(is_text, tags)) else {"tags": tags}
    context = store.context("another")
    work = context.add("tool", content, tags=tags, **fields)
    if wrong:
        with pytest.raises(InvalidRequestError) as caught:
            await work
        assert any(name in str(caught.value) for name in wrong)
        assert await context.entries() == 0
        return
    try:
        written = await work
        # Who names what superseded it is hidden.
        (found,) = await context.list(include_retired=True)
        assert await context.entries() == (0 if fields.get("superseded_by_id") else 1)
        assert found["content"] == content
        assert found["tags"] == tags
        # An empty name is an absent one.
        assert {name: found[name] or "" for name in fields} == fields
        if fields.get("external_id") and not fields.get("superseded_by_id"):
            assert (await context.get(external_id=fields["external_id"]))["id"] == written.ids[0]
        for name in FIELDS[:8]:
            if fields.get(name):
                matching = await context.list(filters={name: fields[name]}, include_retired=True)
                assert [one["id"] for one in matching] == [found["id"]]
    finally:
        await context.delete(id=(await context.list(include_retired=True))[0]["id"])


@pytest.mark.slow
@settings(max_examples=2 * settings.default.max_examples)
@given(hostile, hostile)
def test_what_is_related_is_found_by_any_name_or_refused(full, target, relation):
    async def relate():
        context = full.context("relations")
        edge = {"target_id": target, "relation": relation}
        work = context.add("tool", "tea", relationships=[edge])
        if target and relation and is_name(target) and is_name(relation):
            (id,) = (await work).ids
            assert [one["id"] for one in await context.related(target)] == [id]
            assert [one["id"] for one in await context.related(target, relation)] == [id]
            assert await context.related(f"{target}x", relation) == []
            assert await context.related(f"{relation}\t{target}") == []
            assert await context.delete(id=id)
        else:
            with pytest.raises(InvalidRequestError, match=r"relationships\[0\]\['(target_id|rel)"):
                await work
            assert await context.entries() == 0

    asyncio.run(relate())


# Filters

JUNK = [None, True, 0, -1, 1.5, math.nan, math.inf, 2**64, -(2**63) - 1, b"a", NAIVE, Decimal(1)]
JUNK += [
    datetime(2026, 1, 1, tzinfo=UTC),
    {1},
    object(),
    np.float32(1),
    np.array([1.0]),
    1j,
    [],
    {},
]
KEYS = ["$and", "$or", "$not", "$in", "$eq", "$gt", "$exists", "$contains", "$text", "$", "$where"]
KEYS += ["id", "created_at", "created_after", "tags", "payload_size", "metadata", "relationships"]
KEYS += ["embedding", "metadata.", ".", "..", "a..b", "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q"]
junk, keys = st.sampled_from(JUNK), st.sampled_from(KEYS)
anything = st.recursive(
    junk | hostile,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | hostile, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=7 * settings.default.max_examples)
@given(st.dictionaries(keys | hostile, anything, max_size=3) | anything)
def test_a_filter_of_anything_is_understood_or_refused_by_a_filter_error(full, filter):
    async def ask():
        before = await full.version()
        for read in (
            full.context().list(filters=filter),
            full.search("tea", mode="text", filter=filter),
            full.vectors("c").list(filter=filter),
        ):
            try:
                assert isinstance(await read, list)
            except FilterError:
                continue
        assert await full.version() == before

    asyncio.run(ask())


# Metadata

UNKEEPABLE = [math.nan, math.inf, -math.inf, 2**64, -(2**63) - 1, 10**400, "\ud800", b"b", {1}]
UNKEEPABLE += [
    object(),
    1j,
    NAIVE,
    Decimal(1),
    range(3),
    np.int64(1),
    np.array([1]),
    {1: 2},
    {"\udfff": 1},
]
ROOMS = {
    "record": lambda s, m: s.context().add("user", "x", metadata=m),
    "record's state": lambda s, m: s.context().add("user", "x", state_metadata=m),
    "update": lambda s, m: s.context().update(external_id="e", metadata=m),
    "upsert": lambda s, m: s.context().upsert("user", "x", external_id="e", metadata=m),
    "memory": lambda s, m: s.memory.add(["x"], metadata=m),
    "session": lambda s, m: s.sessions.create("new", metadata=m),
    "session's update": lambda s, m: s.sessions.update("s", metadata=m),
    "document": lambda s, m: s.vectors("c").add([Document(text="x", metadata=m)]),
    "replaced document": lambda s, m: s.vectors("c").upsert(
        [Document(id="d", text="x", metadata=m)]
    ),
    "content": lambda s, m: s.context().add("user", m),
}


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("value", UNKEEPABLE)
async def test_metadata_that_cannot_be_kept_is_refused_by_the_path_to_it(full, room, value):
    what = "content" if room == "content" else "metadata"
    work = ROOMS[room](full, {"a'b": [0, {"key": value}]})
    await assert_refused(full, work, f"""{what}["a'b"][1]['key'] is """)


@pytest.mark.parametrize("room", ROOMS)
async def test_metadata_that_is_nested_too_deep_or_holds_itself_is_refused(full, room):
    endless = {}
    endless["a"] = [endless]
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for value in (endless, {"a": deep}):
        await assert_refused(full, ROOMS[room](full, value), "nested more than 100 deep")
    while deep:  # taken apart by hand: so deep a list would overflow the stack when it is freed
        deep = deep.pop()


# Vectors

NO_VECTORS = [
    [],
    [[1.0, 2.0]],
    [math.nan, 1.0],
    [1.0, math.inf],
    [1e39, 0.0],
    ["1", "2"],
    [None, 1.0],
]
NO_VECTORS += [
    [True, False],
    [1j, 2j],
    "ab",
    b"ab",
    5,
    {1: 2},
    [[1.0], [1.0, 2.0]],
    np.zeros((2, 0)),
]
NO_VECTORS += [np.array(["a", "b"]), [object(), 1.0], iter([1.0, 2.0]), np.array(1.0)]
GIVEN = {
    "record": lambda s, v: s.context().add("user", "x", embedding=v),
    "update": lambda s, v: s.context().update(external_id="e", embedding=v),
    "upsert": lambda s, v: s.context().upsert("user", "x", external_id="e", embedding=v),
    "document": lambda s, v: s.vectors("c").add([Document(text="x", embedding=v)]),
    "replaced document": lambda s, v: s.vectors("c").upsert([Document(id="d", embedding=v)]),
    "new collection": lambda s, v: s.vectors("new").add([Document(text="x", embedding=v)]),
    "search": lambda s, v: s.search(vector=v),
    "text and vector": lambda s, v: s.history.search("tea", vector=v),
    "documents": lambda s, v: s.vectors("c").search(vector=v),
    "retrieve": lambda s, v: s.context().retrieve(text="tea", vector=v),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("value", NO_VECTORS)
async def test_what_is_no_vector_is_refused_by_name(full, given, value):
    with pytest.raises(InvalidRequestError, match=r"embedding|vector"):
        await GIVEN[given](full, value)
    await assert_refused(full, GIVEN[given](full, value))


@pytest.mark.parametrize("given", [name for name in GIVEN if name != "new collection"])
@pytest.mark.parametrize("length", [1, 3, 10_000])
async def test_a_vector_of_another_length_is_refused_by_both_lengths(full, given, length):
    work = GIVEN[given](full, [1.0] * length)
    await assert_refused(full, work, f"length {length}", "2 numbers", kind=DimensionMismatchError)


@pytest.mark.parametrize(
    "vector", [[1, 2], (1.0, 2.0), np.array([1, 2], ">f8"), np.float16([1, 2])]
)
async def test_numbers_of_any_sort_make_a_vector(store, vector):
    await store.vectors("c").add([Document(id="d", embedding=vector)])
    (found,) = await store.vectors("c").get(["d"], include_embedding=True)
    assert list(found.embedding) == [1.0, 2.0]


# Times

EDGE = datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=2)))
"""Past the last year that UTC has."""
AT_TIMES = {
    "created_at": lambda s, t: s.context().add("user", "x", created_at=t),
    "expires_at": lambda s, t: s.context().update(external_id="e", expires_at=t),
    "retired_at": lambda s, t: s.context().upsert("user", "x", external_id="e", retired_at=t),
    "ended_at": lambda s, t: s.sessions.update("s", ended_at=t),
}


@pytest.mark.parametrize("name", AT_TIMES)
@pytest.mark.parametrize("time", [NAIVE, NAIVE.isoformat(), EDGE, 5, 1.5, True, b"2026"])
async def test_a_time_that_is_no_instant_is_refused_by_name(full, name, time):
    await assert_refused(full, AT_TIMES[name](full, time), name)


async def test_other_times_without_a_zone_are_refused(full):
    for work in (
        full.memory.add(["x"], expires_at=NAIVE),
        full.checkout(NAIVE),
        full.diff(NAIVE),
        full.restore(NAIVE),
        full.tag("new", version=NAIVE),
        full.context().list(filters={"created_after": NAIVE}),
        full.context().list(filters={"expires_at": {"$lt": "2026-01-01T00:00:00"}}),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            await work
        assert re.search("zone|aware", str(caught.value))


# Numbers


COUNTED = {
    "limit": [
        lambda s, n: s.search("tea", limit=n),
        lambda s, n: s.history.search("tea", limit=n),
        lambda s, n: s.memory.search("tea", limit=n),
        lambda s, n: s.vectors("c").search("tea", limit=n),
        lambda s, n: s.context().search("tea", limit=n),
        lambda s, n: s.context().retrieve(text="tea", limit=n),
        lambda s, n: s.context().list(limit=n),
        lambda s, n: s.context().related("x", limit=n),
        lambda s, n: s.history.get_messages("a", session_id="s", limit=n),
        lambda s, n: s.sessions.list(limit=n),
        lambda s, n: s.memory.latest(limit=n),
    ],
    "last": [lambda s, n: s.history.get_messages("a", session_id="s", last=n)],
    "offset": [
        lambda s, n: s.history.get_messages("a", session_id="s", offset=n),
        lambda s, n: s.history.get_messages("a", session_id="s", last=1, offset=n),
        lambda s, n: s.sessions.list(offset=n),
        lambda s, n: s.context().list(offset=n),
        lambda s, n: s.memory.latest(offset=n),
    ],
    "page": [lambda s, n: s.memory.list(user_id="u", page=n)],
    "page_size": [lambda s, n: s.memory.list(user_id="u", page_size=n)],
}


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("number", [-1, 1.5, "1", True, [1], -(2**70), math.nan])
async def test_what_counts_nothing_is_refused_by_name_and_value(full, name, number):
    for read in COUNTED[name]:
        await assert_refused(full, read(full, number), f"{name}={number!r}")


@pytest.mark.parametrize("number", [2**31, 2**40])
async def test_more_than_there_is_is_all_that_there_is(full, number):
    for read in COUNTED["limit"][:-1]:
        assert len(await read(full, number)) == len(await read(full, 100))
    assert (await full.memory.list(user_id="u", page_size=number)).total == 1
    assert (await full.memory.list(user_id="u", page=number)).items == []


# Sizes


@pytest.mark.long
async def test_fifty_megabytes_come_back_whole(store):
    blob = np.random.default_rng(7).bytes(50 * MEGABYTE)
    text = "The tea is green; it's \u65e5\u672c\u8336. " * (50 * MEGABYTE // 35)
    context = store.context()
    await context.add("tool", blob, external_id="blob")
    await context.add("tool", text, external_id="text")
    assert (await context.get(external_id="blob"))["content"] == blob
    assert (await context.get(external_id="text"))["content"] == text
    assert [hit["external_id"] for hit in await context.search("tea", include_binary=False)] == [
        "text"
    ]
    (light,) = await context.list(filters={"external_id": "blob"}, include_binary=False)
    assert light["binary"] is None
    assert await context.delete(external_id="blob")


async def test_a_name_of_a_megabyte_is_a_name(store):
    name = "n'" * (MEGABYTE // 2)
    await store.context().add("user", "tea", external_id=name, user_id=name, tags=[name])
    await store.history.append(name, Message.user("tea", id=name), session_id=name)
    assert (await store.context().get(external_id=name))["tags"] == [name]
    assert [one.id for one in await store.history.get_messages(name, session_id=name)] == [name]


@pytest.mark.slow
async def test_ten_thousand_records_are_one_commit_or_none(open_store):
    context = open_store(maintenance=None).context()
    records = [{"role": "tool", "content": f"{n}", "external_id": f"e{n}"} for n in range(10_000)]
    await context.add("tool", "first")
    version = await context.version()
    for wrong in ({**records[0]}, {"role": "tool", "content": object()}, {"role": "tool"}):
        with pytest.raises(InvalidRequestError):
            await context.add_many([*records, wrong])
        assert await context.version() == version
    written = await context.add_many(records)
    assert written.version == version + 1
    assert [one["content"] for one in await context.list(offset=1)] == [
        f"{n}" for n in range(10_000)
    ]
    assert await context.add_many(records) == written


@pytest.mark.parametrize("text", [one for one in TEXTS if not one.strip()])
async def test_a_text_without_words_is_kept_where_it_says_something_and_refused_where_not(
    store, text
):
    await store.context().add("user", text, external_id="e")
    await store.vectors("c").add([Document(id="d", text=text)])
    await store.history.append("a", Message.user(text, id="m"), session_id="s")
    assert (await store.context().get(external_id="e"))["content"] == text
    assert (await store.vectors("c").get(["d"]))[0].text == text
    assert [one.text for one in await store.history.get_messages("a", session_id="s")] == [text]
    assert await store.search(text) == []
    await assert_refused(store, store.memory.add([text]), "memories[0] is empty")


# Other arguments

REFUSED = {
    "memories": lambda s: s.memory.add("tea"),
    "messages[0]": lambda s: s.history.append_many("a", ["tea"], session_id="s"),
    "documents[0]": lambda s: s.vectors("c").add(["tea"]),
    "records[0]": lambda s: s.context().add_many(["tea"]),
    "session_id": lambda s: s.history.clear("a", session_id=""),
    "run_id": lambda s: s.history.clear_run("a", session_id="s", run_id=""),
    "mode": lambda s: s.search("tea", mode="magic"),
    "query": lambda s: s.search([1.0, 2.0], vector=[1.0, 2.0]),
    "nothing to search for": lambda s: s.search(),
    "fusion": lambda s: s.context().retrieve(text="tea", fusion="cold"),
    "key": lambda s: s.context().upsert("user", "x", external_id="e", key="text"),
    "target_id": lambda s: s.context().related(""),
    "title": lambda s: s.sessions.create("new", title="\ud800"),
    "status": lambda s: s.sessions.update("s", status=""),
    "'e' occurs twice": lambda s: s.context().add_many(
        [{"role": "user", "content": c, "external_id": "e"} for c in "ab"]
    ),
    "'d' occurs twice": lambda s: s.vectors("c").upsert([Document(id="d", text=c) for c in "ab"]),
    "'m' occurs twice": lambda s: s.history.append_many(
        "a", [Message.user("x", id="m")] * 2, session_id="s"
    ),
    "ids or filter": lambda s: s.vectors("c").delete(),
    "collection": lambda s: s.vectors("n" * 300).add([Document(text="x")]),
    "no embedder": lambda s: s.embed_pending(),
}


@pytest.mark.parametrize("says", REFUSED)
async def test_a_call_that_makes_no_sense_is_refused_in_words(full, says):
    async def call():
        await REFUSED[says](full)

    await assert_refused(full, call(), says)


@pytest.mark.parametrize("value", ["x" * MEGABYTE, "'" * MEGABYTE])
async def test_a_long_value_is_shown_by_its_ends(store, value):
    scoped = store.scope(tenant=value)
    for work in (
        store.context().add_many(
            [{"role": "user", "content": c, "external_id": value} for c in "ab"]
        ),
        scoped.context().add("user", "x", tenant="another"),
        store.context().add("user", "x", relationships=[value]),
        store.context().add("user", "x", relationships=[{"target_id": "a", value: "b"}]),
        store.memory.add(["x"], user_id=f"{value}\0"),
    ):
        await assert_refused(store, work, value[:5])


def test_all_refusals_are_values_that_a_caller_may_catch_as_such():
    assert issubclass(InvalidRequestError, ValueError)
    assert issubclass(FilterError, InvalidRequestError)
    assert issubclass(InvalidRequestError, ContextStoreError)
