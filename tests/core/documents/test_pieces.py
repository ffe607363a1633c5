"""Passages where somebody else's splitter cuts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import InvalidRequestError
from lance_context_core.documents import Block, PieceChunker, ReadDocument


def passages(text, pieces, blocks=()):
    document = ReadDocument(text=text, blocks=blocks)
    return PieceChunker(lambda _: pieces).split(document)


def spans(text, pieces):
    return [(one.start, one.end) for one in passages(text, pieces)]


@given(
    text=st.text(alphabet="ab \n世", max_size=40),
    cuts=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=8),
)
def test_every_piece_that_was_cut_is_found_in_order(text, cuts):
    starts = sorted({start for start, _ in cuts if start < len(text) and not text[start].isspace()})
    lengths = dict(cuts)
    pieces = [text[start : start + lengths[start]] for start in starts]
    found = passages(text, pieces)
    assert [text[one.start : one.end].split() for one in found] == [one.split() for one in pieces]
    assert all(a.start < b.start for a, b in pairwise(found))


@given(text=st.text(alphabet="ab \n世", max_size=40), cuts=st.sets(st.integers(1, 39), max_size=8))
def test_pieces_that_cover_a_text_cover_it_again(text, cuts):
    borders = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [text[a:b].strip() for a, b in pairwise(borders)]
    covered = {at for start, end in spans(text, pieces) for at in range(start, end)}
    assert covered >= {at for at, char in enumerate(text) if not char.isspace()}


def test_a_repeated_piece_begins_where_the_one_before_ends():
    assert spans("ab ab ab ab", ["ab ab", "ab ab"]) == [(0, 5), (6, 11)]


def test_overlapping_pieces_of_one_letter_all_have_a_place():
    assert spans("aaaaaaaa", ["aaaa"] * 3) == [(0, 4), (3, 7), (4, 8)]


def test_a_piece_may_have_other_white_space():
    assert spans("one\n\n\n two three", ["one\n\ntwo", " ", "three"]) == [(0, 10), (11, 16)]


def test_each_page_is_cut_by_itself():
    text = "Tea. Cake. Tea."
    blocks = (
        Block(start=0, end=4, page=1),
        Block(start=5, end=10, page=1, section="Sweet"),
        Block(start=11, end=15, page=2),
    )
    found = PieceChunker(lambda text: [text]).split(ReadDocument(text=text, blocks=blocks))
    assert [(one.start, one.end, one.page, one.section) for one in found] == [
        (0, 4, 1, None),
        (5, 10, 1, "Sweet"),
        (11, 15, 2, None),
    ]


@pytest.mark.parametrize("pieces", [["Coffee"], ["cake", "tea"], [7]])
def test_what_the_text_does_not_have_at_its_place_is_refused(pieces):
    with pytest.raises(InvalidRequestError, match="cut returned"):
        passages("tea and cake", pieces)


def test_what_cannot_cut_is_refused():
    with pytest.raises(InvalidRequestError, match="cut='sentences'"):
        PieceChunker("sentences")
