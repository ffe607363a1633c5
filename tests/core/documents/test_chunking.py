"""Chunkers: nothing is lost, nothing is doubled but the overlap, and nothing is too long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import InvalidRequestError
from lance_context_core.documents import (
    DEFAULT_CHUNKS,
    LARGE_CHUNKS,
    SMALL_CHUNKS,
    Block,
    MarkdownReader,
    ReadDocument,
    TextChunker,
)

PIECES = [
    *("One. ", "Dr. No went! ", "e.g. this? ", "日本語です。", "次の文。", "word ", "x" * 30),
    *("\n\n", "\n", "\r\n", "\t", " ", "# Top\n", "## Below\n", "```\ncode\n\nmore\n```\n"),
    *("| a | b |\n|---|---|\n| 1 | 2 |\n", "e\u0301", "👍🏽", "\u2028", "\u00a0", "#tag\n"),
]
texts = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200
)
MEASURES = {"characters": len, "bytes": lambda text: len(text.encode())}


@st.composite
def chunkers(draw):
    overlap = draw(st.integers(0, 20))
    target = draw(st.integers(overlap + 1, 60))
    return TextChunker(
        target=target,
        most=target + draw(st.integers(0, 30)),
        least=draw(st.integers(0, target)),
        overlap=overlap,
        measure=draw(st.sampled_from(list(MEASURES.values()))),
    )


def covered(passages):
    return {at for one in passages for at in range(one.start, one.end)}


@pytest.mark.parametrize("is_markdown", [False, True], ids=["plain", "markdown"])
@given(text=texts, chunker=chunkers())
def test_any_text_is_cut_without_loss_and_doubled_only_in_the_overlap(is_markdown, text, chunker):
    read = MarkdownReader().read(text.encode(), name="x.md") if is_markdown else None
    document = read if read is not None and text else ReadDocument(text=text)
    passages = chunker.split(document)

    start = document.blocks[0].start if document.blocks else 0  # behind the front matter
    lost = {at for at in range(start, len(text)) if not text[at].isspace()} - covered(passages)
    assert lost == set()
    end = 0
    for one in passages:
        chunk = text[one.start : one.end]
        assert chunk == chunk.strip() != ""
        assert chunker.measure(chunk) <= chunker.most or len(chunk) == 1
        assert one.end > end
        assert chunker.measure(text[one.start : max(one.start, end)]) <= chunker.overlap
        end = one.end


def split(text, **settings):
    chunker = TextChunker(**{"target": 60, "most": 90, "least": 0, "overlap": 0, **settings})
    document = MarkdownReader().read(text.encode(), name="x.md")
    return [(text[one.start : one.end], one.section) for one in chunker.split(document)]


def test_what_a_passage_repeats_makes_it_no_longer_than_the_most():
    text = " ".join(f"Sentence {number:02}." for number in range(40))
    for most in (40, 45, 60):
        passages = TextChunker(target=40, most=most, least=0, overlap=20).split(
            ReadDocument(text=text)
        )
        lengths = {one.end - one.start for one in passages}
        assert max(lengths) <= most
        # Four sentences of twelve, and a space between two.
        assert (passages[1].start < passages[0].end) == (most >= 51)


def test_a_section_that_only_begins_like_another_is_not_within_it():
    found = split("# Tea\n\nGreen.\n\n# Teas\n\nBlack.", target=60, least=60)
    assert [section for _, section in found] == ["Tea to Teas"]


def test_paragraphs_are_put_together_up_to_the_target():
    text = "\n\n".join(f"Paragraph {number} is short." for number in range(4))
    assert [chunk for chunk, _ in split(text)] == [
        "Paragraph 0 is short.\n\nParagraph 1 is short.",
        "Paragraph 2 is short.\n\nParagraph 3 is short.",
    ]


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=12),
    st.sampled_from(["\n\n", "\n\n\n", " \n\n ", "\n \n"]),
    st.integers(12, 40),
)
def test_a_passage_holds_as_many_paragraphs_as_fit(lengths, between, target):
    words = ["x" * length for length in lengths]
    text, expected = between.join(words), [words[0]]
    for word in words[1:]:
        if len(expected[-1] + between + word) <= target:
            expected[-1] += between + word
        else:
            expected.append(word)
    chunker = TextChunker(target=target, most=target, least=0, overlap=0)
    cut = [text[one.start : one.end] for one in chunker.split(ReadDocument(text=text))]
    assert cut == expected


def test_a_heading_begins_a_passage_and_names_it():
    text = "# Travel\n\nBy train.\n\n## Flights\n\nBy plane.\n\n# Food\n\nIs paid."
    assert split(text) == [
        ("# Travel\n\nBy train.", "Travel"),
        ("## Flights\n\nBy plane.", "Travel > Flights"),
        ("# Food\n\nIs paid.", "Food"),
    ]


def test_a_passage_of_several_sections_names_all_of_it():
    text = "# Top\n\n## Keys\n\nTwo.\n\n## Pets\n\nNone."
    assert [section for _, section in split(text)] == ["Top > Keys", "Top > Pets"]
    assert [section for _, section in split(text, least=60)] == ["Top > Keys to Top > Pets"]
    assert [section for _, section in split("# Top\n\nAll.\n\n" + text[6:], least=60)] == ["Top"]


def test_a_heading_is_never_the_last_of_a_passage():
    text = "Before it there is some text, a little.\n\n# A heading\n\n" + "Below it. " * 5
    chunks = [chunk for chunk, _ in split(text, least=50)]
    assert chunks[1].startswith("# A heading\n\nBelow it.")


def test_code_and_tables_are_whole_where_they_fit_and_cut_at_lines_where_they_do_not():
    code = "```python\nx = 1\n\n\ny = 2\n```"
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | {n} |" for n in range(5))
    assert [chunk for chunk, _ in split(f"Some text.\n\n{code}\n\n{table}")] == [
        f"Some text.\n\n{code}",
        table,
    ]
    long = "```\n" + "\n".join(f"line {number}" for number in range(30)) + "\n```"
    assert all(re.fullmatch(r"(```|line \d+)(\n(```|line \d+))*", one) for one, _ in split(long))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        pytest.param(
            "We met Dr. No on Monday. He smiled! Did you, e.g. then, too?",
            ["We met Dr. No on Monday.", "He smiled!", "Did you, e.g. then, too?"],
            id="abbreviations end no sentence",
        ),
        pytest.param(
            "今日は雨です。明日は晴れるでしょう。本当ですか。",
            ["今日は雨です。", "明日は晴れるでしょう。", "本当ですか。"],
            id="Japanese has no spaces",
        ),
        pytest.param("यह एक है। यह दो है।", ["यह एक है।", "यह दो है।"], id="Hindi"),
    ],
)
def test_a_long_paragraph_is_cut_between_sentences(text, sentences):
    longest = max(map(len, sentences))
    assert [chunk for chunk, _ in split(text, target=longest, most=longest)] == sentences


def test_a_passage_repeats_whole_sentences_of_the_one_before():
    text = "First it was cold. Then it was warm. Now it is hot. Soon it is cold."
    assert [chunk for chunk, _ in split(text, target=40, overlap=20)] == [
        "First it was cold. Then it was warm.",
        "Then it was warm. Now it is hot. Soon it is cold.",
    ]


def test_nothing_is_repeated_over_a_page_or_a_heading():
    pages = ["One. Two. Three.", "Four. Five. Six."]
    blocks = (
        Block(start=0, end=16, page=1),
        Block(start=17, end=33, page=2),
    )
    chunker = TextChunker(target=30, most=60, least=0, overlap=20)
    passages = chunker.split(ReadDocument(text="\n".join(pages), blocks=blocks))
    assert [(one.start, one.end, one.page) for one in passages] == [(0, 16, 1), (17, 33, 2)]
    assert [chunk for chunk, _ in split("# A\n\nOne. Two.\n\n# B\n\nThree.", overlap=20)] == [
        "# A\n\nOne. Two.",
        "# B\n\nThree.",
    ]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"target": 0}, id="no target"),
        pytest.param({"target": 10, "most": 5}, id="most below the target"),
        pytest.param({"target": 100, "overlap": 100}, id="all is overlap"),
        pytest.param({"overlap": -1}, id="less than nothing"),
        pytest.param({"least": 1.5}, id="half a character"),
        pytest.param({"measure": "len"}, id="no function"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(InvalidRequestError, match=next(iter(settings))):
        TextChunker(**settings)


def test_a_sentence_that_ends_far_before_the_target_is_a_border_too():
    first, endless = "It began with tea.", "word " * 400
    chunker = TextChunker(target=1000, most=1000, least=0, overlap=0)
    text = f"{first} {endless}"
    cut = [text[one.start : one.end] for one in chunker.split(ReadDocument(text=text))]
    assert cut[0] == first
    assert [len(one) for one in cut[1:]] == [999, 999]


@pytest.mark.parametrize(
    "chunker", [SMALL_CHUNKS, DEFAULT_CHUNKS, LARGE_CHUNKS], ids=["small", "default", "large"]
)
def test_each_preset_cuts_about_as_long_as_it_says(chunker):
    text = "\n\n".join(f"Paragraph {n} says a little. It ends here." for n in range(2_000))
    lengths = [one.end - one.start for one in chunker.split(ReadDocument(text=text))]
    assert max(lengths) <= chunker.most
    assert min(lengths) >= chunker.least
    assert chunker.target * 0.9 < sorted(lengths)[len(lengths) // 2] <= chunker.most
