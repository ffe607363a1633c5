"""Whom a question names, and what of it is embedded without them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.text.queries import named, without_names

TWO = {"Melanie", "John"}


@pytest.mark.parametrize(
    ("question", "names", "meant"),
    [
        ("What did Melanie paint?", TWO, {"Melanie"}),
        ("What is Melanie's hobby?", TWO, {"Melanie"}),
        ("What is Melanie\u2019s hobby?", TWO, {"Melanie"}),
        ("What did Mel paint?", TWO, {"Melanie"}),
        ("Where did John and Melanie meet?", TWO, TWO),
        ("what did melanie paint?", TWO, {"Melanie"}),
        ("What did Ann Lee buy?", {"Ann Lee", "Bo"}, {"Ann Lee"}),
        ("What did Lee buy?", {"Ann Lee", "Bo"}, {"Ann Lee"}),
        ("What did Ann buy?", {"Ann", "Anna"}, {"Ann"}),
        ("What does the assistant advise?", {"user", "assistant"}, {"assistant"}),
        ("Who will come in May?", {"Will"}, set()),
        ("Will she come?", {"Will"}, set()),
        ("Did Will come?", {"Will"}, {"Will"}),
        ("who will come?", {"Will"}, set()),
        ("Melons are sweet, says who?", TWO, set()),
        ("\u738b\u4f1f\u559c\u6b22\u4ec0\u4e48", {"\u738b\u4f1f"}, {"\u738b\u4f1f"}),
        ("What now?", set(), set()),
        ("", TWO, set()),
    ],
)
def test_a_question_names_whom_a_reader_would_say(question, names, meant):
    assert named(question, names) == meant


@pytest.mark.parametrize(
    ("question", "rest"),
    [
        ("What did Melanie paint?", "What did paint?"),
        ("What is Mel's hobby?", "What is hobby?"),
        ("John, Melanie: who?", ", : who?"),
        ("Melanie?", "Melanie?"),
        ("John Melanie", "John Melanie"),
        ("What  is\nthis?", "What  is\nthis?"),
    ],
)
def test_names_are_left_out_unless_nothing_else_is_left(question, rest):
    assert without_names(question, TWO) == rest


@given(st.text(), st.sets(st.text(max_size=5), max_size=3))
def test_whatever_is_asked_and_whoever_speaks_a_question_stays_one(question, names):
    assert named(question, names) <= names
    rest = without_names(question, names)
    assert rest == question or any(map(str.isalnum, rest)) or "_" in rest
