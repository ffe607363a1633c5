"""What the parts of messages become in any framework's words."""

import pytest

from lance_context_core.adapting import arguments_of, arguments_text


@pytest.mark.parametrize("given", [
    {"city": "Osl\u00f8"}, '{"city": "Osl\u00f8"}', '{"city": "Osl\\u00f8"}',
], ids=["by name", "letters as they are", "letters escaped"])  # fmt: skip
def test_arguments_are_read_by_name_however_they_are_written(given):
    assert arguments_of(given) == {"city": "Osl\u00f8"}


@pytest.mark.parametrize(
    "text", ["", "Oslo", "{", "[1]", "1", "null", '"Oslo"', "[" * 100_000],
    ids=["nothing", "words", "cut off", "a list", "a number", "null", "a text", "too deep"],
)  # fmt: skip
def test_what_is_no_object_stays_the_text_that_it_is(text):
    assert arguments_of(text) == text == arguments_text(text)


def test_arguments_are_written_as_a_text_that_reads_back():
    assert arguments_text({"city": "Osl\u00f8", "n": 1}) == '{"city": "Osl\u00f8", "n": 1}'
    assert arguments_of(arguments_text({"a": [1, None]})) == {"a": [1, None]}


def test_what_is_read_is_the_caller_s_own():
    given = {"a": 1}
    arguments_of(given)["a"] = 2
    assert given == {"a": 1}
