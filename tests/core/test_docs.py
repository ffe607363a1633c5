"""What the documentation says is run, what it links to is there, and what is public stands in it."""

import ast
import importlib
import inspect
import io
import re
import tokenize
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from lance_context_core import Context, ContextStore, errors
from lance_context_core.sync import (
    Checkpoints,
    Documents,
    Graph,
    History,
    Jobs,
    KeyValues,
    Knowledge,
    Lock,
    Locks,
    Memory,
    Sessions,
    TaskBoard,
    Vectors,
)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
"""Pages that are made from the docstrings: tests/reference.py."""

PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

PUBLIC = [
    page.stem if page.stem.startswith("lance_context_") else f"lance_context_core.{page.stem}"
    for page in sorted(REFERENCE.glob("*.md"))
    if page.stem != "index"
]
"""The public modules: each has a page there."""

NOT_RUN = {"store.md": 1}
"""How many blocks of a page are not run, because they need a service."""

ELSEWHERE = {
    *("agent_framework.md", "agentscope.md", "crewai.md", "google_adk.md"),
    *("langchain.md", "llama_index.md", "openai_agents.md", "pydantic_ai.md"),
}
"""Pages whose code is run by other tests, where the frameworks are."""

ROOMS = {
    ContextStore: "store.md",
    Checkpoints: "coordination.md",
    Context: "records.md",
    Documents: "documents.md",
    Graph: "graph.md",
    History: "history.md",
    Jobs: "knowledge.md",
    KeyValues: "kv.md",
    Lock: "coordination.md",
    Locks: "coordination.md",
    TaskBoard: "coordination.md",
    Knowledge: "knowledge.md",
    Memory: "memory.md",
    Sessions: "history.md",
    Vectors: "vectors.md",
}

each_page = pytest.mark.parametrize("page", PAGES)


# The code


@dataclass(frozen=True)
class Block:
    """What stands between two fences of a page."""

    info: str
    code: str
    line: int
    """Of the page, on which the code starts."""


def blocks(page):
    text = page.read_text(encoding="utf-8")
    return [
        Block(info=match[1], code=match[2], line=text.count("\n", 0, match.start(2)) + 1)
        for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def run(page, meant):
    """Run blocks of a page, one after the other, in one namespace."""
    namespace = {"__name__": "page", "_gives": gives, "_raises": raises}
    for block in meant:
        # Empty lines before it, so that a failure names the line of the page.
        code = "\n" * (block.line - 1) + checked(block.code)
        exec(compile(code, str(page), "exec"), namespace)  # noqa: S102 - our own pages


def checked(code):
    """`code` with its comments `# -> value` and `# raises Name` made into calls of functions.

    A comment is about the expression that ends on its line or, where it stands alone, on the one before.
    """
    lines = code.split("\n")
    expressions = {
        one.end_lineno: one for one in ast.walk(ast.parse(code)) if type(one) is ast.Expr
    }
    comments = [
        (token, found)
        for token in tokenize.generate_tokens(io.StringIO(code).readline)
        if token.type == tokenize.COMMENT and (found := _COMMENT.match(token.string))
    ]
    for token, found in reversed(comments):
        line = token.start[0]
        is_alone = token.line[: token.start[1]].isspace() or not token.start[1]
        one = expressions.get(line - is_alone)
        assert one is not None, f"behind no expression: {token.line}"
        begin = "_gives((" if found["value"] else "_raises(lambda: ("
        value = found["value"] or repr(found["error"])
        lines[line - 1] = lines[line - 1][: token.start[1]]
        last = lines[one.end_lineno - 1].encode()
        lines[one.end_lineno - 1] = f"{last[: one.end_col_offset].decode()}), ({value}))"
        first = lines[one.lineno - 1].encode()
        lines[one.lineno - 1] = (
            f"{first[: one.col_offset].decode()}{begin}{first[one.col_offset :].decode()}"
        )
    return "\n".join(lines)


_COMMENT = re.compile(r"# (?:-> (?P<value>.+)|raises (?P<error>\w+))$")


def test_a_value_is_checked_behind_its_expression_or_on_a_line_of_its_own_below_it():
    given = """
a = [
    1,
    2,
]
len(a)  # -> 2
[one + 1
 for one in a]
# -> [2, 3]
with nothing():
    "é"  # -> "é"
    sum(a)
    # -> 3
wrong()  # raises WrongError
wrong()
# raises WrongError
# -> is an arrow
"""
    told = []
    with pytest.raises(AssertionError, match="behind no expression: # -> is an arrow"):
        checked(given)
    namespace = {
        "nothing": nullcontext,
        "wrong": "wrong",
        "_gives": lambda found, value: told.append((found, value)),
        "_raises": lambda _, name: told.append(name),
    }
    exec(checked(given.replace("# -> is", "# is")), namespace)  # noqa: S102 - as above
    pairs = [(2, 2), ([2, 3], [2, 3]), ("é", "é"), (3, 3)]
    assert told == [*pairs, "WrongError", "WrongError"]


def gives(found, expected):
    assert found == expected


def raises(call, name):
    with pytest.raises(getattr(errors, name)) as caught:
        call()
    assert type(caught.value).__name__ == name


@pytest.mark.verdict
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in ELSEWHERE and page.parent != REFERENCE],
)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page, (block for block in blocks(page) if block.info == "python"))


