"""A process that converses: `python worker.py PLACE WHO`; each line of its input is a verb and a word."""

import asyncio
import itertools
import sys

from pydantic_ai import messages as ai
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai_lance_context import LanceConversationStore, LanceMessageHistory


class Worker:
    """What it can be told to do."""

    def __init__(self, place, who):
        self._place = place
        self._who = who
        self._conversations = LanceConversationStore(place)
        self._loaded = None

    async def turns(self, n):
        """Save turns in one conversation, each until no one else was faster."""
        for number in range(int(n)):
            await self._saved("1", number)

    async def endlessly(self, id):
        """Save turns until the process is killed."""
        for number in itertools.count():
            await self._saved(id, number)
            say(number)

    async def append(self, n):
        """Append turns to a session by hand."""
        history = LanceMessageHistory(self._place, "by hand")
        for number in range(int(n)):
            await history.append(self._turn(number))
        await history.aclose()

    async def load(self, id):
        """Load a conversation that is saved later."""
        self._loaded = await self._conversations.load(id) or Conversation(conversation_id=id)

    async def save(self, number):
        """Save what was loaded."""
        self._loaded.messages += self._turn(number)
        try:
            await self._conversations.save(self._loaded)
        except ConversationConflict:
            return "conflict"
        return "saved"

    async def _saved(self, id, number):
        while True:
            await self.load(id)
            if await self.save(number) == "saved":
                return

    def _turn(self, number):
        return [
            ai.ModelRequest(parts=[ai.UserPromptPart(f"{self._who} asks {number}")]),
            ai.ModelResponse(parts=[ai.TextPart(f"{self._who} is told {number}")]),
        ]


def say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(place, who):
    worker = Worker(place, who)
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            verb, word = line.rstrip("\n").split(" ", 1)
            say(runner.run(getattr(worker, verb)(word)) or "done")


if __name__ == "__main__":
    main(*sys.argv[1:])
