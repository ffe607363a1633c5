"""A store with search engines finds what LanceDB finds, and says in each hit what answered."""

import json
import pickle
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from core.conformance.doubles import WordVectors

from lance_context_core import ContextStore, Document, Message
from lance_context_core.engines import EngineHits, EngineRow, MemoryEngine, SearchEngines
from lance_context_core.errors import DimensionMismatchError, InvalidRequestError
from lance_context_core.settings import JournalPolicy, Maintenance, SearchCache

MODES = ("hybrid", "vector", "text")
WORDS = [
    "cat",
    "dog",
    "bird",
    "tree",
    "house",
    "vase",
    "museum",
    "train",
    "running",
    "kite",
    "日本",
    "東京",
]

each_mode = pytest.mark.parametrize("mode", MODES)


class Engine(MemoryEngine):
    """An engine in memory that counts its searches and may fail."""

    fault = None
    """Called before each method."""
    answer = None
    """Changes the hits."""
    n_searches = 0

    def state(self, table):
        self._fail()
        return super().state(table)

    def tables(self):
        self._fail()
        return super().tables()

    def match(self, *args, **kwargs):
        return self._searched(super().match, args, kwargs)

    def nearest(self, *args, **kwargs):
        return self._searched(super().nearest, args, kwargs)

    def texts(self, table="records"):
        index = self._indexes.get(table)
        return "" if index is None else " ".join(" ".join(row.words) for row in index.rows.values())

    def _searched(self, search, args, kwargs):
        self._fail()
        self.n_searches += 1
        hits = search(*args, **kwargs)
        return hits if self.answer is None else self.answer(hits)

    def _fail(self):
        if self.fault is not None:
            self.fault()


@pytest.fixture
def engine():
    return Engine("mine")


@pytest.fixture
def opened(tmp_path, engine):
    """Opens the store with the engine, or as LanceDB alone searches it."""
    stores = []

    def open_store(*, plain=False, **options):
        given = {} if plain else {"search_engines": engines(engine)}
        given |= {"embedder": WordVectors(), "search_cache": None, "maintenance": None}
        stores.append(ContextStore.open(tmp_path / "store", **given | options))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture
def store(opened):
    return opened()


@pytest.fixture
def plain(opened):
    return opened(plain=True)


def engines(engine, **more):
    return SearchEngines(text=engine, vector=engine, pause=timedelta(0), **more)


def say(store, n, *, random=None, user="ann", session="s"):
    random = random or Random(n)
    texts = [" ".join(random.choices(WORDS, k=random.randrange(1, 8))) for _ in range(n)]
    messages = [Message.user(text, name=user) for text in texts]
    return store.history.append_many("", messages, session_id=session)


def ids(hits):
    return [hit.record.id for hit in hits]


def scores(hits):
    return {hit.record.id: pytest.approx(hit.score, abs=1e-4) for hit in hits}


def answered(hits):
    return {name for hit in hits for name in hit.engines.values()}


def engine_stats(store):
    (stats,) = store.stats().search_engines
    return stats


# What is found


@each_mode
def test_it_finds_what_lancedb_finds_with_the_same_scores(store, plain, mode):
    say(store, 80)
    store.maintain()
    for query in ("cat", "running museum", "日本 kite", "nothing of it"):
        found = store.search(query, mode=mode, limit=20)
        assert scores(found) == {
            hit.record.id: hit.score for hit in plain.search(query, mode=mode, limit=20)
        }
        assert answered(found) <= {"mine"}
        assert answered(store.search("cat", mode=mode)) == {"mine"}


@each_mode
def test_rows_that_are_newer_than_the_index_changed_or_gone_are_found_so(store, plain, mode):
    random, mine, other = Random(4), store.vectors("books"), plain.vectors("books")

    def write(numbers):
        texts = {str(n): " ".join(random.choices(WORDS, k=random.randrange(1, 8))) for n in numbers}
        mine.upsert([Document(id=id, text=text) for id, text in texts.items()])

    write(range(30))
    store.maintain()
    write(range(28, 38))
    mine.upsert([Document(id="3", text="museum museum museum")])
    mine.delete(["4"])
    for query in ("museum", "cat dog", "日本 kite"):
        found = mine.search(query, mode=mode, limit=1_000)
        wanted = other.search(query, mode=mode, limit=1_000)
        assert {*ids(found)} == {*ids(wanted)}
        if mode == "vector":
            assert scores(found) == {hit.record.id: hit.score for hit in wanted}
    best = mine.search("museum", mode=mode)
    assert best[0].record.id == "3"
    assert {*best[0].engines.values()} == {"log"}
    assert answered(mine.search("cat dog bird", mode=mode, limit=100)) == {"mine", "log"}
    assert engine_stats(store).indexes[0].n_behind == 12


