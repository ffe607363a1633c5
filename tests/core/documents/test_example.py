"""The example reads its folder, cites, relates, replaces and erases."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "documents.py"


def run(*arguments):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONUTF8": "1", "PYTHONPATH": str(EXAMPLE.parents[1])},
    )
    assert done.stderr == ""
    return done.stdout


def test_the_example_answers_with_citations_and_forgets_what_it_erases(tmp_path):
    drawing = tmp_path / "house.svg"
    shown = run("--store", tmp_path / "store", "--drawing", drawing)
    assert len([*(EXAMPLE.parent / "data" / "house").iterdir()]) == 10
    assert "8 documents, 16 passages, 1 refused" in shown
    assert "scan.pdf: 'scan.pdf' cannot be read as PDF" in shown
    for citation in (
        "lease.pdf, p. 2, Deposit and notice",
        "laundry.html, Laundry room",
        "repairs.csv, row 2 to row 4",
        "roof.docx, Plan of the roof works > Costs",
        "handbook.md, Handbook of the house > Keys",
        "notes.txt",
        "minutes.md, Minutes of the meeting of 12 March 2026 > Yard",
    ):
        assert f"[{citation}" in shown
    assert "costs 30 euros" in shown.split("The handbook was replaced:")[1]
    assert "gutter over the door is bent\n  [image, image/svg+xml, " in shown
    assert "? Where is Nils Lindqvist mentioned?\n  [mail.txt]\n  [minutes.md, " in shown
    assert "named with: Inga Moreau, Rosa Okafor, roof works\n" in shown
    before, after = shown.split("! roof works begins: August [mail.txt] or June [minutes.md, ")[1:]
    assert "?\n  open, since" in before
    assert "?\n  August, since the mail came after the meeting\n" in after
    names = [one.text for one in ET.parse(drawing).iter() if one.get("class") == "name"]  # noqa: S314
    assert sorted(names) == ["Inga Moreau", "Nils Lindqvist", "Rosa Okafor", "roof works"]
    assert shown.endswith("The lease was erased: 1 document with its 1 file, from every file of the store.\n"
                          "  passages of it that are found: 0\n")  # fmt: skip


def test_a_question_of_ones_own_is_asked_of_a_folder_of_ones_own(tmp_path):
    (tmp_path / "tea.txt").write_text("Tea is at four.")
    assert "[tea.txt]" in run(tmp_path, "--ask", "when is tea?")
