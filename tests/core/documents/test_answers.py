"""What an answer is made of: pages of it, a share for each document, neighbours, headers and links."""

import io

import pytest
from core.conformance.doubles import ManualClock, WordVectors
from core.documents.files import word
from docx.oxml import OxmlElement

from lance_context_core import ContextStore, InvalidRequestError
from lance_context_core.documents import (
    DocxReader,
    HtmlReader,
    MarkdownReader,
    ReadDocument,
    TextChunker,
)
from lance_context_core.errors import UnreadableDocumentError

BY_LINE = TextChunker(target=40, most=80, least=0, overlap=0)
TEAS = [f"tea number {number} is green" for number in range(12)]


@pytest.fixture
def documents(tmp_path):
    with ContextStore.open(
        tmp_path / "store", embedder=WordVectors(), clock=ManualClock()
    ) as store:
        yield store.documents


def add(documents, name, lines):
    return documents.add("\n\n".join(lines).encode(), name=name, chunker=BY_LINE)


def places(hits):
    return [(one.record.name, one.record.position) for one in hits]


def test_pages_of_an_answer_are_the_answer_cut_in_pieces(documents):
    add(documents, "teas.txt", TEAS)
    whole = places(documents.search("green tea", limit=12))
    assert len(set(whole)) == 12
    paged = [
        one
        for offset in (0, 5, 10, 15)
        for one in places(documents.search("green tea", limit=5, offset=offset))
    ]
    assert paged == whole


def test_no_document_takes_more_of_an_answer_than_its_share(documents):
    add(documents, "teas.txt", [*TEAS, *(f"tea green {number}" for number in range(60))])
    add(documents, "cups.txt", ["a cup for green tea in blue", "a cup in red"])
    every = documents.search("green tea", limit=1000)
    for share in (1, 2):
        wanted, seen = [], {}
        for one in every:
            seen[one.record.name] = seen.get(one.record.name, 0) + 1
            wanted += [one.record.id] if seen[one.record.name] <= share else []
        found = documents.search("green tea", limit=4, per_document=share)
        assert [one.record.id for one in found] == wanted[:4]
        later = documents.search("green tea", limit=4, offset=1, per_document=share)
        assert [one.record.id for one in later] == wanted[1:5]


@pytest.mark.parametrize("wrong", [{"offset": -1}, {"per_document": 0}, {"per_document": "two"}])
def test_a_page_that_there_cannot_be_is_refused(documents, wrong):
    with pytest.raises(InvalidRequestError, match=next(iter(wrong))):
        documents.search("tea", **wrong)


def test_the_neighbours_of_a_passage_stand_around_it(documents):
    tea = add(documents, "teas.txt", TEAS)
    add(documents, "cups.txt", TEAS)
    every = documents.chunks(tea.id)
    assert documents.around(every[5]) == every[4:7]
    assert documents.around(every[0], before=3, after=2) == every[:3]
    assert documents.around(every[11], before=0, after=9) == every[11:]
    (hit,) = documents.search("tea number 7", document_id=tea.id, limit=1)
    assert hit.record in documents.around(hit, before=2)
    documents.delete(tea.id)
    assert documents.around(every[5]) == []


def test_what_is_no_passage_has_no_neighbours(documents):
    with pytest.raises(InvalidRequestError, match=r"passage='teas.txt': give a chunk"):
        documents.around("teas.txt")
    tea = add(documents, "teas.txt", TEAS)
    with pytest.raises(InvalidRequestError, match="before=-1"):
        documents.around(documents.chunks(tea.id)[0], before=-1)


# Tables


def markdown(rows):
    lines = ["| tea | price |", "| --- | --- |", *(f"| {tea} | {price} |" for tea, price in rows)]
    return MarkdownReader(), "\n".join(lines).encode(), "| tea | price |\n| --- | --- |"


def html(rows):
    body = "".join(f"<tr><td>{tea}</td><td>{price}</td></tr>" for tea, price in rows)
    page = f"<p>Before</p><table><tr><th>tea</th><th>price</th></tr>{body}</table><p>Behind</p>"
    return HtmlReader(), page.encode(), "tea | price"


def docx(rows):
    def build(document):
        table = document.add_table(rows=0, cols=2)
        for tea, price in [("tea", "price"), *rows]:
            cells = table.add_row().cells
            cells[0].text, cells[1].text = tea, price
        table.rows[0]._tr.get_or_add_trPr().append(OxmlElement("w:tblHeader"))

    return DocxReader(), word(build), "tea | price"


