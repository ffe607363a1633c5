"""Vectors by text, the most recently used ones, within a number of bytes."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from lance_context_core._recent import Recent
from lance_context_core.embedders._protocol import VectorArray

_ENTRY_BYTES = 300
"""What an entry takes beside the numbers: the array object, the digest and the place in the dict."""


class VectorCache:
    """Keeps at most `max_bytes`, forgets what was used longest ago; for any number of threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._vectors: Recent[bytes, VectorArray] = Recent(max_bytes, size_of=_size)

    @property
    def n_bytes(self) -> int:
        """What the vectors and their places take, about."""
        return self._vectors.size

    def get_many(self, texts: Iterable[str]) -> dict[str, VectorArray]:
        """The vectors that are known, by text; read-only arrays."""
        if not self._max_bytes:
            return {}
        found = {text: self._vectors.get(_digest(text)) for text in texts}
        return {text: vector for text, vector in found.items() if vector is not None}

    def put_many(self, vectors: Mapping[str, VectorArray]) -> None:
        """Keep copies: a row of a batch would keep the whole batch in memory."""
        if not self._max_bytes:
            return
        for text, vector in vectors.items():
            copy = vector.copy()
            copy.flags.writeable = False
            self._vectors.put(_digest(text), copy)


def _size(vector: VectorArray) -> int:
    return vector.nbytes + _ENTRY_BYTES


def _digest(text: str) -> bytes:
    """128 bits: the text itself may be long, and Python's 64-bit hash can be made to collide."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
