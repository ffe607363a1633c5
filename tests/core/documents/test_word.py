"""Word documents: each kind of content in which there are words is read, in its order."""

import pytest
from core.documents.files import package

from lance_context_core import ContextStore
from lance_context_core.documents import DocxReader
from lance_context_core.errors import UnreadableDocumentError

OFFICE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
NAMES = (
    'xmlns:m="urn:m" xmlns:mc="urn:mc" xmlns:wp="urn:wp" xmlns:a="urn:a" xmlns:v="urn:v" '
    'xmlns:r="urn:r" xmlns:wps="urn:wps" xmlns:dgm="urn:dgm"'
)


def root(name, inside, space=OFFICE):
    return f'<w:{name} xmlns:w="{space}" {NAMES}>{inside}</w:{name}>'


def document(body, *, space=OFFICE, **parts):
    """A Word document; each further part is named by its type, and what it says."""
    all_parts = {f"word/{name}.xml": root(name, inside, space) for name, inside in parts.items()}
    all_parts["word/document.xml"] = root("document", f"<w:body>{body}</w:body>", space)
    return package("word/document.xml", all_parts)


def p(*runs, look=""):
    return f"<w:p><w:pPr>{look}</w:pPr>{''.join(runs)}</w:p>"


def r(text):
    return f"<w:r><w:t>{text}</w:t></w:r>"


def read(body, reader=None, **parts):
    return (reader or DocxReader()).read(document(body, **parts), name="a.docx")


