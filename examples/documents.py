"""A folder of files of several kinds, asked with citations.

    python examples/documents.py [FOLDER] [--store DIR] [--ask QUESTION] [--drawing FILE.svg]

It reads what is in the folder, whatever of it can be read, and answers questions with the passage, its
page and the headings above it. Without a folder it takes the ten files of a house that come with it: a
picture among them is found beside what was said, whom they name is related and drawn, two that
contradict each other are told and settled, one is replaced, and one is erased from every file of the
store. Run it again on the same store: what is there already is not read again.

    pip install "lance-context-core[local,documents]"
"""

import argparse
import re
import tempfile
from itertools import combinations
from pathlib import Path

from lance_context_core import ContextStore, Documents, DocumentScope, Message
from lance_context_core.graph import (
    Contradiction,
    Extracted,
    FoundEntity,
    FoundRelation,
    FoundStatement,
    RuleEntityExtractor,
    SourceText,
    draw,
)
from lance_context_core.results import DocumentProgress

HOUSE = Path(__file__).parent / "data" / "house"
PROJECT = DocumentScope(project_id="house")
PICTURE, SHOWS = "facade.svg", "The facade of the house: the gutter over the door is bent"
QUESTIONS = (
    "How much notice does it take to end the lease?",
    "When may flat 6 use the laundry room?",
    "Who replaced the valve of the boiler?",
    "What does the new gutter cost?",
    "What does a third key cost?",
    "When does the chimney sweep come?",
    "Who wants a second stand for bicycles?",
)
BEGINS = re.compile(r"\bthe (?P<work>\w+ works?) begins? in (?P<month>[A-Z]\w+)", re.IGNORECASE)


def main() -> None:
    """Read the folder, ask, replace and erase."""
    parser = argparse.ArgumentParser(description="Ask a folder of files.")
    parser.add_argument("folder", nargs="?", type=Path, default=HOUSE)
    parser.add_argument("--store", help="where it is kept; else it is gone at the end")
    parser.add_argument("--ask", help="a question of your own")
    parser.add_argument("--drawing", type=Path, help="where the graph is drawn, as SVG")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        ContextStore.open(given.store or directory, embedder="local") as store,
    ):
        read(store.documents, given.folder)
        for question in [given.ask] if given.ask else QUESTIONS:
            answer(store.documents, question)
        if given.folder == HOUSE and not given.ask:
            look(store)
            relate(store, given.drawing)
            contradict(store)
            replace(store.documents)
            erase(store.documents)


def read(documents: Documents, folder: Path) -> None:
    """Add every file below the folder."""
    files = sorted(one for one in folder.rglob("*") if one.is_file() and one.name != PICTURE)
    done = documents.add_many(files, scope=PROJECT, progress=tell)
    n_chunks = sum(one.n_chunks for one in done.documents)
    print(f"{len(done.documents)} documents, {n_chunks} passages, {len(done.failed)} refused\n")


def tell(now: DocumentProgress) -> None:
    """Show what became of one file."""
    name = Path(now.name).name
    if now.document is None:
        print(f"  {now.n_done}/{now.n_files} {name}: {now.error}")
        return
    pages = f", {now.document.n_pages} pages" if now.document.n_pages else ""
    print(f"  {now.n_done}/{now.n_files} {name}: {now.document.title or 'no title'}{pages}")


def answer(documents: Documents, question: str) -> None:
    """Show the best passage, and what to cite."""
    print(f"? {question}")
    for hit in documents.search(question, scope=PROJECT, limit=1):
        print(f"  {quoted(hit.record.text, question)}\n  [{hit.record.citation}]\n")


def quoted(passage: str, question: str) -> str:
    """The lines of a passage with most of the question's words, from the best one on."""
    asked = set(re.findall(r"\w{3,}", question.lower()))
    lines = re.split(r"\n+|(?<=[.!?])\s+", passage)
    best = max(lines, key=lambda line: len(asked & set(re.findall(r"\w{3,}", line.lower()))))
    return " ".join(" ".join(lines[lines.index(best) :]).split())[:160]


def look(store: ContextStore) -> None:
    """A picture is found by its caption among messages; its file can be opened."""
    said = Message.user("The caretaker looks at the door on Monday.", id="monday")
    store.history.append("caretaker", said, session_id="house")
    store.images.add(HOUSE / PICTURE, caption=SHOWS, session_id="house")
    print("? What is wrong with the gutter?")
    best = store.search("What is wrong with the gutter?", limit=1)[0].record
    content = store.blobs.get(best.payload_uri or "")
    print(f"  {best.text}\n  [{best.kind}, {best.content_type}, {len(content)} bytes]\n")


