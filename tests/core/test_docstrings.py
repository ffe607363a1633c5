"""A docstring that refers to something of a class names what the class has."""

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import lance_context_core

HOME = Path(lance_context_core.__file__).parent
REFERENCE = re.compile(r"`([A-Z]\w*)\.([a-z_]\w*)(?:\(.*?\))?`")


def _classes():
    """The classes of the core by their names, of which several may have the same."""
    found = {}
    for module in pkgutil.walk_packages([str(HOME)], "lance_context_core."):
        members = inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        for name, one in members:
            if one.__module__.startswith("lance_context_core"):
                found.setdefault(name, set()).add(one)
    return found


def _has(cls, name):
    return hasattr(cls, name) or any(
        name in getattr(one, "__annotations__", {}) or f"self.{name}" in _source(one)
        for one in cls.__mro__
    )


def _source(cls):
    return inspect.getsource(cls) if cls.__module__.startswith("lance_context_core") else ""


def test_what_a_docstring_names_of_a_class_is_there():
    classes, wrong, n_seen = _classes(), [], 0
    for path in HOME.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    for name, attribute in REFERENCE.findall(text):
                        known = classes.get(name, ())
                        n_seen += bool(known)
                        if known and not any(_has(one, attribute) for one in known):
                            place = f"{path.relative_to(HOME)}:{node.lineno}"
                            wrong.append(f"{place}: {name}.{attribute}")
    assert (wrong, n_seen > 100) == ([], True)
