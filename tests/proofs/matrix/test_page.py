"""The page that `make matrix` compares as a whole has a cell for every pair, and explains it."""

import re
from pathlib import Path

from proofs.matrix.limits import ALL, ASPECTS, LIMITS, TITLES, is_left_out, marks

PAGE = Path(__file__).parents[3] / "docs" / "evidence" / "matrix.md"


def test_the_page_has_a_cell_for_every_pair_as_the_limits_say():
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", text, re.MULTILINE)
    assert [name for name, _ in rows] == [TITLES[one] for one in ALL]
    for writer, (_, cells) in zip(ALL, rows, strict=True):
        for reader, cell in zip(ALL, cells.split(" | "), strict=True):
            n_asked = sum(not is_left_out(aspect, writer, reader) for aspect in ASPECTS)
            letters = "".join(marks(writer, reader))
            assert cell == (f"{n_asked} <sup>{letters}</sup>" if letters else f"{n_asked}")


def test_the_page_explains_every_limit_and_every_check():
    text = PAGE.read_text(encoding="utf-8")
    for mark, limit in LIMITS.items():
        assert f"| {mark} | {limit.reason} |" in text
    for aspect, said in ASPECTS.items():
        assert f"| `{aspect}` | {said} |" in text
