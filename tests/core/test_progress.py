"""A long call says how far it is, and ends at whichever step its caller wants it to end."""

import asyncio
import subprocess
import threading

import pytest
from core.conformance.doubles import WordVectors

from lance_context_core import AsyncContextStore, ContextStore, Document, InvalidRequestError
from lance_context_core.knowledge import adding
from lance_context_core.results import Progress
from lance_context_core.stores.records import embedding_backlog

WAYS = pytest.mark.parametrize("way", ["raised", "cancelled"])


class StopError(Exception):
    """What a caller's own code may raise."""


def ending_at(step, way, told):
    """Notes what it is told, and ends the call at a step."""
    task = asyncio.current_task()

    def progress(now):
        told.append(now)
        if len(told) == step and way == "raised":
            raise StopError
        if len(told) == step:
            task.cancel()

    return progress


async def ended(call, *given, step, way, **options):
    """What was told until the call ended at a step."""
    told = []

    async def work():
        await call(*given, **options, progress=ending_at(step, way, told))

    with pytest.raises(StopError if way == "raised" else asyncio.CancelledError):
        await asyncio.create_task(work())
    assert len(told) == step
    return told


def assert_counted(told, what):
    """One more each time, of as many as it comes to."""
    assert [(one.n_done, one.n_total) for one in told] == [
        (n, len(told)) for n in range(1, len(told) + 1)
    ]
    assert {one.what for one in told} == {what}


# Distilling


async def told_of_sessions(open_store):
    store = open_store(maintenance=None)
    for n in range(3):
        text = f"I love garden {n}."
        await store.knowledge.add(text, session_id=f"s{n}", infer="never")
    return store


@WAYS
async def test_a_distillation_that_was_ended_goes_on_where_it_was(open_store, way):
    store = await told_of_sessions(open_store)
    told = await ended(store.knowledge.distill, step=2, way=way)
    (job,) = await store.knowledge.jobs.list(kind="distill")
    assert (job.state, job.attempts, job.error) == ("scheduled", 0, None)
    branch = await store.branch(job.branch)
    assert len(await branch.context("knowledge").list(filters={"kind": "fact"})) == 2
    again = []
    proposal = await store.knowledge.distill(progress=again.append)
    assert proposal.report["add"] == 3
    assert again[:2] == told
    assert_counted(again, "jobs")


# Maintaining


async def kept(store):
    texts = [one.text for one in (await store.memory.list()).items]
    return texts, [one.text for one in await store.vectors("notes").list()]


async def of_several_tables(open_store):
    store = open_store(maintenance=None)
    for n in range(4):
        await store.memory.add([f"word{n}"])
        await store.vectors("notes").add([Document(id=f"d{n}", text=f"text{n}")])
    await store.documents.add(b"a file")
    return store


async def maintained(store):
    return {one.table for one in (await store.stats()).tables if one.n_done}


async def test_maintenance_tells_of_each_table_when_it_is_done(open_store):
    store = await of_several_tables(open_store)
    told = []
    done = await store.maintain(progress=told.append)
    assert_counted(told, "tables")
    assert [one.name for one in told] == [one.table for one in done]
    assert len(told) >= 3


@WAYS
async def test_maintenance_ends_with_the_tables_that_it_told_of(open_store, way):
    store = await of_several_tables(open_store)
    before = await kept(store)
    n_tables = len((await store.stats()).tables)
    for step in range(1, n_tables + 1):
        store = open_store(maintenance=None)
        seen = {one.table: one.n_done for one in (await store.stats()).tables}
        told = await ended(store.maintain, step=step, way=way)
        stats = (await store.stats()).tables
        assert {one.name for one in told} >= {
            one.table for one in stats if one.n_done > seen.get(one.table, 0)
        }
        assert not any(one.held_by for one in stats)
        assert all(one.last_error is None for one in stats)
        assert await kept(store) == before
    await store.maintain()
    assert await kept(store) == before


# Thinning


async def of_two_branches(open_store):
    store = open_store(maintenance=None)
    await store.memory.add(["first"])
    for name in ("a", "b"):
        await (await store.create_branch(name)).memory.add([f"on {name}"])
    return store


async def test_thinning_tells_of_each_branch(open_store):
    store = await of_two_branches(open_store)
    told = []
    thinned = await store.thin(progress=told.append)
    assert_counted(told, "branches")
    assert [one.name for one in told] == ["main", "a", "b"]
    assert {one.branch for one in thinned.tables} == {"main", "a", "b"}


