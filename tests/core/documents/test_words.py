"""Words that are parted are found as one; Markdown says more than it shows."""

import pytest

from lance_context_core import ContextStore
from lance_context_core.documents import MarkdownReader


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Donau\u00addampf\u00adschiff sails.", ["Donaudampfschiff"]),
        ("The Donau\u00ad\n  dampfschiff sails.", ["Donaudampfschiff"]),
        ("This is infor-\nmation theory.", ["information", "theory"]),
        ("A well-\nknown fact.", ["well", "known", "wellknown"]),
        ("By Anna-\nLena alone.", ["Anna", "Lena"]),
    ],
)
def test_a_word_that_is_parted_is_found_and_the_text_stays_as_it_is(text, words):
    with ContextStore.open("memory://") as store:
        added = store.documents.add(text.encode(), name="a.txt")
        for word in words:
            assert [hit.record.text for hit in store.documents.search(word, mode="text")] == [text]
        assert store.documents.text(added.id) == text


def read(text):
    return MarkdownReader().read(text.encode(), name="a.md")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: >\n  A long\n  title\n---\nx\n", "A long title"),
        ("---\ntitle: |-\n  Two\n  lines\nof: it\n---\nx\n", "Two\nlines"),
        ("---\ntitle: A long\n  title\nof: it\n---\nx\n", "A long title"),
        ('+++\ntitle = "Tea"\ndate = 2026-01-02\nrate = inf\n+++\n# A\nx\n', "Tea"),
        ("+++\nno toml\n+++\n# A\n", "A"),
        ("<!--\n# hidden\n-->\n# Real\nx\n", "Real"),
        ("<!-- a --> b\n# Real\n", "Real"),
        ("<!-- never ends\n# Real\n", "Real"),
        ("# [Tea](https://x.y) `c`\nx\n", "Tea c"),
        ("# **Tea** and _cake_ of snake_case_names\n", "Tea and cake of snake_case_names"),
        ("# 2 * 3 * 4 is \\*less\\*\n", "2 * 3 * 4 is *less*"),
        ("# ![A fox](fox.png) <b>here</b> {#top}\n", "A fox here"),
    ],
)
def test_the_title_of_markdown_is_what_it_says_without_its_marks(text, title):
    found = read(text)
    assert (found.title, found.text) == (title, text)
    assert {one.section for one in found.blocks} <= {None, title, "A"}


def test_the_fields_of_front_matter_are_kept_as_json():
    fields = read("+++\ntags = ['a']\ndate = 2026-01-02\n[of]\nx = 1.5\n+++\n# A\n").properties
    assert fields["front_matter"] == {"tags": ["a"], "date": "2026-01-02", "of": {"x": 1.5}}
