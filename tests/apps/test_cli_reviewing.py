"""`lance-ctx review`: what is wrong with what is remembered, and commands that remove it."""

import json
import shlex

import pytest

from lance_context_core import ContextStore
from lance_context_core.knowledge import NoteExtractor


@pytest.fixture
def rotten(place):
    """The store, with junk that came in by one night."""
    with ContextStore.open(place) as store:
        notes = store.knowledge.using(extractor=NoteExtractor())
        for text in ("Hello!", "Where is Ada?", "I have a dog", "\x1b[31mMy password is hunter22!"):
            notes.add(text, user_id="ada", session_id="night", infer="never")
        store.memory.add(["prefers trains to PLANES", "ok"], user_id="ada")
        notes.distill(apply="merge")
    return place


def test_a_clean_store_ends_with_0_and_a_rotten_one_with_1(ctx, rotten, place):
    assert ctx("--user", "nobody", "review").code == 0
    ended = ctx("--json", "review")
    assert ended.code == 1
    assert [one["rule"] for one in json.loads(ended.out)] == [
        *("same_words", "greeting", "question", "credential", "greeting"),
    ]


def test_each_command_that_is_printed_removes_what_it_is_about(ctx, rotten):
    found = json.loads(ctx("--json", "review").out)
    for n, one in enumerate(found, 1):
        _, *words = shlex.split(one["command"])
        ended = ctx(*words, "--yes")
        assert (ended.code, ended.err[:7]) in {(0, "fact fa"), (0, "memory ")}
        assert len(json.loads(ctx("--json", "review").out)) == len(found) - n
    assert ctx("review").code == 0


def test_the_night_is_undone_by_the_command_that_is_printed(ctx, rotten):
    told = ctx("review").out.splitlines()
    (undo,) = [line for line in told if line.startswith("lance-ctx undo ")]
    assert ctx(*shlex.split(undo)[1:], "--yes").code == 0
    left = json.loads(ctx("--json", "review").out)
    assert [one["rule"] for one in left] == ["same_words", "greeting"]
    assert {one["job_id"] for one in left} == {None}


def test_it_is_read_in_80_columns_and_drives_no_terminal(ctx, rotten):
    told = ctx("review").out
    assert max(map(len, told.splitlines())) <= 80
    assert "\x1b[31m" not in told
    assert "hunter22" not in told
    assert "- Where is Ada?" in told


def test_an_export_is_reviewed_without_a_store(ctx, tmp_path, monkeypatch):
    monkeypatch.delenv("LANCE_CONTEXT_STORE")
    file = tmp_path / "memory.json"
    file.write_text(json.dumps({"results": [{"id": "a", "memory": "Hello!"}]}), encoding="utf-8")
    ended = ctx("review", "--export", str(file))
    assert ended.code == 1
    assert "memory.delete(memory_id='a')" in ended.out
    assert ctx("review", "--export", str(tmp_path / "none")).code == 3
    file.write_text("{", encoding="utf-8")
    assert ctx("review", "--export", str(file)).code == 2