@WAYS
async def test_thinning_ends_with_the_branches_that_it_told_of(open_store, way):
    store = await of_two_branches(open_store)
    assert [one.name for one in await ended(store.thin, step=2, way=way)] == ["main", "a"]
    assert (await store.thin()).n_dropped == 0
    assert [one.text for one in (await store.memory.list()).items] == ["first"]


# Vectors


async def without_vectors(open_store):
    """Five records, two of them hidden or of a context, and three documents."""
    store = open_store(embedder=WordVectors(), defer_embedding=True, maintenance=None)
    await store.context().add_many({"role": "user", "content": f"word{n}"} for n in range(4))
    await store.context("notes").add("user", "hidden", lifecycle_status="superseded")
    await store.vectors("notes").add([Document(id=f"d{n}", text=f"text{n}") for n in range(3)])
    return store


async def vectors_of(store):
    """The vectors by text, as the store has them; None where there is none."""
    found = {}
    for context in ("default", "notes"):
        for one in await store.context(context).list(include_retired=True):
            found[one["text"]] = one["embedding"]
    for one in await store.vectors("notes").list(include_embedding=True):
        found[one.text] = one.embedding
    return {text: None if one is None else list(one) for text, one in found.items()}


def made_by(model, texts):
    return {text: model.embed_query(text).tolist() for text in texts}


async def test_embedding_tells_of_each_commit(open_store, monkeypatch):
    monkeypatch.setattr(embedding_backlog, "_BATCH", 2)
    store = await without_vectors(open_store)
    told = []
    assert await store.context("notes").embed_pending(progress=told.append) == 1
    assert [(one.n_done, one.n_total, one.what) for one in told] == [(1, 1, "texts")]
    told.clear()
    assert await store.embed_pending(limit=3, progress=told.append) == 3
    assert [(one.n_done, one.n_total) for one in told] == [(2, 3), (3, 3)]
    told.clear()
    assert await store.embed_pending(progress=told.append) == 4
    assert [(one.n_done, one.n_total) for one in told] == [(1, 4), (3, 4), (4, 4)]
    told.clear()
    assert await store.embed_pending(progress=told.append) == 0
    assert told == []


async def test_what_another_model_has_embedded_is_not_counted(open_store):
    store = await without_vectors(open_store)
    other = open_store(embedder=WordVectors(model="other", dimension=24)).vectors("others")
    await other.add([Document(id="d", text="theirs")])
    deferring = open_store(embedder=WordVectors(model="other", dimension=24), defer_embedding=True)
    await deferring.vectors("others").add([Document(id="e", text="later")])
    told = []
    assert await store.embed_pending(progress=told.append) == 8
    assert [(one.n_done, one.n_total) for one in told] == [(5, 8), (8, 8)]


@WAYS
async def test_embedding_ends_between_two_commits(open_store, monkeypatch, way):
    monkeypatch.setattr(embedding_backlog, "_BATCH", 2)
    store = await without_vectors(open_store)
    n_left = 8
    for step in (1, 2, 1):
        (*_, last) = await ended(store.embed_pending, step=step, way=way)
        n_left -= last.n_done
        there = {text: one for text, one in (await vectors_of(store)).items() if one is not None}
        assert len(there) == 8 - n_left
        assert there == made_by(WordVectors(), there)
    assert await store.embed_pending() == n_left
    there = await vectors_of(store)
    assert there == made_by(WordVectors(), there)


@WAYS
@pytest.mark.parametrize("step", [1, 2])
async def test_a_change_of_model_ends_between_two_tables_and_is_completed(open_store, way, step):
    new = WordVectors(model="new", dimension=24)
    old = await without_vectors(open_store)
    await old.embed_pending()
    before = await vectors_of(old)
    store = open_store(embedder=new, maintenance=None)
    told = await ended(store.change_model, step=step, way=way)
    assert [(one.n_done, one.n_total, one.what) for one in told] == [
        (n + 1, 2, "tables") for n in range(step)
    ]
    # The collection comes first: it has lost its vectors, and the records all or none.
    after = await vectors_of(store)
    assert after == {
        text: one if step == 1 and not text.startswith("text") else None
        for text, one in before.items()
    }
    await store.change_model()
    assert await store.embed_pending() == 8
    assert await vectors_of(store) == made_by(new, before)


# Out, in, elsewhere, and again


async def asked_twice(store, place, progress):
    return await store.replay(["word1", "word2", "text3"], progress=progress)


async def written_out(store, place, progress):
    return await store.export(place / "out", progress=progress)


async def written_out_as_parquet(store, place, progress):
    return await store.export(place / "out", format="parquet", progress=progress)


async def copied(store, place, progress):
    return await store.copy(place / "out", progress=progress)


async def verified(store, place, progress):
    return await store.verify(progress=progress)


