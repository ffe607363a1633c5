"""Runs the code of the adapters' READMEs with what the page's own install line brings, and nothing else.

`python tests/readme_blocks.py [NAME …]`: each of our wheels is built, and each install line of a page
makes an empty environment. A line `<!-- needs NAME -->` above a block says what else it needs, which
is installed only after the rest of the page has run without it.
"""

import inspect
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.test_docs import Block, blocks, checked
from install_wheel import ROOT, UV, built, empty, run

SOURCES = (
    ".",
    *(f"adapters/{one}" for one in ("agentscope", "crewai", "google_adk", "langchain")),
    *(f"adapters/{one}" for one in ("llama_index", "openai_agents", "pydantic_ai")),
    "adapters/agent_framework",
)
CORE = "lance-context-core"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An install line of a page, and the blocks that it is for."""

    adapter: str
    pins: str
    """The environment whose versions are installed."""
    marks: tuple[str, ...] = ()
    """Of the blocks, `<!-- with MARK -->`; without any they are all."""
    extra: str = ""
    """The words of the line, where a page has several."""


LINES = {
    "langchain": Line(adapter="langchain", pins="langchain-newest"),
    "llama-index": Line(adapter="llama_index", pins="llama-index-newest"),
    "openai-agents": Line(adapter="openai_agents", pins="openai-agents"),
    "google-adk": Line(adapter="google_adk", pins="google-adk"),
    "crewai": Line(adapter="crewai", pins="crewai"),
    "pydantic-ai": Line(adapter="pydantic_ai", pins="pydantic-ai-newest"),
    "agent-framework": Line(adapter="agent_framework", pins="agent-framework"),
    "context": Line(
        adapter="agentscope",
        pins="agentscope-context",
        marks=("agentscope-runtime 0",),
        extra="[context]",
    ),
    "runtime1": Line(
        adapter="agentscope",
        pins="agentscope-runtime1",
        marks=("agentscope-runtime 1",),
        extra="[runtime1]",
    ),
    "agentscope1": Line(
        adapter="agentscope", pins="agentscope1", marks=("agentscope 1",), extra="[agentscope1]"
    ),
    "agentscope2": Line(
        adapter="agentscope", pins="agentscope2", marks=("agentscope 2",), extra="[agentscope2]"
    ),
}


def gives(found: object, expected: object) -> None:
    """What `# -> value` says behind an expression."""
    assert found == expected, (found, expected)


def main(names: Sequence[str]) -> None:
    """Says which page fails with which line, and ends with an exit code other than 0."""
    if unknown := [name for name in names if name not in LINES]:
        sys.exit(f"unknown install lines {unknown}: there are {', '.join(LINES)}")
    with tempfile.TemporaryDirectory(prefix="readmes-") as scratch:
        directory = Path(scratch)
        wheels = directory / "dist"
        for source in SOURCES:
            build = (*UV, "build", "--quiet", "--wheel", "--out-dir", str(wheels))
            run(directory, *build, str(ROOT / source))
        for name in names or LINES:
            home = directory / name
            home.mkdir()
            _check(LINES[name], home, wheels)
            # One has hundreds of megabytes.
            shutil.rmtree(home)
            print(f"{name}: the page runs with its own install line")  # noqa: T201 - a program


def _check(line: Line, home: Path, wheels: Path) -> None:
    page = ROOT / "adapters" / line.adapter / "README.md"
    python = empty(home)
    pins = ("-c", str(ROOT / "tests" / "pins" / f"{line.pins}.txt"))
    install = (*UV, "pip", "install", "--quiet", "--python", python, *pins)
    wanted = _required(page, line)
    ours = [built(one, wheels) for one in wanted]
    if not any(one.startswith(CORE) for one in wanted):
        ours.append(built(CORE, wheels))
    run(home, *install, *ours)
    meant = [(block, marks) for block, marks in _blocks(page) if _is_for(line, marks)]
    assert meant, (page, line)
    bare = [block for block, marks in meant if "needs" not in marks]
    _run(home / "bare", python, page, bare)
    if needs := sorted({marks["needs"] for _, marks in meant if "needs" in marks}):
        run(home, *install, *needs)
        _run(home / "all", python, page, [block for block, _ in meant])


def _required(page: Path, line: Line) -> list[str]:
    """What the page says to install."""
    found = re.findall(r"pip install ([^`\n]*lance-context[^`\n]*)", page.read_text("utf-8"))
    (words,) = [one for one in found if line.extra in one][:1]
    return [one.strip('"') for one in words.split()]


def _blocks(page: Path) -> list[tuple[Block, dict[str, str]]]:
    """The blocks of Python of a page, each with what stands above it in marks."""
    lines = page.read_text("utf-8").splitlines()
    found = []
    for block in blocks(page):
        marks, above = {}, block.line - 3
        while mark := re.fullmatch(r"<!-- (with|needs) (.+) -->", lines[above]):
            marks[mark[1]] = mark[2]
            above -= 1
        if block.info == "python":
            found.append((block, marks))
    return found


def _is_for(line: Line, marks: dict[str, str]) -> bool:
    return not line.marks or marks.get("with") in line.marks


def _run(home: Path, python: str, page: Path, meant: Sequence[Block]) -> None:
    home.mkdir()
    program = home / f"{page.parent.name}.py"
    code = [inspect.getsource(gives), "_gives = gives\n", *(checked(one.code) for one in meant)]
    program.write_text("\n".join(code), "utf-8")
    # Isolated, so that neither this process's packages nor the sources here are found.
    run(home, python, "-I", str(program))


if __name__ == "__main__":
    main(sys.argv[1:])
