"""What the documentation of the adapter says of the installed line is run."""

from pathlib import Path

from adapters.agentscope.conftest import LINE
from core.test_docs import blocks, checked, gives, raises

PAGE = Path(__file__).parents[3] / "adapters" / "agentscope" / "README.md"
MARK = "<!-- with agentscope-runtime {} -->"


def test_the_code_of_the_page_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    namespace = {"__name__": "page", "_gives": gives, "_raises": raises}
    n_run = 0
    for block in blocks(PAGE):
        # The line above the fence says which line of releases the code is for.
        mark = lines[block.line - 3]
        if block.info != "python":
            continue
        assert mark in {MARK.format(0), MARK.format(1)}
        if mark == MARK.format(LINE):
            code = "\n" * (block.line - 1) + checked(block.code)
            exec(compile(code, str(PAGE), "exec"), namespace)  # noqa: S102 - our own page
            n_run += 1
    assert n_run > 0