@pytest.mark.parametrize("made", [markdown, html, docx])
def test_each_part_of_a_long_table_has_its_header(documents, made):
    rows = [(f"green {number}", str(number)) for number in range(30)]
    reader, content, header = made(rows)
    chunker = TextChunker(target=90, most=160, least=0, overlap=0)
    table = documents.add(content, name="teas", reader=reader, chunker=chunker)
    text = documents.text(table.id)
    parts = [one for one in documents.chunks(table.id) if "green" in one.text]
    assert len(parts) > 3
    for number, one in enumerate(parts):
        own = text[one.start : one.end]
        assert one.text == (f"{header}\n{own}" if number else own)
        assert one.text.count("price") == 1
        assert len(one.text) <= 160
    # What the header says finds each part.
    assert len(documents.search("price", mode="text", limit=50)) == len(parts)
    # What is known of a document can be changed without its file.
    documents.update(table.id, metadata={"of": "2026"})
    again = documents.chunks(table.id)
    assert [one.text for one in again if "green" in one.text] == [one.text for one in parts]


def test_a_table_whose_first_row_is_like_others_has_no_header(documents):
    rows = "".join(f"<tr><td>green</td><td>{number}</td></tr>" for number in range(30))
    read = HtmlReader().read(f"<table>{rows}</table>".encode(), name="teas.html")
    assert [one.header for one in read.blocks] == [0]


def test_a_header_that_has_no_room_is_not_repeated():
    _, content, header = markdown([(f"green {number}", "x" * 20) for number in range(30)])
    read: ReadDocument = MarkdownReader().read(content, name="teas.md")
    tight = TextChunker(target=50, most=60, least=0, overlap=0).split(read)
    assert {one.header for one in tight} == {None}
    wide = TextChunker(target=50, most=100, least=0, overlap=0).split(read)
    assert {one.header for one in wide[1:]} == {header}


# Links and URLs


def test_links_are_kept_where_they_are_asked_for():
    page = (
        b'<h1><a href="/top">Top</a></h1><p>See <a href="https://a.b/?x=1&amp;y=2">the <b>list</b>'
        b'</a>, <a href="#part">a part</a>, <a href="javascript:f()">do</a>, <a name="x">x</a>.'
        b'<p>Open <a href="end">to the end'
    )
    kept = HtmlReader(links=True).read(page, name="page.html")
    assert kept.text == (
        "Top\n\nSee [the list](https://a.b/?x=1&y=2), a part, do, x.\n\nOpen [to the end](end)"
    )
    assert kept.title == "Top"
    plain = HtmlReader().read(page, name="page.html")
    assert plain.text == "Top\n\nSee the list, a part, do, x.\n\nOpen to the end"


def test_a_url_is_fetched_by_the_callers_function(documents):
    pages = {"https://tea.example/a%20b/green.html?v=2": b"<h1>Green</h1><p>tea</p>"}
    asked = []

    def fetch(url):
        asked.append(url)
        return io.BytesIO(pages[url]) if len(asked) > 1 else pages[url]

    (url,) = pages
    page = documents.add(url, fetch=fetch)
    assert (page.name, page.type, page.uri) == ("green.html", "html", url)
    assert documents.text(page.id) == "Green\n\ntea"
    assert documents.add(url, fetch=fetch) == page
    pages[url] = b"<h1>Green</h1><p>tea and cups</p>"
    later = documents.add(url, fetch=fetch)
    assert (later.id, documents.count()) == (page.id, 1)
    assert documents.text(page.id) == "Green\n\ntea and cups"
    assert asked == [url] * 3


def test_a_url_that_cannot_be_had_is_one_error_and_the_others_follow(documents):
    def fetch(url):
        if "gone" in url:
            raise OSError("404")
        return b"tea"

    urls = ["https://tea.example/gone.txt", "https://tea.example/"]
    added = documents.add_many(urls, fetch=fetch)
    assert [one.name for one in added.documents] == ["tea.example"]
    (failed,) = added.failed
    assert isinstance(failed.error, UnreadableDocumentError)
    assert str(failed.error) == "'https://tea.example/gone.txt' cannot be fetched: 404"


@pytest.mark.parametrize(
    ("fetch", "said"),
    [
        pytest.param(None, "is a URL, and nothing is fetched here: pass fetch=", id="none"),
        pytest.param("curl", "fetch='curl': give a function", id="a name"),
        pytest.param(lambda url: 3, "fetch returned 3", id="a number"),
    ],
)
def test_a_url_without_what_fetches_it_is_refused(documents, fetch, said):
    with pytest.raises(InvalidRequestError, match=said.replace("(", r"\(")):
        documents.add("https://tea.example/x.txt", fetch=fetch)
    assert documents.count() == 0
