"""PDF: words stand apart as they are shown, and what forms and notes hold is read, too."""

import io
from concurrent.futures import ThreadPoolExecutor

import pypdf
import pytest
from core.documents.files import pdf
from pypdf.generic import ArrayObject, DecodedStreamObject, DictionaryObject, NameObject
from pypdf.generic import TextStringObject as Text

from lance_context_core import ContextStore
from lance_context_core.documents import PdfReader


def edited(content, edit):
    """A PDF after `edit(writer, its first page)`."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(content))
    edit(writer, writer.pages[0])
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def showing(operators):
    """A PDF of one page, which these operators draw."""

    def edit(writer, page):
        stream = DecodedStreamObject()
        stream.set_data(operators)
        page[NameObject("/Contents")] = writer._add_object(stream)

    return edited(pdf("x"), edit)


@pytest.mark.parametrize(
    "operators",
    [
        pytest.param(b"BT /F1 12 Tf 72 700 Td [(Green) -180 (tea)] TJ ET", id="by a gap"),
        pytest.param(
            b"BT /F1 12 Tf 1 0 0 1 72 700 Tm (Green) Tj 1 0 0 1 110 700 Tm (tea) Tj ET",
            id="by where they stand",
        ),
        pytest.param(
            b"BT /F1 1 Tf 12 0 0 12 72 700 Tm (Green) Tj 3.1 0 Td (tea) Tj ET", id="by a scale"
        ),
        pytest.param(
            b"BT /F1 12 Tf 72 700 Td (Gr) Tj ET BT /F1 12 Tf 85.3 700 Td (een tea) Tj ET",
            id="and letters of a word do not",
        ),
    ],
)
def test_words_are_parted_as_they_are_shown(operators):
    assert PdfReader().read(showing(operators), name="a.pdf").text == "Green tea"


def test_what_a_form_holds_and_what_was_noted_is_read():
    def annotation(**entries):
        named = {NameObject(f"/{name}"): value for name, value in entries.items()}
        rect = ArrayObject([pypdf.generic.NumberObject(n) for n in (0, 0, 9, 9)])
        return DictionaryObject({NameObject("/Rect"): rect, **named})

    def edit(writer, page):
        field, note = NameObject("/Widget"), NameObject("/Text")
        box = NameObject("/Btn")
        page[NameObject("/Annots")] = ArrayObject(
            writer._add_object(one)
            for one in (
                annotation(Subtype=field, FT=NameObject("/Tx"), T=Text("Name"), V=Text("Ada")),
                annotation(Subtype=field, FT=box, T=Text("Milk"), V=NameObject("/Off")),
                annotation(Subtype=field, FT=box, T=Text("Sugar"), V=NameObject("/Yes")),
                annotation(Subtype=field, FT=NameObject("/Tx"), T=Text("Empty")),
                annotation(Subtype=note, Contents=Text("Check the price")),
                annotation(Subtype=NameObject("/Link"), Contents=Text("a link")),
            )
        )
        writer.add_attachment("prices.csv", b"tea;3")

    read = PdfReader().read(edited(pdf("The order"), edit), name="a.pdf")
    assert read.text == "The order\n\nName: Ada\nSugar: Yes\nCheck the price"
    assert [one.page for one in read.blocks] == [1, 1]
    assert read.properties["attachments"] == ["prices.csv"]


def test_a_page_that_is_only_filled_in_is_not_one_without_text():
    def edit(writer, page):
        note = {"/Subtype": NameObject("/FreeText"), "/Contents": Text("Signed by Ada")}
        named = {NameObject(name): value for name, value in note.items()}
        page[NameObject("/Annots")] = ArrayObject([writer._add_object(DictionaryObject(named))])

    read = PdfReader().read(edited(pdf(""), edit), name="a.pdf")
    assert (read.text, read.properties) == ("Signed by Ada", {})


def test_a_word_that_a_line_parts_is_found_and_stands_as_it_is_shown():
    with ContextStore.open("memory://") as store:
        added = store.documents.add(pdf("All of the infor-\nmation is here"), name="a.pdf")
        assert store.documents.text(added.id) == "All of the infor-\nmation is here"
        assert store.documents.search("information", mode="text")


@pytest.mark.process
def test_many_threads_read_pdfs_at_once():
    contents = [pdf(*(f"page {page} of {n}" for page in range(20))) for n in range(8)]
    with ThreadPoolExecutor(8) as threads:
        read = list(threads.map(lambda one: PdfReader().read(one, name="a.pdf").text, contents))
    for n, text in enumerate(read):
        assert text.split("\n\n") == [f"page {page} of {n}" for page in range(20)]
