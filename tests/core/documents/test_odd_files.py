"""Files as programs write them, with what is seldom in them: each is read as its program shows it."""

import io
import json
import zipfile

import pytest

from lance_context_core import ContextStore
from lance_context_core.documents import (
    Block,
    DocxReader,
    EmailReader,
    EpubReader,
    JsonReader,
    NotebookReader,
    OdfReader,
    PptxReader,
    ReadDocument,
    RtfReader,
    XlsxReader,
    XmlReader,
    ZipReader,
)
from lance_context_core.errors import InvalidRequestError

_OFFICE = "http://schemas.openxmlformats.org"
_R = f"{_OFFICE}/officeDocument/2006/relationships"
_NAMES = " ".join(
    f'xmlns:{prefix}="{_OFFICE}/{path}"'
    for prefix, path in {
        "w": "wordprocessingml/2006/main",
        "a": "drawingml/2006/main",
        "p": "presentationml/2006/main",
        "c": "drawingml/2006/chart",
        "dgm": "drawingml/2006/diagram",
        "mc": "markup-compatibility/2006",
        "r": "officeDocument/2006/relationships",
    }.items()
)
_SHEET = f'xmlns="{_OFFICE}/spreadsheetml/2006/main" xmlns:r="{_R}"'


def packed(parts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def named(**parts):
    listed = (
        f'<Relationship Id="{id}" Type="{_R}/{type}" Target="{target}"/>'
        for id, (type, target) in parts.items()
    )
    return f'<Relationships xmlns="{_OFFICE}/package/2006/relationships">{"".join(listed)}</Relationships>'


def office(main, root, more):
    return packed({"_rels/.rels": named(m=("officeDocument", main)), main: root, **more})


def word(body):
    root = f"<w:document {_NAMES}><w:body>{body}</w:body></w:document>"
    return DocxReader().read(office("word/document.xml", root, {}), name="a.docx")


def slide(body, related="", **parts):
    more = {
        "ppt/_rels/p.xml.rels": named(s=("slide", "slide.xml")),
        "ppt/slide.xml": f"<p:sld {_NAMES}><p:cSld><p:spTree>{body}</p:spTree></p:cSld></p:sld>",
        "ppt/_rels/slide.xml.rels": related,
        **{f"ppt/{name}.xml": content for name, content in parts.items()},
    }
    if not related:
        del more["ppt/_rels/slide.xml.rels"]
    listed = '<p:sldIdLst><p:sldId id="1" r:id="s"/></p:sldIdLst>'
    root = f"<p:presentation {_NAMES}>{listed}</p:presentation>"
    return PptxReader().read(office("ppt/p.xml", root, more), name="a.pptx")


def sheet(rows, styles="", **more):
    root = f'<workbook {_SHEET}><sheets><sheet name="A" r:id="s"/></sheets></workbook>'
    parts = {
        "xl/_rels/w.xml.rels": named(s=("worksheet", "s.xml"), t=("styles", "t.xml")),
        "xl/s.xml": f"<worksheet {_SHEET}><sheetData>{rows}</sheetData></worksheet>",
        "xl/t.xml": f"<styleSheet {_SHEET}>{styles}</styleSheet>",
        **more,
    }
    return XlsxReader().read(office("xl/w.xml", root, parts), name="a.xlsx")


def libre(body, kind="text"):
    spaces = " ".join(f'xmlns:{one}="urn:{one}"' for one in ("office", "text", "table", "draw"))
    root = (
        f'<office:document-content {spaces} xmlns:svg="urn:svg" xmlns:dc="urn:dc"><office:body>'
        f"<office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    return OdfReader().read(packed({"content.xml": root}), name="a.odt")


def run(text, look=""):
    return f"<w:r><w:rPr>{look}</w:rPr><w:t>{text}</w:t></w:r>"


def shape(text):
    said = f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>"
    return f"<p:sp><p:txBody>{said}</p:txBody></p:sp>"


def drawn(inner):
    return f"<p:graphicFrame><a:graphic><a:graphicData>{inner}</a:graphicData></a:graphic></p:graphicFrame>"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(run("no", "<w:vanish/>") + run("yes"), "yes", id="hidden"),
        pytest.param(run("yes", '<w:vanish w:val="0"/>'), "yes", id="not hidden"),
        pytest.param(
            f"<w:r><w:ruby><w:rt>{run('kan')}</w:rt><w:rubyBase>{run('漢')}</w:rubyBase></w:ruby></w:r>",
            "漢(kan)",
            id="ruby",
        ),
        pytest.param(
            '<w:r><w:sym w:font="Symbol" w:char="F061"/></w:r>',
            "\N{GREEK SMALL LETTER ALPHA}",
            id="symbol",
        ),
        pytest.param('<w:r><w:sym w:font="Wingdings" w:char="F061"/></w:r>', "", id="wingdings"),
    ],
)
def test_a_run_of_word_is_read_as_word_shows_it(body, text):
    assert word(f"<w:p>{body}</w:p>").text == text


