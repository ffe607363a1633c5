"""Vectors by text, the most recently used ones, within a number of bytes."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from lance_context_core.embedders._protocol import VectorArray

_ENTRY_BYTES = 300
"""What an entry takes beside the numbers: the array object, the digest and the place in the dict."""


class VectorCache:
    """Keeps at most `max_bytes`, forgets what was used longest ago; for any number of threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._vectors: OrderedDict[bytes, VectorArray] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def n_bytes(self) -> int:
        """What the vectors and their places take, about."""
        return self._n_bytes

    def get_many(self, texts: Iterable[str]) -> dict[str, VectorArray]:
        """The vectors that are known, by text; read-only arrays."""
        if not self._max_bytes:
            return {}
        digests = {text: _digest(text) for text in texts}
        found = {}
        with self._lock:
            for text, digest in digests.items():
                if (vector := self._vectors.get(digest)) is not None:
                    self._vectors.move_to_end(digest)
                    found[text] = vector
        return found

    def put_many(self, vectors: Mapping[str, VectorArray]) -> None:
        """Keep copies: a row of a batch would keep the whole batch in memory."""
        if not self._max_bytes:
            return
        copies = {}
        for text, vector in vectors.items():
            copy = copies[_digest(text)] = vector.copy()
            copy.flags.writeable = False
        with self._lock:
            for digest, copy in copies.items():
                if (old := self._vectors.pop(digest, None)) is not None:
                    self._n_bytes -= _size(old)
                self._vectors[digest] = copy
                self._n_bytes += _size(copy)
            while self._n_bytes > self._max_bytes:
                _, oldest = self._vectors.popitem(last=False)
                self._n_bytes -= _size(oldest)


def _size(vector: VectorArray) -> int:
    return vector.nbytes + _ENTRY_BYTES


def _digest(text: str) -> bytes:
    """128 bits: the text itself may be long, and Python's 64-bit hash can be made to collide."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
