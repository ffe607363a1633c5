"""A merge brings what one branch changed into the other, and says what it did and why."""

import asyncio
from dataclasses import replace

import pytest
from core.conformance.doubles import ManualClock
from core.versioning.samples import AXES, dump
from efforts import in_proofs
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.errors import (
    DimensionMismatchError,
    EmbeddingModelMismatchError,
    InvalidRequestError,
    NotFoundError,
)
from lance_context_core.messages import Message
from lance_context_core.storage.lance import branches
from lance_context_core.storage.table import Table
from lance_context_core.sync import ContextStore
from lance_context_core.types import ContextRecord, Document, Item, Session, TableMerge


async def put(store, **values):
    """Records by their external id, each with a text; None removes one."""
    for name, text in values.items():
        if text is None:
            await store.context().delete(external_id=name)
        else:
            await store.context().upsert("user", text, external_id=name)


async def held(store):
    return {one["external_id"]: one["text"] for one in await store.context().list()}


def table(report, name="records"):
    return report.tables.get(name)


# What is taken


async def test_what_one_side_changed_is_taken(store, clock):
    await put(store, a="0", b="0", c="0", d="0")
    branch = await store.create_branch("b")
    await put(branch, a="theirs", b=None, new="1", newer="2")
    await put(store, c="ours", d=None, own="3")
    number = await store.version()
    report = await store.merge("b")
    assert await held(store) == {"a": "theirs", "c": "ours", "own": "3", "new": "1", "newer": "2"}
    assert list(await held(store)) == ["a", "c", "own", "new", "newer"], "the order"
    assert table(report) == TableMerge(added=2, updated=1, deleted=1, kept=0)
    assert (report.source, report.target, report.conflicts) == ("b", "main", ())
    assert report.version == await store.version() == number + 1, "one commit"
    assert report
    assert not report.is_dry_run
    assert await held(branch) == {"a": "theirs", "c": "0", "d": "0", "new": "1", "newer": "2"}


async def test_what_both_changed_alike_is_no_conflict(store, clock):
    await put(store, a="0", b="0")
    branch = await store.create_branch("b")
    for one in (store, branch):
        await put(one, a="1", b=None)
        clock.advance(seconds=1)
    report = await store.merge("b", policy="theirs")
    assert not report.conflicts
    assert not report
    assert await held(store) == {"a": "1"}


async def test_merged_records_keep_what_they_are(store, clock):
    branch = await store.create_branch("b")
    clock.advance(seconds=5)
    context = branch.context()
    await context.add(
        "user",
        "tea",
        external_id="x",
        embedding=AXES[1],
        metadata={"a": [1, {"b": 2.5}], "c": None},
        relationships=[{"target_id": "t", "relation": "cites", "weight": 0.5}],
        tags=["hot"],
        expires_at=clock.advance(days=9),
    )
    await context.add("user", b"\x00\xff", content_type="image/png")
    await branch.history.append_many(
        "a", [Message.user(f"{n}", id=f"{n}") for n in (3, 1, 2)], session_id="s"
    )
    await branch.sessions.create("s", title="title", metadata={"k": 1})
    await branch.vectors("c").add(
        [Document(id="d", text="wine", embedding=AXES[0], metadata={"n": 1})]
    )
    expected = await dump(branch)
    clock.advance(seconds=-9 * 86400)
    report = await store.merge("b")
    assert set(report.tables) == {"records", "sessions", "vectors/c"}
    assert await dump(store) == expected
    assert not await store.diff("b")
    assert [one["text"] for one in await store.context().search("tea")] == ["tea"]
    assert [one["text"] for one in await store.context().search(AXES[1], 1)] == ["tea"]
    assert [one.record.id for one in await store.vectors("c").search("wine", mode="text")] == ["d"]
    assert [one.id for one in await store.history.get_messages("a", session_id="s")] == [
        "3",
        "1",
        "2",
    ]
    # And they can be written to as before.
    await store.context().update(external_id="x", tags=["cold"])
    await store.history.append("a", Message.user("1", id="1"), session_id="s")
    assert await store.history.count("a", session_id="s") == 3


