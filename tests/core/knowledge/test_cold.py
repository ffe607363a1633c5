"""An archived session is kept apart: no search goes over it, nothing of it is lost, and it can be erased."""

import asyncio
from datetime import timedelta
from threading import Thread

import pytest
from core.conformance.doubles import WordVectors
from core.knowledge.living import OSLO, Scripted, aloud, day, everything, facts, opened, said

from lance_context_core import ContextStore, Message, NotFoundError
from lance_context_core.settings import VersionRetention
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode

NOT_KEPT = VersionRetention(all_for=timedelta(0), hourly_for=timedelta(0), daily_for=timedelta(0))

KEEN = said("I love skiing.", day(2024))
TOLD = [Message.user(f"Number {n} of the Xanaduvia story", id=f"n{n}") for n in range(8)]


def rows(store):
    """How many rows each table has, as whoever looks after the store is told."""
    store.flush()
    return {one.table: one.rows for one in store.stats().tables}


def texts(store, **scope):
    return [one.text for one in store.history.get_messages("", session_id="s", **scope)]


def nearest(store):
    """What a question finds by vectors alone, and how near it is."""
    found = store.search("Number 3 of the story", mode="vector", limit=3)
    return [(one.record.id, round(one.score, 6)) for one in found]


def traced(store):
    return sorted(one.id for one in store.knowledge.trace("s") if one.kind != "job")


def test_the_rows_of_an_archived_session_leave_the_table_that_is_searched(store, memory):
    memory.add([OSLO, KEEN], session_id="s")
    before = rows(store)["records"]
    memory.archive("s")
    there = rows(store)
    n_jobs = len(memory.jobs.list())
    assert there["records"] == n_jobs
    assert there["cold"] == before - (n_jobs - 1)


def test_it_comes_back_in_order_with_its_vectors_ids_and_external_ids(tmp_path, clock):
    with opened(tmp_path, clock, embedder=WordVectors()) as store:
        store.history.append_many("", TOLD, session_id="s")
        store.context().upsert(
            "user", "Named", external_id="x-1", session_id="s", kind="message", key="external_id"
        )
        listed, near = store.context().list(), nearest(store)
        store.knowledge.archive("s")
        assert store.context().list() == []
        store.history.append("", Message.user("Heard meanwhile"), session_id="s")
        store.knowledge.unarchive("s")
        found = store.context().list()
        assert len(near) == 3
        assert nearest(store) == near
    for one in (*listed, *found):
        one.pop("updated_at"), one.pop("author", None)
    assert found[:-1] == listed
    assert found[-1]["text"] == "Heard meanwhile"


@pytest.mark.parametrize("words", ["the same", "other words"])
def test_what_is_said_again_meanwhile_under_its_id_is_there_once_as_said_last(store, memory, words):
    memory.add(TOLD[:2], session_id="s", infer="never")
    memory.archive("s")
    again = TOLD[0] if words == "the same" else Message.user("Told otherwise", id=TOLD[0].id)
    store.history.append("", again, session_id="s")
    memory.unarchive("s")
    assert texts(store) == [TOLD[1].text, again.text]
    assert rows(store)["cold"] == 0


@pytest.mark.parametrize("dimension", [64, 32], ids=["as many numbers", "fewer numbers"])
def test_after_the_model_changed_it_comes_back_to_be_found_by_the_new_one(
    tmp_path, clock, dimension
):
    with opened(tmp_path, clock, embedder=WordVectors()) as store:
        store.knowledge.add(TOLD, session_id="s", infer="never")
        store.knowledge.archive("s")
    with opened(tmp_path, clock, embedder=WordVectors("other", dimension)) as store:
        store.change_model()
        store.knowledge.unarchive("s")
        store.embed_pending()
        found = nearest(store)
        alone = ContextStore.open("memory://", embedder=WordVectors("other", dimension))
        with alone:
            alone.history.append_many("", TOLD, session_id="s")
            assert found == nearest(alone)


@pytest.mark.parametrize("step", ["put there", "taken from here"])
def test_killed_while_it_is_put_away_it_is_there_once_and_the_next_does_it(
    store, memory, monkeypatch, step
):
    memory.add([OSLO, KEEN], session_id="s")
    known = traced(store)
    at, dead = (_inserts, "cold") if step == "put there" else (_removes_what_was_seen, "records")
    with monkeypatch.context() as patch:
        _dies(patch, at, dead)
        with pytest.raises(RuntimeError, match="killed"):
            memory.archive("s")
    assert texts(store) == [] == facts(store)
    assert traced(store) == known
    store.maintain()
    assert traced(store) == known
    assert rows(store)["records"] == len(memory.jobs.list())
    memory.unarchive("s")
    assert (texts(store), len(facts(store))) == ([OSLO["content"], KEEN["content"]], 2)


