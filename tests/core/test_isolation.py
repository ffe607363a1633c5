"""Scopes isolate: whatever a caller passes, one scope can neither see nor change another.

What a scope holds is kept beside the store in plain dicts, one set of them for each scope; an act in
one scope changes its own dicts alone, and in the end every scope is compared with its own.
"""

import asyncio
import copy
from collections import Counter

import pytest
from core.conformance.backends import memory
from core.conformance.doubles import ManualClock
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lance_context_core import AlreadyExistsError, InvalidRequestError, Message, NotFoundError
from lance_context_core.errors import FilterError
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.types import Document, Relationship

LOOK_ALIKES = ["a", "A", "a ", "\u0430", "\uff41", "a\u0301", "\u00e1", "a\u200b", "a\ufe0f"]
WILD = [
    "%",
    "_",
    "*",
    "a%",
    ".*",
    "a.b",
    "a`b",
    "null",
    "None",
    "true",
    "0",
    "default",
    "a" * 5_000,
]
SQL = [
    *("'", "''", "a'", 'a"', "\\", "a\\'", "' OR 1=1 --", "a') OR (true) --", "') OR ('1'='1"),
    *("a' OR tenant IS NOT NULL OR tenant = 'a", "'; DROP TABLE records; --", "/*", "*/ OR true"),
]
NAMES = [*LOOK_ALIKES, *WILD, *SQL, "日本語", "🐶", "\n", "\x01", "\u202ea"]
names = st.sampled_from(NAMES) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=4
)

# Few, so that all scopes use the same ones.
SESSIONS = ["s", "' OR 1=1 --"]
IDS = ["x", "x' OR 'a'='a", "%"]
TEXTS = ["green tea", "black tea"]
RUNS = ["r", "r'"]


@st.composite
def scopes(draw):
    """Scopes of one shape that have nothing in common: each differs from each in some part."""
    one, two = draw(st.lists(names, min_size=2, max_size=2, unique=True))
    first, second = draw(st.permutations(SCOPE_PARTS))[:2]
    if draw(st.booleans()):
        return [{first: one}, {first: two}]
    return [{first: one, second: one}, {first: one, second: two}, {first: two, second: one}]


