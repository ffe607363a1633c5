"""The examples of docs/cookbook.md, each run as a user runs it."""

import re
from pathlib import Path

import pytest

import lance_context_core
from examples import folder_of, printed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")

pytestmark = [pytest.mark.process, pytest.mark.slow]


def shown(name, *arguments, cwd):
    """What an example prints, in one line."""
    return printed(name, *arguments, cwd=cwd, folders=[folder_of(lance_context_core)])


def test_the_page_names_examples_that_exist_and_all_of_this_module():
    named = set(re.findall(r"`examples/(\w+\.py)`", PAGE))
    assert named == {one.name for one in (ROOT / "examples").glob("*.py")} & named
    run_here = set(re.findall(r'shown\("(\w+\.py)"', Path(__file__).read_text(encoding="utf-8")))
    assert run_here <= named


def test_a_support_agent_recalls_within_its_tenant_and_erases_a_customer(tmp_path):
    said = shown("support_agent.py", tmp_path / "store", cwd=tmp_path)
    assert "agent: Last time your X200 lost its connection at 2 am." in said
    assert "acme/ada finds the door code: False" in said
    assert "globex/ada finds the door code: True" in said
    assert "a dry run would erase 2 records erased 2 records" in said
    assert "Acme still has 6 records" in said
    assert "files of the store that contain the door code: 0" in said


def test_a_tutor_proves_its_profile_and_undoes_one_lesson(tmp_path):
    said = shown("tutor.py", tmp_path / "store", cwd=tmp_path)
    four, rest = said.split("== After lesson 5")
    five, undone = rest.split("== After the undo")
    assert "level: A2 → B1 “My teacher says my level is B1 now.”" in four
    assert "on 20 March the level was A2" in four
    assert "level: A2 → B1 → C2" in five
    assert "level: A2 → B1 “My teacher says my level is B1 now.”" in undone
    assert "You teach German. The student's level: B1, goal: pass the B2 exam in June" in undone


def test_a_coding_agent_follows_its_repository_and_drops_an_experiment(tmp_path):
    said = shown("coding_agent.py", tmp_path, cwd=tmp_path)
    assert "The repository is indexed: 4 added" in said
    assert "[docs/decisions.md, Decisions > Money]" in said
    assert "Tax is rounded half to even, per cart." in said
    assert "on the branch: Prices move to decimals." in said
    assert "on main, 0 results" in said
    assert "1 updated, 1 deleted" in said
    assert 'RATE = 0.05 """Reduced again.""" [shop/tax.py]' in said


def test_what_other_systems_export_moves_once(tmp_path):
    said = shown("moving.py", tmp_path / "store", cwd=tmp_path)
    assert said.startswith("mem0: 1 moved Zep: 2 moved LangMem: 1 moved Chroma: 2 moved ")
    assert "moved again: 0 new records" in said
    assert "? trains or planes? Prefers trains to planes" in said
    assert "I moved to Bergen." in said
    assert "Ada sings in a choir." in said
    assert "? the nearest to a vector Tea is at four." in said


def test_a_research_assistant_cites_a_page_and_leaves_out_what_no_file_says(tmp_path):
    said = shown("research_assistant.py", cwd=tmp_path)
    assert "8 files read, 1 refused" in said
    assert "three months notice, [lease.pdf, p. 2, Deposit and notice]" in said
    assert "Left out, since no passage says so: There is a sauna in the cellar." in said
