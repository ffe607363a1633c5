"""A folder of files of several kinds, asked with citations.

    python examples/folder_of_documents.py [FOLDER] [--store DIR] [--ask QUESTION]

It reads what is in the folder, whatever of it can be read, and answers questions with the passage, its
page and the headings above it. Without a folder it takes the files of a house that come with it: a
picture among them is found beside what was said, one file is replaced, and one is erased from every file
of the store. Run it again on the same store: what is there already is not read again.

    pip install "lance-context-core[local,documents]"
"""

import argparse
import tempfile
from pathlib import Path

from lance_context_core import ContextStore, Documents, DocumentScope, Message
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
)


def main() -> None:
    """Read the folder, ask, replace and erase."""
    parser = argparse.ArgumentParser(description="Ask a folder of files.")
    parser.add_argument("folder", nargs="?", type=Path, default=HOUSE)
    parser.add_argument("--store", help="where it is kept; else it is gone at the end")
    parser.add_argument("--ask", help="a question of your own")
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
        print(f"  {' '.join(hit.record.text.split())[:160]}\n  [{hit.record.citation}]\n")


def look(store: ContextStore) -> None:
    """A picture is found by what it shows, beside what somebody said; its file can be opened."""
    said = Message.user("The caretaker looks at the door on Monday.", id="monday")
    store.history.append("caretaker", said, session_id="house")
    store.images.add(HOUSE / PICTURE, caption=SHOWS, session_id="house")
    print("? What is wrong with the gutter?")
    best = store.search("What is wrong with the gutter?", limit=1)[0].record
    content = store.blobs.get(best.payload_uri or "")
    print(f"  {best.text}\n  [{best.kind}, {best.content_type}, {len(content)} bytes]\n")


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
