"""What thirty nights of distillation leave behind, with a model that errs: `python -m benchmarks.rot`.

A made-up user speaks for some nights; facts change, are said again in other words, and small talk stands
between them. The assistant repeats what is remembered, as it is. The same scripted model, whose errors are
drawn by the seed, serves all memories:

- this one: `distill`, with a `ModelExtractor`, and once with a `ModelConsolidator`, too;
- append all: each fact that the model finds is kept;
- a loop as mem0 publishes it: for each fact the model is shown the nearest memories, and answers ADD,
  UPDATE, DELETE or NONE. It is written here; mem0 itself is not run.

The rot is counted twice: by an oracle that knows the script, and by `review`, which does not.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.made_part import replaced
from lance_context_core import ContextStore
from lance_context_core.knowledge import (
    FindingKind,
    ModelConsolidator,
    ModelExtractor,
    Review,
    review_export,
)
from lance_context_core.models import Completion, ModelRequest

BEGAN = datetime(2026, 1, 1, 20, tzinfo=UTC)
USER = "ada"
TURNS = 14
"""Of the user in a night."""
MISSED, INVENTED, UNSLOTTED, JUNK_KEPT, ECHOED = 0.1, 0.06, 0.15, 0.15, 0.5
"""How often the model misses a fact, makes one up, forgets the slot, keeps small talk, and takes
what was recalled for news."""
DECIDED_WRONG = 0.15
"""How often it decides wrongly what becomes of a memory."""

SLOTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "residence": (
        ("Oslo", "Bergen", "Rome", "Lisbon", "Vienna", "Ghent"),
        ("I live in {}.", "My home is in {} now.", "We are settled in {}."),
        ("Lives in {}", "Has a home in {}", "Resides in {}"),
    ),
    "employer": (
        ("Equinor", "Siemens", "Ikea", "Nokia", "Philips"),
        ("I work for {}.", "My employer is {}.", "{} pays my salary."),
        ("Works for {}", "Is employed by {}", "Has a job with {}"),
    ),
    "favourite food": (
        ("ramen", "pizza", "curry", "tacos", "goulash"),
        ("My favourite food is {}.", "I like {} best of all food.", "No dish beats {}."),
        ("Favourite food is {}", "Likes {} best", "Prefers {} to other dishes"),
    ),
    "car": (
        ("Volvo", "Fiat", "Tesla", "Skoda"),
        ("I drive a {}.", "My car is a {}.", "I have a {} in the garage."),
        ("Drives a {}", "The car is a {}", "Owns a {}"),
    ),
}
"""The values of each, how they are said, and how the model puts them."""
HOBBIES = ("chess", "rowing", "pottery", "sailing", "judo", "gardening", "archery", "singing")
LIKED = ("I love {}.", "I spend my weekends on {}.", "{} is a hobby of mine.")
LIKED_AS = ("Loves {}", "Spends weekends on {}", "Has {} as a hobby")
SMALL_TALK = (
    "Hello there!",
    "Thanks a lot!",
    "I'm so tired",
    "Where were we?",
    "I'm at the airport",
)
MADE_UP = (
    "Plays the banjo",
    "Collects stamps",
    "Was born in Peru",
    "Has twin brothers",
    "Fears dogs",
)

Meaning = tuple[str, str]
"""A slot and its value, or `likes` and what."""


def _meanings() -> dict[str, Meaning]:
    of: dict[str, Meaning] = {}
    for slot, (values, says, puts) in SLOTS.items():
        of |= {form.format(one): (slot, one) for one in values for form in (*says, *puts)}
    of |= {form.format(one): ("likes", one) for one in HOBBIES for form in (*LIKED, *LIKED_AS)}
    return of


MEANINGS = _meanings()
"""What each sentence that is said, and each text that the model makes of it, means."""
RECALLED = "As you told me: "


@dataclass(frozen=True)
class Turn:
    """A turn of the script."""

    id: str
    role: str
    text: str
    at: datetime


@dataclass
class Truth:
    """What is so by the script, and what was."""

    now: dict[str, str] = field(default_factory=dict)
    likes: set[str] = field(default_factory=set)
    ever: set[Meaning] = field(default_factory=set)

    def holds(self, meaning: Meaning) -> bool:
        """Whether it is so now."""
        slot, value = meaning
        return value in self.likes if slot == "likes" else self.now.get(slot) == value

    def all_of(self) -> set[Meaning]:
        """All that is so now."""
        return {*self.now.items(), *(("likes", one) for one in self.likes)}


def night(number: int, random: Random, truth: Truth) -> list[Turn]:
    """What the user says in a night; the truth becomes what is said."""
    turns = []
    for n in range(TURNS):
        draw = random.random()
        if draw < 0.25:
            text = random.choice(SMALL_TALK)
        elif draw < 0.4:
            truth.likes.add(liked := random.choice(HOBBIES))
            truth.ever.add(("likes", liked))
            text = random.choice(LIKED).format(liked)
        else:
            slot = random.choice([*SLOTS])
            values, says, _ = SLOTS[slot]
            if slot not in truth.now or random.random() < 0.12:
                truth.now[slot] = random.choice(values)
            truth.ever.add((slot, truth.now[slot]))
            text = random.choice(says).format(truth.now[slot])
        at = BEGAN + timedelta(days=number, minutes=2 * n)
        turns.append(Turn(f"n{number}-{n}", "user", text, at))
    return turns


def recalled(number: int, random: Random, memories: Sequence[str]) -> list[Turn]:
    """What the assistant repeats of a memory at the end of a night."""
    at = BEGAN + timedelta(days=number, hours=1)
    chosen = random.sample(memories, min(3, len(memories)))
    return [
        Turn(f"r{number}-{n}", "assistant", f"{RECALLED}{text}", at)
        for n, text in enumerate(chosen)
    ]


# The model


def answered(turns: Sequence[tuple[int, str]], seed: str) -> Iterator[dict[str, Any]]:
    """What the scripted model makes of numbered turns: the same of the same, whoever asks."""
    for number, text in turns:
        random = Random(f"{seed}/{number}/{text}")
        said = text.removeprefix(RECALLED)
        meaning = MEANINGS.get(said)
        if text.startswith(RECALLED) and random.random() >= ECHOED:
            continue
        if meaning is None:
            if said in MADE_UP or random.random() < JUNK_KEPT:
                yield {"turn": number, "quote": said, "text": said}
            continue
        if random.random() < INVENTED:
            # Half of what it makes up it gives words for that stand there.
            made_up = random.choice(MADE_UP)
            quote = said if random.random() < 0.5 else made_up
            yield {"turn": number, "quote": quote, "text": made_up}
        if random.random() < MISSED:
            continue
        slot, value = meaning
        puts = LIKED_AS if slot == "likes" else SLOTS[slot][2]
        found = {"turn": number, "quote": said, "text": random.choice(puts).format(value)}
        if slot != "likes" and random.random() >= UNSLOTTED:
            found |= {"slot": slot, "value": value}
        yield found


@dataclass(frozen=True)
class Scripted:
    """The model, as a `LanguageModel`."""

    seed: str
    name: str = "scripted"

    def complete(self, request: ModelRequest) -> Completion:
        """The facts of the turns that the prompt numbers, or what becomes of new facts."""
        lines = [json.loads(one) for one in (request.messages[1].text or "").splitlines()]
        if request.purpose == "consolidate":
            return Completion(data={"decisions": [*self._decided(lines)]})
        turns = [(one["turn"], one["text"]) for one in lines if "turn" in one]
        return Completion(data={"facts": [*answered(turns, self.seed)]})

    def _decided(self, lines: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """What becomes of each new fact: as right and as wrong as in the loop."""
        known = {one["known"]: one["fact"] for one in lines if "known" in one}
        for one in lines:
            if "new" not in one:
                continue
            mine = MEANINGS.get(one["fact"], ("", one["fact"]))
            random = Random(f"{self.seed}/{one['fact']}/{sorted(known.values())}")
            number = {n: MEANINGS.get(text, ("", text)) for n, text in known.items()}
            same = [n for n, meaning in number.items() if meaning == mine]
            of_slot = [n for n, (slot, _) in number.items() if slot == mine[0] not in ("", "likes")]
            if known and random.random() < DECIDED_WRONG:
                op = random.choice(["add", "merge", "supersede"])
                more = {} if op == "add" else {"known": random.choice([*known])}
                yield {"new": one["new"], "op": op, **more}
            elif same or of_slot:
                op, other = ("merge", same[0]) if same else ("supersede", of_slot[0])
                yield {"new": one["new"], "op": op, "known": other}


# The memories


class Ours:
    """A store, which is distilled each night."""

    def __init__(self, seed: str, *, consolidates: bool = False) -> None:
        self.clock = _Clock()
        self.store = ContextStore.open("memory://", clock=self.clock)
        model = Scripted(seed)
        self.memory = self.store.knowledge.using(
            extractor=ModelExtractor(model, slots=[*SLOTS]),
            consolidator=ModelConsolidator(model) if consolidates else None,
        )

    def sleep(self, number: int, turns: Sequence[Turn]) -> None:
        """Keep the turns of a day, and distil them."""
        self.clock.moment = BEGAN + timedelta(days=number, hours=2)
        given = [
            {
                "role": one.role,
                "content": one.text,
                "id": one.id,
                "created_at": one.at,
                "metadata": {"recalled": True} if one.role == "assistant" else {},
            }
            for one in turns
        ]
        self.memory.add(given, user_id=USER, session_id=f"night-{number}", infer="never")
        self.memory.distill(apply="merge")

    def texts(self) -> list[str]:
        """What is remembered."""
        return [one.text or "" for one in self.memory.list(user_id=USER)]

    def review(self) -> Review:
        """What the rules find in it."""
        return self.memory.review(user_id=USER)


class _Clock:
    moment = BEGAN

    def now(self) -> datetime:
        return self.moment


class AppendAll:
    """Keeps each fact that the model finds."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.kept: dict[str, tuple[str, datetime]] = {}

    def sleep(self, _number: int, turns: Sequence[Turn]) -> None:
        """Extract, and keep."""
        numbered = [(n, one.text) for n, one in enumerate(turns, 1)]
        for found in answered(numbered, self.seed):
            self.take(found["text"], turns[found["turn"] - 1].at)

    def take(self, text: str, at: datetime) -> None:
        """Keep a fact."""
        self.kept[f"m{len(self.kept)}"] = text, at

    def texts(self) -> list[str]:
        """What is remembered."""
        return [text for text, _ in self.kept.values()]

    def review(self) -> Review:
        """What the rules find in it."""
        exported = [
            {"id": id, "memory": text, "created_at": at.isoformat(), "user_id": USER}
            for id, (text, at) in self.kept.items()
        ]
        last = max((at for _, at in self.kept.values()), default=BEGAN)
        return review_export(exported, now=last)


