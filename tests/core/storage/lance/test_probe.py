"""A release of LanceDB that no test has run with is tried before a store is opened with it."""

import re
from pathlib import Path

import lancedb
import pytest

from lance_context_core import ContextStore, Message
from lance_context_core.errors import InternalError
from lance_context_core.storage.lance import manifests, probe

CONSTRAINTS = Path(__file__).parents[4] / "constraints.txt"


@pytest.fixture(autouse=True)
def another_release(monkeypatch):
    monkeypatch.setattr(lancedb, "__version__", "0.97.1")
    monkeypatch.setattr(probe, "_found_good", set())


def said(place):
    with ContextStore.open(place) as store:
        store.history.append("a", Message.user("hello"), session_id="s")
        return [one.text for one in store.history.get_messages("a", session_id="s")]


def test_one_that_does_what_is_relied_on_is_used_and_tried_once(tmp_path, monkeypatch):
    assert said(tmp_path / "first") == ["hello"]
    monkeypatch.setattr(manifests, "_MAGIC", b"ELSE")
    with ContextStore.open(tmp_path / "second") as store:
        store.kv("k").get([(("a",), "b")])


@pytest.mark.parametrize(
    ("module", "name", "other", "step"),
    [
        (manifests, "_MAGIC", b"ELSE", "write manifests of the known layout"),
        (probe, "SUCCEEDS", "true", "replace rows by their revisions"),
        (probe, "SUCCEEDS", "no_such_column", "replace rows by their revisions"),
        (probe, "is_division_by_zero", lambda _: False, "refuse a merge of rows"),
        (manifests, "_NEWEST", 2**63, "write manifests of the known layout"),
    ],
)
def test_one_that_does_something_else_is_refused_before_anything_is_written(
    tmp_path, monkeypatch, module, name, other, step
):
    monkeypatch.setattr(module, name, other)
    expected = rf"lancedb 0\.97\.1 failed to {step}.*Install .*lancedb~={re.escape(probe.TRIED)}"
    with pytest.raises(InternalError, match=expected):
        said(tmp_path / "store")
    assert not [one for one in tmp_path.rglob("*") if one.suffix == ".lance"]


def test_the_release_that_tests_run_with_is_not_tried(tmp_path, monkeypatch):
    installed = re.search(r"^lancedb==(\S+)", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    monkeypatch.setattr(lancedb, "__version__", installed[1])
    monkeypatch.setattr(manifests, "require_whole", None)
    monkeypatch.setattr(probe, "_STEPS", {"be asked": None})
    assert said(tmp_path / "store") == ["hello"]
