"""What a test needs beyond its own process, seen in what it is made of, so that nobody lists it."""

import multiprocessing
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

TESTS = str(Path(__file__).parent)
SERVERS = {"s3", "azure", "postgres", "directory+postgres", "s3+postgres"}
"""Places that are servers, by the values that tests are given."""
STARTERS = (subprocess, multiprocessing)


def needs_server(item: Any) -> bool:
    """Whether one of the values of the test is a place that is a server, or a fixture is one."""
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    given = {
        one
        for value in values
        for one in (value if isinstance(value, tuple) else [value])
        if isinstance(one, str)
    }
    return bool(SERVERS & given) or bool({"s3_server", "postgres_server"} & {*item.fixturenames})


def starts_processes(item: Any) -> bool:
    """Whether the test, one of its fixtures or what they call of ours names what starts processes."""
    fixtures = (one.func for all_ in item._fixtureinfo.name2fixturedefs.values() for one in all_)
    functions = (getattr(one, "__func__", one) for one in (item.obj, *fixtures))
    return any(_starts_first(function) for function in functions)


@cache
def _starts_first(function: Any) -> bool:
    """Looked at once, as the cases of a test share it and most tests share fixtures."""
    return _starts(function, set())


def _starts(function: Any, seen: set[int]) -> bool:
    function = getattr(function, "__func__", function)
    function = getattr(function, "__wrapped__", function)
    if id(function) in seen:
        return False
    seen.add(id(function))
    if isinstance(function, type):
        return _is_ours(function) and any(_starts(one, seen) for one in vars(function).values())
    if not isinstance(function, FunctionType) or not function.__code__.co_filename.startswith(
        TESTS
    ):
        return False
    names = set(_names(function.__code__))
    named = [function.__globals__[name] for name in names & function.__globals__.keys()]
    # Of a module of ours, what is named of it: not all that it has.
    modules = [one for one in named if isinstance(one, ModuleType) and _is_below(one)]
    named += [vars(one)[name] for one in modules for name in names & vars(one).keys()]
    # By identity, as what is named may be an array, which compares itself in its own way.
    is_forking = "fork" in names and any(one is os for one in named)
    return is_forking or any(_is_starter(one) or _starts(one, seen) for one in named)


def _is_below(module):
    return str(getattr(module, "__file__", None)).startswith(TESTS)


def _is_starter(value):
    return any(value is one for one in STARTERS) or (
        isinstance(value, multiprocessing.context.BaseContext)
    )


def _is_ours(cls):
    module = cls.__module__
    return (
        module.partition(".")[0] in {"core", "adapters", "packages", "proofs", "tests"}
        or "test_" in module
    )


def _names(code: CodeType) -> Iterator[str]:
    """The names that a function uses, and those inside it."""
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names(one)