async def test_what_was_merged_is_found_by_its_metadata(store):
    await store.context().add("user", "ours", metadata={"town": {"name": "Oslo"}})
    await store.create_branch("trip")
    there = (await store.branch("trip")).context()
    await there.add("user", "theirs", metadata={"town": {"name": "Oslo"}})
    await there.add("user", "elsewhere", metadata={"town": {"name": "Rome"}})
    await store.merge("trip")
    found = await store.context().list(filters={"town.name": "Oslo"})
    assert [one["text"] for one in found] == ["ours", "theirs"]


async def test_a_merge_goes_both_ways(store):
    await put(store, a="0")
    branch = await store.create_branch("b")
    await put(branch, a="1")
    await put(store, b="0")
    await store.vectors("new").add([Document(id="d", text="d", embedding=AXES[0])])
    report = await branch.merge("main")
    assert (report.source, report.target) == ("main", "b")
    assert await held(branch) == {"a": "1", "b": "0"}
    (document,) = await branch.vectors("new").get(["d"], include_embedding=True)
    assert list(document.embedding) == AXES[0]
    await put(branch, b="2")
    assert table(await store.merge("b")) == TableMerge(updated=2)
    assert await held(store) == {"a": "1", "b": "2"}
    assert not await store.diff("b")


async def test_a_second_merge_brings_what_is_new(store):
    await put(store, a="0", b="0")
    branch = await store.create_branch("b")
    await put(branch, a="1")
    await store.merge("b")
    assert not (await store.merge("b")).tables
    await put(store, a="main again", b=None)
    await put(branch, c="2")
    report = await store.merge("b", policy="theirs")
    assert report.conflicts == ()
    assert table(report) == TableMerge(added=1)
    assert await held(store) == {"a": "main again", "c": "2"}
    forks = await branches.listed(await store._resources.records.access.writer(), "records")
    assert len(branches.bases_of("b", forks)) == 1
    assert await store.delete_branch("b") is True


async def test_branches_merge_with_the_one_that_they_were_made_from(store):
    await put(store, a="0")
    child = await store.create_branch("child")
    other = await store.create_branch("other")
    grandchild = await child.create_branch("grandchild")
    await put(grandchild, a="1")
    for target, source in ((store, "grandchild"), (other, "child"), (grandchild, "main")):
        with pytest.raises(InvalidRequestError, match="step by step"):
            await target.merge(source)
    with pytest.raises(InvalidRequestError, match="this branch"):
        await store.merge("main")
    with pytest.raises(NotFoundError, match="'nobody'"):
        await store.merge("nobody")
    await child.merge("grandchild")
    await store.merge("child")
    await other.merge("main")
    assert await held(other) == {"a": "1"}
    for name in ("grandchild", "child", "other"):
        await store.delete_branch(name)


async def test_a_dry_run_says_the_same_and_does_nothing(store, clock):
    await put(store, a="0", b="0", c="0")
    branch = await store.create_branch("b")
    await put(branch, a="1", b="1", c=None, d="1")
    await branch.vectors("v").add([Document(id="d", text="d", embedding=AXES[0])])
    clock.advance(seconds=1)
    await put(store, a="2")
    before, number = await dump(store), await store.version()
    dry = await store.merge("b", dry_run=True)
    assert (await dump(store), await store.version()) == (before, number)
    assert dry.is_dry_run
    real = await store.merge("b")
    assert (dry.tables, dry.conflicts) == (real.tables, real.conflicts)
    assert table(dry) == TableMerge(added=1, updated=1, deleted=1, kept=1)


# Conflicts


