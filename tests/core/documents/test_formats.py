"""Slides, sheets, books, mails, notebooks and rich text: their words are read, in their order."""

import io
import json
import zipfile

import pytest
from core.documents.files import package

from lance_context_core import ContextStore
from lance_context_core.documents import NotebookReader, XlsxReader
from lance_context_core.errors import UnreadableDocumentError

NAMES = 'xmlns:a="urn:a" xmlns:p="urn:p" xmlns:r="urn:r" xmlns:x="urn:x"'


def zipped(**parts):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as packed:
        for name, content in parts.items():
            packed.writestr(name.replace("__", "/").replace("_", "."), content)
    return made.getvalue()


def slide(title, *lines):
    said = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in lines)
    return (
        f'<p:sld {NAMES}><p:sp><p:nvPr><p:ph type="title"/></p:nvPr>'
        f"<a:p><a:r><a:t>{title}</a:t></a:r></a:p></p:sp><p:sp>{said}</p:sp></p:sld>"
    )


def slides():
    listed = "".join(f'<p:sldId id="{n}" r:id="slides/slide{n}.xml"/>' for n in (2, 1))
    parts = {f"ppt/slides/slide{n}.xml": slide(f"Title {n}", f"says {n}", "more") for n in (1, 2)}
    main = f"<p:presentation {NAMES}>{listed}</p:presentation>"
    return package("ppt/presentation.xml", parts | {"ppt/presentation.xml": main})


def sheets():
    main = f'<x:workbook {NAMES}><x:sheet name="Tea" r:id="sheet1.xml"/></x:workbook>'
    strings = "".join(f"<x:si><x:t>{text}</x:t></x:si>" for text in ("name", "since", "Green"))
    rows = (
        '<x:row r="1"><x:c r="A1" t="s"><x:v>0</x:v></x:c><x:c r="C1" t="s"><x:v>1</x:v></x:c></x:row>'
        '<x:row r="3"><x:c r="A3" t="s"><x:v>2</x:v></x:c><x:c r="B3" t="b"><x:v>1</x:v></x:c>'
        '<x:c r="C3" s="1"><x:v>45000</x:v></x:c></x:row>'
        '<x:row r="4"><x:c r="A4" t="inlineStr"><x:is><x:t>Black</x:t></x:is></x:c></x:row>'
    )
    styles = '<x:cellXfs><x:xf numFmtId="0"/><x:xf numFmtId="14"/></x:cellXfs>'
    return package(
        "xl/workbook.xml",
        {
            "xl/workbook.xml": main,
            "xl/sharedStrings.xml": f"<x:sst {NAMES}>{strings}</x:sst>",
            "xl/styles.xml": f"<x:styleSheet {NAMES}>{styles}</x:styleSheet>",
            "xl/sheet1.xml": f"<x:worksheet {NAMES}>{rows}</x:worksheet>",
        },
    )


BOOK = {
    "mimetype": "application/epub+zip",
    "META-INF__container_xml": '<c><rootfile full-path="in/book.opf"/></c>',
    "in__book_opf": (
        '<p xmlns:d="urn:d"><d:title>The book</d:title><d:creator>Ada</d:creator>'
        '<item id="b" href="b.html"/><item id="a" href="a%2Ehtml"/>'
        '<itemref idref="a"/><itemref idref="b"/></p>'
    ),
    "in__a_html": "<h1>One</h1><p>Tea.</p>",
    "in__b_html": "<h1>Two</h1><p>Cake.</p>",
}
OPEN = (
    '<o xmlns:t="urn:t"><t:body><t:text><t:h t:outline-level="1">Rooms</t:h>'
    "<t:p>A<t:s/>soft <t:span>bed</t:span>.</t:p><t:list><t:list-item><t:p>one</t:p></t:list-item>"
    "</t:list><t:table><t:table-row><t:table-cell><t:p>a</t:p></t:table-cell><t:table-cell>"
    "<t:p>b</t:p></t:table-cell></t:table-row></t:table></t:text></t:body></o>"
)
MAIL = (
    b"From: Ada <a@x.y>\r\nSubject: =?utf-8?q?T=C3=A9a?=\r\nContent-Type: multipart/mixed; boundary=b\r\n"
    b"\r\n--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    b"VGhlIG1lZXRpbmcgaXMgYXQgZm91ci4=\r\n--b\r\nContent-Type: text/csv\r\n"
    b"Content-Disposition: attachment; filename=p.csv\r\n\r\na,b\r\n--b--\r\n"
)
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "source": ["# Tea\n", "is hot"]},
            {
                "cell_type": "code",
                "source": "x = 1",
                "outputs": [
                    {"data": {"image/png": "iVBOR" * 300, "text/plain": ["<Figure>"]}},
                    {"text": "printed"},
                ],
            },
        ]
    }
).encode()
RICH = (
    rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\*\generator x;}\pard caf\'e9\par "
    rb"{\b t\u233?a} \{now\}\par}"
)

