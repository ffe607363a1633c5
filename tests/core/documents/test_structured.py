"""JSON, XML, reStructuredText and AsciiDoc: every value is read, and has the place that it stands at."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import ContextStore
from lance_context_core.documents import AsciidocReader, JsonReader, RstReader, XmlReader


def lines(read):
    return [(one.section, read.text[one.start : one.end]) for one in read.blocks]


def test_the_records_of_json_are_lines_with_the_names_of_their_values():
    content = {
        "shop": "Tea",
        "open": True,
        "place": {"city": "Oslo", "tags": ["old", "quiet"]},
        "goods": [
            {"name": "Green", "price": 3.5, "note": None},
            {"name": "Black", "sizes": [{"g": 100}, {"g": 200}]},
        ],
    }
    assert lines(JsonReader().read(json.dumps(content).encode(), name="a.json")) == [
        (None, "shop: Tea; open: true; place.city: Oslo; place.tags: old, quiet"),
        ("goods > item 1", "name: Green; price: 3.5"),
        ("goods > item 2", "name: Black"),
        ("goods > item 2 > sizes > item 1", "g: 100"),
        ("goods > item 2 > sizes > item 2", "g: 200"),
    ]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_json_lines_are_items(mark):
    content = mark + '{"a": "tea"}\n\n{"a": "cake"}\n'
    read = JsonReader().read(content.encode(), name="a.jsonl")
    assert lines(read) == [("item 1", "a: tea"), ("item 2", "a: cake")]


@pytest.mark.parametrize(
    "content", ["// a comment\n{}", "{", "[" * 5000, "tea", '"', "{} []", "[]", "{}"]
)
def test_what_is_no_json_or_has_no_value_is_read_as_text(content):
    assert JsonReader().read(content.encode(), name="a.json").text == content


WORDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)
VALUES = st.recursive(
    WORDS | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)


def leaves(value):
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from leaves(one)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


@given(st.dictionaries(WORDS, VALUES, min_size=1, max_size=4))
def test_every_value_of_json_is_in_the_text_as_often_as_in_the_file(value):
    text = JsonReader().read(json.dumps(value).encode(), name="a.json").text
    for leaf in set(leaves(value)):
        assert text.count(leaf) >= list(leaves(value)).count(leaf)


def test_the_texts_and_attributes_of_xml_are_read_without_tags():
    content = (
        '<?xml version="1.0" encoding="iso-8859-1"?><shop name="Caf\xe9"><!-- no -->'
        '<item id="1"><name>Green</name><price>3</price></item>'
        "<about><p>Tea is <b>hot</b>.</p><p>See <a href='x.html'>this</a></p></about></shop>"
    )
    assert lines(XmlReader().read(content.encode("latin-1"), name="a.xml")) == [
        (None, "name: Caf\xe9"),
        ("item", "id: 1; name: Green; price: 3"),
        ("about > p", "Tea is hot."),
        ("about > p", "See this; href: x.html"),
    ]


@pytest.mark.parametrize(
    "content",
    [
        "<a><b></a>",
        '<!DOCTYPE a [<!ENTITY x "tea">]><a>&x;</a>',
        "<a/>",
        pytest.param("<a>" * 3000, id="open"),
        pytest.param("<a>" * 5000 + "</a>" * 5000, id="deep"),
    ],
)
def test_xml_that_is_broken_or_declares_entities_is_read_as_text(content):
    assert XmlReader().read(content.encode(), name="a.xml").text == content


RST = """\
=====
Guide
=====

Tea.

Install
=======

.. code::

    Not a title
    ===========

Linux
-----

With apt.

Usage
=====

Pour | Drink
"""
ADOC = """\
= Guide
Ada <a@x.y>

Tea.

== Install

----
== no title
----

=== Linux

With apt.

== Usage ==

Pour.
"""


@pytest.mark.parametrize(
    ("reader", "text", "name"),
    [
        pytest.param(RstReader(), RST, "a.rst", id="rst"),
        pytest.param(AsciidocReader(), ADOC, "a.adoc", id="adoc"),
    ],
)
def test_the_titles_of_a_markup_are_the_sections_of_what_stands_below_them(reader, text, name):
    read = reader.read(text.encode(), name=name)
    assert (read.text, read.title) == (text, "Guide")
    headings = [one.section for one in read.blocks if one.kind == "heading"]
    assert headings == [
        "Guide",
        "Guide > Install",
        "Guide > Install > Linux",
        "Guide > Usage",
    ]
    below = next(one for one in read.blocks if "With apt" in text[one.start : one.end])
    assert below.section == "Guide > Install > Linux"
    # Nothing is outside of the blocks but white space.
    left = list(text)
    for one in read.blocks:
        left[one.start : one.end] = " " * (one.end - one.start)
    assert not "".join(left).strip()


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("a.json", "json"),
        ("a.jsonl", "json"),
        ("a.xml", "xml"),
        ("a.rst", "rst"),
        ("a.adoc", "asciidoc"),
    ],
)
def test_a_file_is_read_by_its_ending(name, type):
    with ContextStore.open("memory://") as store:
        assert store.documents.add(b'<a x="1">tea</a>', name=name).type == type
