"""What an agent is shown of files: whole or by pieces, and nothing twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.coordination import FileContext
from lance_context_core.errors import InvalidRequestError

LINES = [
    f"line {n} is about {word}\n" for n, word in enumerate(["ants", "bees", "cats", "dogs", "eels"])
]
TEXT = "".join(LINES)


def test_a_small_file_is_shown_whole_and_once(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    files = FileContext()
    first = files.show(path, query="bees")
    assert (first.text, first.is_whole, first.lines) == (TEXT, True, ((1, 5),))
    again = files.show(str(path))
    assert again.is_repeat
    assert again.text == f"[{path} is in the context already]"


def test_only_a_line_feed_ends_a_line():
    text = "one\f\u2028\x85\n\ntwo\r\nthree"
    assert FileContext().show("a.txt", text=text).lines == ((1, 4),)


def test_of_a_large_file_the_pieces_with_most_of_the_words_are_shown():
    files = FileContext(whole_chars=50, piece_chars=30, n_pieces=2)
    shown = files.show("a.txt", query="cats and eels", text=TEXT)
    assert shown.text == f"[…]\n{LINES[2]}[…]\n{LINES[4]}"
    assert shown.lines == ((3, 3), (5, 5))
    assert not shown.is_whole


def test_where_no_word_is_found_the_beginning_is_shown():
    for query in ("", "zebras", "?!"):
        files = FileContext(whole_chars=50, piece_chars=30, n_pieces=2)
        assert files.show("a.txt", query=query, text=TEXT).text == f"{LINES[0]}{LINES[1]}[…]\n"


def test_of_another_question_only_what_is_new_is_shown():
    files = FileContext(whole_chars=50, piece_chars=30, n_pieces=1)
    assert files.show("a.txt", query="cats", text=TEXT).lines == ((3, 3),)
    assert files.show("a.txt", query="dogs", text=TEXT).lines == ((4, 4),)
    assert files.show("a.txt", query="cats", text=TEXT).is_repeat


def test_a_file_that_was_changed_or_forgotten_is_shown_anew():
    files = FileContext()
    files.show("a.txt", text="one")
    assert files.show("a.txt", text="two").text == "two"
    files.forget("a.txt")
    assert files.show("a.txt", text="two").text == "two"
    files.forget()
    assert not files.show("a.txt", text="two").is_repeat


def test_what_cannot_be_read_is_refused_and_what_is_no_text_is_shown_as_such(tmp_path):
    for path in (tmp_path, tmp_path / "none", "a\0b"):
        with pytest.raises(InvalidRequestError, match="cannot be read"):
            FileContext().show(path)
    (tmp_path / "b.bin").write_bytes(b"a\xffb")
    assert FileContext().show(tmp_path / "b.bin").text == "a\ufffdb"
    with pytest.raises(InvalidRequestError, match="n_pieces=0"):
        FileContext(n_pieces=0)


@given(text=st.text("ab \n\r\u2028é", max_size=80), most=st.integers(1, 20))
def test_all_pieces_together_are_the_file(text, most):
    files = FileContext(whole_chars=10, piece_chars=most, n_pieces=1_000)
    shown = files.show("a", text=text)
    assert (shown.text, shown.is_whole) == (text, True)