@each_page
def test_every_block_is_run_or_says_why_it_is_not(page):
    kinds = Counter(block.info for block in blocks(page))
    if page.parent == REFERENCE:
        assert kinds.keys() <= {"python signature", "text"}
        return
    assert kinds.keys() <= {"python", "python no-run", "bash", "console", "text"}
    assert kinds["python no-run"] == NOT_RUN.get(page.name, 0)
    skipped = [block.code for block in blocks(page) if block.info == "python no-run"]
    assert all(code.startswith("# Not run by the tests: ") for code in skipped)


def test_a_wrong_value_or_error_on_a_page_is_noticed():
    namespace = {"_gives": gives, "_raises": raises, "boom": lambda: errors.__getattribute__("x")}
    exec(checked("if True:\n    1 + 1  # -> 2"), namespace)  # noqa: S102 - our own code
    with pytest.raises(AssertionError):
        exec(checked("[1][0]   # -> 2"), namespace)  # noqa: S102 - our own code
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        exec(checked("len('')  # raises NotFoundError"), namespace)  # noqa: S102 - our own code


# The links


def prose(page):
    """The page without its code."""
    return re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )


def anchors(page):
    """What the headings of a page can be linked by: as they are made on the usual sites."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_every_link_inside_the_documentation_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.is_file(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(linked), f"{page.name} links to {target}"


def test_every_page_is_on_the_map():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert f"]({page.name})" in index or page.name == "index.md"
        assert f"](docs/{page.name})" in readme or page.name == "index.md"


BANNED = {
    "name the process, person or record": r"\b(?:nobody|somebody|whoever)\b",
    "name the subject": r"\bWhatever\b",
    "write 'reported', 'of another', 'applied to'": r"\b(?:told of|of theirs|laid over)\b",
    "write 'automatically' or 'alone'": r"\bby (?:itself|themselves)\b",
    "name the default": r"\bunless you say otherwise\b",
    "write 'differs from'": r"\b(?:is|are) otherwise than\b",
    "write 'must', 'three times', 'so'": r"(?i:\b(?:shall|thrice|hence)\b)",
    "write 'together with', 'next to' or 'vs.'": r"\bbeside\b",
    "write 'the store does not have'": r"\bthere (?:is|are) no\b[^.\n]*\bhere\b",
    "head a section with a noun": r"(?m:^#+ (?:What is|Who)\b)",
}
"""Patterns that leave open who does what, or are of another century, each under the way out."""

WRITTEN = [
    *PAGES,
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *(one for home in ("adapters", "apps", "packages") for one in ROOT.glob(f"{home}/*/README.md")),
]


def riddles(text):
    """The banned words of a page, each with its line and the way out."""
    fences = r"^```.*?^```$|`[^`\n]*`"
    text = re.sub(
        fences, lambda code: "\n" * code[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL
    )
    return [
        f"{text.count(chr(10), 0, one.start()) + 1}: {one[0]!r}: {way_out}"
        for way_out, pattern in BANNED.items()
        for one in re.finditer(pattern, text)
    ]


@pytest.mark.verdict
@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_in_plain_words_who_does_what(page):
    assert riddles(page.read_text(encoding="utf-8")) == []


def test_a_banned_word_is_named_with_its_line_and_the_way_out():
    page = (
        "# Title\n\n```python\nbeside\n```\n`beside` is code.\nIt stands beside it.\n## Who did it"
    )
    assert riddles(page) == [
        "7: 'beside': write 'together with', 'next to' or 'vs.'",
        "8: '## Who': head a section with a noun",
    ]


# The names


@pytest.mark.verdict
@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_documentation(module):
    # The pages that were written by hand: the reference has every name by itself.
    pages = [page for page in PAGES if page.parent != REFERENCE]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    names = importlib.import_module(module).__all__
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_method_stands_on_the_page_of_its_room(room):
    text = (DOCS / ROOMS[room]).read_text(encoding="utf-8")
    names = [name for name in dir(room) if not name.startswith("_")]
    assert len(names) > 3
    assert [name for name in names if not re.search(rf"[.`]{name}\b", text)] == []


def test_the_table_of_errors_is_the_tree_of_errors():
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (↳ )?`(\w+)` \| (?:`(\w+)`)? ?\| \S", text, re.MULTILINE)
    shown = {}
    parent = None
    for is_below, name, builtin in rows:
        parent = parent if is_below else name
        shown[name] = {parent if is_below else "ContextStoreError", *filter(None, [builtin])}
    tree = dict(inspect.getmembers(errors, inspect.isclass))
    assert shown.pop("ContextStoreError") == {"ContextStoreError", "Exception"}
    assert shown.pop("ContextStoreWarning") == {"ContextStoreError", "UserWarning"}
    assert shown == {
        name: {base.__name__ for base in one.__bases__}
        for name, one in tree.items()
        if one not in {errors.ContextStoreError, errors.ContextStoreWarning}
    }
