"""What an earlier release wrote is opened, read, searched and written on by this one.

Each file `data/store-VERSION.tar.gz` is a store as that release wrote it: a few rows in each room, a
tag, and a version before it. A release that changes the format, and is not yet out, writes its own
anew, from the root of the project; a file of a release that is out is never replaced:

    PYTHONPATH=tests python tests/core/test_old_data.py
"""

import asyncio
import io
import sys
import tarfile
import tempfile
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import pytest
from core.conformance.doubles import START, ManualClock, WordVectors

from lance_context_core import AsyncContextStore, FilePart, Message, TextPart, ToolCallPart
from lance_context_core.types import Document, Relationship

DATA = Path(__file__).parent / "data"
ARCHIVES = sorted(DATA.glob("store-*.tar.gz"))

MESSAGES = [
    Message.user("Which tea is green?", id="m1", name="Ann", created_at=START),
    Message(
        role="assistant",
        id="m2",
        parts=(
            TextPart(text="Sencha."),
            ToolCallPart(name="brew", arguments={"n": [1, None]}, call_id="c"),
        ),
        metadata={"a.b": {"it's": [1, 2.5, True, None]}},
        native={"framework": "none", "data": {"type": "ai"}},
        created_at=START,
    ),
    Message(
        role="user", id="m3", parts=(FilePart(data=b"\0\xff", media_type="a/b"),), created_at=START
    ),
]
LATE = Message.user("And which one is black?", id="m4", created_at=START)
MEMORY = Message.user("Ann likes green tea", id="k1", created_at=START)
DOCUMENTS = [
    Document(id="d1", text="Oolong is a tea", embedding=[1.0, 0.0], metadata={"n": 2**53 + 1}),
    Document(id="d'2", text="\u65e5\u672c\u8336", embedding=[0.0, 1.0], metadata={"n": -0.5}),
]
RECORD = {
    "role": "tool",
    "content": b"\x89PNG\0",
    "content_type": "image/png",
    "external_id": "e1",
    "tenant": "t",
    "user_id": "u",
    "tags": ["x", "it's"],
    "metadata": {"z": 1, "a": {"b": "c"}},
    "state_metadata": {"step": 3},
    "relationships": [Relationship(target_id="m1", relation="answers", weight=0.5)],
    "source_ids": ["m1", "m2"],
    "expires_at": START + timedelta(days=36_500),
    "retention_policy": "keep",
}


async def write(directory):
    """A store with a few rows in each room; its tag names what it was before the last of them."""
    store = AsyncContextStore.open(directory, embedder=WordVectors(), clock=ManualClock())
    async with store:
        await store.history.append_many("g", MESSAGES, session_id="s", run_id="r")
        await store.sessions.create("s", title="Tea", metadata={"topic": "tea"})
        await store.scope(tenant="acme", user_id="ann").memory.add([MEMORY], session_id="s")
        await store.vectors("it's").add(DOCUMENTS)
        await store.context().add(**RECORD)
        await store.tag("before")
        await store.history.append("g", LATE, session_id="s")
        await store.context().update(external_id="e1", source="changed")


