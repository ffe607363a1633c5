"""What the engine remembers of the files that it has read: bounded by what is in use, not by what was.

The engine's cache of indexes may grow to 6 GiB, and keeps the pieces of indexes that have been made anew
since. A fixed bound would have a large vector index read from the disk for each search. So the caches are
begun anew once they have doubled: that drops what nobody asks for, and costs one more reading of what is.
"""

from typing import Any

import lancedb

_METADATA_BYTES = 64 * 1024 * 1024
"""What the engine remembers of manifests: by default 1 GiB, of which each commit takes 140 KB."""

_EVERY_N_LOOKS = 256
"""Looks at tables between two at the caches: the engine counts every piece anew. After the first so
many, the caches hold what is in use."""

_SLACK_BYTES = 16 * 1024 * 1024
"""What the caches may grow by, however little is in use."""


class Caches:
    """The caches of one connection."""

    def __init__(self) -> None:
        """Empty ones."""
        self.session: Any = lancedb.Session(metadata_cache_size_bytes=_METADATA_BYTES)
        """What the engine connects with."""
        self._n_looks = 0
        self._settled_bytes: int | None = None

    def are_outgrown(self) -> bool:
        """Whether they are twice as large as what was in use; to be asked at each look at a table."""
        self._n_looks += 1
        if self._n_looks % _EVERY_N_LOOKS:
            return False
        size: int = self.session.size_bytes
        if self._settled_bytes is None:
            self._settled_bytes = size
            return False
        return size > 2 * self._settled_bytes + _SLACK_BYTES