def test_each_channel_has_its_engine(opened):
    words, vectors = Engine("words"), Engine("vectors")
    both = opened(search_engines=SearchEngines(text=words, vector=vectors))
    say(both, 20)
    both.maintain()
    best = both.search("cat dog", mode="hybrid")[0]
    assert best.engines == {"text": "words", "vector": "vectors"}
    assert all(row.vector is None for row in words._indexes["records"].rows.values())
    assert not any(row.words for row in vectors._indexes["records"].rows.values())
    # The engine for words has no vectors until it is to search by them, too.
    all_by_one = opened(search_engines=engines(words))
    assert answered(all_by_one.search("cat dog", mode="vector")) == {"lancedb"}
    all_by_one.maintain()
    assert answered(all_by_one.search("cat dog")) == {"words"}
    one = opened(search_engines=SearchEngines(text=words))
    assert one.search("cat dog", mode="hybrid")[0].engines == {"text": "words", "vector": "lancedb"}
    assert [stats.channels for stats in both.stats().search_engines] == [("text",), ("vector",)]


@each_mode
def test_a_filter_that_the_engine_cannot_apply_shortens_no_answer(store, plain, engine, mode):
    memory = store.memory
    for number in range(150):
        text = "cat " * (1 + number % 5) + f"dog{number}"
        memory.add([text], metadata={"n": number}, user_id="ann")
    store.maintain()
    given = {"mode": mode, "limit": 6, "filter": {"n": {"$gte": 140}}, "user_id": "ann"}
    asked = engine.n_searches
    found = store.memory.search("cat", **given)
    assert scores(found) == {
        hit.record.id: hit.score for hit in plain.memory.search("cat", **given)
    }
    assert len(found) == 6
    assert answered(found) == {"mine"}
    assert engine.n_searches > asked + (2 if mode == "hybrid" else 1)


def test_collections_have_indexes_of_their_own_which_go_with_them(store, engine):
    store.vectors("books").add([Document(id=str(n), text=f"cat {WORDS[n]}") for n in range(9)])
    store.maintain()
    found = store.vectors("books").search("museum", mode="text")
    assert [(hit.record.id, hit.engines) for hit in found] == [("6", {"text": "mine"})]
    assert len(engine.tables()) == 1
    store.vectors("books").delete_collection()
    store.maintain()
    assert engine.tables() == []


def test_memory_answers_before_an_engine(opened, engine):
    store = opened(search_cache=None)
    say(store, 20)
    store.maintain()
    cached = opened(search_cache=SearchCache())
    hits = cached.search("cat dog")
    assert hits
    assert hits[0].engines == {}
    assert engine.n_searches == 0


def test_branches_and_earlier_versions_are_searched_by_lancedb(store, engine):
    say(store, 20)
    store.maintain()
    tag = store.tag("then")
    assert tag
    store.create_branch("draft")
    for other in (store.checkout("then"), store.branch("draft")):
        assert answered(other.search("cat dog")) == {"lancedb"}
    assert engine.n_searches == 0


def test_a_store_that_is_only_read_asks_engines_and_writes_nothing_to_them(opened, engine):
    say(opened(), 20)
    reader = opened(read_only=True)
    assert answered(reader.search("cat dog")) == {"lancedb"}
    assert engine.tables() == []
    opened().maintain()
    assert answered(reader.search("cat dog")) == {"mine"}


# Isolation


def test_what_an_engine_says_cannot_show_what_the_store_does_not(store, engine):
    ann, ben = store.scope(user_id="ann"), store.scope(user_id="ben")
    moment = datetime.now(UTC)
    ann.memory.add(["cat of ann"])
    ben.memory.add(["cat of ben"])
    (gone,) = ann.memory.add(["cat that is deleted"])
    ann.memory.add(["cat that expires"], expires_at=moment + timedelta(milliseconds=1))
    store.maintain()
    ann.memory.delete(ids=[gone])
    time.sleep(0.01)
    everything = list(engine.revisions("records"))

    def lie(hits):
        more = [*everything, "no key", "' OR 1=1 --"]
        return EngineHits(state=hits.state, keys=more, scores=[1.0] * len(more))

    engine.answer = lie
    for mode in MODES:
        hits = ann.memory.search("cat", mode=mode, limit=50)
        assert [hit.record.text for hit in hits] == ["cat of ann"]
        assert answered(hits) == {"mine"}