async def conflicting(store, clock):
    """`x` was changed later on the branch, `y` on main, `z` at once; `p` and `q` deleted on one."""
    await put(store, x="0", y="0", z="0", p="0", q="0")
    branch = await store.create_branch("b")
    clock.advance(seconds=1)
    await put(store, x="ours", p=None)
    await put(branch, y="theirs", q=None)
    clock.advance(seconds=1)
    await put(store, y="ours", z="ours", q="ours", both="ours")
    await put(branch, x="theirs", z="theirs", p="theirs", both="theirs")
    return branch


@pytest.mark.parametrize(
    ("policy", "expected", "counts"),
    [
        ("ours", "y:ours x:ours z:ours q:ours both:ours", (0, 0, 0, 6)),
        ("theirs", "y:theirs x:theirs z:theirs both:theirs p:theirs", (1, 4, 1, 0)),
        ("newest", "y:ours x:theirs z:ours q:ours both:ours p:theirs", (1, 1, 0, 4)),
    ],
)
async def test_a_policy_settles_conflicts(store, clock, policy, expected, counts):
    await conflicting(store, clock)
    report = await store.merge("b", policy=policy)
    assert await held(store) == dict(one.split(":") for one in expected.split())
    names = ("added", "updated", "deleted", "kept")
    assert table(report) == TableMerge(**dict(zip(names, counts, strict=True)))
    assert len(report.conflicts) == 6
    for one in report.conflicts:
        assert one.outcome in {"ours", "theirs"}
        assert one.reason
        chosen = getattr(one.conflict, one.outcome)
        name = (one.conflict.ours or one.conflict.theirs).external_id
        assert (await held(store)).get(name) == (chosen and chosen.text)
        assert one.conflict.table == "records"
        assert (one.conflict.base is None) == (name == "both")
        assert one.conflict.fields == (() if name in "pq" else one.conflict.fields)
    if policy == "newest":
        reasons = {one.conflict.id: one.reason for one in report.conflicts}
        assert sum("updated later" in reason for reason in reasons.values()) == 2
        assert sum("deletion" in reason for reason in reasons.values()) == 2


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_settles_conflicts(store, clock, is_async):
    await conflicting(store, clock)
    asked = []

    def choose(conflict):
        asked.append(conflict)
        name = (conflict.ours or conflict.theirs).external_id
        match name:
            case "x":
                text = f"{conflict.base.text}+{conflict.ours.text}+{conflict.theirs.text}"
                return replace(conflict.ours, text=text, tags=("merged",))
            case "y":
                return conflict.theirs
            case "z":
                return conflict.ours
            case "both":
                return None
        return replace(conflict.ours or conflict.theirs, text="back")

    async def choose_later(conflict):
        await asyncio.sleep(0)
        return choose(conflict)

    now = clock.advance(hours=1)
    report = await store.merge("b", policy=choose_later if is_async else choose)
    assert await held(store) == {
        "x": "0+ours+theirs",
        "y": "theirs",
        "z": "ours",
        "q": "back",
        "p": "back",
    }
    found = {one.conflict.id: one.outcome for one in report.conflicts}
    assert sorted(found.values()) == ["deleted", "merged", "merged", "merged", "ours", "theirs"]
    merged = await store.context().get(external_id="x")
    assert (merged["tags"], merged["updated_at"]) == (["merged"], now)
    assert merged["created_at"] < now
    assert [one["text"] for one in await store.context().search("theirs")] == [
        "theirs",
        "0+ours+theirs",
    ]
    assert not (await store.merge("b")).tables
    assert len(asked) == 6