BOX = f"<w:txbxContent>{p(r('in a box'))}</w:txbxContent>"
CELLS = "<w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr>"
FRACTION = "<m:f><m:num>{}</m:num><m:den>{}</m:den></m:f>"
LETTER = "<m:r><m:t>{}</m:t></m:r>"
KINDS = {
    "what is inserted": (p(r("a "), f"<w:ins>{r('new')}</w:ins>", r(" one")), "a new one"),
    "what is moved here": (p(f"<w:moveTo>{r('here')}</w:moveTo>"), "here"),
    "but not what is deleted": (
        p(r("a"), "<w:del><w:r><w:delText>b</w:delText></w:r></w:del>", r("c")),
        "ac",
    ),
    "a link": (p(r("see "), f"<w:hyperlink>{r('there')}</w:hyperlink>"), "see there"),
    "a field": (
        p(
            '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>DATE</w:instrText></w:r>',
            r("today"),
        ),
        "today",
    ),
    "a simple field": (p(f'<w:fldSimple w:instr="DATE">{r("today")}</w:fldSimple>'), "today"),
    "a smart tag": (p(f"<w:smartTag>{r('tagged')}</w:smartTag>"), "tagged"),
    "a control in a line": (
        p(r("x "), f"<w:sdt><w:sdtContent>{r('chosen')}</w:sdtContent></w:sdt>"),
        "x chosen",
    ),
    "a control of paragraphs": (
        f"<w:sdt><w:sdtContent>{p(r('one'))}{p(r('two'))}</w:sdtContent></w:sdt>",
        "one\n\ntwo",
    ),
    "a box": (p(r("at it"), f"<w:r><w:drawing>{BOX}</w:drawing></w:r>"), "at it\n\nin a box"),
    "a box that is there in two ways, once": (
        p(
            f"<w:r><mc:AlternateContent><mc:Choice>{BOX}</mc:Choice>"
            f"<mc:Fallback>{BOX}</mc:Fallback></mc:AlternateContent></w:r>"
        ),
        "in a box",
    ),
    "the text of a picture": (
        p(
            r("Look:"),
            '<w:r><w:drawing><wp:docPr id="1" name="p" descr="A red fox"/></w:drawing></w:r>',
        ),
        "Look: [A red fox]",
    ),
    "an equation": (
        p(
            "<m:oMath>"
            + LETTER.format("x=")
            + FRACTION.format(LETTER.format("a+b"), LETTER.format("2"))
            + "</m:oMath>"
        ),
        "x=(a+b)/2",
    ),
    "a power": (
        p(
            f"<m:oMath><m:sSup><m:e>{LETTER.format('c')}</m:e><m:sup>{LETTER.format('2')}</m:sup>"
            "</m:sSup></m:oMath>"
        ),
        "c^2",
    ),
    "tabs, breaks and hyphens": (
        p(
            r("a"),
            "<w:r><w:tab/></w:r>",
            r("b"),
            "<w:r><w:br/></w:r>",
            r("c"),
            "<w:r><w:noBreakHyphen/></w:r>",
            r("d"),
        ),
        "a\tb\nc-d",
    ),
    "a table in a table": (
        "<w:tbl>"
        + CELLS.format(p(r("a")), "<w:tbl>" + CELLS.format(p(r("b")), p(r("c"))) + "</w:tbl>")
        + "</w:tbl>",
        "a | b, c",
    ),
    "two paragraphs in a cell": (
        "<w:tbl>" + CELLS.format(p(r("a")) + p(r("b")), p(r("c"))) + "</w:tbl>",
        "a b | c",
    ),
    "a cell over two rows": (
        "<w:tbl>"
        + CELLS.format('<w:tcPr><w:vMerge w:val="restart"/></w:tcPr>' + p(r("a")), p(r("b")))
        + CELLS.format("<w:tcPr><w:vMerge/></w:tcPr>" + p(), p(r("c")))
        + "</w:tbl>",
        "a | b\na | c",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("space", [OFFICE, STRICT], ids=["", "strict"])
def test_all_that_a_word_document_says_is_read(kind, space):
    body, text = KINDS[kind]
    assert DocxReader().read(document(body, space=space), name="a.docx").text == text


NOTE = '<w:{0} w:id="{1}">' + p(r("{2}")) + "</w:{0}>"


def test_notes_and_comments_stand_behind_the_paragraph_that_names_them():
    body = (
        p(r("Tea"), '<w:r><w:footnoteReference w:id="2"/></w:r>', r(" is hot."))
        + p(r("Milk"), '<w:r><w:endnoteReference w:id="3"/></w:r>')
        + p(r("Cake"), '<w:r><w:commentReference w:id="4"/></w:r>')
        + p(r("End"))
    )
    parts = {
        "footnotes": NOTE.format("footnote", 2, "green"),
        "endnotes": NOTE.format("endnote", 3, "cold"),
        "comments": NOTE.format("comment", '4" w:author="Ada', "no cake"),
    }
    said = "Tea[2] is hot.\n\n[2] green\n\nMilk[e3]\n\n[e3] cold\n\nCake"
    assert read(body, **parts).text == f"{said}\n\nComment by Ada: no cake\n\nEnd"
    assert read(body, DocxReader(comments=False), **parts).text == f"{said}\n\nEnd"


def test_notes_that_name_each_other_are_read_once():
    names = "".join(f'<w:r><w:footnoteReference w:id="{n}"/></w:r>' for n in range(40))
    notes = "".join(
        f'<w:footnote w:id="{n}">{p(r(f"note {n}"), names)}</w:footnote>' for n in range(40)
    )
    text = read(p(r("Tea"), names), footnotes=notes).text
    assert all(text.count(f"note {n} ") + text.count(f"note {n}[") == 1 for n in range(39))


def test_headers_are_read_once_at_the_end_unless_they_are_not_wanted():
    parts = {"header": p(r("The firm")), "footer": p(r("Secret"))}
    assert read(p(r("Tea")), **parts).text == "Tea\n\nThe firm\n\nSecret"
    assert read(p(r("Tea")), DocxReader(headers=False), **parts).text == "Tea"


def test_a_heading_is_told_by_its_outline_level_or_by_what_its_style_is_based_on():
    styles = (
        '<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="Own"><w:name w:val="Own"/><w:basedOn w:val="berschrift1"/></w:style>'
    )
    body = (
        p(r("Rooms"), look='<w:pStyle w:val="Own"/>')
        + p(r("Beds"), look='<w:outlineLvl w:val="1"/>')
        + p(r("Soft ones."))
    )
    found = read(body, styles=styles)
    assert [(one.kind, one.section) for one in found.blocks] == [
        ("heading", "Rooms"),
        ("heading", "Rooms > Beds"),
        ("text", "Rooms > Beds"),
    ]


@pytest.mark.parametrize("ending", ["docx", "docm", "dotx", "bin"])
def test_templates_and_documents_with_macros_are_word_documents(ending):
    with ContextStore.open("memory://") as store:
        added = store.documents.add(document(p(r("Tea"))), name=f"a.{ending}")
        assert (added.type, store.documents.text(added.id)) == ("docx", "Tea")


def test_a_word_document_that_is_nested_without_an_end_is_refused():
    body = "<w:sdt>" * 5_000 + p(r("x")) + "</w:sdt>" * 5_000
    with pytest.raises(UnreadableDocumentError, match=r"'a\.docx'"):
        read(body)
