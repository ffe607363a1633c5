"""HTML is read tag by tag as Python's own parser reads it, in a number of steps that its length bounds."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.documents import HtmlReader
from lance_context_core.documents.readers.html import Markup


class Told:
    """What a parser told, texts that stand together as one."""

    def __init__(self):
        super().__init__()
        self.said = []

    def start(self, tag):
        self.said.append(("start", tag))

    def empty(self, tag):
        self.said.append(("empty", tag))

    def end(self, tag):
        self.said.append(("end", tag))

    def data(self, text):
        if self.said and self.said[-1][0] == "data":
            text = self.said.pop()[1] + text
        self.said.append(("data", text))


class Ours(Told, Markup):
    pass


class Theirs(Told, HTMLParser):
    def handle_starttag(self, tag, attrs):
        self.start(tag)

    def handle_startendtag(self, tag, attrs):
        self.empty(tag)

    def handle_endtag(self, tag):
        self.end(tag)

    def handle_data(self, data):
        self.data(data)


SOUND = (
    *(
        "<p>",
        "</p>",
        "<DIV class=a>",
        "</div >",
        "<br/>",
        '<a href="x>y" b=\'"\'>',
        "</a>",
        "<hr />",
    ),
    *("<td\nx>", "<!-- <p> -->", "<!doctype html>", "<?xml version='1'?>", "<!---->", "<h1>"),
    *(
        "<script>if (a < b) '<p>' </script>",
        "<STYLE>x{}</Style>",
        "<my-tag data-x=1>",
        "<a b = 'c'>",
    ),
    *(
        "tea",
        " ",
        "\n",
        "&amp;",
        "&lt;p&gt;",
        "é",
        "1 < 2 ",
        "a > b",
        "&#65;",
        "&nbsp",
        "'",
        '"',
        "=",
    ),
)


@given(st.lists(st.sampled_from(SOUND), max_size=12).map("".join))
def test_sound_markup_is_told_as_by_the_parser_of_python(page):
    ours, theirs = Ours(), Theirs()
    ours.feed(page)
    theirs.feed(page)
    theirs.close()
    assert ours.said == theirs.said


ENDLESS = {
    "tags": "<a ",
    "values": '<a b="',
    "either quote": "<a b='<a c=\"",
    "values with ends": "<a b='>",
    "comments": "<!--",
    "comments with ends": "<!-->-",
    "sections": "<![CDATA[",
    "declarations": "<!a",
    "instructions": "<?",
    "ends": "</",
    "scripts": "<script>",
    "scripts that end": "<script></scrip></style>",
    "signs": "<",
    "numbers": "&#",
    "elements": "<div><table><tr><td>a",
    "spaces": "<a =      ",
}


@pytest.mark.parametrize("last", ["", ">", "'>", '">', "-->", "]]>"])
@pytest.mark.parametrize("shape", ENDLESS)
def test_what_never_ends_is_looked_at_a_few_times_however_often_it_begins(shape, last):
    for n in (1_000, 2_000):
        page = ENDLESS[shape] * n + last
        told = Ours()
        told.feed(page)
        assert told.n_scanned <= 6 * len(page)
        assert len(told.said) <= len(page)
        HtmlReader().read(page.encode(), name="a.html")


@given(st.text(alphabet="<>/!?-[]a=' \"&#;\n", max_size=60))
def test_no_page_is_refused_and_each_is_looked_at_a_few_times(page):
    told = Ours()
    told.feed(page)
    assert told.n_scanned <= 8 * len(page) + 8
    read = HtmlReader().read(page.encode(), name="a.html")
    assert len(read.text) <= 2 * len(page)


def test_text_behind_markup_that_never_ends_is_kept():
    for begun in ("<!-- ", "<a b='", "<![CDATA[", "<p", "</p"):
        assert "tea" in HtmlReader().read(f"<p>one</p>{begun} tea".encode(), name="a.html").text


def test_a_number_of_many_digits_is_text():
    page = f"<p>tea &#{'1' * 9_000}; here</p>"
    assert HtmlReader().read(page.encode(), name="a.html").text.endswith("; here")
