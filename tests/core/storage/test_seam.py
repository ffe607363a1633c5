"""Another engine could stand behind the same names: one room knows the database, and words are asked in one place."""

import ast
import re

import pyarrow as pa
import pytest
from core.promised import CORE

from lance_context_core import ContextStore
from lance_context_core.storage.lance import reads

HOUSE = CORE.parents[1] / "lance_context_core"
DATABASES = {"lancedb", "lance", "pylance", "sqlite3"}


def imported(path):
    """The packages that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name.split(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def test_only_the_room_of_the_engine_imports_a_database():
    found = {
        path.relative_to(HOUSE).parts[0]
        for path in HOUSE.rglob("*.py")
        if DATABASES & {*imported(path)}
    }
    assert found == {"storage"}


@pytest.mark.parametrize("call", ["search", "knowledge", "documents"])
def test_words_may_be_found_by_another_engine_with_nothing_else_changed(monkeypatch, call):
    """The other engine counts the words that a text shares with the question; it is asked and obeyed."""
    asked = []

    async def match(handle, text, *, where, limit, columns):
        asked.append(text)
        rows = await handle.query().where(where or "true").with_row_id().to_arrow()
        wanted = {*re.findall(r"\w+", text.lower())}
        scores = [
            float(len(wanted & {*re.findall(r"\w+", (one or "").lower())}))
            for one in rows["search_text"].to_pylist()
        ]
        rows = rows.append_column("_score", pa.array(scores, pa.float32()))
        rows = rows.filter(pa.compute.greater(rows["_score"], 0)).sort_by(
            [("_score", "descending")]
        )
        return rows.slice(0, limit).select([*columns, "_score", "_rowid"])

    monkeypatch.setattr(reads, "match", match)
    with ContextStore.open("memory://", journal=None, search_cache=None) as store:
        store.knowledge.add("I have a red boat.", session_id="s")
        store.knowledge.add("I have a grey dog.", session_id="s")
        store.documents.add(b"A red boat is in the harbour.", name="boat.txt")
        store.documents.add(b"A grey dog sleeps.", name="dog.txt")
        hits = {
            "search": lambda: store.search("red boat"),
            "knowledge": lambda: store.knowledge.search("red boat"),
            "documents": lambda: store.documents.search("red boat"),
        }[call]()
        assert asked
        assert "boat" in hits[0].record.text