async def read_in(store, place, progress):
    async with await AsyncContextStore.open(place / "out") as other:
        try:
            return await other.import_(place / "before", progress=progress)
        finally:
            assert await kept(other) == ([], [])


LOOKING = [asked_twice, written_out, written_out_as_parquet, copied, verified, read_in]


@WAYS
@pytest.mark.parametrize("call", LOOKING, ids=[one.__name__ for one in LOOKING])
async def test_what_only_looks_ends_where_it_is_told_to_and_leaves_nothing(
    open_store, tmp_path, call, way
):
    store = await of_several_tables(open_store)
    await store.export(tmp_path / "before")
    before, there = await kept(store), {one.name for one in tmp_path.iterdir()}
    (first,) = await ended(call, store, tmp_path, step=1, way=way)
    assert first.n_done >= 1
    assert {one.name for one in tmp_path.iterdir()} - {"out"} == there
    assert call is read_in or not (tmp_path / "out").exists()
    assert await kept(store) == before
    with pytest.raises(InvalidRequestError, match="progress="):
        await call(store, tmp_path, True)


# Who is told, and where


async def test_it_is_told_in_the_task_that_awaits(open_store):
    store = await of_several_tables(open_store)
    tasks = []
    await store.maintain(progress=lambda _: tasks.append(asyncio.current_task()))
    assert set(tasks) == {asyncio.current_task()}


def test_a_blocking_call_tells_where_the_store_may_be_asked(tmp_path):
    with ContextStore.open(tmp_path / "memory") as store:
        store.memory.add(["one"])
        found = []

        def progress(now):
            found.append((threading.current_thread().name, store.memory.list().total))

        store.maintain(progress=progress)
        assert found
        assert {total for _, total in found} == {1}
        assert "lance-context" not in {name for name, _ in found}
        with pytest.raises(StopError):
            store.maintain(progress=lambda _: (_ for _ in ()).throw(StopError))
        assert store.memory.list().total == 1


async def nobody(now: Progress) -> None:
    """Nobody would await this."""


@pytest.mark.parametrize(
    "progress", [True, "bar", nobody], ids=["a truth", "a text", "a coroutine's"]
)
async def test_what_cannot_be_told_is_refused_before_anything_is_done(open_store, progress):
    await of_several_tables(open_store)
    store = open_store(embedder=WordVectors(), maintenance=None)
    for call in (
        lambda: store.maintain(progress=progress),
        lambda: store.embed_pending(progress=progress),
        lambda: store.merge("draft", progress=progress),
        lambda: store.erase(ids=["one"], progress=progress),
        lambda: store.knowledge.jobs.run_due(progress=progress),
        lambda: store.change_model(progress=progress),
        lambda: store.knowledge.add("I live in Oslo.", progress=progress),
        lambda: store.documents.add_many([b"text"], progress=progress),
    ):
        with pytest.raises(InvalidRequestError, match="progress="):
            await call()
    assert await maintained(store) == set()
    assert await store.documents.count() == 1


# Files


@WAYS
async def test_files_end_with_those_that_were_told_of(open_store, way):
    store = open_store()
    for step in range(1, 4):
        scope = store.scope(tenant=f"t{step}")
        files = [f"text {n}".encode() for n in range(3)]
        told = await ended(scope.documents.add_many, files, step=step, way=way)
        there = await scope.documents.list()
        assert [one.id for one in there] == [one.document.id for one in told]
        assert [(one.n_done, one.n_total, one.n_files, one.what) for one in told] == [
            (n + 1, 3, 3, "files") for n in range(step)
        ]
        assert len((await scope.documents.add_many(files)).documents) == 3
        assert await scope.documents.count() == 3


# Branches


async def forked(open_store):
    """A store and a branch of it, which changed records, a collection and items."""
    store = open_store(maintenance=None)
    await store.memory.add(["before"])
    await store.vectors("notes").add([Document(id="before", text="before")])
    draft = await store.create_branch("draft")
    await draft.memory.add(["a", "b"])
    await draft.vectors("notes").add([Document(id="c", text="c")])
    await draft.vectors("more").add([Document(id="d", text="d")])
    return store


async def held(store):
    """The texts by where they are."""
    return {
        "records": [one.text for one in (await store.memory.list()).items],
        "notes": [one.text for one in await store.vectors("notes").list()],
        "more": [one.text for one in await store.vectors("more").list()],
    }


MERGED = {"records": {"before", "a", "b"}, "notes": {"before", "c"}, "more": {"d"}}