class Papers:
    """Finds names by how they are written, who is named with whom, and when works begin."""

    name = "papers-1"

    def extract(self, source: SourceText) -> Extracted:
        """The entities and relations of one passage."""
        found = RuleEntityExtractor().extract(source).entities
        names = [
            one for one in found if one.type == "name" and " " in one.name and one.name.istitle()
        ]
        works = list(BEGINS.finditer(source.text))
        spans = [(one["work"], one.start("work"), one.end("work")) for one in works]
        named = dict.fromkeys(one.name for one in names)
        return Extracted(
            entities=[
                *names,
                *(FoundEntity(name=work, type="work", start=at, end=to) for work, at, to in spans),
            ],
            relations=[
                FoundRelation(source=one, target=other, type="named_with")
                for one, other in combinations([*sorted(named), *(work for work, _, _ in spans)], 2)
            ],
            statements=[
                FoundStatement(subject=one["work"], predicate="begins", object=one["month"])
                for one in works
            ],
        )


def relate(store: ContextStore, drawing: Path | None) -> None:
    """The people and things in the papers, their relations, and citations of both."""
    for document in store.documents.list(scope=PROJECT):
        store.graph.extract(document_id=document.id, extractor=Papers())
    cited = citations(store.documents)
    print("? Where is Nils Lindqvist mentioned?")
    (nils,) = store.graph.find("Nils Lindqvist")
    for source in dict.fromkeys(one.source_id for one in store.graph.mentions(nils.id)):
        print(f"  [{cited[source]}]")
    near = store.graph.neighbours(nils.id or "")
    print(f"  named with: {', '.join(sorted(one.name for one in near.entities[1:]))}\n")
    if drawing is not None:
        drawing.write_text(draw(store.graph.subgraph()), encoding="utf-8")
        print(f"The graph is drawn in {drawing.name}.\n")


def contradict(store: ContextStore) -> None:
    """Two papers do not agree: both are kept, and the mail, which came later, holds."""
    cited = citations(store.documents)
    show(store.graph.statements.contradictions(), cited)

    def the_mail(both: Contradiction) -> str | None:
        mails = (
            one for one in (both.earlier, both.later) if "mail.txt" in cited[one.source_ids[0]]
        )
        return next((one.id for one in mails), None)

    store.graph.statements.resolve(the_mail, reason="the mail came after the meeting")
    show(store.graph.statements.contradictions(), cited)


def show(contradictions: list[Contradiction], cited: dict[str, str]) -> None:
    """Contradictions, their sources, and the valid side."""
    for both in contradictions:
        sides = sorted((both.earlier, both.later), key=lambda one: one.object)
        told = " or ".join(f"{one.object} [{cited[one.source_ids[0]]}]" for one in sides)
        holds = next((one.object for one in sides if one.id == both.stays), "open")
        print(f"! {both.subject.name} {both.predicate}: {told}?\n  {holds}, since {both.reason}\n")


def citations(documents: Documents) -> dict[str, str]:
    """The citation of each passage, by its id."""
    return {
        chunk.id: chunk.citation
        for document in documents.list(scope=PROJECT)
        for chunk in documents.chunks(document.id)
    }


def replace(documents: Documents) -> None:
    """The office raises the price of a key: the handbook gets a new content."""
    (handbook,) = documents.list(scope=PROJECT, filter={"name": "handbook.md"})
    text = documents.text(handbook.id).replace("25 euros", "30 euros")
    documents.update(handbook.id, text.encode(), name=handbook.name)
    print("The handbook was replaced:")
    answer(documents, "What does a third key cost?")


def erase(documents: Documents) -> None:
    """The tenants of flat 5 move out, and nothing of their lease shall stay."""
    (lease,) = documents.list(scope=PROJECT, filter={"name": "lease.pdf"})
    erased = documents.erase(lease.id, sole_writer=True)
    print(
        f"The lease was erased: {erased.documents} document with its {erased.blobs} file, "
        "from every file of the store."
    )
    found = documents.search("deposit and notice", scope=PROJECT, mode="text", limit=20)
    print(f"  passages of it that are found: {sum(one.record.name == lease.name for one in found)}")


if __name__ == "__main__":
    main()
