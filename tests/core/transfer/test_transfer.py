"""What is exported and imported is the same, and what is interrupted or wrong leaves nothing."""

import asyncio
import json

import pyarrow.parquet as pq
import pytest
from core.conformance.doubles import ManualClock, WordVectors

from lance_context_core import (
    AlreadyExistsError,
    AsyncContextStore,
    ContextStore,
    Document,
    InvalidRequestError,
    Item,
    Message,
    NotFoundError,
    ToolCallPart,
)
from lance_context_core.errors import DimensionMismatchError, StoreFormatError
from lance_context_core.messages import ImagePart, TextPart

EVERYTHING = {
    "include_embedding": True,
    "include_binary": True,
    "include_expired": True,
    "include_retired": True,
}


@pytest.fixture
def lived(tmp_path):
    """A store with something of every family, changed here and there, part of it in the journal."""
    options = {"clock": ManualClock(), "embedder": WordVectors()}
    with ContextStore.open(tmp_path / "lived", **options) as store:
        ada = store.scope(user_id="ada")
        ada.history.append_many(
            "tutor",
            [
                Message.user("nuts\x1b\u202e\n\ud7ff", id="n"),
                Message.assistant("yes", metadata={"a": [1, None, "é", {"b": 0.1}]}),
                Message(
                    role="assistant",
                    parts=(ToolCallPart(call_id="c", name="w", arguments={"x": 1}),),
                ),
                Message.tool("rain", call_id="c"),
                Message.user(
                    [TextPart(text="see"), ImagePart(data=b"\x89PNG", media_type="image/png")]
                ),
            ],
            session_id="m",
        )
        store.context().add(
            "user",
            b"\x00\xff",
            content_type="image/png",
            id="image",
            tags=["x", "y"],
            relationships=[{"target_id": "n", "relation": "cites", "weight": 0.5}],
        )
        store.flush()
        store.memory.add([Message.user("trains", id="t")], user_id="bob")
        store.context().upsert("user", "planes", id="t", key="id", user_id="bob")
        store.context().add("user", "gone", id="gone", lifecycle_status="archived")
        store.kv("box").put([Item(key="k", namespace=("a", "b"), value={"z": 1}, data=b"\xff")])
        store.vectors("shelf").add([Document(id="d", text="book", metadata={"p": 1.5})])
        store.documents.add(b"Soup is hot.", name="soup.txt")
        store.knowledge.add("I live in Oslo.", user_id="ada", session_id="k")
        store.sessions.update("m", title="Monday")
        yield store


def shown(store):
    """All that the store's own calls tell of what it holds."""
    return {
        "records": [store.context(name).list(**EVERYTHING) for name in ("default", "knowledge")],
        "sessions": store.sessions.list(),
        "items": store.kv("box").list(include_vectors=True),
        "vectors": store.vectors("shelf").list(),
        "documents": [(one, store.documents.text(one.id)) for one in store.documents.list()],
        "history": store.scope(user_id="ada").history.get_messages("tutor", session_id="m"),
        "related": store.context().related("n"),
    }


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_store_that_is_imported_is_the_one_that_was_exported(lived, tmp_path, format):
    done = lived.export(tmp_path / "out", format=format)
    options = {"clock": lived.clock, "embedder": WordVectors()}
    with ContextStore.open(tmp_path / "other", **options) as other:
        told = other.import_(tmp_path / "out")
        assert told.added == done.rows
        assert shown(other) == shown(lived)
        assert [hit.record.id for hit in other.search("planes")] == [
            hit.record.id for hit in lived.search("planes")
        ]
        version = other.version()
        again = other.import_(tmp_path / "out")
        assert (again.n_added, again.there) == (0, done.rows)
        assert shown(other) == shown(lived)
        other.export(tmp_path / "back")
        lived.export(tmp_path / "once-more")
        assert (tmp_path / "back").read_bytes() == (tmp_path / "once-more").read_bytes()
        other.scope(user_id="ada").history.append("tutor", Message.user("more"), session_id="m")
        assert other.version() >= version
        assert len(other.scope(user_id="ada").history.get_messages("tutor", session_id="m")) == 6


@pytest.mark.parametrize("format", ["openai", "langchain"])
def test_conversations_of_frameworks_come_back_as_they_were(lived, tmp_path, format):
    lived.export(tmp_path / "out", format=format)
    with ContextStore.open(tmp_path / "other") as other:
        assert other.import_(tmp_path / "out", format=format).n_added == 6
        other.export(tmp_path / "back", format=format)
        assert sorted((tmp_path / "back").read_text().splitlines()) == sorted(
            (tmp_path / "out").read_text().splitlines()
        )
        assert other.import_(tmp_path / "out", format=format).n_added == 0
        said = other.scope(user_id="ada").history.get_messages("tutor", session_id="m")
        before = lived.scope(user_id="ada").history.get_messages("tutor", session_id="m")
        assert [(one.role, one.text) for one in said] == [(one.role, one.text) for one in before]
        assert said[2].parts == before[2].parts


def test_an_array_of_messages_is_a_conversation_called_as_its_file(tmp_path):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}], "name": "Ada"},
    ]
    (tmp_path / "monday.json").write_text(json.dumps(messages))
    with ContextStore.open(tmp_path / "store") as store:
        store.import_(tmp_path / "monday.json", format="openai")
        [session] = store.sessions.list()
        assert (session.id, session.n_messages) == ("monday", 2)