class Loop(AppendAll):
    """For each fact the model is shown the nearest memories, and decides what becomes of them."""

    NEAR = 5

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.n_made = 0

    def take(self, text: str, at: datetime) -> None:
        """Do what the model answers."""
        words = {*text.casefold().split()}
        shared = {
            id: len(words & {*known.casefold().split()}) for id, (known, _) in self.kept.items()
        }
        near = sorted(shared, key=lambda one: -shared[one])[: self.NEAR]
        for event, id in self._decided(text, near):
            if event == "DELETE":
                del self.kept[id]
            else:
                self.kept[id] = text, at

    def _decided(self, text: str, near: Sequence[str]) -> list[tuple[str, str]]:
        """ADD, UPDATE, DELETE or nothing: what is right by the meanings, and at times what is not."""
        self.n_made += 1
        new, random = f"m{self.n_made}", Random(f"{self.seed}/{self.n_made}/{text}")
        mine = MEANINGS.get(text, ("", text))
        of = {id: MEANINGS.get(self.kept[id][0], ("", self.kept[id][0])) for id in near}
        if near and random.random() < DECIDED_WRONG:
            other = random.choice(near)
            return random.choice([[("ADD", new)], [("UPDATE", other)], [("DELETE", other)]])
        if mine in of.values():
            return []
        same_slot = [id for id, (slot, _) in of.items() if slot == mine[0] not in ("", "likes")]
        if not same_slot:
            return [("ADD", new)]
        return [("UPDATE", same_slot[0]), *(("DELETE", id) for id in same_slot[1:])]


