"""A research assistant over a folder of PDFs and other files: each answer cites a passage and is checked.

    python examples/research_assistant.py [FOLDER] [--ask QUESTION]

Without a folder it reads the ten files of a house in examples/data. The answers come from a function
in the place of a language model, so that it runs without a key; one of them cites what no file says.

    pip install "lance-context-core[local,documents]"
"""

import argparse
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lance_context_core import ContextStore

HOUSE = Path(__file__).parent / "data" / "house"
QUESTIONS = (
    "How much notice does it take to end the lease?",
    "What does the new gutter cost?",
    "Does the house have a sauna?",
)


@dataclass(frozen=True)
class Claim:
    """A sentence of an answer, with the number of a passage and the words of it that prove it."""

    text: str
    passage: int
    quote: str


def scripted(question: str, passages: dict[int, str]) -> list[Claim]:
    """The claims that a language model would make of these passages."""
    if "sauna" in question:
        return [Claim("There is a sauna in the cellar.", 1, "the sauna in the cellar")]
    asked = set(re.findall(r"\w{5,}", question.lower()))
    sentences = [
        (number, sentence)
        for number, text in passages.items()
        for sentence in re.split(r"(?<=[.!?])\s+|\n+", text)
    ]
    number, best = max(
        sentences, key=lambda one: len(asked & set(re.findall(r"\w{5,}", one[1].lower())))
    )
    return [Claim(f"The file says: {best.strip()}", number, best)]


def answer(store: ContextStore, question: str) -> list[str]:
    """The claims with quotes in the passages that they cite, each with its citation."""
    hits = store.documents.search(question, limit=4)
    passages = {number: hit.record.text for number, hit in enumerate(hits, start=1)}
    lines = []
    for claim in scripted(question, passages):
        if squeezed(claim.quote) in squeezed(passages.get(claim.passage, "")):
            lines.append(f"{claim.text} [{hits[claim.passage - 1].record.citation}]")
        else:
            lines.append(f"Left out, since no passage says so: {claim.text}")
    return lines


def squeezed(text: str) -> str:
    """The text with single spaces, as quotes are compared."""
    return " ".join(text.split())


def main() -> None:
    """Sync the folder, which reads changed files only, and answer."""
    parser = argparse.ArgumentParser(description="Answer questions from a folder of files.")
    parser.add_argument("folder", nargs="?", type=Path, default=HOUSE)
    parser.add_argument("--store", help="the directory of the store; by default a temporary one")
    parser.add_argument("--ask", help="a question of your own")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        ContextStore.open(given.store or directory, embedder="local") as store,
    ):
        done = store.documents.sync(given.folder, ignore=["*.svg"])
        print(f"{len(done.added)} files read, {len(done.failed)} refused")
        for failed in done.failed:
            print(f"  {failed.error}")
        for question in [given.ask] if given.ask else QUESTIONS:
            print(f"\n? {question}")
            for line in answer(store, question):
                print(f"  {line}")


if __name__ == "__main__":
    main()
