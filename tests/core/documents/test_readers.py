"""Readers: what is to be read of a file of each type, and what is refused of broken ones."""

import io

import pytest
from core.documents.files import archive, pdf, with_part, word

from lance_context_core import ContextStore, InvalidRequestError
from lance_context_core.documents import (
    CsvReader,
    DocxReader,
    HtmlReader,
    MarkdownReader,
    PdfReader,
    ReadDocument,
    TextReader,
)
from lance_context_core.documents.readers import choosing
from lance_context_core.errors import MissingExtraError, UnreadableDocumentError


def blocks(document):
    """What each block says, what kind it is of, and under which headings it stands."""
    return [
        (document.text[one.start : one.end].strip(), one.kind, one.section)
        for one in document.blocks
    ]


# Text


@pytest.mark.parametrize(
    "encoding",
    [*("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"), "cp1252"],
)
def test_a_text_is_read_in_the_encoding_that_it_is_in(encoding):
    text = "Größe: 3 €, naïve café and nothing else to see."
    read = TextReader().read(text.encode(encoding), name="a.txt")
    assert read.text == text


def test_an_encoding_that_cannot_be_told_is_taken_from_the_caller():
    content = "雨です。".encode("shift_jis")
    assert TextReader(encoding="shift_jis").read(content, name="a.txt").text == "雨です。"
    with pytest.raises(UnreadableDocumentError, match="is not in ascii"):
        TextReader(encoding="ascii").read(content, name="a.txt")
    with pytest.raises(InvalidRequestError, match="unknown to Python"):
        TextReader(encoding="utf-9")


# Markdown


def test_markdown_is_read_with_its_front_matter_headings_fences_and_tables():
    text = (
        '---\ntitle: "The house"\ntags: [a, b]\npeople:\n  - Ada\n  - Bob\n---\n'
        "# Rooms #\n\nText with #tag.\n\nBelow\n-----\n\n"
        "```sh\n# no heading\n```\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\nThe end.\n"
    )
    read = MarkdownReader().read(text.encode(), name="a.md")
    assert read.text == text
    assert read.title == "The house"
    assert read.properties["front_matter"] == {
        "title": "The house",
        "tags": ["a", "b"],
        "people": ["Ada", "Bob"],
    }
    assert blocks(read) == [
        ("# Rooms #", "heading", "Rooms"),
        ("Text with #tag.", "text", "Rooms"),
        ("Below\n-----", "heading", "Rooms > Below"),
        ("```sh\n# no heading\n```", "whole", "Rooms > Below"),
        ("| a | b |\n|---|:-:|\n| 1 | 2 |", "whole", "Rooms > Below"),
        ("The end.", "text", "Rooms > Below"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("---\nno: end\n# A\n", id="front matter that never ends"),
        pytest.param("# A\n\n```\n# in a fence that never ends\n", id="a fence that never ends"),
        pytest.param("~~~\n```\n# inside\n~~~\n# A\n", id="a fence in a fence"),
        pytest.param("- item\n---\n# A\n", id="a rule below a list"),
        pytest.param("#\n# A\r\n", id="an empty heading, and other ends of lines"),
    ],
)
def test_only_what_is_a_heading_is_taken_for_one(text):
    read = MarkdownReader().read(text.encode(), name="a.md")
    assert read.title == "A"
    assert {one.section for one in read.blocks} <= {None, "A"}


# HTML


def test_html_is_read_without_what_is_not_shown():
    page = """<!DOCTYPE html><html><head><title>A &amp; B</title><style>x{}</style></head><body>
    <script>var hidden = "<p>no</p>";</script>
    <h1>Rooms</h1><p>One&nbsp;<b>bold</b>
    line.<br>Next.</p><ul><li>first<li>second</ul>
    <h2>Table</h2><table>
    <tr> <th>a</th> <th>b</th> </tr>
    <tr><td>1<td>2</table>
    <pre>kept
      as it is</pre></body></html>"""
    read = HtmlReader().read(page.encode(), name="a.html")
    assert read.title == "A & B"
    assert blocks(read) == [
        ("Rooms", "heading", "Rooms"),
        ("One bold line.\nNext.", "text", "Rooms"),
        ("- first", "text", "Rooms"),
        ("- second", "text", "Rooms"),
        ("Table", "heading", "Rooms > Table"),
        ("a | b\n1 | 2", "whole", "Rooms > Table"),
        ("kept\n      as it is", "whole", "Rooms > Table"),
    ]


