"""The benchmark of growing stores: its records are the same at every size, its figure is its table's."""

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from benchmarks.made_part import replaced
from benchmarks.scale.__main__ import SHOWN
from benchmarks.scale.figure import svg
from benchmarks.scale.page import TABLES
from benchmarks.scale.records import BATCH, Made

DOCS = Path(__file__).parents[2] / "docs" / "evidence"
SIZES = (10_000, 100_000, 1_000_000)
_SVG = "{http://www.w3.org/2000/svg}"


def lines_of(drawing):
    """The points of each line, and where its label stands, by name; and the guide's points."""
    root = ET.fromstring(drawing)  # noqa: S314 - our own
    lines = {}
    for group in root.findall(f"{_SVG}g[@class]"):
        label = group.find(f"{_SVG}text")
        points = [(float(c.get("cx")), float(c.get("cy"))) for c in group.findall(f"{_SVG}circle")]
        lines[label.text] = (points, float(label.get("y")))
    guide = root.find(f"{_SVG}path[@class='guide']").get("d")
    return lines, [float(one) for one in re.findall(r"[\d.]+", guide)]


def test_the_figure_shows_growth_by_its_slope_and_no_label_hides_another():
    times = {"flat": [5, 5, 5], "as the store": [1.5, 15, 150], "twins": [5.1, 5.1, 5.1]}
    lines, (x, y, end_x, end_y) = lines_of(svg(SIZES, times, title="T"))
    assert len({place for _, place in lines["flat"][0]}) == 1
    (left, bottom), (middle, _), (right, top) = lines["as the store"][0]
    assert (top - bottom) / (right - left) == pytest.approx((end_y - y) / (end_x - x), rel=0.01)
    assert middle == pytest.approx((left + right) / 2)
    labels = sorted(label for _, label in lines.values())
    assert np.diff(labels).min() >= 17


def test_the_figure_that_is_kept_is_of_the_same_run_as_the_table():
    page = (DOCS / "scaling.md").read_text(encoding="utf-8")
    cells = dict(re.findall(r"^\| (\S[^|]*) \| ms \|.*?\|.*?\| ([\d.,]+) \(", page, re.MULTILINE))
    drawing = (DOCS / "scaling.svg").read_text(encoding="utf-8")
    shown = dict(re.findall(r'">([^<>]+)<tspan[^>]*>([\d.]+ m?s)<', drawing))
    (calls,) = (lines for title, lines in TABLES.items() if title.startswith("A call"))
    names = {line.kind: line.what for line in calls}
    assert shown.keys() == SHOWN.keys()
    for label, duration in shown.items():
        number, unit = duration.split()
        in_table = float(cells[names[SHOWN[label]]].replace(",", ""))
        assert float(number) * (1_000 if unit == "s" else 1) == pytest.approx(in_table, rel=0.06)


def test_what_was_measured_replaces_its_own_part_of_a_page():
    page = (DOCS / "scaling.md").read_text(encoding="utf-8")
    once = replaced(page, "new", command="benchmarks.scale")
    assert once == replaced(once, "new", command="benchmarks.scale")
    before, after = once.split("\n\nnew\n\n")
    assert page.startswith(before)
    assert page.endswith(after)
    with pytest.raises(ValueError, match="the page has no"):
        replaced("# Another page", "new", command="benchmarks.scale")


@pytest.mark.slow
def test_records_are_the_same_at_every_size_and_as_frequent_as_they_say():
    def plain(batch):
        return [one | {"embedding": one["embedding"].tolist()} for one in batch]

    *_, second = Made().batches(2 * BATCH)
    assert plain(second) == plain(Made().batch(1))
    users = Counter(one["user_id"] for one in second)
    assert set(users.values()) == {BATCH // 100}
    assert set(Counter(one["session_id"] for one in second).values()) == {100}
    assert len({one["external_id"] for one in second} & {"x10000", "x19999", "x0"}) == 2
    vectors = np.array([one["embedding"] for one in second])
    nearest = np.sort(vectors[:200] @ vectors.T)[:, -2]
    # Of uniform noise in 384 dimensions, the nearest of 10,000 has a cosine of a fifth.
    assert np.median(nearest) > 0.5
