"""Files that are read part by part: what comes of them is what comes of the whole, and a part is in memory."""

import io
import itertools
import tracemalloc
from dataclasses import replace

import pypdf
import pytest
from core.documents.files import pdf, with_objects
from hypothesis import given
from hypothesis import strategies as st
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject

from lance_context_core import ContextStore, DocumentScope, InvalidRequestError
from lance_context_core.documents import (
    Block,
    BlockChunker,
    Passage,
    PdfReader,
    PieceChunker,
    ReadDocument,
    TextChunker,
    loading,
)
from lance_context_core.documents.readers.pdf import Pages
from lance_context_core.documents.readers.pdfium import PdfiumDocument
from lance_context_core.errors import UnreadableDocumentError

PIECES = ["One. ", "Dr", ". No went! ", ".)", '." ', "e.g", ". ", "日本語です。", "word ", "x" * 20]
PIECES += ["\n\n", "\n", " ", "\n \n", "e\u0301", "👍🏽", "|a|b|\n"]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@st.composite
def parts(draw):
    """Parts of a document, whose blocks may touch each other and be on one page or on several."""
    page, made = draw(st.sampled_from([None, 1])), []
    for _ in range(draw(st.integers(1, 6))):
        text, blocks = draw(st.sampled_from(["", "\n\n"])), []
        for _ in range(draw(st.integers(0, 3))):
            said = draw(texts)
            if draw(st.booleans()):
                page = draw(st.sampled_from([None, 1, 2, 3]))
            kind = draw(st.sampled_from(["text", "text", "heading", "whole"]))
            section = draw(st.sampled_from([None, "A", "A > B"]))
            end = len(text) + len(said)
            blocks.append(Block(start=len(text), end=end, kind=kind, page=page, section=section))
            text = text + said + draw(st.sampled_from(["", "\n\n"]))
        made.append(ReadDocument(text=text, blocks=tuple(blocks)))
    return made


@st.composite
def chunkers(draw):
    overlap = draw(st.integers(0, 20))
    target = draw(st.integers(overlap + 1, 60))
    cut = TextChunker(
        target=target,
        most=target + draw(st.integers(0, 30)),
        least=draw(st.integers(0, target)),
        overlap=overlap,
        measure=draw(st.sampled_from([len, lambda text: len(text.encode())])),
    )
    return draw(st.sampled_from([cut, cut, BlockChunker(), PieceChunker(str.splitlines)]))


def whole(parts):
    """The parts as one document, put together by hand."""
    starts = itertools.accumulate((len(one.text) for one in parts), initial=0)
    blocks = [
        replace(block, start=at + block.start, end=at + block.end)
        for at, part in zip(starts, parts, strict=False)
        for block in part.blocks
    ]
    return ReadDocument(text="".join(one.text for one in parts), blocks=tuple(blocks))


@given(parts=parts(), chunker=chunkers())
def test_parts_are_cut_as_the_whole_of_them_is(parts, chunker):
    document = whole(parts)
    if document.blocks:
        assert list(chunker.split_parts(iter(parts))) == chunker.split(document)


def test_a_word_that_goes_on_from_one_page_to_the_next_is_known_as_one():
    parts = [
        ReadDocument(text="app", blocks=(Block(start=0, end=3, page=1),)),
        ReadDocument(text="rox. abcdefgh ij kl. mn", blocks=(Block(start=0, end=23, page=2),)),
    ]
    chunker = TextChunker(target=13, most=13, least=0, overlap=0)
    places = [(one.start, one.end) for one in chunker.split_parts(parts)]
    assert places == [(0, 3), (3, 16), (17, 26)]  # its full stop ends no sentence
    assert chunker.split(whole(parts)) == list(chunker.split_parts(parts))


# A reader of one's own


class Lines:
    """Reads pages that are parted by form feeds, and remembers how many."""

    def __init__(self):
        self.n_read = 0

    def read(self, content, *, name):
        raise AssertionError("all of it was asked for")

    def read_parts(self, file, *, name):
        for number, line in enumerate(file, 1):
            self.n_read = number
            text = line.decode().rstrip("\n")
            block = Block(start=0, end=len(text), page=number)
            yield ReadDocument(
                text=f"{text}\n\n",
                blocks=(block,),
                title="The pages" if number == 1 else None,
                properties={"last": number, text[:3]: 1},
            )
        yield ReadDocument(text="", n_pages=number)


class Whole:
    """Needs all of a text to cut it."""

    def split(self, document):
        return [Passage(start=one.start, end=one.end, page=one.page) for one in document.blocks]


@pytest.mark.parametrize("chunker", [None, Whole()], ids=["by page", "of the whole"])
def test_a_reader_may_give_a_file_part_by_part(tmp_path, chunker):
    lines = [b"one is tea", b"two is milk", b"three is sugar"]
    (tmp_path / "a.pages").write_bytes(b"\n".join(lines))
    with ContextStore.open(tmp_path / "s") as store:
        added = store.documents.add(tmp_path / "a.pages", reader=Lines(), chunker=chunker)
        assert (added.title, added.n_pages, added.type) == ("The pages", 3, "pages")
        assert added.properties == {"last": 3, "one": 1, "two": 1, "thr": 1}
        text = "".join(f"{line.decode()}\n\n" for line in lines)
        assert store.documents.text(added.id) == text
        chunks = store.documents.chunks(added.id)
        assert [(one.text.encode(), one.page) for one in chunks] == list(
            zip(lines, (1, 2, 3), strict=True)
        )
        assert all(text[one.start : one.end] == one.text for one in chunks)
        assert store.documents.content(added.id) == b"\n".join(lines)


