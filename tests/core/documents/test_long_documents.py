"""Files of many steps: whole or not there, once, and in memory a step at a time."""

import asyncio
import signal
import subprocess
import sys

import pytest
from core.conformance.doubles import WordVectors
from core.conformance.interrupting import before

from lance_context_core import AsyncContextStore, ContextStore
from lance_context_core._loop import block_on
from lance_context_core.codecs import sources
from lance_context_core.documents import TextChunker, writing
from lance_context_core.storage import preconditions
from lance_context_core.storage.lance import fragments

BY_PARAGRAPH = TextChunker(target=30, most=60, least=0, overlap=0)
N = 24


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    monkeypatch.setattr(writing, "STEP", 5)
    monkeypatch.setattr(sources, "PIECE", 100)


def told(n=N, changed=None):
    return [f"paragraph {m} says {'xx' if m == changed else m * m}" for m in range(n)]


def written(texts):
    return "\n\n".join(texts).encode()


class Batches(WordVectors):
    """Remembers how many texts it was given at a time, and what they were."""

    def __init__(self, fails_at=None):
        super().__init__()
        self.calls = []
        self.fails_at = fails_at

    def embed_documents(self, texts):
        self.calls.append(list(texts))
        if len(self.calls) == self.fails_at:
            raise OSError("the model is gone")
        return super().embed_documents(texts)


def of_documents(store):
    return next(table for table in store.stats().tables if table.table == "documents")


def is_whole(documents, added, texts):
    assert [one.text for one in documents.chunks(added.id)] == texts
    assert documents.text(added.id) == written(texts).decode()
    assert [one.n_chunks for one in documents.list()] == [len(texts)]
    hits = documents.search(texts[-1], mode="vector", limit=2 * len(texts))
    assert sorted(one.record.text for one in hits) == sorted(texts)


@pytest.mark.parametrize("journal", ["a journal", "no journal"])
def test_a_long_file_is_one_commit_and_a_step_at_a_time_is_embedded(tmp_path, journal):
    options = {} if journal == "a journal" else {"journal": None}
    n_commits = 2 if journal == "a journal" else 1  # what waits in the journal comes before
    embedder = Batches()
    with ContextStore.open(tmp_path / "s", embedder=embedder, **options) as store:
        first = store.documents.add(b"the first makes the table")
        store.documents.delete(first.id)
        embedder.calls.clear()
        version = of_documents(store).versions
        added = store.documents.add(written(told()), chunker=BY_PARAGRAPH, keep="hash")
        assert of_documents(store).versions == version + n_commits
        assert [len(one) for one in embedder.calls] == [5, 5, 5, 5, 4]
        is_whole(store.documents, added, told())
        assert store.documents.add(written(told()), chunker=BY_PARAGRAPH) == added
        assert of_documents(store).versions == version + n_commits


def test_an_update_of_a_long_file_is_one_commit_of_what_changed(tmp_path):
    with ContextStore.open(tmp_path / "s", embedder=WordVectors(), journal=None) as store:
        added = store.documents.add(written(told()), chunker=BY_PARAGRAPH, keep="hash")
    embedder = Batches()  # which has no vector in its cache yet
    with ContextStore.open(tmp_path / "s", embedder=embedder, journal=None) as store:
        version = of_documents(store).versions
        rows = store.aio.documents._documents.table.written
        content = written(told(changed=9))
        store.documents.update(added.id, content, chunker=BY_PARAGRAPH, keep="hash")
        assert of_documents(store).versions == version + 1
        assert embedder.calls == [["paragraph 9 says xx"]]
        assert rows.rows == 3  # itself, the passage, and the piece of the text that has it
        is_whole(store.documents, added, told(changed=9))
        # All passages stand elsewhere, and keep their vectors; then most of it goes.
        moved = ["one more in front", *told(changed=9)]
        store.documents.update(added.id, written(moved), chunker=BY_PARAGRAPH, keep="hash")
        assert embedder.calls[1:] == [["one more in front"]]
        is_whole(store.documents, added, moved)
        store.documents.update(added.id, written(told(2)), chunker=BY_PARAGRAPH, keep="hash")
        is_whole(store.documents, added, told(2))
        assert of_documents(store).rows == 3
        same = store.documents.update(added.id, metadata={"a": 1})
        is_whole(store.documents, same, told(2))


def test_where_the_embedder_fails_midway_nothing_is_written(tmp_path):
    with ContextStore.open(tmp_path / "s", embedder=Batches(fails_at=3)) as store:
        with pytest.raises(Exception, match="the model is gone"):
            store.documents.add(written(told()), chunker=BY_PARAGRAPH)
        assert (store.documents.list(), store.documents.search("paragraph", mode="text")) == (
            [],
            [],
        )
        assert of_documents(store).rows == 0
        added = store.documents.add(written(told()), chunker=BY_PARAGRAPH)
        is_whole(store.documents, added, told())


