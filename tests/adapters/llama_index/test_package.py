"""What the distribution promises about itself."""

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import llama_index_lance_context
import pytest

import lance_context_core

ROOT = Path(__file__).parents[3]
HOME = ROOT / "adapters" / "llama_index"

LEAVES = {
    "graph_stores.lance_context": ["LanceContextPropertyGraphStore"],
    "memory.lance_context": [
        *("LanceContextKnowledgeBlock", "LanceContextMemory", "LanceContextMemoryBlock"),
        "LanceContextWindowMemory",
    ],
    "retrievers.lance_context": ["LanceContextDocumentRetriever", "LanceContextRetriever"],
    "storage.chat_store.lance_context": ["LanceContextAsyncChatStore", "LanceContextChatStore"],
    "storage.docstore.lance_context": ["LanceContextDocumentStore"],
    "storage.index_store.lance_context": ["LanceContextIndexStore"],
    "storage.kvstore.lance_context": ["LanceContextKVStore"],
    "vector_stores.lance_context": ["LanceContextVectorStore"],
}
"""Where LlamaIndex's users look, under `llama_index`, and what for."""


FUNCTIONS = ("language_model", "storage_context")
"""The public names that are no classes."""

ELSEWHERE = ("LanceContextPromptTemplate",)
"""Classes for which LlamaIndex has no place."""


def imported(program):
    """The modules that are there after a program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_the_public_names_are_sorted_and_there():
    names = llama_index_lance_context.__all__
    assert names == sorted(names)
    assert all(getattr(llama_index_lance_context, name) for name in names)
    assert set(names) <= set(dir(llama_index_lance_context))


@pytest.mark.parametrize("page", ["adapters/llama_index/README.md", "docs/llama_index.md"])
def test_every_public_name_is_in_the_documentation(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in llama_index_lance_context.__all__ if f"`{name}" not in text] == []


@pytest.mark.parametrize("leaf", LEAVES)
def test_each_class_is_where_llama_index_looks_for_it(leaf):
    module = import_module(f"llama_index.{leaf}")
    assert module.__all__ == LEAVES[leaf]
    for name in LEAVES[leaf]:
        assert getattr(module, name) is getattr(llama_index_lance_context, name)
    assert (Path(module.__file__).parent / "py.typed").is_file()


def test_every_class_has_such_a_place():
    named = [name for names in LEAVES.values() for name in names]
    assert sorted([*named, *ELSEWHERE, *FUNCTIONS]) == llama_index_lance_context.__all__


def test_the_namespace_stays_open_for_other_distributions():
    """An `__init__.py` above the leaves would hide all of LlamaIndex but them."""
    roots = [one.parent for one in (HOME / "llama_index").rglob("__init__.py")]
    assert {str(one.relative_to(HOME / "llama_index")).replace("/", ".") for one in roots} == set(
        LEAVES
    )


def test_importing_the_package_imports_no_framework():
    assert not {"llama_index.core", "lancedb", "pandas"} & imported(
        "import llama_index_lance_context"
    )


def test_nothing_is_pulled_in_that_nothing_needs():
    names = ", ".join(llama_index_lance_context.__all__)
    modules = imported(f"from llama_index_lance_context import {names}")
    assert "llama_index.core" in modules
    assert not {"pandas", "lance", "tantivy", "langchain_core", "openai", "torch"} & modules


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(llama_index_lance_context, "LanceContextNothing")


def test_the_versions_are_in_lockstep():
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == llama_index_lance_context.__version__
    assert project["version"] == lance_context_core.__version__
    assert [one.partition(">")[0] for one in project["dependencies"]] == [
        *("lance-context-core", "llama-index-core", "numpy")
    ]


def test_every_class_has_its_author():
    hub = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["llamahub"]
    import_module(hub["import_path"])
    assert [*hub["class_authors"], *FUNCTIONS] == llama_index_lance_context.__all__


@pytest.mark.parametrize("leaf", LEAVES)
def test_each_place_has_a_distribution_of_its_name_that_brings_this_one(leaf):
    place = leaf.removesuffix(".lance_context")
    name = f"llama-index-{place.replace('.', '-').replace('_', '-')}-lance-context"
    told = tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text(encoding="utf-8"))
    assert told["project"]["name"] == name
    assert told["project"]["version"] == llama_index_lance_context.__version__
    assert told["project"]["dependencies"] == ["llama-index-lance-context>=0.1,<0.2"]
    hub = told["tool"]["llamahub"]
    assert hub["import_path"] == f"llama_index.{leaf}"
    assert list(hub["class_authors"]) == LEAVES[leaf]


def test_types_are_shipped():
    assert (Path(llama_index_lance_context.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize(
    ("name", "slip"),
    [
        ("LanceContextVectorStore", {"table": "recipes"}),
        ("LanceContextMemory", {"user_id": "ada"}),
        ("LanceContextMemoryBlock", {"user": "ada"}),
        ("LanceContextChatStore", {"user_id": "ada"}),
        ("LanceContextAsyncChatStore", {"user_id": "ada"}),
    ],
)
def test_a_field_that_is_not_there_is_refused(name, slip):
    with pytest.raises(ValueError, match=next(iter(slip))):
        getattr(llama_index_lance_context, name)("memory://", **slip)
