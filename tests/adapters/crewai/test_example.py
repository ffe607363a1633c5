"""The example, run as a user runs it where CrewAI is installed."""

import re

import crewai_lance_context
import pytest
from adapters.crewai.samples import contents
from crewai_lance_context import LanceFlowPersistence, LanceMemoryStorage

import lance_context_core
from examples import folder_of, printed

PACKAGES = [folder_of(one) for one in (lance_context_core, crewai_lance_context)]
pytestmark = pytest.mark.process


def test_the_crew_is_killed_in_the_middle_and_goes_on_in_another_process(tmp_path):
    home = tmp_path / "memory"
    told = printed("crewai_crew.py", "--store", home, cwd=tmp_path, folders=PACKAGES)
    before, killed, after = re.split(r"Process (\d+) was killed", told)
    assert f"in process {killed}" in before
    assert f"in process {killed}" not in after
    assert "I was told: Ada is allergic to nuts." in after
    assert "the trip goes to Oslo, Bergen" in after
    assert "a memory: Ada prefers trains to planes." in after
    assert "Ben has 0 memories." in after
    with LanceMemoryStorage(home, user_id="ada") as storage:
        assert sorted(contents(storage.list_records())) == [
            "Ada is allergic to nuts.",
            "Ada prefers trains to planes.",
        ]
    with LanceFlowPersistence(home, user_id="ada") as flows:
        assert flows.load_state("trip")["stops"] == ["Oslo", "Bergen"]
