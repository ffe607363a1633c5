"""How much is done in each round of an event loop."""

import asyncio
from collections import Counter

from lance_context_core._util import cooperative as steps

MOST_IN_A_ROUND = 2 * steps.STEP
"""Between two rounds of a loop may lie the end of one turn and the beginning of the next."""


class Rounds:
    """How much is noted in each round of an event loop."""

    def __init__(self):
        self.noted = Counter()
        self._n = 0

    def note(self):
        self.noted[self._n] += 1

    def noting(self, function):
        """The function, each call of which is noted."""

        def noted(*args, **kwargs):
            self.note()
            return function(*args, **kwargs)

        return noted

    async def __aenter__(self):
        self._going = asyncio.create_task(self._go_round())
        return self

    async def __aexit__(self, *_):
        self._going.cancel()

    async def _go_round(self):
        while True:
            self._n += 1
            await asyncio.sleep(0)
