"""A batch has the same outcome in the log, as a commit and in a transaction: that of a plain list of rows."""

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

import pytest

from lance_context_core import AsyncContextStore
from lance_context_core.codecs.sessions import to_row
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.names import new_revision, next_revision
from lance_context_core.storage.sql.predicates import all_of, equals, in_list
from lance_context_core.storage.write_batch import Mode, Tail, WriteBatch
from lance_context_core.types import Session

KEYS = [f"k{n}" for n in range(6)]
STATUSES = ["active", "done", "held"]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
N_BATCHES = 40


@dataclass
class Rows:
    """What the table is to hold, by key, oldest first; `old` are revisions that were once."""

    held: dict[str, dict] = field(default_factory=dict)
    old: list[int] = field(default_factory=list)

    def put(self, row, *, is_behind=True):
        if is_behind:
            self.remove(row[KEY])
        elif row[KEY] in self.held:
            self.old.append(self.held[row[KEY]]["revision"])
        self.held[row[KEY]] = row

    def remove(self, key):
        if (row := self.held.pop(key, None)) is not None:
            self.old.append(row["revision"])

    def revision(self, key):
        return self.held[key]["revision"] if key in self.held else None

    def seen_of(self, random, key):
        """What a caller takes the key to have: mostly what it has."""
        if random.random() < 0.15:
            return random.choice([None, *self.old[-3:], new_revision()])
        return self.revision(key)


def row_of(random, key, *, after=None):
    session = Session(id=key, created_at=NOW, updated_at=NOW, status=random.choice(STATUSES))
    revision = new_revision() if after is None else next_revision(after)
    return to_row(session, key=key) | {"revision": revision, "title": f"t{random.randrange(9)}"}


def some(random, keys, least=0):
    keys = list(keys)
    return random.sample(keys, min(len(keys), random.randint(least, 3)))


# Each draws a batch, does to the model what the batch does to the table, and tells what it answers.


def append(random, rows):
    new = [row_of(random, key) for key in some(random, KEYS) if key not in rows.held]
    for row in new:
        rows.put(row)
    return WriteBatch(new), {"is_done": True, "lost": set()}


def insert(random, rows):
    new = [row_of(random, key) for key in some(random, KEYS, least=1)]
    lost = {row[KEY] for row in new if row[KEY] in rows.held}
    for row in new:
        if row[KEY] not in lost:
            rows.put(row)
    return WriteBatch(new, Mode.INSERT), {"is_done": not lost, "lost": lost}


def succeed(random, rows, mode):
    new, lost = [], set()
    for key in some(random, KEYS, least=1):
        seen = rows.seen_of(random, key)
        row = row_of(random, key, after=seen)
        new.append(row)
        if key in rows.held and seen == rows.revision(key):
            rows.put(row, is_behind=False)
        elif key in rows.held or mode is Mode.REPLACE:
            lost.add(key)
        else:
            rows.put(row)
    return WriteBatch(new, mode), {"is_done": not lost, "lost": lost}


def upsert(random, rows):
    return succeed(random, rows, Mode.UPSERT)


def replace(random, rows):
    return succeed(random, rows, Mode.REPLACE)


def delete_seen(random, rows):
    seen = {
        key: of for key in some(random, rows.held) if (of := rows.seen_of(random, key)) is not None
    }
    gone = [key for key, revision in seen.items() if rows.revision(key) == revision]
    for key in gone:
        rows.remove(key)
    batch = WriteBatch(deletes=[*seen], expect=seen, is_whole=False)
    return batch, {"n_removed": len(gone), "is_done": len(gone) == len(seen)}