@pytest.fixture(params=ARCHIVES)
def old(request, tmp_path):
    """A copy of the old store, opened by this release."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    store = AsyncContextStore.open(
        tmp_path / "store", embedder=WordVectors(), clock=ManualClock(START + timedelta(days=1))
    )
    yield store
    asyncio.run(store.close())


def test_there_is_a_store_of_this_release():
    major, minor = version("lance-context-core").split(".")[:2]
    assert f"store-{major}.{minor}.tar.gz" in [archive.name for archive in ARCHIVES]


async def test_every_room_reads_what_was_written(old):
    found = await old.history.get_messages("g", session_id="s")
    assert found == [*MESSAGES, LATE]
    assert await old.history.count("g", session_id="s") == 4
    (session,) = [one for one in await old.sessions.list() if one.id == "s"]
    assert (session.title, session.metadata, session.n_messages) == ("Tea", {"topic": "tea"}, 4)
    (memory,) = (await old.scope(tenant="acme", user_id="ann").memory.list()).items
    assert (memory.id, memory.text, memory.tenant) == ("k1", MEMORY.text, "acme")
    assert await old.vectors().list_collections() == ["it's"]
    documents = await old.vectors("it's").get(["d'2", "d1"], include_embedding=True)
    assert [(one.id, one.text, one.metadata) for one in documents] == [
        (one.id, one.text, one.metadata) for one in reversed(DOCUMENTS)
    ]
    assert [list(one.embedding) for one in documents] == [[0.0, 1.0], [1.0, 0.0]]
    record = await old.context().get(external_id="e1")
    relationship = {"target_id": "m1", "relation": "answers", "weight": 0.5}
    kept = RECORD | {"relationships": [relationship], "source": "changed"}
    assert {name: record[name] for name in kept} == kept
    assert [one["external_id"] for one in await old.context().related("m1", "answers")] == ["e1"]
    assert await old.context().entries() == 6


async def test_it_is_whole_before_and_after_it_is_written_on(old, tmp_path):
    async def problems():
        # Its tag names the files of the place where it was written.
        found = (await old.verify()).problems
        return [one for one in found if one.kind != "file" or str(tmp_path) in one.where]

    assert await problems() == []
    await old.history.append("g", Message.user("Matcha, too", id="m5"), session_id="s")
    assert await problems() == []
    await old.flush()
    assert await problems() == []


async def test_every_search_finds_what_was_written(old):
    for mode in ("text", "vector", "hybrid"):
        assert (await old.history.search("black", mode=mode, limit=1))[0].record.id == "m4"
    ann = old.scope(tenant="acme", user_id="ann")
    assert [hit.record.id for hit in await ann.memory.search("green tea")] == ["k1"]
    documents = old.vectors("it's")
    assert [hit.record.id for hit in await documents.search("\u65e5\u672c", mode="text")] == ["d'2"]
    assert [hit.record.id for hit in await documents.search([1.0, 0.1], limit=1)] == ["d1"]
    for filter in ({"tags": {"$contains": "it's"}}, {"a.b": "c"}, {"metadata.z": {"$gte": 1}}):
        assert [one["external_id"] for one in await old.context().list(filters=filter)] == ["e1"]


async def test_its_versions_and_its_tag_still_name_what_they_named(old):
    assert (await old.tags())["before"] < await old.version()
    then = await old.checkout("before")
    assert await then.history.get_messages("g", session_id="s") == MESSAGES
    assert (await then.context().get(external_id="e1"))["source"] is None
    diff = await old.diff("before")
    assert [one.id for one in diff.added] == ["m4"]
    assert [(one.after.external_id, one.fields) for one in diff.changed] == [("e1", ("source",))]
    assert diff.removed == []


async def test_its_turns_owe_nothing_until_somebody_leaves_something_for_later(old):
    before = await old.checkout("before")
    assert await before.knowledge.jobs.list() == await old.knowledge.jobs.list() == []
    added = await old.knowledge.add("I have a dog.", session_id="s", infer="later")
    assert await before.knowledge.jobs.list() == []
    assert [one.id for one in await old.knowledge.jobs.run_due()] == [added.job_id]


async def test_its_rows_have_no_author_until_somebody_writes_them(old):
    nobody, ada = {"written_by": {"$exists": False}}, {"written_by": "ada"}
    for then in (await old.checkout("before"), old):
        assert await then.context().list(filters=ada) == []
        assert len(await then.context().list(filters=nobody)) == await then.context().entries()
        for mode in ("text", "vector", "hybrid"):
            assert await then.search("tea", mode=mode, filter=ada) == []
            assert await then.search("tea", mode=mode, filter=nobody) != []
        assert await then.vectors("it's").count(filter=nobody) == 2
        assert [one.author for one in await then.vectors("it's").list()] == [None, None]
        assert [one.author for one in await then.sessions.list()] == [None]
    by = old.writing_as("ada")
    await by.history.append("g", Message.user("Matcha, too", id="m5"), session_id="s")
    await by.context().update(external_id="e1", source="again")
    await by.sessions.update("s", title="More tea")
    await by.vectors("it's").upsert([Document(id="d1", text="Matcha", embedding=[0.5, 0.5])])
    for _ in range(2):
        assert [one["id"] for one in await old.context().list(filters=ada)][1:] == ["m5"]
        assert [one.id for one in await old.vectors("it's").list(filter=ada)] == ["d1"]
        assert (await old.sessions.get("s")).author == "ada"
        await old.flush()
    assert [
        (one.before.author, one.after.author) for one in (await old.diff("before")).changed
    ] == [(None, "ada")]
    in_a_week = START + timedelta(days=7)
    assert (await by.sessions.update("s", expires_at=in_a_week)).expires_at == in_a_week
    await old.restore("before")
    await by.history.append("g", Message.user("Matcha, too", id="m6"), session_id="s")
    assert [one["id"] for one in await old.context().list(filters=ada)] == ["m6"]


async def test_it_can_be_written_on_like_one_of_one_s_own(old):
    assert await old.history.append_many("g", MESSAGES, session_id="s") == ["m1", "m2", "m3"]
    assert await old.history.count("g", session_id="s") == 4
    await old.history.append("g", Message.user("Matcha, too", id="m5"), session_id="s")
    await old.vectors("it's").upsert([Document(id="d1", text="Matcha", embedding=[0.5, 0.5])])
    assert [one.text for one in await old.vectors("it's").get(["d1"])] == ["Matcha"]
    await old.sessions.update("s", title="More tea")
    ann = old.scope(tenant="acme", user_id="ann")
    await ann.memory.add(["Ann likes matcha"])
    upserted = await old.context().upsert("tool", "text now", external_id="e1")
    assert not upserted["inserted"]
    await old.maintain()
    found = await old.history.get_messages("g", session_id="s")
    assert [one.id for one in found] == ["m1", "m2", "m3", "m4", "m5"]
    hits = await old.search("matcha", mode="text")
    assert {hit.record.text for hit in hits} == {"Matcha, too", "Ann likes matcha"}
    assert (await old.sessions.get("s")).title == "More tea"
    assert (await old.context().get(external_id="e1"))["content"] == "text now"
    assert await old.tag("after") == await old.version()
    await old.restore("before")
    assert await old.history.get_messages("g", session_id="s") == MESSAGES


def _archived(directory: Path) -> bytes:
    """The files below `directory`, packed, without the names of who packed them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=9) as archive:
        for file in sorted(directory.rglob("*")):
            about = archive.gettarinfo(file, str(Path("store", file.relative_to(directory))))
            about.uid = about.gid = 0
            about.uname = about.gname = ""
            archive.addfile(about, file.open("rb") if file.is_file() else None)
    return buffer.getvalue()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(write(Path(made)))
        packed = _archived(Path(made))
    written = DATA / f"store-{'.'.join(version('lance-context-core').split('.')[:2])}.tar.gz"
    DATA.mkdir(exist_ok=True)
    written.write_bytes(packed)
    sys.stdout.write(f"{written.name}: {len(packed):,} bytes, {datetime.now(UTC):%Y-%m-%d}\n")
