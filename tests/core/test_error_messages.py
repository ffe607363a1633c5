"""An error of a request names what to do, and no class that a program cannot name."""

import ast
import re
from pathlib import Path

import pytest

import lance_context_core

HOME = Path(lance_context_core.__file__).parent

OF_A_REQUEST = {
    "AlreadyExistsError",
    "DimensionMismatchError",
    "EmbeddingModelMismatchError",
    "FilterError",
    "InvalidRequestError",
    "NotFoundError",
    "ReadOnlyError",
}
"""The errors that a caller mends by another call."""

WITH_A_PLACE = {"transfer/tables.py"}
"""Files with messages that their callers complete, with the line of a file and the way out."""

PROBLEMS = {
    "names a private class": r"\b_[A-Z]\w+",
    "has a banned word": r"\b(?:nobody|somebody|whoever|of theirs|told of|shall|hence|beside)\b",
    "lists values with 'there are'": r"(?:: |^)there (?:is|are) ['{]",
}
WAY_OUT = re.compile(r"[:;?]|\. [A-Z]|\bor\b|\buse\b|\{\}$")


def messages(source):
    """The errors that a module makes of a text, each with its line; `{}` for a value in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name.endswith("Error") and (text := words(node.args[0])):
                yield node.lineno, name, text


def words(node):
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(words(one) for one in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return words(left) + words(right)
        case _:
            return "{}"


def problems(source, where):
    for line, name, text in messages(source):
        for problem, pattern in PROBLEMS.items():
            if re.search(pattern, text):
                yield f"{where}:{line} {problem}: {text}"
        if name in OF_A_REQUEST and where not in WITH_A_PLACE and not WAY_OUT.search(text):
            yield f"{where}:{line} names no way out: {text}"


@pytest.mark.verdict
def test_an_error_of_a_request_names_the_way_out_in_plain_words():
    modules = {str(one.relative_to(HOME)): one for one in HOME.rglob("*.py")}
    found = [
        one
        for where, path in sorted(modules.items())
        for one in problems(path.read_text(encoding="utf-8"), where)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("'limit is wrong'", "names no way out"),
        ("f'{name} has no _Table: give one'", "names a private class"),
        ("'nobody has it: ask again'", "has a banned word"),
        ("f'mode={mode}: there are {modes}'", "lists values"),
    ],
)
def test_a_message_without_a_way_out_is_named_with_its_line(message, problem):
    (found,) = problems(f"\nraise InvalidRequestError({message})", "x.py")
    assert found.startswith(f"x.py:2 {problem}")


def test_a_message_with_a_way_out_is_not_objected_to():
    assert list(problems("raise InvalidRequestError(f'{a} is blank: give a text')", "x.py")) == []