async def test_sessions_and_documents_are_settled_as_what_they_are(store, clock):
    await store.sessions.create("s", title="0")
    await store.vectors("c").add([Document(id="d", text="0", embedding=AXES[0])])
    branch = await store.create_branch("b")
    clock.advance(seconds=1)
    for one, name in ((store, "ours"), (branch, "theirs")):
        await one.sessions.update("s", title=name)
        await one.vectors("c").upsert([Document(id="d", text=name, embedding=AXES[0])])
    seen = {}

    def choose(conflict):
        seen[conflict.table] = conflict
        if isinstance(conflict.ours, Session):
            return replace(conflict.ours, title="both", metadata={"by": "us"})
        return replace(conflict.theirs, text="both", embedding=AXES[1])

    report = await store.merge("b", policy=choose)
    assert seen.keys() == {"sessions", "vectors/c"} == report.tables.keys()
    assert [getattr(seen["sessions"], side).title for side in ("base", "ours", "theirs")] == [
        "0",
        "ours",
        "theirs",
    ]
    assert seen["sessions"].fields == ("title",)
    assert seen["vectors/c"].base.text == "0"
    session = await store.sessions.get("s")
    assert (session.title, session.metadata) == ("both", {"by": "us"})
    (document,) = await store.vectors("c").get(["d"], include_embedding=True)
    assert (document.text, list(document.embedding)) == ("both", AXES[1])
    assert [one.record.id for one in await store.vectors("c").search("both", mode="text")] == ["d"]


async def test_items_are_merged_and_chosen(store, clock):
    await store.kv().put([Item(key="x", value={"n": 0}), Item(key="y", value={"n": 0})])
    branch = await store.create_branch("b")
    clock.advance(seconds=1)
    await store.kv().put([Item(key="x", value={"n": 1})])
    await branch.kv().put([Item(key="x", value={"n": 2}), Item(key="z", value={"n": 2})])
    report = await store.merge("b", policy=lambda one: one.theirs)
    (resolution,) = report.conflicts
    assert (resolution.conflict.table, resolution.conflict.id) == ("key_values/default", "x")
    assert (resolution.outcome, resolution.conflict.fields) == ("theirs", ("value",))
    assert {one.key: one.value for one in await store.kv().list()} == {
        "x": {"n": 2},
        "y": {"n": 0},
        "z": {"n": 2},
    }


async def test_a_merged_text_gets_a_vector_of_its_own(open_store, embedder):
    store = open_store(embedder=embedder)
    await put(store, x="tea")
    branch = await store.create_branch("b")
    await put(store, x="green tea")
    await put(branch, x="black tea")
    await store.merge("b", policy=lambda one: replace(one.ours, text="red wine", tags=("t",)))
    found = (await store.context().get(external_id="x"))["embedding"]
    assert found == embedder.embed_query("red wine").tolist()


@pytest.mark.parametrize(
    "returned",
    [
        "a text",
        lambda one: Document(id=one.ours.id, text="x"),
        lambda one: replace(one.ours, id="another"),
        lambda one: replace(one.ours, metadata={"x": object()}),
        lambda one: replace(one.ours, text="\ud800"),
        lambda one: replace(one.ours, session_id="nul\0"),
    ],
)
async def test_what_a_function_returns_is_checked_before_anything_is_written(store, returned):
    await put(store, a="0", b="0")
    branch = await store.create_branch("b")
    await put(store, a="ours")
    await put(branch, a="theirs", b="1", c="1")
    await branch.sessions.create("s")
    before = await dump(store)
    with pytest.raises(InvalidRequestError):
        await store.merge("b", policy=lambda one: returned(one) if callable(returned) else returned)
    assert await dump(store) == before


@pytest.mark.parametrize("policy", [None, "oldest", 3, ["ours"]])
async def test_what_is_no_policy_is_refused(store, policy):
    await store.create_branch("b")
    with pytest.raises(InvalidRequestError, match="policy"):
        await store.merge("b", policy=policy)


def test_a_function_may_use_the_store_that_waits_for_it(tmp_path):
    with ContextStore.open(tmp_path / "store") as store:
        store.context().add("user", "0", external_id="x")
        branch = store.create_branch("b")
        store.context().update(external_id="x", source="ours")
        branch.context().update(external_id="x", source="theirs")

        def choose(conflict):
            assert isinstance(conflict.ours, ContextRecord)
            return replace(conflict.ours, source=f"{store.context().entries()}")

        assert store.merge("b", policy=choose).conflicts[0].outcome == "merged"
        assert store.context().get(external_id="x")["source"] == "1"


