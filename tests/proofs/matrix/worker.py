"""One framework in a process of its own, which does what it is told: `python -m proofs.matrix.worker NAME PLACE`.

It reads a line of JSON, `["say", ["ada", …]]`, and answers with one, `{"found": …}` or `{"error": …}`,
until there are no more.
"""

import asyncio
import json
import os
import sys
import traceback
from importlib import import_module

from proofs.matrix import script

from lance_context_core import AsyncContextStore

PARTICIPANTS = {
    "core": ("participant_core", "Participant"),
    "langchain": ("participant_langchain", "Participant"),
    "llama_index": ("participant_llama_index", "Participant"),
    "openai_agents": ("participant_openai_agents", "Participant"),
    "runtime0": ("participant_runtime", "Participant"),
    "runtime1": ("participant_runtime", "ParticipantOf1"),
    "agentscope1": ("participant_agentscope1", "Participant"),
    "agentscope2": ("participant_agentscope2", "Participant"),
    "pydantic_ai": ("participant_pydantic_ai", "Participant"),
    "google_adk": ("participant_google_adk", "Participant"),
    "agent_framework": ("participant_agent_framework", "Participant"),
    "crewai": ("participant_crewai", "Participant"),
}
"""The module of each framework, and the class in it."""

VERBS = (
    *("forget", "search_said", "remember", "recall", "forget_memories"),
    *("add_documents", "find_documents", "delete_documents"),
)
"""What is asked of a framework as it is; None where it has no word for it."""


class Worker:
    """A framework, and what it has written as it was then."""

    def __init__(self, participant):
        self._participant = participant
        self._written = {}

    async def answer(self, verb, arguments):
        if verb in VERBS:
            return await getattr(self._participant, verb)(*arguments)
        return await getattr(self, verb)(*arguments)

    async def lacks(self):
        """The verbs that it has no word for."""
        return [verb for verb in VERBS if getattr(self._participant, verb) is None]

    async def say(self, user, session, lines):
        """Say something at the end of a conversation."""
        self._written[user, session] = await self._participant.say(user, session, lines)

    async def lines(self, user, session):
        """A conversation, as it reads it."""
        return self._participant.lines(await self._participant.messages(user, session))

    async def altered(self, user, session):
        """What of a conversation that it has begun is not equal any more to what it wrote."""
        found = self._participant.comparable(await self._participant.messages(user, session))
        for wrote, reads in zip(self._written[user, session], found, strict=False):
            if wrote != reads:
                return _apart(repr(wrote), repr(reads))
        n_wrote = len(self._written[user, session])
        return None if n_wrote <= len(found) else f"wrote {n_wrote} messages, reads {len(found)}"


def _apart(wrote, reads):
    """Where two texts are no more the same."""
    pairs = enumerate(zip(wrote, reads, strict=False))
    start = next((n for n, (one, other) in pairs if one != other), min(len(wrote), len(reads)))
    wrote, reads = (one[max(start - 60, 0) : start + 200] for one in (wrote, reads))
    return f"it wrote …{wrote}…, and reads …{reads}…"


def main(name, place):
    """Answer until the questions end."""
    # Frameworks print; the answers go where nobody else writes.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    module, participant = PARTICIPANTS[name]
    made = getattr(import_module(f"proofs.matrix.{module}"), participant)
    with asyncio.Runner() as runner:
        store = AsyncContextStore.open(place, embedder=script.embedder())
        worker = Worker(made(store))
        for line in sys.stdin:
            answer = _answer(runner, worker, *json.loads(line))
            answers.write(f"{json.dumps(answer)}\n")
            answers.flush()
        runner.run(store.close())


def _answer(runner, worker, verb, arguments):
    try:
        return {"found": runner.run(worker.answer(verb, arguments))}
    except Exception:  # noqa: BLE001 - told to whoever asked
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    main(*sys.argv[1:])