@pytest.mark.parametrize("broken", ["blank", "nothing", "surrogates"])
def test_what_is_wrong_with_a_part_is_told_before_anything_is_written(tmp_path, broken):
    made = {
        "blank": [ReadDocument(text="\n\n"), ReadDocument(text="")],
        "nothing": [ReadDocument(text="tea"), None],
        "surrogates": [ReadDocument(text="tea"), ReadDocument(text="\ud800")],
    }[broken]

    class Broken(Lines):
        def read_parts(self, file, *, name):
            yield from made

    with ContextStore.open(tmp_path / "s") as store:
        with pytest.raises(InvalidRequestError, match=r"'a\.txt'"):
            store.documents.add(b"x", name="a.txt", reader=Broken())
        assert (store.documents.list(), store.blobs.list()) == ([], [])


def test_of_a_long_file_memory_holds_a_part(tmp_path):
    n, size = 400, 100_000
    with (tmp_path / "a.pages").open("w") as file:
        file.writelines(f"{number} {'tea. ' * (size // 5)}\n" for number in range(n))
    tracemalloc.start()
    try:
        loaded = loading.load(tmp_path / "a.pages", name=None, uri=None, max_bytes=1 << 30)
        arguments = loading.check_arguments({"reader": Lines(), "chunker": BlockChunker()})
        made = loading.read(loaded, arguments, scope=DocumentScope(), metadata={})
        assert len(made.text) > n * size
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n * size / 2


# PDF


def with_tree(depth, n_kids, texts):
    """A PDF whose pages hang in a tree; the font at its root, which is theirs, has a z for an a."""
    read = pypdf.PdfReader(io.BytesIO(pdf(*texts)))
    writer = pypdf.PdfWriter(clone_from=read)
    root = writer.root_object["/Pages"]
    root[NameObject("/Resources")] = resources = writer.pages[0]["/Resources"]
    differences = ArrayObject([NumberObject(ord("a")), NameObject("/z")])
    encoding = {NameObject("/Type"): NameObject("/Encoding")}
    encoding[NameObject("/Differences")] = differences
    resources["/Font"]["/F1"][NameObject("/Encoding")] = DictionaryObject(encoding)
    kids = list(root["/Kids"])
    for kid in kids:
        del kid.get_object()["/Resources"], kid.get_object()["/Parent"]
    for _ in range(depth):
        groups = []
        for start in range(0, len(kids), n_kids):
            group = kids[start : start + n_kids]
            node = DictionaryObject(
                {
                    NameObject("/Type"): NameObject("/Pages"),
                    NameObject("/Count"): NumberObject(len(group)),
                    NameObject("/Kids"): ArrayObject(group),
                }
            )
            groups.append(writer._add_object(node))
        kids = groups
    root[NameObject("/Kids")] = ArrayObject(kids)
    writer.flattened_pages = None
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


@pytest.mark.parametrize(("depth", "n_kids"), [(0, 1), (1, 3), (3, 2), (2, 700)])
def test_the_pages_of_a_pdf_are_those_that_pypdf_finds_in_its_tree(depth, n_kids):
    content = with_tree(depth, n_kids, [f"page {number} is a leaf" for number in range(7)])
    texts = [f"pzge {number} is z lezf" for number in range(7)]
    theirs = [one.extract_text().strip() for one in pypdf.PdfReader(io.BytesIO(content)).pages]
    assert theirs == texts
    read = PdfReader().read(content, name="a.pdf")
    assert (read.text, read.n_pages) == ("\n\n".join(texts), 7)
    assert [one.page for one in read.blocks] == [1, 2, 3, 4, 5, 6, 7]


ROOT = b"<< /Type /Catalog /Pages 2 0 R >>"
TREES = {
    "a circle": [ROOT, b"<< /Type /Pages /Kids [3 0 R] >>", b"<< /Type /Pages /Kids [2 0 R] >>"],
    "itself": [ROOT, b"<< /Type /Pages /Kids [2 0 R] >>"],
    "each twice": [
        ROOT,
        *(b"<< /Type /Pages /Kids [%d 0 R %d 0 R] >>" % (n, n) for n in range(3, 60)),
        b"<< /Type /Pages /Kids [] >>",
    ],
    "very deep": [
        ROOT,
        *(b"<< /Type /Pages /Kids [%d 0 R] >>" % n for n in range(3, 400)),
        b"<< /Type /Page >>",
    ],
    "no tree": [b"<< /Type /Catalog >>"],
    "not even that": [ROOT, b"(a text)"],
}


@pytest.mark.parametrize("tree", TREES.values(), ids=list(TREES))
def test_a_pdf_whose_pages_are_no_tree_is_refused(tree):
    with pytest.raises(UnreadableDocumentError, match=r"'a\.pdf'"):
        PdfReader().read(with_objects(*tree), name="a.pdf")


def test_of_a_pdf_no_more_is_kept_than_what_some_pages_are_made_of():
    reader = pypdf.PdfReader(io.BytesIO(pdf(*(f"page {number}" for number in range(600)))))
    n_kept = [len(reader.resolved_objects) for _ in Pages(reader, most_entries=9_000)]
    assert len(n_kept) == 600
    assert max(n_kept) < 550  # of 600 pages, and as many contents
    assert reader.flattened_pages is None  # pypdf's own list of all pages


def test_a_pdf_of_too_many_pages_is_refused_before_one_of_them_is_read(monkeypatch):
    monkeypatch.setattr(PdfiumDocument, "opened", lambda *_: pytest.fail("read"))
    content = pdf("one", "two", "three")
    with pytest.raises(UnreadableDocumentError, match="3 pages or more, over max_pages=2"):
        PdfReader(max_pages=2).read(content, name="a.pdf")
