"""How the site is made of README.md and docs/, by `make site`: the pages stay plain CommonMark.

The groups of docs/index.md are the navigation. Each page is also there as Markdown, and all of
them are listed in llms.txt, with their first sentence, and joined in llms-full.txt.
"""

import re
import shutil
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]

project = "lance-context"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "version"
]
html_title = f"{project} {version}"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "docs/index"
# The folder of sources is the root: links between README.md and docs/ lead where they do in git.
include_patterns = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**"]
exclude_patterns = [".*", "build", "dist", "adapters", "apps", "benchmarks", "packages", "tests"]
html_theme = "furo"
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
# Each release has a folder of its own beside this one's: the headings of the changelog name them.
html_context = {
    "older_versions": [
        one
        for one in re.findall(
            r"^## (\d+\.\d+\.\d+)\b",
            (ROOT / "docs" / "CHANGELOG.md").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
        if one != version
    ]
}
html_css_files = ["site.css"]
html_static_path = ["static"]
html_search_scorer = "docs/site/scorer.js"
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
# As the usual sites make them, and as tests/core/test_docs.py checks them.
myst_heading_anchors = 6
suppress_warnings = [
    "myst.header",  # the reference goes from a page to its members: a level has no heading there
]

HIDDEN = "```{toctree}\n:hidden:\n:caption: %s\n\n%s\n```\n"
_GROUP = re.compile(r"^### (.+)\n\n((?:\|.*\n)+)", re.MULTILINE)
_ROW = re.compile(r"^\| \[[^]]+\]\(([^)#]+)\.md\)", re.MULTILINE)
_MARKS = re.compile(r"\[([^]]*)\]\([^)]*\)|[*`]")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_navigation)
    app.connect("build-finished", _write_markdown)
    app.connect("build-finished", _make_accessible)


def _add_navigation(_: Sphinx, name: str, source: list[str]) -> None:
    """Append what Sphinx makes the navigation of to the pages that list others."""
    if name == root_doc:
        made = [
            HIDDEN % (title, "\n".join(_ROW.findall(rows))) for title, rows in groups(source[0])
        ]
        source[0] += (
            "\n\n"
            + HIDDEN % ("Project", "/README\n/CONTRIBUTING\n/SECURITY")
            + "\n"
            + "\n".join(made)
        )
    elif name == "docs/reference/index":
        pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
        names = "\n".join(page.stem for page in pages if page.stem != "index")
        source[0] += "\n\n" + HIDDEN % ("Modules", names)


def groups(index: str) -> list[tuple[str, str]]:
    """The titles of the groups of pages, and the rows of their tables."""
    return _GROUP.findall(index)


def _write_markdown(app: Sphinx, error: Exception | None) -> None:
    if error:
        return
    out = Path(app.outdir)
    index = (ROOT / f"{root_doc}.md").read_text(encoding="utf-8")
    listed = [f"docs/{one}" for _, rows in groups(index) for one in _ROW.findall(rows)]
    names = list(dict.fromkeys(["README", root_doc, *listed, *sorted(app.env.found_docs)]))
    texts = {one: (ROOT / f"{one}.md").read_text(encoding="utf-8") for one in names}
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / f"{name}.md", out / f"{name}.md")
    lines = [f"- [{title(one)}]({name}.md): {first_sentence(one)}" for name, one in texts.items()]
    head = f"# {project}\n\n> {first_sentence(texts['README'])}\n\n## Pages\n\n"
    (out / "llms.txt").write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    joined = "\n\n".join(f"<!-- {name}.md -->\n\n{text.strip()}" for name, text in texts.items())
    (out / "llms-full.txt").write_text(joined + "\n", encoding="utf-8")
    (out / "index.html").write_text(
        f'<!doctype html><html lang="en"><title>{project}</title>'
        f'<meta http-equiv="refresh" content="0; url={root_doc}.html">'
        f'<a href="{root_doc}.html">{project}</a></html>\n',
        encoding="utf-8",
    )


# What axe-core finds in furo's pages, and its remedy: docs/site/accessible.py runs it.
_REMEDIES = (
    ('<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="Pages">'),
    ('<aside class="toc-drawer', '<aside aria-label="On this page" class="toc-drawer'),
    ("<pre>", '<pre tabindex="0">'),
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    ('<th class="head"><p></p></th>', "<td></td>"),
    ('<div id="search-results">', '<h1>Search</h1><div id="search-results">'),
)


def _make_accessible(app: Sphinx, error: Exception | None) -> None:
    if error:
        return
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for found, remedy in _REMEDIES:
            text = text.replace(found, remedy)
        page.write_text(text, encoding="utf-8")


def title(text: str) -> str:
    """The first heading of a page, without marks."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return _plain(found[1]) if found else ""


def first_sentence(text: str) -> str:
    """The first sentence of the first paragraph that is prose."""
    without_code = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for paragraph in re.split(r"\n\s*\n", without_code):
        if paragraph.strip() and not re.match(r"\s*([#|<>!-]|\d+\.)", paragraph):
            plain = " ".join(_plain(paragraph).split())
            return re.split(r"(?<=[.:?!]) (?=[A-Z])", plain)[0].rstrip(":")
    return ""


def _plain(text: str) -> str:
    return _MARKS.sub(lambda match: match[1] or "", text)
