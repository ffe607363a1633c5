"""What files cost: a PDF until it is found, the chunker, a search among many passages, a page that changed.

    python -m benchmarks.documents [--pages 1000] [--only-pdf] [--passages 100000] [--repeats 30]

Seconds are of CPU, of all threads. Beside the chunker, where they are installed: langchain-text-splitters
with and without `add_start_index`, which tells where its pieces stand as ours do, and semchunk with and
without offsets and overlap. Beside the search: that of as many records, with the same filter.
"""

import argparse
import gc
import random
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from lance_context_core import ContextStore, DocumentScope
from lance_context_core.documents import ReadDocument, TextChunker

_DRAW = random.Random(1)
_WORDS = ["".join(_DRAW.choices("abcdefghijklmnop", k=_DRAW.randint(2, 9))) for _ in range(3_000)]
_LINES, _LINE = 40, 11
_DIMENSION = 64
_QUESTIONS = 3
_SCOPES, _PER_DOCUMENT = 10, 500


class Hashed:
    """Vectors that cost nothing and mean nothing."""

    model, dimension = "hashed", _DIMENSION

    def __init__(self) -> None:
        """Nothing was embedded yet."""
        self.n_texts = 0

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """A row a text."""
        self.n_texts += len(texts)
        return np.array([self.embed_query(text) for text in texts], dtype=np.float32)

    def embed_query(self, text: str) -> np.ndarray:
        """The same for the same text."""
        return np.random.default_rng(zlib.crc32(text.encode())).random(_DIMENSION, np.float32)


def cpu(work: Callable[[], Any]) -> float:
    """The CPU that it takes, in seconds."""
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def sentence(draw: random.Random) -> str:
    """Some words and a full stop."""
    return " ".join(draw.choices(_WORDS, k=draw.randint(5, 20))).capitalize() + ". "


def paragraphs(n: int, seed: int = 1) -> str:
    """A text of so many paragraphs."""
    draw = random.Random(seed)
    made = ("".join(sentence(draw) for _ in range(draw.randint(2, 9))).strip() for _ in range(n))
    return "\n\n".join(made)


def pdf(n_pages: int, *, changed: int | None = None) -> bytes:
    """A PDF of so many pages of text; `changed` is a page that says something else."""
    draw = random.Random(2)
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(n_pages))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {n_pages} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number in range(n_pages):
        lines = [" ".join(draw.choices(_WORDS, k=_LINE)) for _ in range(_LINES)]
        if number == changed:
            lines = [f"another line {n}" for n in range(_LINES)]
        drawn = (
            "BT /F1 10 Tf 14 TL 50 800 Td " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
        )
        packed = zlib.compress(drawn.encode())
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(
            f"<< /Length {len(packed)} /Filter /FlateDecode >>\nstream\n".encode()
            + packed
            + b"\nendstream"
        )
    written, places = bytearray(b"%PDF-1.7\n"), []
    for number, one in enumerate(objects, 1):
        places.append(len(written))
        written += f"{number} 0 obj\n".encode() + one + b"\nendobj\n"
    start = len(written)
    written += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    written += b"".join(f"{place:010} 00000 n \n".encode() for place in places)
    written += (
        f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF".encode()
    )
    return bytes(written)


def of_pdf(file: Path) -> None:
    """Add one; print its CPU, and by how much the memory of the process had grown at most."""
    with (
        tempfile.TemporaryDirectory() as place,
        ContextStore.open(place, maintenance=None) as store,
    ):
        store.documents.add(pdf(3), name="first.pdf")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        added = store.documents.add(file)
        seconds = time.process_time() - start
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert store.documents.search(_WORDS[0], mode="text", limit=1)
    n_pages = added.n_pages or 0
    print(
        f"PDF of {n_pages:,} pages ({added.size / 1e6:.1f} MB): {seconds:.1f} s, "
        f"{n_pages / seconds:.0f} pages a second; memory grew by {grown / 1024:.0f} MB"
    )


def of_chunkers() -> None:
    """MB of text a second, of paragraphs and of one very long one."""
    texts = {"paragraphs": paragraphs(12_000)}
    texts["one paragraph"] = texts["paragraphs"].replace("\n\n", " ")
    for name, text in texts.items():
        for who, split in _chunkers().items():
            best = min(cpu(partial(split, text)) for _ in range(3))
            print(f"{name}, {who}: {len(text) / 1e6 / best:.1f} MB a second")


