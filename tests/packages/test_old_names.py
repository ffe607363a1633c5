"""What has moved out of the core is found by its old name, or the error says where it is."""

import importlib
import subprocess
import sys

import pytest

from lance_context_core.errors import MissingExtraError

MOVED = {
    "lance_context_core.memory_tool": "lance-context-anthropic",
    "lance_context_core.telemetry": "lance-context-opentelemetry",
    "lance_context_core.testing": "lance-context-testing",
}
"""The old names of modules, and the distributions that have them now."""

each_moved = pytest.mark.parametrize("old", MOVED)


@each_moved
def test_an_old_name_has_all_that_the_new_one_has(old):
    new = importlib.import_module(MOVED[old].replace("-", "_"))
    module = importlib.import_module(old)
    assert module.__all__ == new.__all__
    assert [getattr(module, one) for one in new.__all__] == [
        getattr(new, one) for one in new.__all__
    ]


def test_the_samples_are_found_by_their_old_name():
    old = importlib.import_module("lance_context_core.testing.samples")
    new = importlib.import_module("lance_context_testing.samples")
    public = [one for one in vars(new) if not one.startswith("_")]
    assert "NO_NAMES" in public
    assert all(getattr(old, one) is getattr(new, one) for one in public)


@each_moved
def test_an_old_name_says_what_to_install_where_its_distribution_is_missing(old, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    monkeypatch.setitem(sys.modules, MOVED[old].replace("-", "_"), None)
    with pytest.raises(MissingExtraError) as caught:
        importlib.import_module(old)
    assert isinstance(caught.value, ImportError)
    assert str(caught.value).startswith(f"{old} is {MOVED[old].replace('-', '_')} now, ")
    assert str(caught.value).endswith(f": pip install {MOVED[old]}")


def test_an_old_name_does_not_hide_what_its_distribution_lacks(monkeypatch):
    for name in ("lance_context_core.testing", "lance_context_testing"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "lance_context_testing.blobs", None)
    with pytest.raises(ModuleNotFoundError, match=r"lance_context_testing\.blobs") as caught:
        importlib.import_module("lance_context_core.testing")
    assert not isinstance(caught.value, MissingExtraError)


def test_the_core_imports_nothing_that_has_moved():
    others = ("lance_context_", "anthropic", "opentelemetry", "pytest")
    program = (
        "import sys, lance_context_core\n"
        f"print([one for one in sys.modules if one.startswith({others!r})"
        " and not one.startswith('lance_context_core')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