def test_a_thing_on_a_slide_that_is_there_in_two_ways_is_read_once():
    both = f"<mc:Choice>{shape('Plan')}</mc:Choice><mc:Fallback>{shape('Plan')}</mc:Fallback>"
    assert slide(f"<mc:AlternateContent>{both}</mc:AlternateContent>").text == "Plan"


def test_charts_and_diagrams_of_slides_are_read():
    chart = f"<c:chartSpace {_NAMES}><a:t>Sales</a:t><c:v>North</c:v><c:v>5</c:v></c:chartSpace>"
    diagram = f"<dgm:dataModel {_NAMES}><a:t>Plan</a:t><a:t>Do</a:t></dgm:dataModel>"
    body = drawn('<c:chart r:id="c"/>') + drawn('<dgm:relIds r:dm="d"/>')
    related = named(c=("chart", "chart.xml"), d=("diagramData", "diagram.xml"))
    read = slide(body, related, chart=chart, diagram=diagram)
    assert read.text == "Sales, North, 5\nPlan, Do"


_STYLES = (
    '<numFmts><numFmt numFmtId="170" formatCode="[h]:mm:ss"/></numFmts><cellXfs><xf numFmtId="0"/>'
    '<xf numFmtId="14"/><xf numFmtId="20"/><xf numFmtId="170"/></cellXfs>'
)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        pytest.param('<c s="1"><v>44000.75</v></c>', "2020-06-18 18:00", id="moment"),
        pytest.param('<c s="2"><v>0.5</v></c>', "12:00", id="time"),
        pytest.param('<c s="3"><v>1.5</v></c>', "36:00:00", id="hours"),
        pytest.param('<c s="1"><v>99999999</v></c>', "99999999", id="no date"),
        pytest.param("<c><v>1.1000000000000001</v></c>", "1.1", id="17 digits"),
        pytest.param("<c><v>12345678901234567</v></c>", "12345678901234567", id="whole number"),
        pytest.param('<c t="s"><v>7</v></c><c><v>1</v></c>', "1", id="string that is missing"),
    ],
)
def test_a_cell_has_the_value_that_excel_shows(cell, text):
    head = '<row r="1"><c t="inlineStr"><is><t>h</t></is></c></row>'
    read = sheet(f'{head}<row r="2">{cell}</row>', _STYLES)
    assert read.text.removeprefix("h\n\n").removeprefix("h: ") == text


def test_a_comment_on_a_cell_stands_in_its_row():
    said = '<comment ref="A2"><text><t>why</t></text></comment>'
    more = {
        "xl/_rels/s.xml.rels": named(c=("comments", "c.xml")),
        "xl/c.xml": f"<comments {_SHEET}><commentList>{said}</commentList></comments>",
    }
    rows = '<row r="1"><c><v>1</v></c></row><row r="2"><c r="A2"><v>2</v></c></row>'
    assert sheet(rows, **more).text == "1\n\n1: 2; [A2: why]"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(
            "<text:p>word<text:note><text:note-citation>1</text:note-citation><text:note-body>"
            "<text:p>said</text:p></text:note-body></text:note>more</text:p>",
            "word [1] said more",
            id="note",
        ),
        pytest.param(
            "<text:p>word<office:annotation><dc:creator>Ada</dc:creator></office:annotation></text:p>",
            "word",
            id="comment",
        ),
        pytest.param(
            "<text:p>a<draw:frame><draw:text-box><text:p>box</text:p></draw:text-box>"
            "<svg:title>Alt</svg:title></draw:frame>b</text:p>",
            "a box [Alt] b",
            id="picture and box",
        ),
    ],
)
def test_parts_of_a_paragraph_of_libreoffice_are_not_glued(body, text):
    assert libre(body).text == text


def test_a_sheet_of_libreoffice_has_its_name_and_its_columns():
    cells = (
        '<table:table-cell table:number-columns-repeated="2"/>'
        "<table:table-cell><text:p>c</text:p></table:table-cell>"
    )
    row = f"<table:table-row>{cells}</table:table-row>"
    read = libre(f'<table:table table:name="May">{row}</table:table>', "spreadsheet")
    assert [part.strip() for part in read.text.split("|")] == ["", "", "c"]
    assert [one.section for one in read.blocks] == ["May"]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        pytest.param(
            r"{\fonttbl{\f0\fcharset204 Arial;}{\f1\fnil\fcharset128 MS;}}\f0 \'cf\'f0\f1 \'82\'a0",
            "Прあ",
            id="fonts",
        ),
        pytest.param(r"{\fonttbl{\f1\fcharset128 MS;}}\f1 \'83A\plain \'e9", "アé", id="two bytes"),
        pytest.param(r"a{\v hidden}{\deleted gone}b", "ab", id="hidden and deleted"),
        pytest.param(r"word{\footnote said}more", "word said more", id="note"),
    ],
)
def test_rich_text_is_read_in_the_code_pages_of_its_fonts_without_what_it_hides(said, text):
    content = rf"{{\rtf1\ansi\ansicpg1252 {said}}}".encode("ascii")
    assert RtfReader().read(content, name="a.rtf").text == text