# Vectors


async def test_vectors_of_two_sorts_are_refused_before_anything_is_written(open_store, embedder):
    store = open_store()
    await put(store, a="0")
    branch = await store.create_branch("b")
    await branch.context().add("user", "x", embedding=[1.0, 2.0])
    await branch.sessions.create("s")
    await store.context().add("user", "x", embedding=[1.0, 2.0, 3.0])
    before = await dump(store)
    with pytest.raises(DimensionMismatchError):
        await store.merge("b")
    assert await dump(store) == before


async def test_the_model_of_vectors_comes_along(local_backend, embedder):
    store = local_backend.open()
    await put(store, a="0")
    await store.create_branch("b")
    embedding = local_backend.open(embedder=embedder)
    await put(await embedding.branch("b"), x="tea")
    await store.merge("b")
    assert [one["external_id"] for one in await embedding.context().search("tea", 1)] == ["x"]
    other = local_backend.open(embedder=type(embedder)(model="another"))
    with pytest.raises(EmbeddingModelMismatchError):
        await put(other, y="wine")
    for one in (store, embedding, other):
        await one.close()


@pytest.mark.parametrize("policy", ["theirs", "function"])
async def test_vectors_come_along_into_a_store_that_was_restored_to_before_it_had_any(
    local_backend, embedder, policy
):
    def theirs(conflict):
        return replace(conflict.theirs, text=f"{conflict.theirs.text} leaves")

    plain = local_backend.open()
    await put(plain, a="0")
    before = await plain.version()
    store = local_backend.open(embedder=embedder)
    branch = await store.create_branch("b")
    await put(branch, a="tea")
    await put(store, b="wine")
    await store.restore(before)
    await put(plain, a="1")
    await store.merge("b", policy=theirs if policy == "function" else policy)
    found = await store.context().search("tea", 1)
    assert [one["external_id"] for one in found] == ["a"]
    for one in (plain, store):
        await one.close()


# Crashes and other writers


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [
        "newest",
        *in_proofs("ours", "theirs", "function"),
    ],
)
async def test_a_merge_that_was_cut_short_may_be_repeated(
    memory_backend, clock, monkeypatch, policy
):
    def both(conflict):
        sides = [one.text for one in (conflict.ours, conflict.theirs) if one is not None]
        return replace(conflict.ours or conflict.theirs, text="+".join(sides))

    store = memory_backend.open(clock=clock)
    chosen = both if policy == "function" else policy
    expected = None
    for n_steps in range(20):
        steps = 0

        def counted(function):
            async def step(*args):
                nonlocal steps
                if steps == n_steps:  # noqa: B023 - called in this round
                    raise KeyboardInterrupt
                steps += 1
                return await function(*args)

            return step

        target = await store.create_branch(f"target{n_steps}")
        await put(target, a="0", b="0", c="0")
        await target.sessions.create("s", title="0")
        child = await target.create_branch(f"child{n_steps}")
        await put(target, a="ours", b="ours", new="ours")
        clock.advance(seconds=1)
        await put(child, a="theirs", b=None, c="theirs", new="theirs", more="theirs")
        await child.sessions.update("s", title="theirs")
        await child.vectors("v").add([Document(id="d", text="d", embedding=AXES[0])])
        is_cut = False
        with monkeypatch.context() as patch:
            for owner, what in ((Table, "write"), (branches, "fork"), (branches, "drop")):
                patch.setattr(owner, what, counted(getattr(owner, what)))
            try:
                await target.merge(f"child{n_steps}", policy=chosen)
            except KeyboardInterrupt:
                is_cut = True
        await target.merge(f"child{n_steps}", policy=chosen)
        assert not (await target.merge(f"child{n_steps}", policy=chosen)).tables
        found = await held(target), [one.title for one in await target.sessions.list()]
        expected = expected or found
        assert found == expected
        assert await target.vectors("v").count() == 1
        if not is_cut:
            break
    assert n_steps > 6
    await store.close()