def test_parquet_files_have_columns_that_others_read(lived, tmp_path):
    lived.export(tmp_path / "out", format="parquet")
    files = json.loads((tmp_path / "out" / "export.json").read_text())["files"]
    rows = pq.read_table(tmp_path / "out" / files["records"])
    assert {"n", "t", "image"} <= {*rows["id"].to_pylist()}
    assert "planes" in rows["text"].to_pylist()


def test_a_scope_exports_and_imports_its_own_alone(lived, tmp_path):
    lived.scope(user_id="ada").export(tmp_path / "ada")
    text = (tmp_path / "ada").read_text()
    assert "planes" not in text
    assert "nuts" in text
    lived.export(tmp_path / "all")
    with ContextStore.open(tmp_path / "other", embedder=WordVectors()) as other:
        with pytest.raises(InvalidRequestError, match="user_id"):
            other.scope(user_id="ada").import_(tmp_path / "all")
        assert other.context().list() == []
        other.scope(user_id="ada").import_(tmp_path / "ada")
        assert {one["user_id"] for one in other.context().list()} == {"ada"}


def test_an_earlier_moment_is_exported_as_it_was(lived, tmp_path):
    lived.tag("before")
    lived.memory.add([Message.user("later", id="later")], user_id="bob")
    lived.checkout("before").export(tmp_path / "then")
    lived.export(tmp_path / "now")
    assert "later" not in (tmp_path / "then").read_text()
    assert "later" in (tmp_path / "now").read_text()


def edited(path, change):
    """The file with its last row changed, as a user changes one on purpose."""
    head, *lines, last, _ = path.read_text().splitlines()
    row = json.loads(last)
    change(row)
    head = json.dumps(json.loads(head) | {"lance_context_export": 1})
    path.write_text("\n".join([head, *lines, json.dumps(row)]))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda row: row.update(table="no-such"), id="a table that is none"),
        pytest.param(lambda row: row.pop("key"), id="no key"),
        pytest.param(lambda row: row.pop("fields"), id="no fields"),
        pytest.param(lambda row: row["fields"].update(created_at="x"), id="no time"),
        pytest.param(lambda row: row["fields"].update(context=""), id="no context"),
        pytest.param(lambda row: row["fields"].pop("id"), id="no id"),
        pytest.param(lambda row: row.update(text=7), id="a text that is none"),
        pytest.param(lambda row: row.update(parts=[{"type": 7}]), id="parts that are none"),
        pytest.param(lambda row: row.update(vector="!"), id="a vector that is none"),
        pytest.param(lambda row: row.update(revision="x"), id="a revision that is none"),
        pytest.param(lambda row: row.update(blob="!"), id="bytes that are none"),
    ],
)
def test_a_file_with_one_wrong_line_changes_nothing_and_the_line_is_named(lived, tmp_path, change):
    path = tmp_path / "out"
    lived.export(path)
    edited(path, change)
    n_lines = len(path.read_text().splitlines())
    with ContextStore.open(tmp_path / "other", embedder=WordVectors()) as other:
        with pytest.raises(InvalidRequestError, match=f"out:{n_lines}"):
            other.import_(path)
        assert other.stats().tables == ()


@pytest.mark.parametrize(
    "text", ["", "nonsense\n", "[]\n", "{}\n", '{"lance_context_export": "x"}']
)
def test_what_is_no_export_is_refused(tmp_path, text):
    (tmp_path / "out").write_text(text)
    with ContextStore.open(tmp_path / "store") as store:
        with pytest.raises(InvalidRequestError):
            store.import_(tmp_path / "out")
        with pytest.raises(NotFoundError):
            store.import_(tmp_path / "nowhere")
        (tmp_path / "new").write_text('{"lance_context_export": 9}')
        with pytest.raises(StoreFormatError, match="upgrade"):
            store.import_(tmp_path / "new")


def test_vectors_of_another_length_are_refused(lived, tmp_path):
    lived.export(tmp_path / "out")
    other = WordVectors(model="other", dimension=8)
    with ContextStore.open(tmp_path / "other", embedder=other) as store:
        store.memory.add(["tea"], user_id="ada")
        with pytest.raises((DimensionMismatchError, InvalidRequestError)):
            store.import_(tmp_path / "out")


def test_a_file_is_there_once_it_is_whole_and_no_other_is_overwritten(lived, tmp_path):
    def stop(n):
        raise RuntimeError("stop")

    for format in ("jsonl", "parquet"):
        with pytest.raises(RuntimeError, match="stop"):
            lived.export(tmp_path / "out", format=format, progress=stop)
        assert [one.name for one in tmp_path.iterdir()] == ["lived"]
    (tmp_path / "out").write_text("mine")
    with pytest.raises(AlreadyExistsError):
        lived.export(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"
    with pytest.raises(InvalidRequestError, match="jsonl"):
        lived.export(tmp_path / "other", format="xml")


async def test_an_import_that_is_cancelled_while_it_reads_leaves_nothing(lived, tmp_path):
    lived.export(tmp_path / "out")
    async with AsyncContextStore.open(tmp_path / "other", embedder=WordVectors()) as other:
        begun = asyncio.Event()  # noqa: TID251 - of this loop alone
        loop = asyncio.get_running_loop()

        def told(n):
            loop.call_soon_threadsafe(begun.set)

        task = asyncio.create_task(other.import_(tmp_path / "out", progress=told))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        n = len(await other.context().list())
        assert n in (0, len(lived.context().list()))
        await other.import_(tmp_path / "out")
        assert await other.context().list() == lived.context().list()