def test_a_notebook_of_version_3_is_read():
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Results"]},
        {
            "cell_type": "code",
            "input": ["1 + 1"],
            "outputs": [{"output_type": "pyout", "text": ["2"], "png": "AAAA"}],
        },
    ]
    notebook = json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}]}).encode()
    read = NotebookReader().read(notebook, name="a.ipynb")
    assert read.text == "## Results\n\n```\n1 + 1\n```\n\n```\n2\n```"
    assert read.blocks[-1].section == "Results > cell 2"


def test_an_output_of_a_notebook_without_plain_text_is_read():
    outputs = [{"data": {"text/html": "<b>bold</b>"}}, {"data": {"text/latex": ["$x$"]}}]
    cell = {"cell_type": "code", "source": "1", "outputs": outputs}
    read = NotebookReader().read(json.dumps({"cells": [cell]}).encode(), name="a.ipynb")
    assert [line for line in read.text.split("\n") if line and "`" not in line] == [
        "1",
        "bold",
        "$x$",
    ]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param('{"a":"x\u2028y"}\n{"a":"z"}\n', "a: x\u2028y\na: z", id="U+2028 in a line"),
        pytest.param('{"a":1,"b":2,"a":3}', "a: 1, 3; b: 2", id="a name twice"),
        pytest.param('{"a":"\\ud83d"}', "a: ?", id="half a letter"),
        pytest.param("[" * 3000 + "]" * 3000, "[" * 3000 + "]" * 3000, id="deep"),
    ],
)
def test_odd_json_is_read(content, text):
    assert JsonReader().read(content.encode(), name="a.json").text == text


def test_xml_in_an_encoding_of_several_bytes_a_letter_is_read():
    content = '<?xml version="1.0" encoding="GB2312"?><a>中文</a>'.encode("gb2312")
    assert XmlReader().read(content, name="a.xml").text == "中文"


@pytest.mark.parametrize(
    ("mail", "text"),
    [
        pytest.param(b"Content-Type: multipart/mixed\n\nhello\n", "hello", id="no mark of parts"),
        pytest.param(b"Content-Type: text/calendar\n\nSUMMARY:Tea\n", "SUMMARY:Tea", id="calendar"),
        pytest.param(b"Subject: caf\xe9\n\nx", "Subject: café\n\nx", id="bytes in a header"),
        pytest.param(
            b"Content-Type: multipart/signed; boundary=x\n\n--x\n\nhello\n--x\n"
            b"Content-Type: application/pgp-signature\n\nABC\n--x--\n",
            "hello",
            id="signature",
        ),
    ],
)
def test_an_odd_mail_is_read(mail, text):
    assert EmailReader().read(mail, name="a.eml").text == text


@pytest.mark.parametrize(
    ("spine", "text"),
    [
        pytest.param('<itemref idref="b"/><itemref idref="a"/>', "two\n\none", id="order"),
        pytest.param("", "one\n\ntwo", id="no order"),
    ],
)
def test_the_chapters_of_a_book_are_read_with_and_without_an_order(spine, text):
    items = "".join(
        f'<item id="{id}" href="{id}.xhtml#top" media-type="application/xhtml+xml"/>' for id in "ab"
    )
    book = {
        "META-INF/container.xml": '<c><rootfile full-path="b.opf"/></c>',
        "b.opf": f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>",
        "a.xhtml": "<p>one</p>",
        "b.xhtml": "<p>two</p>",
    }
    assert EpubReader().read(packed(book), name="a.epub").text == text


def test_a_link_in_an_archive_is_no_file():
    link, file = zipfile.ZipInfo("link.txt"), io.BytesIO()
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr("a.txt", "tea")
    assert ZipReader().read(file.getvalue(), name="a.zip").text == "tea"


def test_a_name_of_json_that_is_half_a_letter_is_stored(tmp_path):
    with ContextStore.open(tmp_path / "s") as store:
        store.documents.add(b'{"\\ud83d":[{"a":"tea"}]}', name="a.json")
        (hit,) = store.documents.search("tea")
        assert hit.record.section == "? > item 1"


def test_a_section_that_no_store_can_hold_is_refused_by_name():
    class Reader:
        def read(self, content, *, name):
            return ReadDocument(text="tea", blocks=(Block(start=0, end=3, section="\ud83d"),))

    with (
        ContextStore.open("memory://") as store,
        pytest.raises(InvalidRequestError, match=r"a section of 'a\.txt'"),
    ):
        store.documents.add(b"tea", name="a.txt", reader=Reader())