# Faults


def unreachable():
    raise OSError("no route to host")


def late():
    time.sleep(0.4)


def placed(engine, position):
    engine._indexes["records"].position = position


def moved(engine, **told):
    before = json.loads(engine._indexes["records"].position)
    placed(engine, json.dumps(before | told))


def ahead(engine):
    """What was written since the copy was made: one row is another one, one is gone, one is new."""
    rows = engine._indexes["records"].rows
    first, second, *_ = rows
    rows[first] = replace(rows[first], revision=5, words=["other"], vector=None)
    rows["new"] = replace(rows.pop(second), key="new")
    table, token, last = json.loads(engine._indexes["records"].position)["state"]
    moved(engine, state=[table, token + 50, last + 50])


FAULTS = {
    "no route to host": lambda engine: setattr(engine, "fault", unreachable),
    "did not answer in 0.2 seconds": lambda engine: setattr(engine, "fault", late),
    "no index": lambda engine: engine.drop("records"),
    "fewer": lambda engine: engine._indexes["records"].rows.popitem(),
    "-1 rows fewer": lambda engine: engine._indexes["records"].rows.update(
        more=EngineRow(key="more", revision=1, fields={})
    ),
    "not complete": lambda engine: engine.clear("records", dimension=32),
    "another release": lambda engine: placed(engine, "garbage"),
    "belongs to the store at 'elsewhere'": lambda engine: moved(engine, store=["elsewhere", None]),
    "ahead of the store": ahead,
    "an unknown number of changes": lambda engine: moved(engine, state=[10**6, 1, 1], version=1),
}


@pytest.mark.parametrize("reason", FAULTS)
def test_an_engine_that_is_not_right_is_said_and_lancedb_answers_instead(
    opened, plain, engine, reason
):
    store = opened(search_engines=engines(engine, timeout=timedelta(seconds=0.2)))
    say(store, 30)
    store.maintain()
    assert answered(store.search("cat dog")) == {"mine"}
    FAULTS[reason](engine)
    hits = store.search("cat dog", limit=30)
    assert answered(hits) == {"lancedb"}
    assert scores(hits) == {hit.record.id: hit.score for hit in plain.search("cat dog", limit=30)}
    assert reason in engine_stats(store).last_fallback
    # And is healed by the next maintenance, unless the index is another store's.
    engine.fault = None
    store.maintain()
    told = engine_stats(store)
    if "elsewhere" in reason:
        assert "belongs to the store" in told.last_error
        assert "drop('records')" in told.last_error
        engine.drop("records")
        store.maintain()
    hits = store.search("cat dog", limit=30)
    assert answered(hits) == {"mine"}
    assert scores(hits) == {hit.record.id: hit.score for hit in plain.search("cat dog", limit=30)}
    assert engine_stats(store).last_error is None
    assert engine_stats(store).indexes[0].n_rows == 30
    assert engine_stats(store).indexes[0].problem is None


def test_an_engine_that_is_further_behind_than_the_bound_is_not_asked_for_less(opened, engine):
    store = opened(search_engines=engines(engine, max_behind=3))
    say(store, 20)
    store.maintain()
    say(store, 3)
    assert "log" in answered(store.search("cat dog bird museum", limit=50))
    say(store, 1)
    assert answered(store.search("cat dog", limit=50)) == {"lancedb"}
    assert "4 changes behind" in engine_stats(store).last_fallback


def test_an_engine_that_failed_is_not_asked_for_a_while(opened, engine):
    given = SearchEngines(text=engine, vector=engine, pause=timedelta(minutes=1))
    store = opened(search_engines=given)
    say(store, 20)
    store.maintain()
    engine.fault = unreachable
    assert answered(store.search("cat")) == {"lancedb"}
    engine.fault = None
    assert answered(store.search("cat")) == {"lancedb"}
    assert engine.n_searches == 0
    store.maintain()
    assert answered(store.search("cat")) == {"mine"}


