"""The example, run as a user runs it where Pydantic AI is installed."""

import re

import pydantic_ai_lance_context
from pydantic_ai_lance_context import LanceConversationStore

import lance_context_core
from examples import folder_of, printed

PACKAGES = [folder_of(one) for one in (lance_context_core, pydantic_ai_lance_context)]


async def test_the_agent_is_killed_in_the_middle_and_goes_on_in_another_process(tmp_path):
    home = tmp_path / "memory"
    told = printed("pydantic_ai_agent.py", "--store", home, cwd=tmp_path, folders=PACKAGES)
    before, killed, after = re.split(r"Process (\d+) was killed", told)
    assert f"in process {killed}" in before
    assert f"in process {killed}" not in after
    # The turn that was cut short was not saved; what another conversation said is recalled.
    assert "How often did I speak to you? tutor 3 times" in after
    assert '"text":"I am allergic to nuts."' in after
    assert (
        "has the first 4 messages of 'monday'. ada How often did I speak to you? tutor 2" in after
    )
    assert "2 messages in the session 'monday by plane'" in after
    async with LanceConversationStore(home, user_id="ada") as conversations:
        listed = await conversations.list_conversations()
        assert [one.conversation_id for one in listed] == [
            *("monday by plane", "tuesday", "monday")
        ]
