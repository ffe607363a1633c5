"""Files that are not what an export wrote: cut short, doubled, changed, in another encoding."""

import hashlib
import json
import shutil
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from core.conformance.doubles import WordVectors
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core import ContextStore, Document, InvalidRequestError, Item, Message
from lance_context_core.embedders import as_embedder
from lance_context_core.errors import ContextStoreError, DimensionMismatchError

FORMATS = ("jsonl", "parquet", "openai", "langchain")
SEPARATORS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
ODD = (
    SEPARATORS
    + "\0\t\x1b\x7f\xa0\xad\u200b\u202e\ud7ff\ue000\ufeff\ufffd\uffff\U0001f600\U0010ffff"
)
"""What ends a line for somebody, and what is odd in other ways."""


def filled(place):
    """A store with rows in three tables, one of which has no vectors."""
    with ContextStore.open(place, embedder=WordVectors()) as store:
        store.history.append_many(
            "tutor", [Message.user("nuts", id="n"), Message.user("tea", id="t")], session_id="s"
        )
        store.kv("box").put([Item(key="k", value={"x": 1}), Item(key="l", value={"x": 2})])
        store.vectors("shelf").add([Document(id="d", text="book")])
        return store


def exported(tmp_path, format="jsonl"):
    """The file or folder that such a store is exported to."""
    with ContextStore.open(filled(tmp_path / "store").uri) as store:
        store.export(tmp_path / "out", format=format)
    return tmp_path / "out"


def of_version_1(path):
    """As it was before exports told whether they are whole."""
    file = path / "export.json" if path.is_dir() else path
    if path.is_dir():
        file.write_text(json.dumps(json.loads(file.read_text()) | {"lance_context_export": 1}))
        return path
    head, *lines, _ = file.read_bytes().split(b"\n")[:-1]
    head = json.dumps(json.loads(head) | {"lance_context_export": 1}).encode()
    file.write_bytes(b"".join(one + b"\n" for one in [head, *lines]))
    return path


def refused(tmp_path, path, *, format=None, match=""):
    """The error that an import ends with, which has left an empty store as it was."""
    with ContextStore.open(tmp_path / "new") as store:
        with pytest.raises(InvalidRequestError, match=match) as caught:
            store.import_(path, format=format)
        assert store.stats().tables == ()
    return str(caught.value)


# Texts


def came_back(tmp_path, texts, format):
    """The texts of a session with these messages that was exported and imported."""
    with ContextStore.open(tmp_path / "from") as store:
        said = [Message.user(text, metadata={"said": text}) for text in texts]
        store.history.append_many("tutor", said, session_id="s")
        store.export(tmp_path / "out", format=format)
    with ContextStore.open(tmp_path / "to") as store:
        store.import_(tmp_path / "out", format=format)
        messages = store.history.get_messages("tutor", session_id="s")
    if format in ("jsonl", "parquet"):
        assert [one.metadata["said"] for one in messages] == texts
    return [one.text for one in messages]


@pytest.mark.parametrize("format", FORMATS)
def test_every_separator_and_odd_character_comes_back(tmp_path, format):
    texts = [f"one{odd}two" for odd in [*ODD, *map(chr, range(1, 32)), ODD, SEPARATORS * 2, "\r\n"]]
    assert came_back(tmp_path, texts, format) == texts


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=5, deadline=None)
@given(texts=st.lists(st.text(st.sampled_from('a"\\/{}[]' + ODD), min_size=1), min_size=1))
def test_every_text_comes_back(tmp_path_factory, format, texts):
    texts = [f"{text}." for text in texts]
    assert came_back(tmp_path_factory.mktemp("place"), texts, format) == texts


# Rows that stand twice


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_row_that_stands_twice_is_read_in_once(tmp_path, format):
    path = of_version_1(exported(tmp_path, format))
    if format == "jsonl":
        head, *rows = path.read_text().splitlines(keepends=True)
        path.write_text("".join([head, *rows, *rows]))
    for file in path.glob("*.parquet"):
        rows = pq.read_table(file)
        pq.write_table(pa.concat_tables([rows, rows]), file)
    with ContextStore.open(tmp_path / "new") as store:
        done = store.import_(path)
        assert done.added == done.there == {"records": 2, "kv.box": 2, "vectors.shelf": 1}
        assert [one["id"] for one in store.context().list()] == ["n", "t"]
        assert [one.key for one in store.kv("box").list()] == ["k", "l"]
        assert store.verify().is_whole


# Files that are not whole