def test_html_is_read_in_the_encoding_that_it_names():
    page = '<html><head><meta charset="koi8-r"></head><body><p>привет</p></body></html>'
    assert HtmlReader().read(page.encode("koi8-r"), name="a.html").text == "привет"


@pytest.mark.parametrize("end", ["script", "style", "title", "table", "pre", "h1", "svg"])
def test_html_in_which_something_ends_that_never_began_is_read(end):
    read = HtmlReader().read(f"</{end}><p>green tea</p>".encode(), name="a.html")
    assert (read.text, [one.kind for one in read.blocks]) == ("green tea", ["text"])


def test_html_that_is_nested_deeply_is_read():
    page = "<div>" * 50_000 + "<p>inside</p>" + "<table>" * 100 + "<tr><td>cell"
    assert HtmlReader().read(page.encode(), name="a.html").text == "inside\n\ncell"


@pytest.mark.parametrize("reader", [HtmlReader(), MarkdownReader()])
def test_ten_thousand_blocks_below_long_headings_name_them_once_and_in_short(reader):
    level = "<h{n}>{text}</h{n}>\n" if isinstance(reader, HtmlReader) else "{marks} {text}\n\n"
    head = "".join(level.format(n=n, marks="#" * n, text="x" * 9_000) for n in range(1, 6))
    below = "".join(level.format(n=6, marks="#" * 6, text="a") for _ in range(10_000))
    read = reader.read((head + below).encode(), name="a")
    kept = {id(one.section): len(one.section) for one in read.blocks}
    assert len(read.blocks) == 10_005
    assert max(kept.values()) < 3_000
    assert read.blocks[0].section == "x" * 499 + "…"
    page = (
        head + "<p>a</p>\n<pre>b</pre>\n" * 5_000
        if "<" in level
        else head + "```\na\n```\nb\n" * 5_000
    )
    read = reader.read(page.encode(), name="a")
    assert len(read.blocks) == 10_005
    assert len({id(one.section) for one in read.blocks}) == 5


# CSV


def test_the_rows_of_a_table_are_lines_with_the_names_of_the_columns():
    text = 'name;price;note\nTea;3;"hot;\nsweet"\n;;\nCoffee;4;;more\n'
    read = CsvReader().read(text.encode(), name="a.csv")
    assert blocks(read) == [
        ("name: Tea; price: 3; note: hot; sweet", "whole", "row 2"),
        ("name: Coffee; price: 4; more", "whole", "row 4"),
    ]
    assert read.properties["columns"] == ["name", "price", "note"]


# PDF


def test_a_pdf_is_read_page_by_page_with_its_title_and_outline():
    content = pdf(
        "First page\nof it",
        "",
        "Third page",
        title="The book",
        outline=[("Beginning", 1), ("End", 3)],
    )
    read = PdfReader().read(content, name="a.pdf")
    assert (read.title, read.n_pages) == ("The book", 3)
    assert [(one.page, one.section) for one in read.blocks] == [(1, "Beginning"), (3, "End")]
    assert [text for text, _, _ in blocks(read)] == ["First page\nof it", "Third page"]
    assert read.properties == {"author": "Ada", "pages_without_text": [2]}


def test_an_encrypted_pdf_is_read_with_its_password_alone():
    content = pdf("secret", password="open")
    with pytest.raises(UnreadableDocumentError, match="is encrypted: pass reader="):
        PdfReader().read(content, name="a.pdf")
    assert PdfReader(password="open").read(content, name="a.pdf").text == "secret"