@WAYS
async def test_a_merge_ends_between_two_tables_and_is_completed(open_store, way):
    store = await forked(open_store)
    before, told = {name: {*texts} for name, texts in (await held(store)).items()}, []
    await store.merge("draft", dry_run=True, progress=told.append)
    assert told == []
    (first,) = await ended(store.merge, "draft", step=1, way=way)
    assert first.what == "tables"
    after = {name: {*texts} for name, texts in (await held(store)).items()}
    assert all(texts in (before[name], MERGED[name]) for name, texts in after.items())
    assert after != MERGED
    await store.merge("draft", progress=told.append)
    assert_counted(told, "tables")
    assert first.n_total == len(told)
    found = await held(store)
    assert {name: {*texts} for name, texts in found.items()} == MERGED
    assert sum(map(len, found.values())) == sum(map(len, MERGED.values()))


# Erasing


def holding(place, marker):
    """The files that hold a text, as another process reads them: this one holds locks on some."""
    told = subprocess.run(
        ["grep", "-rlaF", marker, place], capture_output=True, text=True, check=False
    )
    return told.stdout.splitlines()


@WAYS
@pytest.mark.parametrize("step", [1, 2])
async def test_an_erasure_ends_between_two_tables_and_is_completed(open_store, tmp_path, way, step):
    store = open_store(maintenance=None)
    for user in ("ada", "eve"):
        theirs = store.scope(user_id=user)
        await theirs.memory.add([f"secret-of-{user}-in-records"])
        document = Document(id=user, text=f"secret-of-{user}-in-notes")
        await theirs.vectors("notes").add([document])
    ada, eve = store.scope(user_id="ada"), store.scope(user_id="eve")
    told = await ended(ada.erase, sole_writer=True, step=step, way=way)
    assert [(one.n_done, one.n_total) for one in told] == [(n + 1, 2) for n in range(step)]
    assert await kept(ada) == ([], [])
    assert await kept(eve) == (["secret-of-eve-in-records"], ["secret-of-eve-in-notes"])
    await ada.erase(sole_writer=True)
    assert holding(tmp_path, "secret-of-ada") == []
    assert holding(tmp_path, "secret-of-eve") != []
    assert await kept(eve) == (["secret-of-eve-in-records"], ["secret-of-eve-in-notes"])
    assert not any(one.held_by for one in (await store.stats()).tables)


# Jobs


async def facts(store):
    found = await store.context("knowledge").list(filters={"kind": "fact"})
    return {one["text"] for one in found}


@WAYS
async def test_jobs_end_between_two_of_them(open_store, way):
    store = open_store(maintenance=None)
    knowledge = store.knowledge
    said = [f"I live in house {n}." for n in range(4)]
    ids = [
        (await knowledge.add(text, session_id=f"s{n}", infer="later")).job_id
        for n, text in enumerate(said)
    ]
    told = await ended(knowledge.jobs.run_due, step=2, way=way)
    assert [(one.n_done, one.n_total, one.what, one.name) for one in told] == [
        (1, 4, "jobs", ids[0]),
        (2, 4, "jobs", ids[1]),
    ]
    states = [(await knowledge.jobs.get(id)).state for id in ids]
    assert states == ["succeeded", "succeeded", "scheduled", "scheduled"]
    n_facts = len(await facts(store))
    assert n_facts == 2
    told.clear()
    await knowledge.jobs.run_due(limit=1, progress=told.append)
    assert [(one.n_done, one.n_total) for one in told] == [(1, 1)]
    await knowledge.jobs.run_due()
    assert len(await facts(store)) == len(said)


@WAYS
@pytest.mark.parametrize("ids", ["named", "generated"])
async def test_adding_tells_of_each_job_and_leaves_the_others_to_be_run(
    open_store, monkeypatch, way, ids
):
    monkeypatch.setattr(adding, "MOST_TURNS", 2)
    store = open_store(maintenance=None)
    named = ids == "named"
    turns = [
        {"role": "user", "content": f"I live in house {n}.", "id": f"m{n}" if named else None}
        for n in range(5)
    ]
    told = await ended(store.knowledge.add, turns, session_id="s", step=2, way=way)
    assert [(one.n_done, one.n_total, one.what) for one in told] == [(1, 3, "jobs"), (2, 3, "jobs")]
    jobs = await store.knowledge.jobs.list()
    assert sorted(job.state for job in jobs) == ["scheduled", "succeeded", "succeeded"]
    assert {job.id for job in jobs if job.state == "succeeded"} == {one.name for one in told}
    assert len(await store.history.get_messages("", session_id="s")) == 5
    assert [job.state for job in await store.knowledge.jobs.run_due()] == ["succeeded"]
    assert await facts(store) == {one["content"] for one in turns}
