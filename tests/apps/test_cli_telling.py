"""`lance-ctx remember`, `say` and `ask`: from an empty place to a question that is answered."""

import io
import json
import sys

import pytest

from lance_context_core import ContextStore, Message


@pytest.fixture
def new(tmp_path, monkeypatch):
    """A place where nothing is yet."""
    place = tmp_path / "new"
    monkeypatch.setenv("LANCE_CONTEXT_STORE", str(place))
    return place


def test_what_is_remembered_is_there_once_for_each_user(ctx, new):
    first = json.loads(ctx("--json", "remember", "Ada", "likes", "tea").out)
    again = json.loads(ctx("--json", "remember", "Ada likes tea").out)
    assert (first["is_new"], again) == (True, {"id": first["id"], "is_new": False})
    of_bob = json.loads(ctx("--json", "--user", "bob", "remember", "Ada likes tea").out)
    assert of_bob["is_new"]
    assert ctx("remember", "soon gone", "--days", "1").code == 0
    with ContextStore.open(new) as store:
        kept = {one.text: one for one in store.memory.list().items}
        assert {*kept} == {"Ada likes tea", "soon gone"}
        assert kept["soon gone"].expires_at is not None


def test_what_is_said_goes_on_with_the_conversation_of_its_agent(ctx, place):
    assert ctx("say", "monday", "Soup", "again?").code == 0
    assert ctx("say", "monday", "--role", "assistant", "--name", "Tutor", "Yes.").code == 0
    with ContextStore.open(place) as store:
        said = store.history.get_messages("tutor", session_id="monday", last=2)
        assert [(one.role, one.name, one.text) for one in said] == [
            ("user", None, "Soup again?"),
            ("assistant", "Tutor", "Yes."),
        ]


def test_a_folder_is_synced_and_says_what_was_done(ctx, new, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "tea.md").write_text("tea")
    (folder / "milk.md").write_text("milk")
    (folder / ".env").write_text("secret")
    told = json.loads(ctx("--json", "sync", str(folder), "--dry-run", "--ignore", "milk*").out)
    assert [(one["file"], one["done"]) for one in told] == [("tea.md", "added")]
    assert json.loads(ctx("--json", "sync", str(folder)).out) == [
        {"file": "milk.md", "done": "added", "why": ""},
        {"file": "tea.md", "done": "added", "why": ""},
    ]
    (folder / "tea.md").rename(folder / "green.md")
    (folder / "milk.md").write_text("")
    ended = ctx("--json", "sync", str(folder))
    renamed, failed = json.loads(ended.out)
    assert renamed == {"file": "green.md", "done": "renamed", "why": "was tea.md"}
    assert (ended.code, failed["done"], "is empty" in failed["why"]) == (1, "failed", True)
    with ContextStore.open(new) as store:
        texts = {one.name: store.documents.text(one.id) for one in store.documents.list()}
        assert texts == {"green.md": "tea", "milk.md": "milk"}
    assert ctx("sync", str(tmp_path / "none")).code == 3


def test_texts_come_by_a_pipe_and_empty_ones_are_refused(ctx, new, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("Ada likes rum\n"))
    assert ctx("remember", "-").code == 0
    for command in (("remember", " "), ("say", "s", ""), ("ask", " ")):
        ended = ctx(*command)
        assert (ended.code, "the text is empty" in ended.err) == (2, True)
    assert "Ada likes rum" in ctx("ls").out


def test_a_question_is_answered_of_all_kinds_with_the_reasons(ctx, new):
    with ContextStore.open(new) as store:
        store.memory.add(["Oslo is cold."])
        store.knowledge.add(Message.user("I live in Oslo.", name="Eva"), session_id="monday")
        store.documents.add(b"# Travel\n\nOslo has an opera.", name="guide.md", type="markdown")
    told = {one["kind"]: one for one in json.loads(ctx("--json", "ask", "Oslo").out)}
    assert {*told} == {"memory", "message", "fact", "document"}
    assert "channels" in told["memory"]["why"]
    assert "said: I live in Oslo." in told["fact"]["why"]
    assert told["document"]["why"] == "in guide.md, Travel"
    assert len(ctx("ask", "Oslo", "-n", "2").rows) == 2
    assert ctx("--user", "bob", "ask", "Oslo").out == ""