def test_a_scanned_pdf_is_refused_with_the_way_out():
    with pytest.raises(UnreadableDocumentError, match=r"scanned.*recognises text"):
        PdfReader().read(pdf("", ""), name="a.pdf")


@pytest.mark.parametrize("reader", [PdfReader(max_pages=1), PdfReader(max_characters=10)])
def test_a_pdf_that_holds_too_much_is_refused(reader):
    with pytest.raises(UnreadableDocumentError, match=r"max_pages=1|max_characters=10"):
        reader.read(pdf("some text here", "and here"), name="a.pdf")


def test_a_pdf_that_counts_its_pages_wrongly_is_read():
    content = pdf("x").replace(b"/Count 1", b"/Count 9")
    assert PdfReader().read(content, name="a.pdf").text == "x"


# DOCX


def test_a_word_document_is_read_in_its_order_with_headings_lists_and_tables():
    def build(document):
        document.core_properties.title = "The plan"
        document.core_properties.author = "Ada"
        document.add_heading("Rooms", 1)
        document.add_paragraph("Some text & more.")
        document.add_paragraph("one", style="List Bullet")
        document.add_paragraph("two", style="List Number")
        table = document.add_table(2, 2)
        table.cell(0, 0).merge(table.cell(0, 1)).text = "head"
        table.cell(1, 0).text, table.cell(1, 1).text = "a", "b"
        document.add_heading("Below", 2)
        document.add_paragraph("The end.")

    read = DocxReader().read(word(build), name="a.docx")
    assert (read.title, read.n_pages) == ("The plan", None)
    assert blocks(read) == [
        ("Rooms", "heading", "Rooms"),
        ("Some text & more.", "text", "Rooms"),
        ("- one\n- two", "text", "Rooms"),
        ("head\na | b", "whole", "Rooms"),
        ("Below", "heading", "Rooms > Below"),
        ("The end.", "text", "Rooms > Below"),
    ]


def test_a_word_document_that_unpacks_to_very_much_is_refused_before_it_is_read():
    content = archive(word__document_xml=b"<x>" + b" " * 3_000_000 + b"</x>")
    assert len(content) < 10_000
    with pytest.raises(UnreadableDocumentError, match="unpacks to more than"):
        DocxReader(max_unpacked_bytes=1_000_000).read(content, name="a.docx")


def test_entities_of_a_word_document_are_not_expanded():
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    bomb = (
        f'<?xml version="1.0"?><!DOCTYPE w [<!ENTITY e0 "{"x" * 100}">{levels}]>'
        '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
        "<w:body><w:p><w:r><w:t>before &e9;</w:t></w:r></w:p></w:body></w:document>"
    )
    content = with_part(word(lambda _: None), "word/document.xml", bomb)
    try:
        text = DocxReader().read(content, name="a.docx").text
    except UnreadableDocumentError:
        return
    assert len(text) < 1_000


# Which reader


@pytest.mark.parametrize(
    ("content", "name", "type"),
    [
        pytest.param(b"%PDF-1.7", "a.txt", "pdf", id="a PDF that is called a text"),
        pytest.param(archive(word__document_xml=b"x"), "a.zip", "docx", id="a Word document"),
        pytest.param(b"# A", "README.MD", "markdown", id="letters of an ending do not matter"),
        pytest.param(b"a\tb", "a.tsv", "csv", id="tabs"),
        pytest.param(b"\n <!DOCTYPE HTML>", "page", "html", id="a page without an ending"),
        pytest.param(b"plain", "notes.xyz", "text", id="anything else"),
        pytest.param(b"plain words", "a.pdf", "text", id="a text that is called a PDF"),
    ],
)
def test_what_a_file_is_is_told_by_its_bytes_before_its_name(content, name, type):
    assert choosing.type_of(io.BytesIO(content), name) == type