def test_an_export_that_lacks_any_of_its_end_is_refused_and_nothing_is_written(tmp_path):
    path = exported(tmp_path)
    data = path.read_bytes()
    ends = [at for at, byte in enumerate(data[:-1]) if byte == ord("\n")]
    for end in [0, 5, *ends, *(at + 1 for at in ends), *(at + 20 for at in ends)]:
        path.write_bytes(data[:end])
        refused(tmp_path, path, match="out")
    path.write_bytes(data[:-1])  # All but the last line feed.
    with ContextStore.open(tmp_path / "new") as store:
        assert store.import_(path).n_added == 5


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(lambda rows: rows[:-1], "counts 2 rows of 'records'", id="a row is missing"),
        pytest.param(lambda rows: [rows[0], *rows], "counts 2 rows of", id="a row stands twice"),
        pytest.param(lambda rows: rows[::-1], "not those that were exported", id="another order"),
        pytest.param(
            lambda rows: [*rows[:-1], rows[-1].replace(b"tea", b"tee")],
            "not those that were exported",
            id="another text",
        ),
    ],
)
def test_an_export_that_was_changed_is_refused_with_the_way_to_import_it(tmp_path, change, told):
    path = exported(tmp_path)
    head, *rows, end = path.read_bytes().splitlines(keepends=True)
    assert json.loads(end)["rows"] == {"kv.box": 2, "vectors.shelf": 1, "records": 2}
    assert json.loads(end)["sha256"] == hashlib.sha256(head + b"".join(rows)).hexdigest()
    changed = change(rows)
    path.write_bytes(b"".join([head, *changed, end]))
    message = refused(tmp_path, path, match=told)
    assert f"out:{len(changed) + 2}" in message
    assert "set lance_context_export to 1 in its first line and delete its last" in message
    with ContextStore.open(tmp_path / "new") as store:
        assert store.import_(of_version_1(path)).n_added == len({*changed})


def test_lines_behind_the_end_of_an_export_are_refused(tmp_path):
    path = exported(tmp_path)
    path.write_bytes(path.read_bytes() * 2)
    refused(tmp_path, path, match="out:8 follows the end")


def test_a_folder_of_which_a_file_is_missing_or_another_is_refused(tmp_path):
    path = exported(tmp_path, "parquet")
    head = json.loads((path / "export.json").read_text())
    assert head["rows"] == {"kv.box": 2, "vectors.shelf": 1, "records": 2}

    def attempt(match, change):
        shutil.copytree(path, tmp_path / "other")
        change(tmp_path / "other")
        refused(tmp_path, tmp_path / "other", match=match)
        shutil.rmtree(tmp_path / "other")

    def write_head(**changes):
        return lambda folder: (folder / "export.json").write_text(json.dumps(head | changes))

    records = head["files"]["records"]
    attempt("cannot be read", lambda folder: (folder / records).unlink())
    attempt("not the file", lambda folder: (folder / records).write_bytes(b"PAR1"))
    attempt(
        "not the file",
        lambda folder: (folder / records).write_bytes(
            (folder / head["files"]["kv.box"]).read_bytes()
        ),
    )
    attempt("export.json", lambda folder: (folder / "export.json").unlink())
    attempt("export.json", lambda folder: (folder / "export.json").write_bytes(b"\xff\xfe{"))
    attempt(
        "counts rows of 'vectors.shelf', and names no file",
        write_head(files={"kv.box": head["files"]["kv.box"]}),
    )
    attempt("does not count", write_head(rows=None))
    with ContextStore.open(tmp_path / "new") as store:
        assert store.import_(path).n_added == 5


@pytest.mark.parametrize("name", ["export-1.jsonl", "export-1"])
def test_an_export_of_an_older_release_is_read_in(tmp_path, name):
    with tarfile.open(Path(__file__).parents[1] / "data" / "export-1.tar.gz") as kept:
        kept.extractall(tmp_path, filter="data")
    with ContextStore.open(tmp_path / "store") as store:
        assert store.import_(tmp_path / name).n_added == 5
        ada = store.scope(user_id="ada")
        said = ada.history.get_messages("tutor", session_id="m")
        assert [one.text for one in said] == ["nuts", "yes"]
        assert [one.data for one in store.kv("box").list()] == [b"\xff"]
        assert [one.text for one in store.vectors("shelf").list()] == ["book"]


# Encodings