@pytest.mark.parametrize("step", ["put here", "taken from there"])
def test_killed_while_it_comes_back_it_is_there_once_and_the_next_does_it(
    store, memory, monkeypatch, step
):
    memory.add([OSLO, KEEN], session_id="s")
    known, made = traced(store), everything(store)
    memory.archive("s")
    at, dead = (_upserts, "records") if step == "put here" else (_deletes, "cold")
    with monkeypatch.context() as patch:
        _dies(patch, at, dead)
        job = memory.jobs.list(kind="archive")[0]
        assert memory.jobs.list(kind="undo") == []
        with pytest.raises(Exception, match="killed"):
            memory.undo(job.id, dry_run=True)
    assert texts(store) == []
    assert traced(store) == known
    memory.unarchive("s")
    assert everything(store) == made
    assert rows(store)["cold"] == 0


def _inserts(batch):
    return batch.mode is Mode.INSERT


def _upserts(batch):
    return batch.mode is Mode.UPSERT and batch.expect is None


def _deletes(batch):
    return batch.where is not None


def _removes_what_was_seen(batch):
    return batch.expect is not None and not batch.rows


def _dies(patch, at, table):
    """Let a table raise before it does anything, at batches of that kind."""
    real = Table.write

    async def dead(self, batch):
        if self.name == table and at(batch):
            raise RuntimeError("killed")
        return await real(self, batch)

    patch.setattr(Table, "write", dead)


def test_a_turn_of_it_is_erased_from_every_file_and_the_rest_comes_back(tmp_path, clock):
    secret = said("I live in Xanaduvia.", day(2024))
    with opened(tmp_path, clock) as store:
        memory = store.knowledge
        gone = memory.add([secret, KEEN], session_id="s")
        store.tag("before")
        memory.archive("s")
        store.tag("archived")
        meant = store.erase(ids=gone.ids[:1], derived="rebuild", dry_run=True)
        done = store.erase(ids=gone.ids[:1], derived="rebuild", sole_writer=True)
        assert (done.records, done.derived) == (meant.records, meant.derived)
        assert done.records == 1
        store.maintain()
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert [path for path in files if b"xanaduvia" in path.read_bytes().lower()] == []
        memory.unarchive("s")
        assert texts(store) == ["I love skiing."]


def test_all_that_somebody_has_goes_with_what_is_archived(tmp_path, clock):
    with opened(tmp_path, clock) as store:
        memory = store.knowledge
        memory.add(TOLD[:2], session_id="s", user_id="ada")
        memory.add(KEEN, session_id="s", user_id="bob")
        store.scope(user_id="ada").knowledge.archive("s")
        erased = store.scope(user_id="ada").erase(sole_writer=True)
        assert erased.records >= 2
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert [path for path in files if b"xanaduvia" in path.read_bytes().lower()] == []
        assert texts(store.scope(user_id="bob")) == ["I love skiing."]


@pytest.mark.parametrize("gone", ["erased", "cleared"])
def test_what_goes_while_another_puts_it_away_is_nowhere_afterwards(
    tmp_path, clock, monkeypatch, gone
):
    real, others = Table.write, []

    def take_away():
        with opened(tmp_path, clock) as other:
            if gone == "erased":
                other.erase(filter={"session_id": "s"}, sole_writer=True)
            else:
                other.history.clear("", session_id="s")

    async def late(self, batch):
        if self.name == "cold" and _inserts(batch) and not others:
            others.append(Thread(target=take_away))
            others[0].start()
            await asyncio.to_thread(others[0].join, 1)
        return await real(self, batch)

    with opened(tmp_path, clock) as store:
        store.history.append("", Message.user("Left in another session"), session_id="t")
        store.knowledge.add(
            [said("I live in Xanaduvia.", day(2024))], session_id="s", infer="never"
        )
        monkeypatch.setattr(Table, "write", late)
        store.knowledge.archive("s")
        others[0].join()
        assert texts(store) == [] == facts(store)
        assert rows(store)["cold"] == 0
        if gone == "erased":
            with pytest.raises(NotFoundError):
                store.knowledge.trace("s")


def test_who_clears_the_session_clears_what_is_archived_of_it(store, memory):
    memory.add([OSLO, KEEN], session_id="s", infer="never")
    memory.archive("s")
    assert store.history.clear("", session_id="s") == 2
    memory.unarchive("s")
    assert texts(store) == []


def test_archived_on_a_branch_it_is_archived_once_that_is_merged(store, memory):
    memory.add([OSLO, KEEN], session_id="s")
    branch = store.create_branch("tidy")
    branch.knowledge.archive("s")
    assert (texts(branch), len(texts(store))) == ([], 2)
    store.merge("tidy")
    assert texts(store) == []
    memory.unarchive("s")
    assert (len(texts(store)), texts(branch)) == (2, [])


def test_it_is_as_it_was_at_each_version_and_by_each_tag(store, memory):
    memory.add([OSLO, KEEN], session_id="s")
    store.tag("before")
    memory.archive("s")
    store.tag("archived")
    memory.unarchive("s")
    assert len(texts(store.checkout("before"))) == 2
    then = store.checkout("archived")
    assert (texts(then), traced(then)) == ([], traced(store))
    store.thin(retention=NOT_KEPT)
    assert traced(store.checkout("archived")) == traced(store)
    store.restore("archived")
    assert texts(store) == []
    memory.unarchive("s")
    assert len(texts(store)) == 2


