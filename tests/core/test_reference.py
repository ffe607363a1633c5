"""The reference says what the docstrings say, and everything that it needs can be imported."""

import ast
import importlib
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
import reference

import lance_context_core

ROOT = Path(__file__).parents[2]
BESIDE = [
    *(path for home in ("adapters", "packages") for path in sorted((ROOT / home).rglob("*.py"))),
    *sorted((ROOT / "examples").glob("*.py")),
]

each_module = pytest.mark.parametrize("name", reference.MODULES, ids=reference.path_of)


# The pages


@pytest.mark.verdict
def test_the_pages_are_those_that_the_docstrings_make():
    kept = {one.name: one.read_text(encoding="utf-8") for one in reference.PAGES.glob("*.md")}
    stale = {name for name, text in reference.pages().items() if kept.pop(name, None) != text}
    assert stale | kept.keys() == set(), f"write the reference anew: {reference.COMMAND}"


def test_every_public_name_and_method_has_a_docstring():
    assert reference.undocumented() == []


def values():
    """The public dataclasses, each with the page that describes it."""
    for one in reference.names().values():
        module = importlib.import_module(reference.path_of(one.module))
        value = getattr(module, one.name)
        is_made_by_a_store = one.name.startswith("Async")
        if isinstance(value, type) and is_dataclass(value) and not is_made_by_a_store:
            yield value, reference.page_of(one.module)


def test_every_field_of_a_value_is_in_its_list_or_in_that_of_what_it_is_of():
    missing = []
    for value, page in values():
        text = (reference.PAGES / page).read_text(encoding="utf-8")
        listed = ""
        for kind in value.__mro__:
            _, _, below = text.partition(f"\n### {kind.__name__}\n")
            listed += below.split("\n### ")[0]
        public = [one.name for one in fields(value) if not one.name.startswith("_")]
        missing += [f"{value.__name__}.{name}" for name in public if f"\n- `{name}: " not in listed]
    assert missing == []


TOP = lance_context_core.__all__
BLOCKING = [name for name in TOP if f"Async{name}" in TOP]


@pytest.mark.parametrize("name", BLOCKING)
def test_a_blocking_method_is_described_in_the_words_of_the_asynchronous_one(name):
    text = (reference.PAGES / "lance_context_core.md").read_text(encoding="utf-8")
    described = text.split(f"\n### {name}\n")[1].split("\n### ")[0]
    asynchronous = reference.by_name()[f"Async{name}"]
    for method, one in reference.members(asynchronous.object).items():
        if one.is_function and f"#### {name}.{method}\n" in described:
            below = described.split(f"#### {name}.{method}\n")[1].split("\n#### ")[0]
            assert reference.prose(reference.docstring(one), at=reference.TOP) in below


# What is public


@each_module
def test_a_public_module_has_what_it_names(name):
    module = importlib.import_module(reference.path_of(name))
    assert [one for one in module.__all__ if not hasattr(module, one)] == []
    assert len(module.__all__) == len(set(module.__all__))


def test_the_top_can_be_read_in_one_go():
    assert len(TOP) <= 50


def test_a_public_name_means_one_thing_in_all_modules():
    named = [one.name for one in reference.names().values()]
    assert sorted(named) == sorted(set(named))


@pytest.mark.verdict
def test_what_public_calls_take_and_return_can_be_named_by_whoever_calls_them():
    assert reference.unreachable() == [], (
        "give it a name in a public module, see docs/architecture.md"
    )


# Who uses it


def inside(source, where):
    """The imports that are of no public name, with what to do about each."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            wanted = [(one.name, None) for one in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            wanted = [(node.module, one.name) for one in node.names]
        else:
            continue
        for module, name in wanted:
            if (module or "").split(".")[0] == reference.PACKAGE and not is_public(module, name):
                found.append(
                    f"{where}:{node.lineno} imports {name or module} of {module}: adapters, "
                    "packages and examples import what a public module names (docs/architecture.md, Public modules)"
                )
    return found


def is_public(module, name):
    short = module.removeprefix(reference.PACKAGE).removeprefix(".")
    if short not in reference.MODULES:
        return False
    names = reference.module(short).exports
    is_module = short == reference.TOP and name in reference.MODULES
    return name is None or name in names or is_module or name == "__version__"


@pytest.mark.verdict
def test_adapters_and_examples_import_public_names_only():
    assert len(BESIDE) > 50
    found = [
        one
        for path in BESIDE
        for one in inside(path.read_text(encoding="utf-8"), path.relative_to(ROOT))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "from lance_context_core.stores.history import AsyncHistory",
        "from lance_context_core import SearchHit",
        "from lance_context_core.filters.tree import And",
        "import lance_context_core.storage",
        "from lance_context_core import store",
    ],
)
def test_an_import_from_the_inside_is_named_with_its_file_and_line(line):
    (found,) = inside(f"\n{line}\n", "x.py")
    assert re.match(r"x\.py:2 imports \w.* of lance_context_core", found)


@pytest.mark.parametrize(
    "line",
    [
        "from lance_context_core import History, adapting",
        "from lance_context_core.results import SearchHit",
        "import lance_context_core.settings",
        "import lance_context_core",
        "from lance_context import Context",
    ],
)
def test_a_public_import_is_not_objected_to(line):
    assert inside(line, "x.py") == []
