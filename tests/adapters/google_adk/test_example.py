"""The example, run as a user runs it where ADK is installed."""

import re

import google_adk_lance_context
from adapters.google_adk.samples import get, texts
from google_adk_lance_context import LanceSessionService

import lance_context_core
from examples import folder_of, printed

PACKAGES = [folder_of(one) for one in (lance_context_core, google_adk_lance_context)]


async def test_the_agent_is_killed_in_the_middle_and_goes_on_in_another_process(tmp_path):
    home = tmp_path / "memory"
    told = printed("google_adk_agent.py", "--store", home, cwd=tmp_path, folders=PACKAGES)
    before, killed, after = re.split(r"Process (\d+) was killed", told)
    assert f"in process {killed}" in before
    assert f"in process {killed}" not in after
    # What was said is there, and what was not answered.
    assert "How often did I speak to you? tutor 4 times, with this one." in after
    assert "tutor I was told: 'I am allergic to nuts.'" in after
    assert "the state of Ada: {'notes': 2}; versions of her notes: [0, 1]" in after
    assert "11 messages in the session 'monday'" in after
    assert "a memory: I prefer trains to planes." in after
    async with LanceSessionService(home) as sessions:
        session = await get(sessions, "monday")
    assert texts(session)[-3:] == [
        *("Wait for me.", "How often did I speak to you?", "4 times, with this one."),
    ]
    assert "temp:text" not in session.state