class Cell:
    """A scope of a store, and in plain dicts what is in it."""

    def __init__(self, store, parts):
        self.parts = parts
        self.store = store.scope(**parts)
        self.history, self.memory = self.store.history, self.store.memory
        self.sessions, self.vectors = self.store.sessions, self.store.vectors("it's")
        self.context = self.store.context("the notes")
        self.messages, self.memories = {one: {} for one in SESSIONS}, {one: {} for one in SESSIONS}
        self.titles, self.documents, self.notes = {}, {}, {}

    def held(self):
        """The texts by room, as the dicts have them."""
        return {
            "messages": {
                s: [(id, t) for id, (t, _) in rows.items()] for s, rows in self.messages.items()
            },
            "memories": {s: list(rows.items()) for s, rows in self.memories.items()},
            "sessions": {
                s: self.titles.get(s) for s in SESSIONS if s in self.titles or self.messages[s]
            },
            "documents": list(self.documents.items()),
            "notes": {id: text for id, (text, _) in self.notes.items()},
        }

    # Acts: each does to the dicts what it does to the store, and compares what it is told.

    async def append(self, session, id, text, run):
        message = Message.user(text, id=id)
        work = self.history.append("", message, session_id=session, run_id=run)
        if self.messages[session].setdefault(id, (text, run))[0] == text:
            assert await work == id
        else:
            with pytest.raises(AlreadyExistsError):
                await work

    async def clear(self, session, *_):
        told = await self.history.clear("", session_id=session)
        assert told == len(self.messages[session])
        self.messages[session] = {}

    async def clear_run(self, session, _id, _text, run):
        told = await self.history.clear_run("", session_id=session, run_id=run)
        rows = self.messages[session]
        self.messages[session] = {id: row for id, row in rows.items() if row[1] != run}
        assert told == len(rows) - len(self.messages[session])

    async def remember(self, session, id, text, _run):
        work = self.memory.add([Message.user(text, id=id)], session_id=session)
        if self.memories[session].setdefault(id, text) == text:
            assert await work == [id]
        else:
            with pytest.raises(AlreadyExistsError):
                await work

    async def forget(self, session, id, *_):
        told = await self.memory.delete(session_id=session, ids=[id, "other"])
        assert told == (self.memories[session].pop(id, None) is not None)

    async def forget_all(self, *_):
        assert await self.memory.delete() == sum(map(len, self.memories.values()))
        self.memories = {session: {} for session in SESSIONS}

    async def describe(self, session, _id, text, _run):
        told = await self.sessions.create(session, title=text)
        assert told.title == self.titles.setdefault(session, text)
        assert told.n_messages == len(self.messages[session])

    async def retitle(self, session, _id, text, _run):
        if session in self.held()["sessions"]:
            await self.sessions.update(session, title=text)
            self.titles[session] = text
        else:
            with pytest.raises(NotFoundError):
                await self.sessions.update(session, title=text)

    async def end(self, session, *_):
        told = await self.sessions.delete(session)
        assert told == bool(self.messages[session] or session in self.titles)
        self.messages[session] = {}
        self.titles.pop(session, None)

    async def add_document(self, _session, id, text, _run):
        work = self.vectors.add([Document(id=id, text=text)])
        if self.documents.setdefault(id, text) == text:
            assert await work == [id]
        else:
            with pytest.raises(AlreadyExistsError):
                await work

    async def put_document(self, _session, id, text, _run):
        await self.vectors.upsert([Document(id=id, text=text)])
        self.documents[id] = text

    async def remove_document(self, _session, id, *_):
        assert await self.vectors.delete([id]) == (self.documents.pop(id, None) is not None)

    async def remove_documents(self, _session, _id, text, _run):
        told = await self.vectors.delete(filter={"$or": [{"text": text}, {"k": {"$exists": True}}]})
        kept = {id: one for id, one in self.documents.items() if one != text}
        assert told == len(self.documents) - len(kept)
        self.documents = kept

    async def remove_collection(self, *_):
        assert await self.vectors.delete_collection() == len(self.documents)
        self.documents = {}

    async def add_note(self, _session, id, text, _run):
        work = self.context.add("user", text, external_id=id)
        if self.notes.setdefault(id, (text, {}))[0] == text:
            await work
        else:
            with pytest.raises(AlreadyExistsError):
                await work

    async def put_note(self, _session, id, text, _run):
        told = await self.context.upsert("user", text, external_id=id)
        assert told["inserted"] == (id not in self.notes)
        self.notes[id] = (text, {})

    async def change_note(self, _session, id, text, _run):
        told = await self.context.update(external_id=id, metadata={"key": text})
        assert told["updated"] == (id in self.notes)
        if id in self.notes:
            self.notes[id] = (self.notes[id][0], {"key": text})

    async def delete_note(self, _session, id, *_):
        assert await self.context.delete(external_id=id) == (id in self.notes)
        self.notes.pop(id, None)

    # Reads

    async def assert_sees(self, held):
        """Every list, count and search of the scope shows what `held` says and nothing else."""
        n_messages = 0
        for session, rows in held["messages"].items():
            found = await self.history.get_messages("", session_id=session)
            assert [(one.id, one.text) for one in found] == rows
            assert await self.history.count("", session_id=session) == len(rows)
            page = await self.memory.list(session_id=session, page_size=100)
            assert [(one.id, one.text) for one in page.items] == held["memories"][session]
            n_messages += len(rows)
        assert {one.id: one.title for one in await self.sessions.list()} == held["sessions"]
        assert [(one.id, one.text) for one in await self.vectors.list()] == held["documents"]
        assert await self.vectors.count() == len(held["documents"])
        assert {one["external_id"]: one["content"] for one in await self.context.list()} == (
            held["notes"]
        )
        assert await self.context.entries() == len(held["notes"])
        said = Counter(text for rows in held["messages"].values() for _, text in rows)
        kept = Counter(text for rows in held["memories"].values() for _, text in rows)
        everything = {"limit": 1_000, "mode": "text"}
        assert texts_of(await self.history.search("tea", **everything)) == said
        assert texts_of(await self.memory.search("tea", **everything)) == kept
        assert texts_of(await self.store.search("tea", **everything)) == said + kept
        assert texts_of(await self.vectors.search("tea", **everything)) == Counter(
            text for _, text in held["documents"]
        )
        hits = await self.context.search("tea", **everything)
        assert Counter(hit["content"] for hit in hits) == Counter(held["notes"].values())