def _chunkers() -> dict[str, Callable[[str], Any]]:
    ours = TextChunker()
    ways: dict[str, Callable[[str], Any]] = {
        "TextChunker": lambda text: ours.split(ReadDocument(text=text))
    }
    try:
        import langchain_text_splitters
        import semchunk
    except ImportError:
        print("langchain-text-splitters and semchunk are not installed: skipping the comparison")
        return ways
    for where in (True, False):
        splitter = langchain_text_splitters.RecursiveCharacterTextSplitter(
            chunk_size=1500, chunk_overlap=200, add_start_index=where
        )
        told = "with add_start_index" if where else "without"
        ways[f"langchain-text-splitters {told}"] = partial(_documents, splitter)
    chunker = semchunk.chunkerify(len, 1500)
    ways["semchunk with offsets and overlap"] = lambda text: chunker(
        text, offsets=True, overlap=200
    )
    ways["semchunk without"] = chunker
    return ways


def _documents(splitter: Any, text: str) -> Any:
    return splitter.create_documents([text])


def of_search(n_passages: int, repeats: int) -> None:
    """The CPU of a search in one scope and type of many, and of one among as many records."""
    draw = random.Random(3)
    with (
        tempfile.TemporaryDirectory() as place,
        ContextStore.open(place, embedder=Hashed(), maintenance=None, search_cache=None) as store,
    ):
        for number in range(n_passages // _PER_DOCUMENT):
            lines = [" ".join(draw.choices(_WORDS, k=20)) for _ in range(_PER_DOCUMENT)]
            scope = f"p{number % _SCOPES}"
            type = "markdown" if number % 2 else "text"
            store.documents.add(
                "\n\n".join(lines).encode(),
                name="a",
                type=type,
                scope=DocumentScope(project_id=scope),
                chunker=TextChunker(target=160, most=400, least=0, overlap=0),
                keep="hash",
            )
            store.context().add_many(
                {
                    "role": "user",
                    "content": line,
                    "session_id": scope,
                    "content_type": f"text/{type}",
                }
                for line in lines
            )
        store.maintain()
        asked = [" ".join(draw.choices(_WORDS, k=4)) for _ in range(repeats)]
        project = DocumentScope(project_id="p1")

        def ours(one: str) -> list[Any]:
            return list(store.documents.search(one, scope=project, type="markdown"))

        filter = {"session_id": "p1", "content_type": "text/markdown"}

        def theirs(one: str) -> list[Any]:
            return list(store.search(one, filter=filter))

        for ask in (ours, theirs):
            for one in asked[:_QUESTIONS]:
                assert ask(one)
        took = {
            name: median(cpu(partial(ask, one)) for one in asked) * 1e3
            for name, ask in (("documents", ours), ("records", theirs))
        }
        n = sum(one.n_chunks for one in store.documents.list())
    print(
        f"search in {n:,} passages by scope and type: {took['documents']:.1f} ms; in as many records with "
        f"the same filter: {took['records']:.1f} ms; {took['documents'] / took['records']:.2f} x"
    )


def of_update(n_pages: int) -> None:
    """Cost of indexing a document again after one page changed."""
    embedder = Hashed()
    with (
        tempfile.TemporaryDirectory() as place,
        ContextStore.open(place, embedder=embedder, maintenance=None) as store,
    ):
        content, other = pdf(n_pages), pdf(n_pages, changed=n_pages // 2)
        added = store.documents.add(content, name="a.pdf", keep="hash")
        n_whole, embedder.n_texts = embedder.n_texts, 0
        store.documents.update(added.id, other, keep="hash")
    print(
        f"of {n_pages} pages one changed: {embedder.n_texts} of {n_whole} passages embedded again"
    )


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, default=1_000)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--only-pdf", action="store_true")
    parser.add_argument("--pdf", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.pdf:
        of_pdf(given.pdf)
        return 0
    for n_pages in (given.pages // 10, given.pages, *(n * given.pages for n in (2, 4, 8, 16))):
        with tempfile.NamedTemporaryFile(suffix=".pdf") as file:
            file.write(pdf(n_pages))
            file.flush()
            # Each in a process of its own: what another one needed is in its memory.
            command = [sys.executable, "-m", "benchmarks.documents", "--pdf", file.name]
            subprocess.run(command, check=True, cwd=Path(__file__).parents[1])
    if given.only_pdf:
        return 0
    of_chunkers()
    of_update(given.pages // 5)
    of_search(given.passages, given.repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
