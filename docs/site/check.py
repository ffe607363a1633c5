"""Checks a site that `make site` has made: `python docs/site/check.py build/site`.

Each page has its Markdown and stands in llms.txt, every link in the HTML leads to a file and an
anchor, and searches that a reader would type find the right page first. The search is Sphinx's
own index, ranked as its searchtools.js ranks it with the scores of scorer.js.
"""

import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from snowballstemmer import stemmer
from sphinx.search.en import SearchEnglish

STOP_WORDS = SearchEnglish({}).stopwords
LATER = re.compile(r"^docs/(reference|evidence)/|CHANGELOG|README|CONTRIBUTING|SECURITY")
TITLE, PARTIAL_TITLE, TERM, PARTIAL_TERM, IN_TITLE = 15, 7, 5, 2, 5

SEARCHES = {
    "checkpointer langgraph": "docs/langchain",
    "llamaindex memory": "docs/llama_index",
    "openai agents session": "docs/openai_agents",
    "agentscope session": "docs/agentscope",
    "google adk session service": "docs/google_adk",
    "pydantic ai conversation store": "docs/pydantic_ai",
    "microsoft agent framework history provider": "docs/agent_framework",
    "crewai memory storage": "docs/crewai",
    "erasure": "docs/erasure",
    "time travel": "docs/versions",
    "hybrid search": "docs/search",
    "mcp server": "docs/mcp",
    "opentelemetry": "docs/observing",
    "mem0": "docs/migration",
    "token budget": "docs/window",
    "knowledge graph": "docs/graph",
    "audit log": "docs/erasure",
    "checkpointer lancedb": "docs/langchain",
    "langgraph store semantic search": "docs/langchain",
    "llamaindex memory persist": "docs/llama_index",
    "agentscope session service redis alternative": "docs/agentscope",
    "erase user data vector store": "docs/erasure",
}
"""What a reader types, and the page that is meant."""


class Page(HTMLParser):
    """The links of a page and what they can lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser for each element."""
        del tag
        for name, value in attrs:
            if name in {"href", "src"} and value:
                self.links.add(value)
            elif name == "id" and value:
                self.anchors.add(value)


def main(out: Path) -> None:
    """Prints each failure, and ends with an exit code other than 0 if there is one."""
    failures = [*missing(out), *dead_links(out), *lost_searches(out)]
    for one in failures:
        print(one)
    print(f"{len(list(out.rglob('*.html')))} pages, {len(SEARCHES)} searches")
    if failures:
        sys.exit(f"{len(failures)} failures in {out}")


def missing(out: Path) -> Iterator[str]:
    """The pages without their Markdown or their line in llms.txt."""
    listed, joined = (
        (out / name).read_text(encoding="utf-8") for name in ("llms.txt", "llms-full.txt")
    )
    for name in index_of(out)["docnames"]:
        copy = out / f"{name}.md"
        line = re.search(rf"^- \[.+\]\({re.escape(name)}\.md\): \S", listed, re.MULTILINE)
        if not (copy.is_file() and line and copy.read_text(encoding="utf-8").strip() in joined):
            yield f"{name}: no Markdown, or no title, first sentence or text in llms*.txt"


def dead_links(out: Path) -> Iterator[str]:
    """The links inside the site to a file or an anchor that does not exist."""
    pages = {}
    for path in out.rglob("*.html"):
        pages[path.resolve()] = page = Page()
        page.feed(path.read_text(encoding="utf-8"))
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_relative_to(out.resolve()):  # the site of another release
                continue
            anchor = unquote(parts.fragment)
            is_there = target.is_file() and (
                not anchor or target not in pages or anchor in pages[target].anchors
            )
            if not is_there:
                yield f"{path.relative_to(out.resolve())}: {link} leads nowhere"


def lost_searches(out: Path) -> Iterator[str]:
    """The searches that do not find their page first."""
    index = index_of(out)
    for query, page in SEARCHES.items():
        found = search(index, query)
        if found[:1] != [page]:
            yield f"a search for {query!r} finds {found[:4]} before {page}"


def index_of(out: Path) -> dict[str, Any]:
    """The index that the page of the search loads."""
    text = (out / "searchindex.js").read_text(encoding="utf-8")
    index: dict[str, Any] = json.loads(text.removeprefix("Search.setIndex(").rstrip().rstrip(";)"))
    return index


def search(index: dict[str, Any], query: str) -> list[str]:
    """The pages that a reader is shown, best first."""
    names, titles = index["docnames"], index["titles"]
    results = []
    wanted = query.lower()
    for title, places in index["alltitles"].items():
        if wanted in title.lower() and len(wanted) >= len(title) / 2:
            score = int(TITLE * len(wanted) / len(title) + 0.5)
            results += [(file, score + (titles[file] == title)) for file, _ in places]
    words = [one for one in re.findall(r"\w+", wanted) if one not in STOP_WORDS]
    scores = [by_file(index, stemmer("english").stemWord(one)) for one in words]
    everywhere = set.intersection(*(set(one) for one in scores)) if scores else set()
    results += [(file, max(one[file] for one in scores)) for file in everywhere]
    ranked = sorted(
        (-rank(names[file], titles[file], score, wanted), titles[file].lower(), names[file])
        for file, score in results
    )
    return list(dict.fromkeys(name for _, _, name in ranked))


def rank(name: str, title: str, score: int, query: str) -> float:
    """The score that scorer.js makes of the one of searchtools.js."""
    named = score + IN_TITLE * sum(
        one in title.lower() for one in re.findall(r"\w{3,}", query.lower())
    )
    return named / 4 if LATER.search(name) else float(named)


def by_file(index: dict[str, Any], word: str) -> dict[int, int]:
    """What a word scores on each page: the last kind of match counts, as in searchtools.js."""
    scores = {}
    kinds = ((index["terms"], TERM, PARTIAL_TERM), (index["titleterms"], TITLE, PARTIAL_TITLE))
    matches = [(words[word], score) for words, score, _ in kinds if word in words]
    for words, _, partial in kinds:
        if word not in words and len(word) > 2:
            matches += [(files, partial) for term, files in words.items() if word in term]
    for files, score in matches:
        for file in files if isinstance(files, list) else [files]:
            scores[file] = score
    return scores


if __name__ == "__main__":
    main(Path(sys.argv[1]))