async def test_others_may_write_meanwhile(open_store, monkeypatch, clock):
    store, other = open_store(), open_store()
    await put(store, a="0", b="0", c="0", d="0")
    branch = await store.create_branch("b")
    await put(branch, a="theirs", b=None, c="theirs", n="theirs", d="theirs")
    clock.advance(seconds=1)
    write, interfered = Table.write, []

    async def interrupted(self, batch):
        if self.name == "records" and not interfered:
            interfered.append(True)
            await put(other, a="late", b="late", own="late", n="late")
        return await write(self, batch)

    monkeypatch.setattr(Table, "write", interrupted)
    report = await store.merge("b")
    assert interfered
    assert await held(store) == {
        "a": "late",
        "b": "late",
        "c": "theirs",
        "d": "theirs",
        "own": "late",
        "n": "late",
    }
    assert table(report) == TableMerge(updated=2, kept=3)
    assert {one.outcome for one in report.conflicts} == {"ours"}
    assert len(report.conflicts) == 3


# Against an oracle

NAMES = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.sampled_from(["0", "1", "2", None])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.booleans(), NAMES, TEXTS),
        st.tuples(st.just("merge"), st.booleans(), st.sampled_from(["ours", "theirs", "newest"])),
        st.tuples(st.just("compact"), st.booleans()),
        st.tuples(st.just("restore"), st.booleans(), st.booleans()),
    ),
    max_size=14,
)


def merged(base, ours, theirs, policy):
    """What a three-way merge of dicts of (text, time) gives."""
    result = {}
    for name in {*base, *ours, *theirs}:
        b, o, t = (one.get(name) for one in (base, ours, theirs))
        texts = [one and one[0] for one in (b, o, t)]
        if texts[1] == texts[2] or texts[0] == texts[2]:
            chosen = o
        elif texts[0] == texts[1]:
            chosen = t
        elif policy == "newest":
            chosen = t if o is None or (t is not None and t[1] > o[1]) else o
        else:
            chosen = o if policy == "ours" else t
        if chosen is not None:
            result[name] = chosen
    return result


@pytest.mark.slow
@given(start=st.dictionaries(NAMES, st.sampled_from(["0", "1"])), steps=STEPS)
def test_merges_are_those_of_dicts(start, steps):
    asyncio.run(against_dicts(start, steps))


async def against_dicts(start, steps):
    clock = ManualClock()
    main = ContextStore.open("memory://", clock=clock).aio
    await put(main, **start)
    begin = {name: (text, clock.now()) for name, text in start.items()}
    await main.tag("begin")
    stores = [main, await main.create_branch("b")]
    dicts, base = [dict(begin), dict(begin)], dict(begin)
    for kind, is_branch, *rest in steps:
        clock.advance(seconds=1)
        store, mine, yours = stores[is_branch], dicts[is_branch], dicts[not is_branch]
        match kind, rest:
            case "put", [name, text]:
                await put(store, **{name: text})
                mine.pop(name, None) if text is None else mine.update({name: (text, clock.now())})
            case "merge", [policy]:
                await store.merge("main" if is_branch else "b", policy=policy)
                dicts[is_branch] = merged(base, mine, yours, policy)
                base = dict(yours)
            case "compact", _:
                handle = await store._resources.records.access.writer()
                await handle.update(updates_sql={"revision": "revision"})
            case "restore", [is_begin]:
                await store.restore("begin" if is_begin else "main" if is_branch else "b")
                dicts[is_branch] = dict(begin if is_begin else yours)
        for one, expected in zip(stores, dicts, strict=True):
            assert await held(one) == {name: text for name, (text, _) in expected.items()}
    await main.close()