def test_texts_that_an_engine_has_no_room_for_are_left_to_lancedb(store, plain, engine):
    engine.max_words_bytes = 100
    say(store, 10)
    store.history.append("", Message.user("cat " * 60 + "needle"), session_id="s")
    store.maintain()
    hits = store.search("needle", mode="text")
    assert ids(hits) == ids(plain.search("needle", mode="text"))
    assert answered(hits) == {"lancedb"}
    assert answered(store.search("needle", mode="vector")) == {"mine"}
    assert "some rows cannot be found by it" in engine_stats(store).last_fallback


def test_a_vector_without_direction_is_left_to_lancedb(store, engine):
    store.vectors("v").add(
        [Document(id="a", embedding=[0.0] * 8), Document(id="b", embedding=[1.0] * 8)]
    )
    store.maintain()
    found = store.vectors("v").search([1.0] * 8, limit=2)
    assert ids(found) == ["b", "a"]
    assert answered(found) == {"lancedb"}


def test_a_vector_of_another_length_is_refused_as_ever(store):
    say(store, 5)
    store.maintain()
    with pytest.raises(DimensionMismatchError):
        store.search([0.5, 0.5])


# Following


def test_a_reopened_store_adds_what_the_log_has_since(opened, engine):
    first = opened()
    say(first, 20)
    first.maintain()
    say(first, 4, session="later")
    first.close()
    again = opened()
    hits = again.search("cat dog bird museum tree", limit=50)
    assert answered(hits) == {"mine", "log"}
    assert engine_stats(again).indexes[0].n_behind == 4


def test_only_what_changed_is_written_again(opened, engine):
    store = opened()
    say(store, 40)
    store.maintain()
    puts = []
    write = engine.write
    engine.write = lambda table, **given: (
        puts.extend(row.key for row in given.get("puts", ())),
        write(table, **given),
    )
    store.maintain()
    assert puts == []
    say(store, 3)
    store.maintain()
    assert len(puts) == 3
    # After a restart, and a flush, rows are compared by their revisions.
    say(store, 2)
    store.flush()
    store.close()
    again = opened()
    assert answered(again.search("cat")) == {"lancedb"}
    again.maintain()
    assert len(puts) == 5
    assert answered(again.search("cat")) == {"mine"}


def test_an_index_follows_commits_in_the_background(opened, engine):
    store = opened(maintenance=Maintenance(), journal=JournalPolicy(rows=8))
    say(store, 30)
    until = time.monotonic() + 30
    while engine.state("records") is None or engine.state("records").n_rows < 30:
        assert time.monotonic() < until
        time.sleep(0.05)
    until = time.monotonic() + 30
    while answered(store.search("cat dog")) != {"mine"}:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_an_index_is_made_anew_for_another_model(opened, engine):
    store = opened()
    say(store, 20)
    store.maintain()
    other = opened(embedder=WordVectors("other", dimension=7))
    other.change_model()
    other.embed_pending()
    assert answered(other.search("cat dog", mode="vector")) == {"lancedb"}
    other.maintain()
    assert answered(other.search("cat dog", mode="vector")) == {"mine"}
    assert engine._indexes["records"].dimension == 7


@pytest.mark.parametrize("place", ["directory", "memory"])
def test_an_index_follows_a_store_without_a_log(tmp_path, engine, place):
    uri = str(tmp_path / "store") if place == "directory" else "memory://"
    options = {"search_cache": None, "maintenance": None, "journal": None}
    with ContextStore.open(uri, search_engines=engines(engine), **options) as store:
        say(store, 20)
        store.maintain()
        assert answered(store.search("cat dog")) == {"mine"}
        say(store, 1)
        assert answered(store.search("cat dog")) == {"lancedb"}
        store.maintain()
        assert answered(store.search("cat dog")) == {"mine"}
        assert engine.state("records").n_rows == 21


def test_an_index_follows_a_restored_version_and_a_merged_branch(store, plain, engine):
    say(store, 20)
    store.tag("then")
    say(store, 5)
    store.create_branch("draft")
    say(store.branch("draft"), 4, session="draft")
    store.maintain()
    for change, n_rows in (lambda: store.merge("draft"), 29), (lambda: store.restore("then"), 20):
        change()
        everything = {"mode": "vector", "limit": 99}
        wanted = {hit.record.id: hit.score for hit in plain.search("cat dog", **everything)}
        assert scores(store.search("cat dog", **everything)) == wanted
        store.maintain()
        found = store.search("cat dog", **everything)
        assert scores(found) == wanted
        assert answered(found) == {"mine"}
        assert engine.state("records").n_rows == n_rows


