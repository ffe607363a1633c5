"""The example, run as a user runs it where Microsoft Agent Framework is installed."""

import re

import agent_framework_lance_context
from agent_framework_lance_context import LanceHistoryProvider

import lance_context_core
from examples import folder_of, printed

PACKAGES = [folder_of(one) for one in (lance_context_core, agent_framework_lance_context)]


async def test_agent_and_workflow_are_killed_and_go_on_in_another_process(tmp_path):
    home = tmp_path / "memory"
    told = printed("agent_framework_agent.py", "--store", home, cwd=tmp_path, folders=PACKAGES)
    before, killed, after = re.split(r"Process (\d+) was killed", told)
    assert f"in process {killed}" in before
    assert f"in process {killed}" not in after
    # No letter is written twice, and none is left out.
    assert before.count("Dear Ben") == 1
    assert "Dear Ben" not in after
    assert "Dear Eve, … writer Dear Zoe, … All letters are written." in after
    assert "tutor 3 times, with this one." in after
    assert "user: I am allergic to nuts." in after
    assert "6 messages in the session 'monday'" in after
    async with LanceHistoryProvider(home, user_id="ada") as history:
        assert len(await history.get_messages("tuesday")) == 2
