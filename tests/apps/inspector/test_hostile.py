"""Whatever was remembered is shown, and does nothing."""

import html
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from apps.inspector.conftest import crawled
from apps.inspector.stores import HOSTILE

SOURCES = "".join(
    one.read_text(encoding="utf-8")
    for one in files("lance_context_inspector").joinpath("templates").iterdir()
)
TAGS = {one.lower() for one in re.findall(r"<([a-zA-Z0-9]+)", SOURCES)}
ATTRIBUTES = {one.lower() for one in re.findall(r" ([a-zA-Z-]+[0-9]?)=", SOURCES)}
ATTRIBUTES |= {"defer", "hidden", "required", "selected", "download", "data-item"}
"""What the templates themselves are made of."""


class Read(HTMLParser):
    """What a browser makes of a page: its tags, its attributes, and its texts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.said = set(), set(), []
        self.links = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in {"href", "src", "action"}:
                self.links.append(value)

    def handle_data(self, data):
        self.said.append(data)


@pytest.mark.slow
async def test_a_store_full_of_hostile_texts_is_shown_as_texts(browse, hostile):
    browser = await browse(hostile, can_write=True)
    found = await crawled(browser, most=160)
    assert len(found) > 60
    shown = ""
    for link, answer in found.items():
        assert answer.status == 200, link
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        read = Read(answer.text)
        assert read.tags <= TAGS, link
        assert read.attributes <= ATTRIBUTES, link
        for target in read.links:
            assert re.match(r"/(?!/)|#main$|data:,$|https://example\.org/", target), (link, target)
        assert answer.text.count("<script") == 1
        assert answer.text.count("<h1") == 1
        # What is to be edited or sent back has to be what it is.
        exact = r"<textarea.*?</textarea>|<input [^>]*>"
        seen = re.sub(exact, "", answer.text, flags=re.DOTALL)
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", seen), link
        shown += "".join(read.said)
    for text in HOSTILE[:6]:
        assert text in shown, text
    assert "<U+202E>" in shown
    assert "␛[31m" in shown


async def test_bytes_that_are_no_picture_are_handed_over_as_a_file(browse, hostile):
    browser = await browse(hostile)
    for id in ("svg", "page"):
        answer = await browser.get("/blob", id=id)
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["content-security-policy"].startswith("sandbox")
    text = HOSTILE[0]
    answer = await browser.get("/blob", id=(await _turn(browser, text)), session=text, part="8")
    assert answer.headers["content-type"] == "application/octet-stream"


async def test_what_is_long_is_cut_and_is_a_file_as_a_whole(browse, hostile):
    browser = await browse(hostile)
    answer = await browser.get("/record", id="long")
    assert len(answer.body) < 150_000
    assert "more characters" in answer.text
    whole = await browser.get("/text", id="long")
    assert len(whole.body) > 1_000_000
    assert whole.headers["content-type"].startswith("text/plain")
    assert whole.headers["content-disposition"].startswith("attachment")


async def test_a_link_that_is_hostile_is_shown_as_a_text(browse, used):
    browser = await browse(used)
    for text in HOSTILE:
        for path, name in (
            ("/search", "q"),
            ("/record", "id"),
            ("/person", "user"),
            ("/facts", "at"),
        ):
            answer = await browser.get(path, **{name: text})
            read = Read(answer.text)
            assert read.tags <= TAGS
            assert "<script>" not in answer.text
            assert answer.text.count("<h1") == 1


async def _turn(browser, text):
    page = (await browser.get("/session.json", id=text)).text
    return re.search(r'"id": "([0-9a-f]{32})"', html.unescape(page))[1]
