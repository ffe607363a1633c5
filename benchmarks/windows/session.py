"""One conversation as one session with tools, and what a summariser says of it: the same for all sides.

Nothing here needs more than Python, since the peers' environments import it, too.
"""

import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Said = dict[str, Any]
"""A message as OpenAI's chat completions have it: `role`, `content`, `tool_calls`, `tool_call_id`."""

A_TOOL_EVERY = 6
"""Before so many answers' last one, two tools are called at once."""
SUMMARY_CHARACTERS = 1_200
"""As long as a summary gets, about 300 tokens."""
_WORDS = ["kettle", "harbour", "ledger", "meadow", "lantern", "copper", "orchard", "signal"]


def session(conversation: dict[str, Any]) -> list[Said]:
    """What was said, in order: the first speaker is the user, the other one answers, tools are called."""
    draw, said, n_answers = random.Random(0), list[Said](), 0
    user = conversation["speakers"][0]
    for turn in conversation["turns"]:
        if turn["speaker"] == user:
            said.append({"role": "user", "content": turn["text"]})
            continue
        n_answers += 1
        if n_answers % A_TOOL_EVERY == 0:
            said += _looked_up(n_answers, draw)
        said.append({"role": "assistant", "content": turn["text"]})
    return said


def _looked_up(number: int, draw: random.Random) -> Iterator[Said]:
    ids = [f"call_{number}_{which}" for which in "ab"]
    calls = [
        {
            "id": id,
            "type": "function",
            "function": {"name": "look_up", "arguments": json.dumps({"page": number})},
        }
        for id in ids
    ]
    yield {"role": "assistant", "content": "", "tool_calls": calls}
    for id in ids:
        yield {"role": "tool", "tool_call_id": id, "content": " ".join(draw.choices(_WORDS, k=60))}


def is_call(said: Sequence[Said], index: int) -> bool:
    """Whether the model is called for the message at `index`."""
    return said[index]["role"] == "assistant" and (
        index > 0 and said[index - 1]["role"] != "assistant"
    )


def summary(transcript: str) -> str:
    """A stand-in for a model: whole lines of the transcript, from all over it, up to a length."""
    lines = [line for line in transcript.splitlines() if line.strip()]
    share = max(1, -(-sum(map(len, lines)) // SUMMARY_CHARACTERS))
    found = "\n".join(lines[::share])
    return found[:SUMMARY_CHARACTERS]


def asked(path: Path) -> list[Said]:
    """The session of a conversation in a file."""
    return session(json.loads(path.read_text(encoding="utf-8")))


class Told:
    """What a side tells the benchmark: its windows, a line of JSON each, and what it asked for."""

    n_summaries = 0

    def summarised(self, transcript: str) -> str:
        """A summary, which is counted."""
        self.n_summaries += 1
        return summary(transcript)

    def window(self, messages: Sequence[Said]) -> None:
        """What a model is sent."""
        print(json.dumps({"window": messages}))

    def end(self) -> None:
        """There are no more."""
        print(json.dumps({"n_summaries": self.n_summaries}))
        sys.stdout.flush()