@pytest.mark.parametrize("others", ["nobody else", "a third one"])
@pytest.mark.parametrize("when", ["before it is added", "between the look and the addition"])
def test_a_long_file_that_two_add_at_once_is_there_once(tmp_path, monkeypatch, when, others):
    """Without a journal, in which nobody could come between."""
    uri = str(tmp_path / "s")
    options = {"embedder": WordVectors(), "journal": None}

    async def run():
        async with (
            await AsyncContextStore.open(uri, **options) as one,
            await AsyncContextStore.open(uri, **options) as two,
        ):
            await one.documents.add(b"the first makes the table", name="first")
            await two.documents.list()
            add = {"chunker": BY_PARAGRAPH, "keep": "hash"}
            theirs = []

            async def work():
                if others == "a third one":
                    await two.documents.add(b"something else", name="third")
                theirs.append(await two.documents.add(written(told()), name="theirs", **add))
                if others == "a third one":
                    await two.documents.add(b"and something more", name="third")

            name = "append" if when == "before it is added" else "_add"
            before(monkeypatch, preconditions, name, work)
            mine = await one.documents.add(written(told()), name="mine", **add)
            assert theirs == [mine]
            found = [one for one in await one.documents.list() if one.id == mine.id]
            assert found == [mine]
            assert [one.text for one in await one.documents.chunks(mine.id)] == told()
            assert await one.documents.text(mine.id) == written(told()).decode()

    asyncio.run(run())


KILLED = """
import os, signal, sys
from core.conformance.doubles import WordVectors
from lance_context_core import ContextStore
from lance_context_core.documents import TextChunker, writing
from lance_context_core.storage import preconditions
from lance_context_core.storage.spooled_batch import SpooledBatch
from lance_context_core.codecs import sources

place, when, text = sys.argv[1:]
writing.STEP, sources.PIECE = 5, 100

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

batches, add, n = SpooledBatch._batches, preconditions._add, [0]

def some(self, schema):
    for batch in batches(self, schema):
        n[0] += 1
        if n[0] == 4:
            die()
        yield batch

async def then_die(handle, rows):
    await add(handle, rows)
    die()

if when == "in the middle of the commit":
    SpooledBatch._batches = some
elif when == "after the commit":
    preconditions._add = then_die
else:
    preconditions._add = die
with ContextStore.open(place, embedder=WordVectors()) as store:
    store.documents.add(text.encode(), chunker=TextChunker(target=30, most=60, least=0, overlap=0))
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "when", ["before the commit", "in the middle of the commit", "after the commit"]
)
def test_whoever_is_killed_while_a_long_file_is_added_leaves_all_of_it_or_nothing(tmp_path, when):
    place = tmp_path / "s"
    with ContextStore.open(place, embedder=WordVectors()) as store:
        store.documents.delete(store.documents.add(b"the first makes the table").id)
    command = [sys.executable, "-c", KILLED, str(place), when, written(told()).decode()]
    done = subprocess.run(command, env={"PYTHONPATH": ":".join(sys.path)}, check=False)
    assert done.returncode == -signal.SIGKILL
    with ContextStore.open(place, embedder=WordVectors()) as store:
        n = len(store.documents.search("paragraph", mode="text", limit=2 * N))
        found = store.documents.list()
        assert (len(found), n) == ((1, N) if when == "after the commit" else (0, 0))
        is_whole(
            store.documents, store.documents.add(written(told()), chunker=BY_PARAGRAPH), told()
        )


KILLED_BEHIND_ANOTHER = """
import os, signal, sys
from core.conformance.doubles import WordVectors
from lance_context_core import AsyncContextStore, ContextStore
from lance_context_core.documents import TextChunker, writing
from lance_context_core.storage import preconditions
from lance_context_core.codecs import sources

place, text = sys.argv[1:]
writing.STEP, sources.PIECE = 5, 100
options = {"embedder": WordVectors(), "journal": None, "maintenance": None}
given = {"chunker": TextChunker(target=30, most=60, least=0, overlap=0), "keep": "hash"}
add = preconditions._add

async def first_theirs_then_die(handle, rows):
    preconditions._add = add
    async with await AsyncContextStore.open(place, **options) as other:
        await other.documents.add(text.encode(), name="theirs", **given)
    await add(handle, rows)
    os.kill(os.getpid(), signal.SIGKILL)

preconditions._add = first_theirs_then_die
with ContextStore.open(place, **options) as store:
    store.documents.add(text.encode(), name="mine", **given)
"""


@pytest.mark.process
@pytest.mark.parametrize("healed_by", ["maintenance", "an update", "maintenance after a merge"])
def test_what_was_added_twice_by_whoever_was_killed_then_is_taken_back(tmp_path, healed_by):
    """Without a journal the later of two adds the same, and may be killed before it has removed it."""
    place, options = tmp_path / "s", {"embedder": WordVectors(), "journal": None}
    with ContextStore.open(place, **options) as store:
        store.documents.add(b"another one", name="another")
    command = [sys.executable, "-c", KILLED_BEHIND_ANOTHER, str(place), written(told()).decode()]
    done = subprocess.run(command, env={"PYTHONPATH": ":".join(sys.path)}, check=False)
    assert done.returncode == -signal.SIGKILL
    with ContextStore.open(place, maintenance=None, **options) as store:
        twice = [one.name for one in store.documents.list()]
        assert twice == ["another", "theirs", "mine"]
        (id,) = {one.id for one in store.documents.list() if one.name != "another"}
        if healed_by == "an update":
            store.documents.update(id, metadata={"a": 1})
        elif healed_by == "maintenance":
            store.maintain()
        else:
            block_on(fragments.compact(store.aio.documents._documents.table))
            store.maintain()
        assert [one.name for one in store.documents.list()] == ["another", "theirs"]
        assert [one.text for one in store.documents.chunks(id)] == told()
        assert store.documents.text(id) == written(told()).decode()
        hits = store.documents.search("paragraph", mode="text", limit=3 * N)
        assert len(hits) == N