BROKEN = {
    "no byte": (b"", "a.txt"),
    "nothing but white space": (b" \n\t ", "a.md"),
    "a PDF cut off": (pdf("text")[:200], "a.pdf"),
    "a PDF of zeros": (b"%PDF-1.7\n" + b"\0" * 1000, "a.pdf"),
    "a Word document cut off": (word(lambda d: d.add_paragraph("x"))[:2000], "a.docx"),
    "a Word document without parts": (archive(word__document_xml=b"<x/>"), "a.docx"),
    "a Word document of broken XML": (
        with_part(word(lambda _: None), "word/document.xml", "<w:document"),
        "a.docx",
    ),
    "an old Word document": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100, "a.doc"),
    "an archive without texts": (archive(a_class=b"\0\1\2" * 9), "a.zip"),
    "an image": (b"\x89PNG\r\n\x1a\n" + b"\0" * 50, "a.png"),
    "random bytes": (bytes(range(256)) * 4, "a.bin"),
    "an empty page": (b"<html><body><script>1</script></body></html>", "a.html"),
}


OLD = {
    "WordDocument": r"Word before 2007 \(\.doc\): save it as \.docx",
    "Workbook": r"Excel before 2007 \(\.xls\): save it as \.xlsx",
    "PowerPoint Document": r"PowerPoint before 2007 \(\.ppt\): save it as \.pptx",
    "__substg1.0_0037001F": "cannot be read as a mail: ",
    "EncryptedPackage": "encrypted Office document: decrypt it",
    "": "an old or an encrypted Office document",
}


@pytest.mark.parametrize("inside", OLD, ids=lambda one: one or "anything else")
@pytest.mark.parametrize("n_before", [100, (1 << 20) - 20], ids=["near", "across two pieces"])
def test_an_old_office_document_is_refused_by_what_it_is_and_with_a_way_out(inside, n_before):
    content = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * n_before + inside.encode("utf-16-le")
    with ContextStore.open("memory://") as store:
        with pytest.raises(UnreadableDocumentError, match=rf"'tea\.txt' .*{OLD[inside]}"):
            store.documents.add(content + b"\0" * 100, name="tea.txt")
        assert store.documents.count() == 0


@pytest.mark.parametrize("brand", ["heic", "avif", "isom"])
def test_pictures_and_films_are_no_documents_whatever_their_name(brand):
    content = b"\0\0\0\x20ftyp" + brand.encode() + b"tea " * 50
    refused = pytest.raises(UnreadableDocumentError, match=r"put it into store\.images")
    with ContextStore.open("memory://") as store, refused:
        store.documents.add(content, name="tea.txt")


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_no_text_can_be_had_of_is_refused_with_its_name(case):
    content, name = BROKEN[case]
    with ContextStore.open("memory://") as store:
        with pytest.raises(UnreadableDocumentError, match=name.replace(".", r"\.")):
            store.documents.add(content, name=name)
        assert store.documents.count() == 0


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pypdfium2", None)
    with pytest.raises(MissingExtraError, match=r"pypdfium2.*lance-context-core\[documents\]"):
        PdfReader().read(b"", name="a")


class Upper:
    def read(self, content, *, name):
        return ReadDocument(text=content.decode().upper(), title=name)


def test_a_reader_of_ones_own_may_be_passed_or_brought_by_a_distribution(monkeypatch):
    class Entry:
        name = "shout"

        def load(self):
            return Upper

    monkeypatch.setattr(choosing, "_others", lambda: {"shout": Entry()})
    with ContextStore.open("memory://") as store:
        passed = store.documents.add(b"one", name="a.txt", reader=Upper())
        brought = store.documents.add(b"two", name="a.shout")
        named = store.documents.add(b"three", name="a.txt", type="shout")
        texts = [store.documents.text(one.id) for one in (passed, brought, named)]
        assert texts == ["ONE", "TWO", "THREE"]
        assert [one.type for one in (passed, brought, named)] == ["txt", "shout", "shout"]
        with pytest.raises(InvalidRequestError, match=r"use one of pdf, docx.*shout"):
            store.documents.add(b"four", type="whisper")
        with pytest.raises(InvalidRequestError, match="give an object with the method read"):
            store.documents.add(b"four", reader=Upper)
