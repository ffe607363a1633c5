"""What goes wrong elsewhere is listed in the documentation, and each has a test."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "llama_index.md"

NOT_OURS = {33, 34}
"""What LlamaIndex's pipeline decides, so that the documentation says what to do about it."""


def test_each_defect_that_is_listed_cannot_happen_here():
    text = PAGE.read_text(encoding="utf-8")
    listed = [
        int(number) for number in re.findall(r"^\| (\d+) \| .+ \| .+ \|$", text, re.MULTILINE)
    ]
    marks = [
        int(number)
        for path in HERE.glob("test_*.py")
        for numbers in re.findall(
            r"^@pytest\.mark\.defect\(([\d, ]+)\)$", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        for number in numbers.split(",")
    ]
    assert listed == list(range(1, 38))
    assert set(marks) == set(listed) - NOT_OURS