def texts_of(hits):
    return Counter(hit.record.text for hit in hits)


ACTS = [
    *(Cell.append, Cell.append, Cell.clear, Cell.clear_run, Cell.remember, Cell.remember),
    *(Cell.forget, Cell.forget_all, Cell.describe, Cell.retitle, Cell.end),
    *(Cell.add_document, Cell.put_document, Cell.remove_document, Cell.remove_documents),
    *(Cell.remove_collection, Cell.add_note, Cell.put_note, Cell.change_note, Cell.delete_note),
]
act = st.tuples(
    st.integers(0, 2),
    st.sampled_from(ACTS),
    *map(st.sampled_from, (SESSIONS, IDS, TEXTS, RUNS)),
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::lance_context_core.errors.ElsewhereWarning")
@settings(max_examples=20)
@given(scopes(), st.lists(act, min_size=4, max_size=12), st.integers(1, 10))
def test_scopes_that_use_the_same_names_know_nothing_of_each_other(scopes, acts, moment):
    asyncio.run(live_side_by_side(scopes, acts, moment))


async def live_side_by_side(scopes, acts, moment):
    async with memory().open(clock=ManualClock()) as store:
        cells = [Cell(store, parts) for parts in scopes]
        # All of them hold the same, under the same ids, before anything else happens.
        for cell in cells:
            for begin in (Cell.append, Cell.remember, Cell.put_document, Cell.put_note):
                await begin(cell, SESSIONS[0], IDS[0], TEXTS[0], RUNS[0])
        version, then = await store.version(), [copy.deepcopy(cell.held()) for cell in cells]
        for number, (which, verb, *arguments) in enumerate(acts):
            await verb(cells[which % len(cells)], *arguments)
            if number == moment:
                await store.maintain()
        for cell, before in zip(cells, then, strict=True):
            await cell.assert_sees(cell.held())
            await assert_the_past_is_isolated_too(cell, version, before)
        # A wider scope, which all of them lie in, sees the sum.
        all_notes = await store.context("the notes").list()
        assert Counter(one["content"] for one in all_notes) == sum(
            (Counter(cell.held()["notes"].values()) for cell in cells), Counter()
        )


async def assert_the_past_is_isolated_too(cell, version, before):
    past = Cell(await cell.store.checkout(version), {})
    for session, rows in before["messages"].items():
        found = await past.history.get_messages("", session_id=session)
        assert [(one.id, one.text) for one in found] == rows
    notes = await past.context.list()
    assert {one["external_id"]: one["content"] for one in notes} == before["notes"]
    diff = await cell.store.diff(version)
    for one in [*diff.added, *diff.removed, *(change.after for change in diff.changed)]:
        assert {part: getattr(one, part) for part in cell.parts} == cell.parts


# Filters


FIELDS = [
    *("tenant", "user_id", "agent_id", "bot_id", "id", "external_id", "context", "kind", "text"),
    *("session_id", "key", "_rowid", "previous_key", "revision", "edges", "search_text", "tags"),
    *("metadata", "metadata.tenant", "relationships", "tenant` = 'a' OR `tenant", "1=1) OR (true"),
    *("tenant' OR '1'='1", "lifecycle_status", "created_after", "'", "`", "a.b", "*", "%", "--"),
]
operands = st.sampled_from([*NAMES, None, True, 0, 1.5, [], {}, [None], ["a", "b"]])
OPERATORS = [
    "",
    "$eq",
    "$ne",
    "$gt",
    "$lte",
    "$in",
    "$nin",
    "$exists",
    "$contains",
    "$text",
    "$not",
]
OPERATORS += ["$contains_any", "$contains_all"]
conditions = st.builds(
    lambda field, operator, operand: {field: {operator: operand} if operator else operand},
    st.sampled_from(FIELDS),
    st.sampled_from(OPERATORS),
    operands,
)
filters = st.recursive(
    conditions,
    lambda inner: (
        st.builds(lambda op, many: {op: many}, st.sampled_from(["$or", "$and", "$not"]), st.lists(inner, max_size=3))
        | st.builds(lambda one: {"$not": one}, inner)
        | st.builds(lambda one, other: {**one, **other}, inner, inner)
    ),
    max_leaves=4,
)  # fmt: skip

TENANTS = ["a", "b", "' OR 1=1 --"]
MODES = [{"mode": "text"}, {"mode": "vector"}, {"mode": "hybrid"}]


def filtered_store():
    """The same records for each tenant; what no tenant has is there, too."""

    async def fill():
        store = memory().open(clock=ManualClock())
        for scope in (store, *(store.scope(tenant=tenant) for tenant in TENANTS)):
            await scope.history.append("g", Message.user("tea", id="x"), session_id="s")
            await scope.memory.add([Message.user("tea", id="x", metadata={"a": {"b": "a"}})])
            for n, user in enumerate(("a", "b")):
                await scope.context().add(
                    *("tool", "tea"),
                    id=f"{TENANTS.index(scope_of(scope)) if scope_of(scope) else 'none'}-{n}",
                    user_id=user,
                    tags=["a", "'"],
                    embedding=[1.0, float(n)],
                    metadata={"key": "a", "tags": ["b"]},
                    relationships=[Relationship(target_id="target", relation="r")],
                )
            await scope.vectors("c").upsert(documents_of(scope_of(scope)))
        return store

    return asyncio.run(fill())


def scope_of(store):
    return store._scope.tenant


def documents_of(tenant):
    return [
        Document(
            id=f"{tenant}-{n}", text="tea", embedding=[1.0, n], metadata={"tenant": "a", "n": n}
        )
        for n in range(2)
    ]


STORE = []


@pytest.fixture(scope="module", autouse=True)
def _one_store_for_all_examples():
    STORE.append(filtered_store())
    yield
    asyncio.run(STORE.pop().close())


@settings(max_examples=2 * settings.default.max_examples)
@given(filters, st.sampled_from(TENANTS), st.sampled_from(MODES))
@example({"$or": [{"tenant": "b"}, {"tenant": {"$exists": False}}]}, "a", MODES[0])
@example({"$not": {"tenant": "a"}}, "a", MODES[2])
@example({"$not": {"$not": {"$or": [{"_rowid": {"$gte": 0}}, {"id": {"$exists": True}}]}}}, "a", MODES[1])  # fmt: skip
def test_a_filter_narrows_a_scope_and_never_widens_it(filter, tenant, mode):
    asyncio.run(look_through_a_filter(STORE[0], filter, tenant, mode))


async def look_through_a_filter(store, filter, tenant, mode):
    """What a scope finds is what the whole store finds, without what is another scope's."""
    mine = store.scope(tenant=tenant)

    async def ids(work, *, everything):
        try:
            found = await work
        except FilterError:
            return "refused"
        rows = [one if isinstance(one, dict) else vars_of(one) for one in found]
        return Counter(
            (one["id"], one["kind"], one["user_id"])
            for one in rows
            if not everything or one["tenant"] == tenant
        )

    question = {"limit": 100, "filters": filter, **mode}
    query = "tea" if mode["mode"] == "text" else [1.0, 0.5]
    if mode["mode"] == "hybrid":
        question = {"limit": 100, "filters": filter, "vector": query, "text": "tea"}
    reads = [lambda s: s.context().list(filters=filter)]
    if mode["mode"] == "hybrid":
        reads += [
            lambda s: s.context().retrieve(**question),
            lambda s: s.search("tea", vector=query, limit=100, filter=filter),
        ]
    else:
        reads += [
            lambda s: s.context().search(query, **question),
            lambda s: s.search(query, limit=100, filter=filter, **mode),
            lambda s: s.history.search(query, limit=100, filter=filter, **mode),
        ]
    for read in reads:
        expected = await ids(read(store), everything=True)
        assert await ids(read(mine), everything=False) == expected


def vars_of(hit):
    record = hit.record
    return {name: getattr(record, name) for name in ("id", "kind", "tenant", "user_id")}


@pytest.mark.slow
@settings(max_examples=2 * settings.default.max_examples)
@given(filters, st.sampled_from(TENANTS))
@example({"$not": {"tenant": "a"}}, "a")
@example({"id": {"$exists": True}}, "a")
def test_a_filter_deletes_documents_of_its_own_scope_alone(filter, tenant):
    asyncio.run(delete_through_a_filter(STORE[0], filter, tenant))


async def delete_through_a_filter(store, filter, tenant):
    collection = store.scope(tenant=tenant).vectors("c")
    before = {one.id for one in await store.vectors("c").list()}
    mine = {one.id for one in documents_of(tenant)}
    try:
        matching = {one.id for one in await store.vectors("c").list(filter=filter)}
        assert {one.id for one in await collection.list(filter=filter)} == matching & mine
        assert await collection.count(filter=filter) == len(matching & mine)
        hits = await collection.search("tea", mode="text", filter=filter)
        assert {hit.record.id for hit in hits} == matching & mine
        assert await collection.delete(filter=filter) == len(matching & mine)
    except FilterError:
        matching = set()
    except InvalidRequestError as error:
        # One that matches everything is refused.
        if "matches everything" not in str(error) or matching != before:
            raise
        matching = set()
    left = {one.id for one in await store.vectors("c").list()}
    assert left == before - (matching & mine)
    await collection.upsert(documents_of(tenant))


# Names of what is another scope's


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples // 3)
@given(scopes())
def test_nothing_of_another_scope_is_reached_by_its_name(scopes):
    asyncio.run(reach_over(scopes))


async def reach_over(scopes):
    async with memory().open(clock=ManualClock()) as store:
        mine, theirs = (store.scope(**parts) for parts in scopes[:2])
        their_parts = scopes[1]
        others = await theirs.context().add_many(
            [
                {"role": "user", "content": "tea", "embedding": [1.0, 0.0], "tags": ["t"]},
                {"role": "user", "content": b"tea", "relationships": [EDGE], "source_ids": ["x"]},
            ]
        )
        (memory_id,) = await theirs.memory.add(["tea"], session_id="s")
        message_id = await theirs.history.append("", Message.user("tea"), session_id="s")
        await theirs.vectors("c").add([Document(id="x", text="tea", embedding=[1.0, 0.0])])
        await theirs.sessions.create("s", title="theirs")
        before = await everything(store)

        ids = [*others.ids, memory_id, message_id, "x", "s"]
        await assert_nothing_is_reached(mine, ids)
        outside = {part: value for part, value in their_parts.items() if scopes[0][part] != value}
        claims = claims_of(outside)
        await assert_nothing_is_claimed(mine, outside, claims)
        assert await everything(store) == before

        # A record of one's own cannot be moved into another scope either.
        context = mine.context()
        await context.add("user", "tea", external_id="mine")
        for claim in claims:
            with pytest.raises(InvalidRequestError, match="scope"):
                await context.update(external_id="mine", **claim)
        assert await theirs.context().get(external_id="mine") is None
        assert (await context.get(external_id="mine"))["content"] == "tea"


async def assert_nothing_is_reached(mine, ids):
    context = mine.context()
    for id in ids:
        assert await context.get(id=id) is None
        assert await context.get_blob(id) is None
        assert await context.delete(id=id) is False
        assert (await context.update(id=id, source="me"))["updated"] is False
        assert await mine.memory.delete(ids=[id]) == 0
        assert await mine.vectors("c").get([id]) == []
        assert await mine.vectors("c").delete([id]) == 0
        assert await mine.sessions.get(id) is None
        assert await mine.sessions.delete(id) is False
        assert await context.related(id) == []
    assert await context.related(EDGE["target_id"]) == []
    assert await context.related(EDGE["target_id"], EDGE["relation"]) == []
    assert await mine.history.get_messages("", session_id="s") == []
    assert await mine.history.clear("", session_id="s") == 0
    assert (await mine.memory.list()).total == 0
    assert await mine.sessions.list() == []
    assert await mine.vectors().list_collections() == []
    assert await mine.vectors("c").delete_collection() == 0
    assert await mine.search("tea", vector=[1.0, 0.0], limit=100) == []


def claims_of(outside):
    """Fields that say that a record is another scope's."""
    claims = [{part: value} for part, value in outside.items()]
    if "agent_id" in outside:
        claims.append({"bot_id": outside["agent_id"]})
    if "tenant" in outside:
        claims.append({"metadata": {"tenant": outside["tenant"]}})
    return claims


async def assert_nothing_is_claimed(mine, outside, claims):
    works = [
        verb("user", "tea", external_id="x", **claim)
        for claim in claims
        for verb in (mine.context().add, mine.context().upsert)
    ]
    works += user_verbs(mine, outside["user_id"]) if "user_id" in outside else []
    works += agent_verbs(mine, outside["agent_id"]) if "agent_id" in outside else []
    for work in works:
        with pytest.raises(InvalidRequestError, match="scope"):
            await work
    for part, value in outside.items():
        with pytest.raises(InvalidRequestError, match="scope"):
            mine.scope(**{part: value})


EDGE = {"target_id": "' OR 1=1 --", "relation": "r'"}


def user_verbs(store, user):
    yield store.memory.add(["tea"], user_id=user)
    yield store.memory.list(user_id=user)
    yield store.memory.latest(user_id=user)
    yield store.memory.delete(user_id=user)
    yield store.memory.search("tea", user_id=user, mode="text")


def agent_verbs(store, agent):
    yield store.history.append(agent, Message.user("tea"), session_id="s")
    yield store.history.get_messages(agent, session_id="s")
    yield store.history.count(agent, session_id="s")
    yield store.history.replace(agent, [Message.user("tea")], session_id="s")
    yield store.history.annotate(agent, {"seen": True}, session_id="s")
    yield store.history.clear(agent, session_id="s")
    yield store.history.clear_run(agent, session_id="s", run_id="r")
    yield store.history.search("tea", agent_id=agent, mode="text")


async def everything(store):
    return (
        await store.context().list(include_expired=True, include_retired=True),
        await store.sessions.list(),
        await store.vectors("c").list(),
    )


@given(st.tuples(*[st.none() | names] * 3), st.tuples(*[st.none() | names] * 3))
def test_a_scope_of_a_scope_has_the_parts_of_both_or_is_refused(outer, inner):
    outside, inside = (dict(zip(SCOPE_PARTS, parts, strict=True)) for parts in (outer, inner))
    clash = any(
        a is not None and b is not None and a != b for a, b in zip(outer, inner, strict=True)
    )
    if clash:
        with pytest.raises(InvalidRequestError, match="lies outside this handle's scope"):
            Scope(**outside).narrow(**inside)
    else:
        both = [a if b is None else b for a, b in zip(outer, inner, strict=True)]
        assert Scope(**outside).narrow(**inside) == Scope(
            **dict(zip(SCOPE_PARTS, both, strict=True))
        )


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", 5, b"a", ["a"], True])
@pytest.mark.parametrize("part", SCOPE_PARTS)
def test_what_is_no_name_makes_no_scope(memory_backend, part, name):
    with pytest.raises(InvalidRequestError, match=part):
        memory_backend.open().scope(**{part: name})