FILES = {
    "a.pptx": (slides, "pptx", "Title 2\n\nsays 2\nmore\n\nTitle 1\n\nsays 1\nmore"),
    "a.xlsx": (
        sheets,
        "xlsx",
        "name, since\n\nname: Green; TRUE; since: 2023-03-15\n\nname: Black",
    ),
    "a.epub": (lambda: zipped(**BOOK), "epub", "One\n\nTea.\n\nTwo\n\nCake."),
    "a.odt": (
        lambda: zipped(mimetype="application/vnd.oasis.opendocument.text", content_xml=OPEN),
        "odf",
        "Rooms\n\nA soft bed.\n\n- one\n\na | b",
    ),
    "a.eml": (
        lambda: MAIL,
        "email",
        "From: Ada <a@x.y>\nSubject: Téa\n\nThe meeting is at four.\n\na, b",
    ),
    "a.ipynb": (
        lambda: NOTEBOOK,
        "notebook",
        "# Tea\nis hot\n\n```\nx = 1\n```\n\n```\n<Figure>\n```\n\n```\nprinted\n```",
    ),
    "a.rtf": (lambda: RICH, "rtf", "café\ntéa {now}"),
}


@pytest.mark.parametrize("name", FILES)
def test_the_words_of_a_file_are_read_in_their_order(name):
    make, type, text = FILES[name]
    content = make()  # with a time in it, if it is packed
    with ContextStore.open("memory://") as store:
        added = store.documents.add(content, name=name)
        assert (added.type, store.documents.text(added.id)) == (type, text)
        if name not in {"a.eml", "a.ipynb"}:  # which begin as any text may
            assert store.documents.add(content, name="a.bin") == added


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_short_is_refused_or_read_and_never_anything_else(name):
    content = FILES[name][0]()
    with ContextStore.open("memory://") as store:
        for end in range(1, len(content), max(1, len(content) // 25)):
            try:
                store.documents.add(content[:end], name=name)
            except UnreadableDocumentError as error:
                assert repr(name) in str(error)  # noqa: PT017 - either may happen


def test_where_things_stand_and_what_files_say_of_themselves_is_kept():
    with ContextStore.open("memory://") as store:
        deck = store.documents.add(slides(), name="a.pptx")
        assert (deck.title, deck.n_pages) == ("Title 2", 2)
        assert [one.page for one in store.documents.chunks(deck.id)] == [1, 2]
        rows = XlsxReader().read(sheets(), name="a.xlsx").blocks
        assert [one.section for one in rows] == ["Tea", "Tea > row 3", "Tea > row 4"]
        book = store.documents.add(zipped(**BOOK), name="a.epub")
        assert (book.title, book.properties) == ("The book", {"author": "Ada"})
        notes = store.documents.add(NOTEBOOK, name="a.ipynb")
        cells = [one.section for one in NotebookReader().read(NOTEBOOK, name="a.ipynb").blocks]
        assert (notes.title, cells) == ("Tea", ["Tea", "Tea > cell 1", *["Tea > cell 2"] * 3])
        mail = store.documents.add(MAIL, name="a.eml")
        assert (mail.title, mail.properties["attachments"]) == ("Téa", ["p.csv"])


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.xlsx", "a.rtf"])
def test_a_page_that_was_downloaded_in_place_of_a_file_is_refused(name):
    with ContextStore.open("memory://") as store:
        with pytest.raises(UnreadableDocumentError, match=r"page of HTML.*type='html'"):
            store.documents.add(b"<html>403 Forbidden", name=name)
        assert store.documents.add(b"<html>403 Forbidden", name=name, type="html").type == "html"
