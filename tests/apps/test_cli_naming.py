"""Stores have names, which stand in a file of the user's."""

import click
import pytest


@pytest.fixture(autouse=True)
def file(monkeypatch, tmp_path):
    """Where the names are held, of this test alone."""
    monkeypatch.setattr(click, "get_app_dir", lambda name: str(tmp_path / "config" / name))
    return tmp_path / "config" / "lance-context" / "stores.toml"


def test_a_name_stands_for_a_place_until_it_is_removed(ctx, place, monkeypatch, file):
    assert ctx("store").out == ""
    assert ctx("store", "add", "work", str(place)).code == 0
    assert ctx("store", "add", "cloud", "s3://bucket/a memory").code == 0
    monkeypatch.setenv("LANCE_CONTEXT_STORE", "/nowhere")
    assert "nuts" in ctx("-s", "work", "ls").out
    assert ctx("store").rows == [["work", str(place)], ["cloud", "s3://bucket/a memory"]]
    assert ctx("store", "remove", "work").code == 0
    assert file.read_text() == '[stores]\n"cloud" = "s3://bucket/a memory"\n'
    assert ctx("-s", "work", "ls").code == 2


def test_a_directory_is_the_same_one_from_elsewhere(ctx, place, monkeypatch, tmp_path):
    monkeypatch.chdir(place.parent)
    assert ctx("store", "add", "here", place.name).code == 0
    monkeypatch.chdir(tmp_path.parent)
    assert "nuts" in ctx("-s", "here", "ls").out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-s", "no-such", "ls"], 2, "lance-ctx store add no-such PLACE"),
        (["-C", "/x", "-s", "work", "ls"], 2, "give one"),
        (["store", "add", "a b", "/x"], 2, "cannot be a name"),
        (["store", "add", "work", "/else"], 4, "lance-ctx store remove work"),
        (["store", "add", "new", ""], 2, "is not a place"),
        (["store", "add", "new", "/a\x1b[2J"], 2, "is not a place"),
        (["store", "remove", "no-such"], 3, "lance-ctx store lists them"),
    ],
    ids=lambda one: " ".join(one).replace("\x1b", "ESC") if isinstance(one, list) else "",
)
def test_what_cannot_be_is_said_in_one_line_and_nothing_is_written(
    ctx, file, arguments, code, words
):
    assert ctx("store", "add", "work", "/x").code == 0
    before = file.read_text()
    ended = ctx(*arguments)
    assert (ended.code, ended.out) == (code, "")
    assert words in ended.err.splitlines()[-1]
    assert file.read_text() == before


@pytest.mark.parametrize("text", ["[stores", "[stores]\nwork = 1\n", "stores = 3\n"])
def test_a_file_that_cannot_be_read_is_named(ctx, file, text):
    file.parent.mkdir(parents=True)
    file.write_text(text)
    ended = ctx("-s", "work", "ls")
    assert (ended.code, str(file) in ended.err, ended.out) == (2, True, "")
