"""A folder of files that were made to break whoever reads them: one clear error each, and the others go in."""

import io
import os
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


def page(contents):
    """A PDF of one page whose contents are the second argument's."""
    root, pages = b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
    one = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>"
    return with_objects(root, pages, one, contents)


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
    "a line.csv": lambda: b"a,b\n" + b"x" * 300_000 + b",lemon\n",
    "controls.txt": lambda: bytes(range(1, 32)) * 100,
}

READ = {
    "a script.pdf": with_script,
    "really a text.pdf": lambda: b"A text that is called a PDF says coffee",
    "really a PDF.txt": lambda: pdf("A PDF that is called a text says milk"),
    "deep.html": lambda: b"<div>" * 50_000 + b"At the bottom there is sugar" + b"</div>" * 50_000,
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
        assert sorted(one.name for one in done.documents) == sorted(READ)
        assert [one.n_done for one in told] == list(range(1, len(files) + 3))
        for word_ in ("tea", "coffee", "milk", "sugar", "honey"):
            assert store.documents.search(word_, mode="text", limit=1), word_
        assert len(store.blobs.list()) == len(READ)
