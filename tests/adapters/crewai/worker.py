"""A process that remembers: `python worker.py PLACE WHO`; each line of its input is a verb and a word."""

import os
import sys
from itertools import count

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
from adapters.crewai.flows import Booking
from adapters.crewai.samples import record
from crewai.flow.async_feedback.types import HumanFeedbackPending
from crewai_lance_context import LanceFlowPersistence, LanceMemoryStorage


class Worker:
    """What it can be told to do."""

    def __init__(self, place, who):
        self._who = who
        self._storage = LanceMemoryStorage(place)
        self._flows = LanceFlowPersistence(place)

    def save(self, n):
        """Save records one by one."""
        for number in range(int(n)):
            self._storage.save([record(f"{self._who} {number}", scope="/all")])

    def wait(self, id):
        """Let a flow wait for feedback."""
        waiting = Booking(persistence=self._flows).kickoff(inputs={"id": id})
        return "waits" if isinstance(waiting, HumanFeedbackPending) else "is done"

    def endlessly(self, scope):
        """Save batches of three, and a state after each, until the process is killed."""
        for number in count():
            self._storage.save([record(f"{number} {part}", scope=scope) for part in "abc"])
            self._flows.save_state("killed", "m", {"n": number})
            say(number)


def say(text):
    print(text, file=ANSWERS, flush=True)


def main(place, who):
    worker = Worker(place, who)
    say("ready")
    for line in sys.stdin:
        verb, word = line.rstrip("\n").split(" ", 1)
        say(getattr(worker, verb)(word) or "done")


if __name__ == "__main__":
    # CrewAI prints; the answers go where nobody else writes.
    ANSWERS, sys.stdout = sys.stdout, sys.stderr
    main(*sys.argv[1:])
