"""A folder that is synced: its documents are what its files are, whatever happened to these."""

import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lance_context_core import (
    ContextStore,
    DocumentScope,
    InvalidRequestError,
    NotFoundError,
)
from lance_context_core.embedders import as_embedder

SHOP = DocumentScope(project_id="shop")
LONG_AGO = 1_000_000_000


@pytest.fixture
def store():
    with ContextStore.open("memory://") as store:
        yield store


@pytest.fixture
def documents(store):
    return store.documents


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "notes"
    write(folder, {"README.md": "tea", "a/README.md": "coffee", "a/b/milk.txt": "milk"})
    return folder


def write(folder, files):
    """Write files, as if it had been long ago."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (LONG_AGO, LONG_AGO))


def on_disk(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def n_commits(store):
    """Of the table; none of what is in the journal."""
    return next(one for one in store.stats().tables if one.table == "documents").versions


def stored(documents, **which):
    return {one.name: documents.text(one.id) for one in documents.list(**which)}


def test_the_documents_are_what_the_files_are(documents, folder):
    first = documents.sync(folder)
    assert first.added == ("README.md", "a/README.md", "a/b/milk.txt")
    assert stored(documents) == on_disk(folder)
    (folder / "a/b/milk.txt").rename(folder / "cold milk.txt")
    (folder / "README.md").unlink()
    (folder / "a/README.md").write_text("espresso")
    write(folder, {"new.md": "new"})
    second = documents.sync(folder)
    assert second.added == ("new.md",)
    assert second.updated == ("a/README.md",)
    assert second.renamed == (("a/b/milk.txt", "cold milk.txt"),)
    assert second.deleted == ("README.md",)
    assert stored(documents) == on_disk(folder)


def test_two_files_of_one_name_or_one_content_are_cited_apart(documents, folder):
    write(folder, {"b/README.md": "coffee"})
    documents.sync(folder)
    found = documents.search("coffee")
    assert {hit.record.citation for hit in found} == {"a/README.md", "b/README.md"}
    assert [hit.record.name for hit in documents.search("coffee", path="b")] == ["b/README.md"]


def test_what_has_not_changed_is_neither_read_nor_written(store, documents, folder, monkeypatch):
    documents.sync(folder)
    version = store.version()
    monkeypatch.setattr(Path, "open", None)  # whoever reads a file fails
    again = documents.sync(folder)
    assert again.n_unchanged == 3
    assert (again.added, again.updated, again.renamed, again.deleted) == ((), (), (), ())
    assert store.version() == version


def test_a_change_that_leaves_size_and_time_is_seen_by_the_hash(documents, folder):
    documents.sync(folder)
    write(folder, {"README.md": "tee"})
    assert documents.sync(folder).updated == ()
    assert documents.sync(folder, check="hash").updated == ("README.md",)
    assert stored(documents) == on_disk(folder)


def test_a_change_within_one_tick_of_the_clock_is_seen(documents, folder):
    path = folder / "README.md"
    path.write_text("one")
    state = path.stat()
    documents.sync(folder)
    path.write_text("two")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert documents.sync(folder).updated == ("README.md",)


def test_a_file_that_was_touched_is_read_once_more_and_no_further(store, documents, folder):
    documents.sync(folder)
    os.utime(folder / "README.md", (LONG_AGO + 9, LONG_AGO + 9))
    assert documents.sync(folder).n_unchanged == 3
    version = store.version()
    assert documents.sync(folder).n_unchanged == 3
    assert store.version() == version


@pytest.mark.parametrize("journal", ["a journal", "no journal"])
def test_files_that_were_touched_are_one_commit(tmp_path, journal):
    folder, options = tmp_path / "notes", {} if journal == "a journal" else {"journal": None}
    files = {f"{number}.md": f"tea {number}" for number in range(30)}
    write(folder, files)
    with ContextStore.open(tmp_path / "store", **options) as store:
        store.documents.sync(folder, metadata={"of": "us"})
        before = store.documents.list()
        kept = [store.documents.chunks(one.id) for one in before]
        for name in files:
            os.utime(folder / name, (LONG_AGO + 9, LONG_AGO + 9))
        version = n_commits(store)
        assert store.documents.sync(folder).n_unchanged == 30
        assert n_commits(store) == version + 1
        after = store.documents.list()
        assert [one.id for one in after] == [one.id for one in before]
        assert [replace(one, properties={}) for one in after] == [
            replace(one, properties={}) for one in before
        ]
        assert all(one.properties != old.properties for one, old in zip(after, before, strict=True))
        assert [store.documents.chunks(one.id) for one in after] == kept
        assert stored(store.documents) == files
        version = n_commits(store)
        assert store.documents.sync(folder).n_unchanged == 30
        assert n_commits(store) == version


def test_a_renamed_file_keeps_its_document_and_is_not_embedded_again(tmp_path, folder):
    calls = []

    def embed(texts):
        calls.extend(texts)
        return [[1.0, 0.0] for _ in texts]

    with ContextStore.open(tmp_path / "store", embedder=as_embedder(embed, model="m")) as store:
        store.documents.sync(folder)
        (before,) = (one for one in store.documents.list() if one.name == "a/b/milk.txt")
        calls.clear()
        (folder / "a/b/milk.txt").rename(folder / "milk.txt")
        store.documents.sync(folder)
        after = store.documents.get(before.id)
        assert (after.name, after.uri) == ("milk.txt", (folder / "milk.txt").as_uri())
        assert calls == []
        (hit,) = store.documents.search("milk", mode="text")
        assert hit.record.name == "milk.txt"


def test_a_dry_run_tells_what_the_run_then_does(store, documents, folder):
    documents.sync(folder)
    (folder / "a/b/milk.txt").rename(folder / "milk.txt")
    (folder / "a/README.md").unlink()
    write(folder, {"README.md": "green tea", "new.txt": "new"})
    version, before = store.version(), stored(documents)
    told = documents.sync(folder, dry_run=True)
    assert (store.version(), stored(documents), told.dry_run) == (version, before, True)
    done = documents.sync(folder)
    for part in ("added", "updated", "renamed", "deleted", "n_unchanged", "failed"):
        assert getattr(told, part) == getattr(done, part)


def test_patterns_choose_the_files(documents, folder):
    write(
        folder,
        {
            ".git/config": "x",
            ".env": "secret",
            "build/out.md": "x",
            "a/build/out.md": "x",
            "docs/a/b.md": "x",
            "docs/c.md": "x",
            "docs/c.txt": "x",
        },
    )
    done = documents.sync(folder, include=["*.md"], ignore=[".*", "build"])
    assert done.added == ("README.md", "a/README.md", "docs/c.md", "docs/a/b.md")
    # What is left out now is deleted.
    assert documents.sync(folder, include="docs/**/*.md").deleted == ("README.md", "a/README.md")
    assert documents.sync(folder, include="docs/*.md").deleted == ("docs/a/b.md",)
    assert documents.sync(folder, ignore="/docs/*.txt", include="docs/*").added == ()


def test_files_that_are_named_alone_are_synced(documents, folder):
    documents.sync(folder)
    write(folder, {"README.md": "green tea", "a/README.md": "espresso"})
    (folder / "a/b/milk.txt").unlink()
    done = documents.sync([folder / "README.md", folder / "a/b/milk.txt", folder / "none.md"])
    assert (done.updated, done.deleted, done.added) == (("README.md",), ("a/b/milk.txt",), ())
    assert stored(documents) == {"README.md": "green tea", "a/README.md": "coffee"}


def test_documents_from_elsewhere_and_of_other_scopes_stay(store, documents, folder, tmp_path):
    write(tmp_path, {"elsewhere.md": "elsewhere", "notes 2/x.md": "x"})
    documents.add(tmp_path / "elsewhere.md")
    documents.add(b"of no file", name="bytes.txt")
    documents.sync(tmp_path / "notes 2")
    documents.sync(folder, scope=SHOP)
    store.scope(user_id="ada").documents.sync(folder)
    documents.sync(folder)
    shutil.rmtree(folder / "a")
    done = documents.sync(folder)
    assert done.deleted == ("a/README.md", "a/b/milk.txt")
    everybodys = [one.name for one in documents.list(scope=()) if one.user_id is None]
    assert sorted(everybodys) == ["README.md", "bytes.txt", "elsewhere.md", "x.md"]
    assert documents.count(scope=SHOP) - documents.count(scope=()) == 3
    assert store.scope(user_id="ada").documents.count() == 3


def test_a_file_that_was_added_by_itself_is_the_one_of_the_folder(documents, folder):
    added = documents.add(folder / "a/README.md", metadata={"team": "a"})
    assert added.name == "README.md"
    done = documents.sync(folder, metadata={"year": 2026})
    assert (done.n_unchanged, len(done.added)) == (1, 2)
    known = documents.get(added.id)
    assert (known.name, known.metadata) == ("a/README.md", {"team": "a", "year": 2026})
    (folder / "a/README.md").write_text("espresso")
    assert documents.add(folder / "a/README.md").name == "a/README.md"


def test_what_cannot_be_read_is_told_and_stays_what_it_was(documents, folder):
    documents.sync(folder)
    write(folder, {"README.md": "", "z.pdf": "%PDF-1.7 and no more", "zz.txt": "fine"})
    done = documents.sync(folder)
    assert [one.name for one in done.failed] == ["README.md", "z.pdf"]
    assert done.added == ("zz.txt",)
    assert stored(documents)["README.md"] == "tea"


def test_a_folder_that_fails_while_it_is_listed_keeps_its_documents(documents, folder, monkeypatch):
    documents.sync(folder)
    scandir = os.scandir

    def failing(path):
        if Path(path).name == "a":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    done = documents.sync(folder)
    assert ([one.name for one in done.failed], done.deleted) == (["a"], ())
    assert "Permission denied" in str(done.failed[0].error)


def test_links_pipes_and_loops_are_left_out(documents, folder, tmp_path):
    write(tmp_path, {"secret.md": "secret"})
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.txt")
    done = documents.sync(folder)
    assert done.added == ("README.md", "a/README.md", "a/b/milk.txt")
    assert done.failed == ()


def test_a_run_that_was_cut_is_ended_by_the_next(documents, folder):
    def stop(now):
        if now.n_done == 2:
            raise KeyError("enough")

    with pytest.raises(KeyError):
        documents.sync(folder, progress=stop)
    assert documents.count() == 2
    assert documents.sync(folder).added == ("a/b/milk.txt",)
    assert stored(documents) == on_disk(folder)


def test_progress_names_each_file(documents, folder):
    write(folder, {"empty.md": ""})
    told = []
    documents.sync(folder, progress=told.append)
    assert [(one.n_done, one.n_total, one.name) for one in told] == [
        (1, 4, "README.md"),
        (2, 4, "empty.md"),
        (3, 4, "a/README.md"),
        (4, 4, "a/b/milk.txt"),
    ]
    assert [one.document is None for one in told] == [False, True, False, False]


@pytest.mark.parametrize("seed", range(4))
def test_after_any_changes_the_documents_are_what_the_files_are(tmp_path, seed):
    draw, folder = random.Random(seed), tmp_path / "folder"
    folder.mkdir()
    names = [f"{part}{n}.txt" for part in ("", "a/", "a/b/", "c d/") for n in range(3)]
    with ContextStore.open(tmp_path / "store") as store:
        for step in range(12):
            for _ in range(draw.randrange(4)):
                there = sorted(on_disk(folder))
                match draw.choice(["write", "write", "remove", "move", "touch"]):
                    case "write":
                        write(folder, {draw.choice(names): f"says {draw.randrange(5)}"})
                        os.utime(folder, None)
                    case "remove" if there:
                        (folder / draw.choice(there)).unlink()
                    case "move" if there:
                        target = folder / draw.choice(names)
                        target.parent.mkdir(parents=True, exist_ok=True)
                        (folder / draw.choice(there)).replace(target)
                    case "touch" if there:
                        os.utime(folder / draw.choice(there), (LONG_AGO, LONG_AGO + step))
            store.documents.sync(folder, check="hash")
            assert stored(store.documents) == on_disk(folder)
            uris = [one.uri for one in store.documents.list()]
            assert sorted(uris) == sorted((folder / name).as_uri() for name in on_disk(folder))


@pytest.mark.process
def test_processes_that_sync_at_once_make_one_document_of_each_file(tmp_path, folder):
    write(folder, {f"many/{n}.txt": f"says {n % 7}" for n in range(30)})
    program = (
        "import sys; from lance_context_core import ContextStore\n"
        "with ContextStore.open(sys.argv[1]) as store: store.documents.sync(sys.argv[2])"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "store"), str(folder)]
    running = [subprocess.Popen(command) for _ in range(3)]
    assert [one.wait(timeout=300) for one in running] == [0, 0, 0]
    with ContextStore.open(tmp_path / "store") as store:
        names = [one.name for one in store.documents.list()]
        assert sorted(names) == sorted(on_disk(folder))
        assert stored(store.documents) == on_disk(folder)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keep": "hash"}, "keep='hash'"),
        ({"check": "size"}, "check='size'"),
        ({"include": ""}, "include"),
        ({"ignore": [1]}, "ignore"),
    ],
)
def test_what_cannot_be_synced_is_refused_by_its_name(documents, folder, arguments, message):
    with pytest.raises(InvalidRequestError, match=message):
        documents.sync(folder, **arguments)
    assert documents.count() == 0


def test_a_folder_that_is_not_there_is_not_taken_for_an_empty_one(documents, folder, tmp_path):
    documents.sync(folder)
    shutil.rmtree(folder)
    with pytest.raises(NotFoundError, match="is not a folder"):
        documents.sync(folder)
    with pytest.raises(InvalidRequestError, match="pass a folder"):
        documents.sync(5)
    assert documents.count() == 3


def test_a_file_whose_name_is_no_utf_8_is_synced_and_its_store_stays_readable(tmp_path, folder):
    odd = os.fsencode(folder) + b"/caf\xe9.md"
    try:
        with open(odd, "wb") as file:  # noqa: PTH123 - a path of bytes
            file.write(b"cocoa")
    except OSError:
        pytest.skip("this file system has names in Unicode alone")
    with ContextStore.open(tmp_path / "s") as store:
        assert "caf?.md" in store.documents.sync(folder).added
        assert stored(store.documents)["caf?.md"] == "cocoa"
        again = store.documents.sync(folder)
        assert (again.n_unchanged, again.added, again.deleted) == (4, (), ())