MEMORIES: Mapping[str, Callable[[str], Any]] = {
    "this memory": Ours,
    "this memory, with a consolidator": partial(Ours, consolidates=True),
    "append all": AppendAll,
    "ADD, UPDATE, DELETE": Loop,
}


# The judges


def judged(texts: Sequence[str], truth: Truth) -> Counter[str]:
    """How many memories are right, said twice, no longer so, or wrong; and how many truths are missing."""
    found: Counter[str] = Counter()
    seen: set[Meaning] = set()
    for text in texts:
        meaning = MEANINGS.get(text)
        if meaning is None or meaning not in truth.ever:
            found["wrong"] += 1
        elif not truth.holds(meaning):
            found["stale"] += 1
        else:
            found["duplicate" if meaning in seen else "right"] += 1
            seen.add(meaning)
    found["missing"] = len(truth.all_of() - seen)
    return found


def lived(name: str, seed: int, nights: int) -> tuple[Counter[str], Review]:
    """Let a memory live through the nights; what the oracle and the review say of it then."""
    memory, truth = MEMORIES[name](str(seed)), Truth()
    script, chance = Random(f"script/{seed}"), Random(f"recall/{seed}")
    for number in range(nights):
        turns = night(number, script, truth)
        turns += recalled(number, chance, sorted(memory.texts()))
        memory.sleep(number, turns)
    return judged(memory.texts(), truth), memory.review()


