"""The recall in other languages: whole conversations, and a table of what is found in them."""

import re
from pathlib import Path

import pytest

from benchmarks import languages

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "by_subject.md"


@pytest.mark.parametrize("language", languages.LANGUAGES)
def test_a_conversation_is_long_enough_and_has_what_its_questions_ask_for(language):
    lines = languages.lines_of(language)
    turns = [line["id"] for line in lines if "text" in line]
    asked = [line for line in lines if "question" in line]
    assert len(set(turns)) == len(turns) >= 60
    assert len({line["question"] for line in asked}) == len(asked) >= 40
    assert all(line["evidence"] and set(line["evidence"]) <= set(turns) for line in asked)
    in_other_words = sum(line["by"] == "paraphrase" for line in asked)
    assert 0.4 < in_other_words / len(asked) < 0.6


async def test_a_row_says_what_words_find(capsys):
    await languages.main(["--only", "Turkish", "--embedder", "none"])
    row = capsys.readouterr().out.splitlines()[-1].split("|")[1:-1]
    assert [cell.strip() for cell in row[:2]] == ["Turkish", "46"]
    # What is asked in other forms of a turn's words is found by their stems.
    assert int(row[-2]) > 90


def test_the_page_has_a_row_for_each_language():
    rows = re.findall(
        r"^\| ([A-Z][a-z]+) \| \d+ \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(rows) == set(languages.LANGUAGES)
