"""A folder of files that were made to break whoever reads them: one clear error each, and the others go in."""

import io
import os
import resource
import zipfile
import zlib

import pytest
from core.documents.files import archive, pdf, with_objects, with_part, word
from pypdf import PdfReader, PdfWriter
from pypdf.generic import DictionaryObject, NameObject, TextStringObject

from lance_context_core import ContextStore
from lance_context_core.errors import UnreadableDocumentError


def with_script():
    """A PDF that runs a program when it is opened, and says something, too."""
    writer = PdfWriter()
    writer.append(PdfReader(io.BytesIO(pdf("A page that says tea"))))
    script = {NameObject("/S"): NameObject("/JavaScript"), NameObject("/JS"): TextStringObject("1")}
    writer.root_object[NameObject("/OpenAction")] = DictionaryObject(script)
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


ROOT = b"<< /Type /Catalog /Pages 2 0 R >>"
ONE_PAGE = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"


def page(contents):
    """A PDF of one page with these contents."""
    one = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>"
    return with_objects(ROOT, ONE_PAGE, one, contents)


def bomb():
    """A hundred megabytes of nothing in a hundred kilobytes of a page."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(100)) + packer.flush()
    head = b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(packed)
    return page(head + packed + b"\nendstream")


def zip_bomb():
    """A Word document whose text unpacks to more than it may."""
    made = word(lambda document: document.add_paragraph("x"))
    return with_part_of(made, bytes(1 << 20), 480)


def with_part_of(content, piece, n):
    made = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        for one in old.namelist():
            new.writestr(one, old.read(one))
        with new.open("word/media/image1.png", "w") as part:
            for _ in range(n):
                part.write(piece)
    return made.getvalue()


def stream(head, content):
    return b"<< %s /Length %d >>\nstream\n" % (head, len(content)) + content + b"\nendstream"


def packed_often():
    """A page that was packed forty times, each time to a little."""
    content = b"BT (x) Tj ET"
    for _ in range(40):
        content = zlib.compress(content)
    return page(stream(b"/Filter [%s]" % (b"/FlateDecode " * 40), content))


def in_itself():
    """A form that draws itself twice."""
    draws = b"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /A 5 0 R >> >> "
    form = draws + b"/Length 11 >>\nstream\n/A Do /A Do\nendstream"
    one = (
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /XObject << /A 5 0 R >> >> >>"
    )
    return with_objects(ROOT, ONE_PAGE, one, stream(b"", b"/A Do"), form)


def twice_each():
    """Sixty nodes, in which the same pages would be found a billion billion times."""
    nodes = (b"<< /Type /Pages /Kids [%d 0 R %d 0 R] >>" % (n, n) for n in range(3, 60))
    return with_objects(ROOT, *nodes, b"<< /Type /Pages /Kids [] >>")


def before_itself():
    """A table of objects whose older part it is itself."""
    made = pdf("A table that is its own says rum")
    start = int(made.rpartition(b"startxref")[2].split()[0])
    return made.replace(b"trailer\n<<", b"trailer\n<<\n/Prev %d" % start)


def with_outline_loop():
    """A PDF whose outline never ends, and which says something."""
    made = PdfWriter()
    made.append(PdfReader(io.BytesIO(pdf("An outline that never ends says wine"))))
    first = made.add_outline_item(title="again", page_number=0)
    first.get_object()[NameObject("/Next")] = first
    written = io.BytesIO()
    made.write(written)
    return written.getvalue()


def with_names_above():
    """A Word document with parts that are to be written elsewhere."""
    made = io.BytesIO(word(lambda document: document.add_paragraph("What climbs says water")))
    with zipfile.ZipFile(made, "a") as packed:
        packed.writestr("../../../tmp/climbed.txt", "x")
    return made.getvalue()


def with_many_rows():
    """A Word document whose table says that a cell is a million wide."""
    made = word(
        lambda document: document.add_table(1, 1).cell(0, 0).add_paragraph("A wide cell says beer")
    )
    with zipfile.ZipFile(io.BytesIO(made)) as packed:
        part = packed.read("word/document.xml")
    wide = part.replace(b"<w:tcPr>", b'<w:tcPr><w:gridSpan w:val="1000000"/>')
    return with_part(made, "word/document.xml", wide)


OUTSIDE = (
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY m SYSTEM "file:///etc/hostname">]>'
    b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
    b"<w:body><w:p><w:r><w:t>&m;</w:t></w:r></w:p></w:body></w:document>"
)
LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(12))
    + b"]><x>&m;</x>"
)

REFUSED = {
    "a bomb.pdf": bomb,
    "a loop of contents.pdf": lambda: page(b"4 0 R"),
    "brackets.pdf": lambda: page(b"[" * 100_000),
    "no pages.pdf": lambda: with_objects(b"<< /Type /Catalog /Pages 1 0 R /Kids [1 0 R] >>"),
    "encrypted.pdf": lambda: pdf("secret", password="x"),
    "cut short.pdf": lambda: pdf("text " * 100)[:300],
    "a bomb.docx": zip_bomb,
    "laughs.docx": lambda: with_part(word(lambda _: None), "word/document.xml", LAUGHS),
    "no document.docx": lambda: archive(word__styles_xml=b"<x/>"),
    "empty.txt": lambda: b"",
    "a program.md": lambda: b"\x7fELF" + bytes(4096),
    "outside.docx": lambda: with_part(word(lambda _: None), "word/document.xml", OUTSIDE),
    "packed often.pdf": packed_often,
    "in itself.pdf": in_itself,
    "each page twice.pdf": twice_each,
    "a circle of pages.pdf": lambda: with_objects(ROOT, b"<< /Type /Pages /Kids [2 0 R] >>"),
    "numbers.pdf": lambda: page(stream(b"", b"BT " + b"9" * 4_000_000 + b" Tf ET")),
    "packed.txt": lambda: b"\x1f\x8b\x08" + bytes(100),
    "a picture.md": lambda: b"\x89PNG\r\n\x1a\n" + bytes(100),
    "an old one.docx": lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
    "controls.txt": lambda: bytes(range(1, 32)) * 100,
}

READ = {
    "half a letter.txt": lambda: b"\xff\xfea\x00b",
    "a line.csv": lambda: b"a,b\n" + b"x" * 300_000 + b",lemon\n",
    "before itself.pdf": before_itself,
    "an outline.pdf": with_outline_loop,
    "names above.docx": with_names_above,
    "a wide cell.docx": with_many_rows,
    "..\\..\\above.txt": lambda: b"What is called as if it were above says cocoa",
    "many columns.csv": lambda: b"a," * 50_000 + b"a\n" + b"1," * 50_000 + b"juice\n",
    "a script.pdf": with_script,
    "really a text.pdf": lambda: b"A text that is called a PDF says coffee",
    "really a PDF.txt": lambda: pdf("A PDF that is called a text says milk"),
    "comments.html": lambda: b"<!--" * 100_000 + b"lemon",
    "deep.html": lambda: b"<div>" * 9_000 + b"At the bottom there is sugar" + b"</div>" * 9_000,
    "no end.md": lambda: b"```\nhoney\n" + b"# a\n" * 20_000,
}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, made in {**REFUSED, **READ}.items():
        (folder / name).write_bytes(made())
    with (folder / "two gigabytes.txt").open("wb") as large:
        large.truncate(2 << 30)  # of nothing on disk
    os.mkfifo(folder / "a pipe.txt")  # into which nobody writes
    return folder


@pytest.mark.slow
def test_a_hostile_folder_is_read_to_its_end_with_an_error_for_each_file_that_cannot_be(
    folder, tmp_path
):
    told = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with ContextStore.open(tmp_path / "store") as store:
        files = sorted(folder.iterdir())
        done = store.documents.add_many(
            [*files, folder / "not there.txt", folder], progress=told.append
        )
        names = {**dict.fromkeys(REFUSED), "two gigabytes.txt": None}
        names |= {"not there.txt": None, "a pipe.txt": None}
        failed = {one.name.rpartition("/")[2]: one.error for one in done.failed}
        assert sorted(failed) == sorted([*names, folder.name])
        assert all(type(error) is UnreadableDocumentError for error in failed.values())
        for name, error in failed.items():
            assert name in str(error)
            assert len(str(error)) < 600
        read = [name.rpartition("\\")[2] for name in READ]
        assert sorted(one.name for one in done.documents) == sorted(read)
        assert [one.n_done for one in told] == list(range(1, len(files) + 3))
        for word_ in ("tea", "coffee", "milk", "sugar", "honey", "rum", "wine", "water", "cocoa"):
            assert store.documents.search(word_, mode="text", limit=1), word_
        assert len(store.blobs.list()) == len(READ)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 400 * 1024  # in KiB; what the bombs unpack to is more
