"""What is written and read: batches of messages that tell whose they are, and whether one is missing."""

import hashlib
import re
from dataclasses import dataclass

from lance_context_core import CallableEmbedder

USER = "ada"
"""Whose sessions they are."""

DIMENSION = 64
"""Enough for unequal texts to be far from each other. Of few numbers some are near by chance, and a turn
between two such gains more from these by the rule of neighbours than the turn that is asked for."""

_SAID = re.compile(r"(?P<name>\w+) says \d+ of (?P<size>[1-9]\d*)")


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages that are written by one call, and so by one commit."""

    name: str
    """A word, which no other batch has: it can be searched for."""
    size: int

    @property
    def texts(self):
        return [f"{self.name} says {n} of {self.size}" for n in range(self.size)]

    @property
    def messages(self):
        """The texts by the ids that they are written under, as often as that may be."""
        return {f"{self.name}.{n}": text for n, text in enumerate(self.texts)}


class TornError(Exception):
    """Messages do not stand together as they were written."""


def batches(texts):
    """The names of the batches that a history consists of, in order.

    Raises TornError if one of them is not whole, or has something between its messages.
    """
    names = []
    place = 0
    while place < len(texts):
        said = _SAID.fullmatch(texts[place])
        if said is None:
            raise TornError(f"{texts[place]!r} belongs to no batch")
        batch = Batch(said["name"], int(said["size"]))
        found = texts[place : place + batch.size]
        if found != batch.texts:
            raise TornError(f"{batch.name} is torn: there stands {found!r}")
        names.append(batch.name)
        place += batch.size
    return names


def digests(names):
    """For each number of names from the first one on, a text that stands for them."""
    digest = hashlib.blake2b(digest_size=8)
    yield digest.hexdigest()
    for name in names:
        digest.update(name.encode() + b"\0")
        yield digest.hexdigest()


def embedder():
    """What every process opens the store with: equal texts are near each other, others are not."""
    return CallableEmbedder(_embedded, model="soak", dimension=DIMENSION)


def vector_of(text):
    """What a message is found by."""
    (vector,) = _embedded([text])
    return vector


def _embedded(texts):
    # The store embeds the name of the speaker, too, where a framework knows it, and the date.
    said = (_SAID.search(text)[0] for text in texts)
    hashed = (hashlib.blake2b(text.encode(), digest_size=DIMENSION).digest() for text in said)
    return [[byte - 127.5 for byte in one] for one in hashed]