@pytest.mark.parametrize("format", [None, "openai", "langchain"])
@pytest.mark.parametrize(
    "data",
    [b"\xee\xff\x00binary", b"PAR1\x15\x04\xff", b"\x1f\x8b\x08\0\0\0\0\0", b"\xff\xfe{\0}\0"],
)
def test_a_file_in_another_encoding_is_refused_by_its_line_and_byte(tmp_path, format, data):
    (tmp_path / "out").write_bytes(data)
    first = next(at for at in range(len(data)) if data[at] > 127)
    match = rf"out:1 is not UTF-8, from byte {first} .*export"
    refused(tmp_path, tmp_path / "out", format=format, match=match)


def test_the_line_that_is_in_another_encoding_is_named(tmp_path):
    path = of_version_1(exported(tmp_path))
    lines = path.read_bytes().splitlines(keepends=True)
    before = sum(map(len, lines[:3]))
    path.write_bytes(b"".join([*lines[:3], b'{"table": "caf\xe9"}\n', *lines[3:]]))
    refused(tmp_path, path, match=rf"out:4 is not UTF-8, from byte {before + 14} ")


def test_conversations_are_read_from_files_with_a_mark_or_with_carriage_returns(tmp_path):
    lines = [
        json.dumps({"session_id": s, "messages": [{"role": "user", "content": "é"}]}) for s in "ab"
    ]
    (tmp_path / "marked").write_text("\ufeff" + "\r\n\r\n".join(lines), encoding="utf-8")
    with ContextStore.open(tmp_path / "store") as store:
        assert store.import_(tmp_path / "marked", format="openai").n_added == 2
        assert [one["text"] for one in store.context().list()] == ["é", "é"]


# Nothing is half written


def test_vectors_of_another_length_leave_the_tables_that_are_written_first_as_they_were(tmp_path):
    path = exported(tmp_path)
    other = as_embedder(lambda texts: [[1.0, 2.0] for _ in texts], model="another")
    with ContextStore.open(tmp_path / "new", embedder=other) as store:
        store.memory.add(["tea"], user_id="ada")
        store.flush()
        with pytest.raises((DimensionMismatchError, InvalidRequestError)):
            store.import_(path)
        assert store.kv("box").list() == []
        assert len(store.context().list()) == 1


JSON = st.recursive(
    st.sampled_from([None, True, 0, -1, 1.5, 10**30, "", "x", "user", "tool", "\ud800", "a\0"]),
    lambda one: (
        st.lists(one, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "role", "content", "data", "id", "image_url", "name", "url"]
            ),
            one,
            max_size=3,
        )
    ),
    max_leaves=5,
)
NAMES = {
    "openai": ("role", "content", "name", "tool_calls", "tool_call_id"),
    "langchain": ("type", "data", "id"),
}


@pytest.mark.parametrize("format", ["openai", "langchain"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_a_line_says_is_read_in_or_refused_as_a_whole(tmp_path_factory, format, data):
    sound = {"openai": {"role": "user", "content": "x"}}
    sound["langchain"] = {"type": "human", "data": {"content": "x", "id": "i"}}
    odd = sound[format] | data.draw(
        st.dictionaries(st.sampled_from(NAMES[format]), JSON, max_size=2)
    )
    about = data.draw(st.dictionaries(st.sampled_from(["session_id", "agent_id", "user_id"]), JSON))
    place = tmp_path_factory.mktemp("place")
    line = {"messages": [sound[format], odd], **about}
    (place / "out").write_text(json.dumps({"messages": [sound[format]]}) + "\n" + json.dumps(line))
    with ContextStore.open(place / "new") as store:
        try:
            done = store.import_(place / "out", format=format)
        except ContextStoreError:
            assert store.context().list() == []
        else:
            assert len(store.context().list()) == done.n_added


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    "told",
    [
        {"vectors": 7},
        {"vectors": {"records": 7}},
        {"vectors": {"records": {"length": "x", "model": "m"}}},
        {"vectors": {"records": {"length": 8}}},
        {"files": 7},
        {"files": {"records": 7}},
    ],
)
def test_a_head_that_says_what_no_export_says_is_refused(tmp_path, format, told):
    path = of_version_1(exported(tmp_path, format))
    file = path / "export.json" if path.is_dir() else path
    head, *rest = file.read_text().split("\n", maxsplit=0 if path.is_dir() else 1)
    file.write_text("\n".join([json.dumps(json.loads(head) | told), *rest]))
    refused(tmp_path, path, match="export")


def test_a_format_that_there_is_not_is_refused(tmp_path):
    refused(tmp_path, exported(tmp_path), format="xml", match="jsonl")
    refused(tmp_path, tmp_path, format="openai", match="cannot be read")
