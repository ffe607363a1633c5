"""A process that uses the services: `python worker.py PLACE WHO`; each line of its input is a verb and a word."""

import asyncio
import itertools
import sys

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.genai import types
from google_adk_lance_context import LanceArtifactService, LanceSessionService

OF_ADA = {"app_name": "tutor", "user_id": "ada"}


class Worker:
    """What it can be told to do."""

    def __init__(self, place, who):
        self._who = who
        self._sessions = LanceSessionService(place)
        self._appending = LanceSessionService(place, stale="append")
        self._artifacts = LanceArtifactService(place)
        self._session = None

    async def create(self, id):
        """Create a session that another process creates, too."""
        try:
            await self._sessions.create_session(**OF_ADA, session_id=id, state={"by": self._who})
        except AlreadyExistsError:
            return "taken"
        return "created"

    async def read(self, id):
        """Read a session that is appended to later."""
        self._session = await self._sessions.get_session(**OF_ADA, session_id=id)

    async def append(self, text):
        """Append to what was read."""
        try:
            await self._sessions.append_event(self._session, self._event(text, 0))
        except StaleSessionError:
            return "stale"
        return "appended"

    async def turns(self, n):
        """Append at the end, wherever others are, and read again and again."""
        for number in range(int(n)):
            await self._appending.append_event(self._session, self._event("turn", number))

    async def fresh(self, n):
        """Append to what was just read, each until no one else was faster."""
        for number in range(int(n)):
            while True:
                await self.read("1")
                try:
                    await self._sessions.append_event(self._session, self._event("fresh", number))
                    break
                except StaleSessionError:
                    continue

    async def save(self, n):
        """Save versions of a file; tell their numbers."""
        numbers = [
            await self._artifacts.save_artifact(
                **OF_ADA, filename="user:a", artifact=types.Part(text=f"{self._who} {number}")
            )
            for number in range(int(n))
        ]
        return " ".join(map(str, numbers))

    async def endlessly(self, id):
        """Append until the process is killed."""
        self._session = await self._sessions.create_session(**OF_ADA, session_id=id)
        for number in itertools.count():
            await self._sessions.append_event(self._session, self._event("endless", number))
            say(number)

    def _event(self, text, number):
        return Event(
            author="user",
            content=types.Content(parts=[types.Part(text=f"{self._who} {text} {number}")]),
            actions={
                "state_delta": {
                    "last": f"{self._who} {text} {number}",
                    f"user:{self._who} {text}": number,
                    f"app:{self._who} {text}": number,
                }
            },
        )


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