def write_if(random, rows):
    keys = some(random, KEYS, least=1)
    seen = {key: rows.seen_of(random, key) for key in keys}
    parts = {key: random.choice(["put", "delete", "watch"]) for key in keys}
    new = [row_of(random, key, after=seen[key]) for key in keys if parts[key] == "put"]
    deletes = [key for key in keys if parts[key] == "delete" and seen[key] is not None]
    is_done = all(rows.revision(key) == revision for key, revision in seen.items())
    tail = None
    if random.random() < 0.5:
        status = random.choice(STATUSES)
        matching = [key for key, row in rows.held.items() if row["status"] == status]
        said = random.choice([matching, matching, [*reversed(matching)], matching[1:], [*KEYS[:1]]])
        tail = Tail(equals("status", status), said, is_all=True)
        is_done = is_done and sorted(said) == sorted(matching)
    if is_done:
        for row in new:
            rows.put(row, is_behind=row[KEY] not in rows.held)
        for key in deletes:
            rows.remove(key)
    batch = WriteBatch(new, Mode.UPSERT, deletes=deletes, expect=seen, tail=tail)
    return batch, {"is_done": is_done}


def delete_where(random, rows):
    status = random.choice(STATUSES)
    gone = [key for key, row in rows.held.items() if row["status"] == status]
    for key in gone:
        rows.remove(key)
    return WriteBatch(where=equals("status", status)), {"n_removed": len(gone)}


def update_where(random, rows):
    status, keys = random.choice(STATUSES), some(random, KEYS, least=1)
    changed = [key for key in keys if key in rows.held and rows.held[key]["status"] == status]
    for key in changed:
        rows.held[key] = rows.held[key] | {"title": "set"}
    where = all_of([equals("status", status), in_list(KEY, keys)])
    return WriteBatch(where=where, values={"title": "set"}), {"n_replaced": len(changed)}


def replace_tail(random, rows):
    status = random.choice(STATUSES)
    matching = [key for key, row in rows.held.items() if row["status"] == status]
    tail = matching[-random.randint(1, 3) :]
    # One that lacks the last row is not the end, and one that lacks the first is not all.
    said = random.choice([matching, tail, tail[:-1], tail[1:]])
    seen = {key: rows.revision(key) for key in said}
    is_all = random.random() < 0.5
    is_end = matching[len(matching) - len(said) :] == said
    is_done = is_end and (not is_all or len(said) == len(matching))
    free = [key for key in KEYS if key not in rows.held]
    new = [row_of(random, key) for key in some(random, [*free, *said], least=1)]
    if is_done:
        for key in said:
            rows.remove(key)
        for row in new:
            rows.put(row)
    batch = WriteBatch(
        new, deletes=said, expect=seen, tail=Tail(equals("status", status), said, is_all)
    )
    return batch, {"is_done": is_done}


BATCHES = [
    append,
    insert,
    upsert,
    replace,
    delete_seen,
    write_if,
    delete_where,
    update_where,
    replace_tail,
    replace_tail,
]


@asynccontextmanager
async def plain(store):
    yield store


@asynccontextmanager
async def in_a_transaction(store):
    async with store.transaction() as transaction:
        yield transaction


@pytest.fixture(params=["log", "commits", "transaction"])
def executor(request):
    if request.param == "commits":
        request.getfixturevalue("each_write_commits")
    return in_a_transaction if request.param == "transaction" else plain


@pytest.mark.parametrize("seed", range(4))
async def test_a_batch_does_what_it_does_to_a_list_of_rows(tmp_path, executor, seed):
    random, rows = Random(seed), Rows()
    async with await AsyncContextStore.open(str(tmp_path / "store")) as store:
        table = store._resources.database.sessions
        for n in range(N_BATCHES):
            draw = random.choice(BATCHES)
            batch, expected = draw(random, rows)
            async with executor(store) as place:
                done = await place._resources.database.sessions.write(batch)
            where = f"{draw.__name__}, batch {n} of seed {seed}"
            assert {name: getattr(done, name) for name in expected} == expected, where
            found = (await table.select(None, columns=[KEY, "revision", "title"])).to_pylist()
            held = {row[KEY]: (row["revision"], row["title"]) for row in found}
            assert len(held) == len(found), where
            wanted = {key: (row["revision"], row["title"]) for key, row in rows.held.items()}
            assert held == wanted, where
