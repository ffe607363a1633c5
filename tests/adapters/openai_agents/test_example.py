"""The example, run as a user runs it where the SDK is installed."""

import re

import openai_agents_lance_context

import lance_context_core
from examples import folder_of, printed

PACKAGES = [folder_of(one) for one in (lance_context_core, openai_agents_lance_context)]


def test_the_agent_is_killed_while_it_works_and_goes_on_in_another_process(tmp_path):
    said = printed(
        "openai_agents_agent.py", "--store", tmp_path / "memory", cwd=tmp_path, folders=PACKAGES
    )
    before, killed, after = re.split(r"Process (\d+) was killed", said)
    assert f"in process {killed}" in before
    assert f"in process {killed}" not in after
    assert "unanswered: 'Write to Ada, Ben and Eve.'" in after
    # What was done before is not done again; what was not is.
    written = [re.findall(r"writes to (\w+)", part) for part in (before, after)]
    assert written == [["Ada"], ["Ben", "Eve"]]
    # What was said on Monday is recalled on Tuesday.
    assert "How do I sign? agent You told me on monday: My signature is: Countess" in after
    assert "monday 7 items" in after
    assert "'Countess' finds 'My signature is: Countess Lovelace.'" in after