def test_it_is_exported_verified_and_audited_with_the_rest(store, memory, tmp_path):
    store.audit.seal()
    memory.add([OSLO, KEEN], session_id="s")
    memory.archive("s")
    store.maintain()
    assert store.verify().problems == ()
    assert store.audit.verify().problems == ()
    assert store.sql("SELECT count(*) AS n FROM messages").to_pylist() == [{"n": 0}]
    store.export(tmp_path / "out.jsonl")
    with ContextStore.open("memory://", clock=store.clock) as other:
        other.import_(tmp_path / "out.jsonl")
        assert texts(other) == []
        assert traced(other) == traced(store)
        other.knowledge.unarchive("s")
        assert (len(texts(other)), len(facts(other))) == (2, 2)


def test_why_a_fact_of_it_was_known_is_still_told(store, memory):
    added = memory.add([OSLO], session_id="s")
    (fact,) = store.context("knowledge").list(filters={"kind": "fact"})
    memory.archive("s")
    told = memory.explain(fact["id"])
    assert [(one.text, one.is_verified) for one in told.quotes] == [("I live in Oslo.", True)]
    assert added.ids[0] in told.records
    assert [one.kind for one in memory.history(fact["id"])] == ["add", "archive"]
    assert memory.pin(fact["id"]).metadata["pinned"]
    assert facts(store) == []
    with pytest.raises(NotFoundError):
        memory.pin("nothing")


@pytest.mark.s3
def test_on_an_object_store_it_is_put_away_and_comes_back_for_whoever_opens_it_next(
    s3_backend, clock
):
    options = {"storage_options": s3_backend.storage_options, "clock": clock, "maintenance": None}
    with ContextStore.open(s3_backend.uri, **options) as store:
        store.knowledge.add(OSLO, session_id="s")
        store.knowledge.archive("s")
    with ContextStore.open(s3_backend.uri, **options) as store:
        assert (texts(store), facts(store)) == ([], [])
        assert rows(store)["cold"] > 0
        assert {"turn", "fact", "chunk"} <= {one.kind for one in store.knowledge.trace("s")}
        store.knowledge.unarchive("s")
        assert (texts(store), facts(store)) == ([OSLO["content"]], ["I live in Oslo."])
        assert rows(store)["cold"] == 0


@pytest.mark.parametrize(
    "is_row", [pytest.param(True, id="scheduled"), pytest.param(False, id="owed")]
)
def test_a_job_whose_turns_are_archived_says_so_and_is_done_once_they_are_back(
    store, memory, is_row
):
    told = {"created_at": day(2024)} if is_row else {}
    turns = [{"role": "user", "content": "I have a dog.", **told}]
    later = memory.add(turns, session_id="s", infer="later")
    other = memory.add("I have a cat.", session_id="other", infer="later")
    memory.archive("s")
    assert memory.jobs.get(later.job_id).state == "scheduled"
    by_id = {one.id: one for one in memory.jobs.run_due()}
    assert by_id[other.job_id].state == "succeeded"
    failed = by_id[later.job_id]
    assert failed.state == "failed"
    assert "session 's' was archived" in failed.error
    assert memory.jobs.run_due() == []
    memory.unarchive("s")
    assert (memory.jobs.get(later.job_id).state, facts(store)) == ("scheduled", ["I have a cat."])
    assert [one.state for one in memory.jobs.run_due()] == ["succeeded"]
    assert sorted(facts(store)) == ["I have a cat.", "I have a dog."]


def test_what_is_said_after_a_session_was_archived_becomes_knowledge(store, memory):
    memory.add("I have a dog.", session_id="s")
    memory.archive("s")
    memory.add("I have a cat.", session_id="s", infer="later")
    assert [one.state for one in memory.jobs.run_due()] == ["succeeded"]
    assert facts(store) == ["I have a cat."]


def test_a_job_whose_turn_is_gone_for_good_is_not_held_up_by_an_archive_of_others(store, memory):
    memory.add("I have a dog.", session_id="s")
    memory.archive("s")
    memory.add(
        [{"role": "user", "content": "I have a fox.", "id": "m"}], session_id="s", infer="later"
    )
    store.history.clear("", session_id="s", filter={"id": "m"})
    assert memory.jobs.run_due() == []
    assert memory.jobs.list(state="failed") == []
    assert facts(store) == []


def test_a_job_of_an_archived_session_that_failed_for_another_reason_stays_failed(tmp_path, clock):
    with opened(tmp_path, clock) as store:
        model = Scripted([], aloud)
        memory = store.knowledge.using(model=model)
        failed = memory.add("I have a dog.", session_id="s")
        assert memory.jobs.get(failed.job_id).state == "failed"
        memory.archive("s")
        memory.unarchive("s")
        assert memory.jobs.get(failed.job_id).state == "failed"
