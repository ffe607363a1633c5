"""What the process keeps in memory has a bound in bytes, and is gone with a store or an erasure."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lance_context_core

ROOT = Path(lance_context_core.__file__).parents[1]
SOURCES = [
    *(ROOT / "lance_context_core").rglob("*.py"),
    *(path for home in ("adapters", "apps", "packages") for path in (ROOT / home).rglob("*.py")),
]

WITHOUT_TEXTS = {
    "lance_context_core/documents/readers/choosing.py": {"_others": "the installed readers"},
    "lance_context_core/documents/readers/pdfium.py": {"_idle": "processes that have no file"},
    "lance_context_core/embedders/_local.py": {"_load_once": "one model"},
    "lance_context_core/storage/lance/probe.py": {"_found_good": "the release of LanceDB"},
    "lance_context_core/storage/leases.py": {
        "_mine": "numbers of this process",
        "_parts": "numbers of at most 1,024 processes",
        "_boot": "one number",
        "_namespace": "one number",
        "_seen": "numbers of processes that are alive",
    },
    "lance_context_core/storage/wal/postgres/server.py": {
        "_server_of": "the servers that this process has connections to"
    },
    "lance_context_core/storage/sql/predicates.py": {
        "quote_identifier": "the names of columns",
        "_ANY": "nothing, for ever",
        "_of_time": "16 moments",
    },
    "lance_context_core/memory_index/bm25.py": {
        "words_of": "settings of indexes",
        "_plain": "letters",
    },
    "lance_context_core/search/options.py": {"boosts": "settings of searches"},
    "lance_context_core/coordination/templates.py": {"_jinja": "one environment"},
    "lance_context_core/text/analysis.py": {
        "_known_stemmer": "one stemmer a language",
        "_FUNCTION_WORDS": "words of ours, made at import",
    },
    "lance_context_core/documents/writing.py": {"NOTHING": "nothing, for ever"},
    "packages/lance-context-opentelemetry/lance_context_opentelemetry/telemetry.py": {
        "_replaced": "our own functions"
    },
    "lance_context_core/_util/extras.py": {"_RUNNING": "names of packages"},
    "lance_context_core/_util/frozen.py": {"_thawed": "our own classes"},
    "lance_context_core/storage/lance/table_handle.py": {
        "_running": "tasks, each until it is done"
    },
    "lance_context_core/storage/lance/open_table.py": {"_running": "tasks, each until it is done"},
    "adapters/langchain/langchain_lance_context/_messages.py": {"_defaults": "LangChain's classes"},
}
"""Caches and containers of modules in which no text or name of a user ever is, and what is in them."""


def _functions_that_remember(tree):
    """The names that are given to what `lru_cache` or `cache` of functools make."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if any(_is_cache(one) for one in node.decorator_list):
                yield node.name
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and _is_cache(node.value.func)
        ):
            yield from (one.id for one in node.targets if isinstance(one, ast.Name))


def _is_cache(node):
    if isinstance(node, ast.Call):
        node = node.func
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in {"lru_cache", "cache"}


def _containers_that_grow(tree):
    """The names that a module gives to empty containers, which something is put into later."""
    for node in tree.body:
        value = getattr(node, "value", None)
        if not isinstance(node, ast.Assign | ast.AnnAssign) or value is None:
            continue
        is_empty = isinstance(value, ast.Dict | ast.List) and not any(
            isinstance(one, ast.expr) for one in ast.iter_child_nodes(value)
        )
        called = getattr(getattr(value, "func", None), "id", "")
        if is_empty or called in {"dict", "list", "set", "defaultdict", "OrderedDict", "deque"}:
            if getattr(value, "args", None):
                continue  # It has its contents.
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (one.id for one in targets if isinstance(one, ast.Name))


def test_each_cache_of_the_process_is_emptied_or_holds_nothing_of_a_user():
    """A new one is a `Made` or `remembered`, of `_recent`; or it is named above, with what it holds."""
    found = {}
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {*_functions_that_remember(tree), *_containers_that_grow(tree)} - {"__all__"}
        if names:
            found[path.relative_to(ROOT).as_posix()] = names
    assert found == {path: set(names) for path, names in WITHOUT_TEXTS.items()}


@pytest.mark.parametrize("way", ["closed", "unfolded", "erased"])
def test_no_object_of_the_process_holds_what_was_said_any_more(way):
    program = Path(__file__).with_name("holders.py")
    done = subprocess.run(
        [sys.executable, str(program), way], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