COUNTED = ("right", "missing", "duplicate", "stale", "wrong")
KINDS: Sequence[FindingKind] = ("duplicate", "contradiction", "unproven", "loop", "stale", "junk")


def page(seed: int, nights: int) -> str:
    """The part of the page that has the figures."""
    lines = [
        f"Memories after {nights} nights of distillation with a scripted model that errs, for one synthetic user. The",
        "figures depend on the seed alone:",
        "",
        f"    python -m benchmarks.rot --seed {seed} --nights {nights}",
        "",
        f"Of 100 facts the model misses {100 * MISSED:.0f}, invents one for {100 * INVENTED:.0f}, and loses the slot of {100 * UNSLOTTED:.0f}; it keeps {100 * JUNK_KEPT:.0f} of 100",
        f'pieces of small talk, and treats {100 * ECHOED:.0f} of 100 repeated memories as new. "Append all" stores everything. The last memory is a loop as mem0',
        f"publishes it, written for this page: the model decides about the {Loop.NEAR} nearest memories and errs in {100 * DECIDED_WRONG:.0f} of 100 cases, as with the consolidator. mem0 itself was not run.",
        "",
        "Judged by an oracle that knows the script:",
        "",
        f"| memory | {' | '.join(COUNTED)} |",
        f"|---|{'---:|' * len(COUNTED)}",
    ]
    found = {name: lived(name, seed, nights) for name in MEMORIES}
    lines += [
        f"| {name} | {' | '.join(str(counts[one]) for one in COUNTED)} |"
        for name, (counts, _) in found.items()
    ]
    lines += [
        "",
        "`missing` counts truths without a memory, the other columns count memories. Judged by the rules of [`review`](../knowledge.md#review), which do not know the script:",
        "",
        f"| memory | memories | {' | '.join(KINDS)} |",
        f"|---|---:|{'---:|' * len(KINDS)}",
    ]
    for name, (_, review) in found.items():
        kinds = Counter(one.kind for one in review.findings)
        n = review.n_facts + review.n_memories
        lines.append(f"| {name} | {n} | {' | '.join(str(kinds[one]) for one in KINDS)} |")
    lines += [
        "",
        "Without a consolidator no model compares a new fact with known ones: a former value without its slot stays (stale), and a paraphrase is a second memory (duplicate). In both this memory is behind the loop.",
        "",
        "Rules check the form of a text, not its truth: they find neither well-formed inventions nor former values without a slot.",
        "",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Print the figures, and write them into a page if one is named."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rot",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--output", type=Path, help="a page whose marked part is rewritten")
    options = parser.parse_args(arguments)
    text = page(options.seed, options.nights)
    print(text)
    if options.output:
        old = options.output.read_text(encoding="utf-8")
        new = replaced(old, text, command="benchmarks.rot")
        options.output.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
