"""What a search of one user's records costs, of many users' in one store.

    python -m benchmarks.scopes [--users 100] [--records 100] [--large 20000] [--repeats 100]

Milliseconds by the clock, and of CPU of all threads, medians, for hybrid searches with the local embedder
through the public API and with default options. Beside them LanceDB's own two queries of the same rows: the
nearest of that user's, and those that have the words. `embedding` is what the question's vector
costs, which each of our searches has in it.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import lancedb

from lance_context_core import AsyncContextStore, LocalEmbedder, Message

_WORDS = [
    f"{stem}{end}"
    for stem in ("river", "stone", "garden", "coffee", "travel", "doctor", "winter", "letter")
    for end in ("", "s", "ing", "er", "side", "house")
]
_LENGTH = 20
_QUESTION = "what did Ann say about the garden"
_LARGE = "large"


class Cost(NamedTuple):
    """What a call took, in milliseconds."""

    clock: float
    cpu: float


class Costs:
    """What calls took, by what they are."""

    def __init__(self) -> None:
        """None yet."""
        self.noted: dict[str, list[Cost]] = {}

    async def of(self, what: str, call: Callable[[], Awaitable[Any]]) -> None:
        """Do it, and note what it took."""
        start, used = time.perf_counter(), time.process_time()
        await call()
        used, took = time.process_time() - used, time.perf_counter() - start
        self.noted.setdefault(what, []).append(Cost(took * 1_000, used * 1_000))

    def medians(self) -> dict[str, Cost]:
        """The median of each."""
        return {
            what: Cost(median(one.clock for one in noted), median(one.cpu for one in noted))
            for what, noted in self.noted.items()
        }


async def measured(place: str, options: argparse.Namespace) -> dict[str, Cost]:
    """The medians, by what was asked."""
    draw, costs, embedder = random.Random(0), Costs(), LocalEmbedder()

    def text() -> str:
        return " ".join(draw.choices(_WORDS, k=_LENGTH))

    users, known = [f"u{n}" for n in range(options.users)], set[str]()
    async with AsyncContextStore.open(place, embedder="local", maintenance=None) as store:
        for user in users:
            await store.memory.add([text() for _ in range(options.records)], user_id=user)
            said = [
                Message.user(text(), name=("Ann", "Ben")[n % 2]) for n in range(options.records)
            ]
            await store.history.append_many(user, said, session_id=user)
        for _ in range(options.large // 1_000):
            await store.memory.add([text() for _ in range(1_000)], user_id=_LARGE)
        await store.maintain()
        engine = await (await lancedb.connect_async(place)).open_table("records")
        for number in range(options.repeats):
            user, asked = draw.choice(users), f"{_QUESTION} {draw.choice(_WORDS)} {number}"

            async def embed(asked: str = asked) -> None:
                embedder.embed_query(asked)

            # First, as nobody knows its vector yet.
            await costs.of("embedding", embed)
            vector = embedder.embed_query(asked)
            where = f"user_id = '{user}' AND kind = 'memory'"

            async def raw(where: str = where, vector: Any = vector, asked: str = asked) -> None:
                near = engine.query().nearest_to(vector).distance_type("cosine").where(where)
                await near.select(["id", "text", "_distance"]).limit(10).to_list()
                words = engine.query().nearest_to_text(asked, columns="search_text").where(where)
                await words.select(["id", "text", "_score"]).limit(10).to_list()

            def memories(
                user: str = user, asked: str = asked, filter: Any = None
            ) -> Callable[[], Any]:
                return lambda: store.memory.search(asked, user_id=user, filter=filter)

            def turns(user: str = user, asked: str = asked) -> Any:
                return store.history.search(asked, agent_id=user)

            await costs.of("LanceDB's two queries", raw)
            is_first = user not in known
            known.add(user)
            await costs.of("memories, cold" if is_first else "memories", memories(user))
            nobody = memories(filter={"metadata.n": number})
            await costs.of("memories, a filter nobody meets", nobody)
            await costs.of("turns, cold" if is_first else "turns", turns)
            await store.memory.add([text()], user_id=user)
            await costs.of("memories, right after a write", memories(user))
            await store.flush()
            if options.large:
                await costs.of(f"memories, {options.large:,} in the scope", memories(_LARGE))
    return costs.medians()


async def main(arguments: Sequence[str]) -> None:
    """Print the table that `arguments` ask for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scopes", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--users", type=int, default=100, help="users of the store")
    parser.add_argument("--records", type=int, default=100, help="memories of each, and turns")
    parser.add_argument("--large", type=int, default=20_000, help="memories of one more, or 0")
    parser.add_argument("--repeats", type=int, default=100, help="repetitions of each query")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="scopes-") as place:
        print("| search | ms | ms of CPU |\n|---|---:|---:|")
        for what, cost in sorted((await measured(place, options)).items()):
            print(f"| {what} | {cost.clock:.2f} | {cost.cpu:.2f} |")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