def test_a_transaction_searches_the_state_before_it(store):
    say(store, 20)
    store.maintain()
    with store.transaction() as tx:
        tx.memory.add(["a new cat"], user_id="ann")
        assert answered(tx.history.search("cat dog")) == {"lancedb"}
    assert answered(store.search("cat dog", limit=50)) == {"mine", "log"}


def test_hits_can_be_copied_and_pickled(store):
    say(store, 20)
    store.maintain()
    hits = store.search("cat dog")
    assert pickle.loads(pickle.dumps(hits)) == hits  # noqa: S301 - its own
    assert [asdict(hit)["engines"] for hit in hits] == [hit.engines for hit in hits]


def test_a_write_that_was_cut_off_is_completed(store, plain, engine):
    say(store, 30)
    store.maintain()
    store.context("default").delete(id=ids(store.search("cat", mode="text"))[0])
    say(store, 5)
    write, calls = engine.write, []

    def half(table, **given):
        calls.append(given)
        write(table, puts=given["puts"][:2], removes=())
        raise OSError("cut off")

    engine.write = half
    store.maintain()
    assert "cut off" in engine_stats(store).last_error
    engine.write = write
    wanted = {hit.record.id: hit.score for hit in plain.search("cat dog", mode="vector", limit=99)}
    assert scores(store.search("cat dog", mode="vector", limit=99)) == wanted
    store.maintain()
    found = store.search("cat dog", mode="vector", limit=99)
    assert scores(found) == wanted
    assert answered(found) == {"mine"}
    assert len(calls) == 1


# Erasure


def test_an_erasure_is_done_when_every_engine_has_confirmed(store, engine):
    say(store, 20)
    secret = store.history.append("", Message.user("the secret needle"), session_id="s")
    store.maintain()
    assert "needl" in engine.texts()
    report = store.erase(ids=[secret])
    assert report.engines_pending == ()
    assert "needl" not in engine.texts()
    assert engine.state("records").n_rows == 20


def test_an_erasure_says_which_engine_is_away_and_a_repetition_completes_it(store, engine):
    say(store, 20)
    secret = store.history.append("", Message.user("the secret needle"), session_id="s")
    store.maintain()
    engine.fault = unreachable
    report = store.erase(ids=[secret])
    assert (report.records, report.engines_pending) == (1, ("mine",))
    engine.fault = None
    assert "needl" in engine.texts()
    assert store.search("needle", mode="text") == []
    assert store.erase(ids=[secret]).engines_pending == ()
    assert "needl" not in engine.texts()
    assert answered(store.search("cat")) == {"mine"}


def test_an_erasure_of_a_scope_is_confirmed_too(store, engine):
    for user in ("ann", "ben"):
        store.memory.add([f"the needle of {user}"], user_id=user)
    store.maintain()
    assert store.scope(user_id="ann").erase().engines_pending == ()
    assert "ann" not in engine.texts()
    assert "ben" in engine.texts()


def test_a_dry_run_of_an_erasure_leaves_the_engines_alone(store, engine):
    said = say(store, 20)
    store.maintain()
    engine.fault = unreachable
    assert store.erase(ids=[said[0]], dry_run=True).engines_pending == ()
    engine.fault = None
    assert engine.state("records").n_rows == 20


# Bad input


class OnlyWords(MemoryEngine):
    channels = frozenset(("text",))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"text": 3}, "text=3"),
        ({"vector": "postgres"}, "vector='postgres'"),
        ({"vector": OnlyWords("words")}, "searches text only"),
        ({"text": MemoryEngine("a"), "vector": MemoryEngine("a")}, "name of its own"),
        ({"max_behind": -1}, "max_behind"),
        ({"max_behind": 2_001}, "max_behind=2001"),
        ({"timeout": 2}, "timeout=2"),
        ({"timeout": timedelta(0)}, "timeout=0"),
        ({"pause": timedelta(seconds=-1)}, "pause="),
    ],
)
def test_engines_that_cannot_work_are_refused(given, words):
    with pytest.raises(InvalidRequestError, match=words):
        SearchEngines(**given)


def test_an_option_of_another_type_is_refused(tmp_path):
    with pytest.raises(InvalidRequestError, match="search_engines"):
        ContextStore.open(tmp_path, search_engines=MemoryEngine())
    assert replace(SearchEngines(), max_behind=5).max_behind == 5
