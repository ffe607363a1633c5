"""Whether the bytes of blobs are still those that their hashes were made of."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pyarrow as pa

from lance_context_core.codecs.blobs import BLOB, n_pieces
from lance_context_core.scope import SCOPE_PARTS

_COLUMNS = (*SCOPE_PARTS, "id", "hash", "kind", "position", "size", "data")


class Hashes:
    """The hashes of the blobs whose rows were seen so far."""

    def __init__(self) -> None:
        """None yet."""
        self._pieces: dict[tuple[Any, ...], tuple[Any, int]] = {}
        """Of each blob in pieces, what its bytes come to so far, and how many pieces were seen."""
        self._sizes: dict[tuple[Any, ...], tuple[str, int]] = {}

    def wrong(self, batch: pa.RecordBatch) -> Iterator[str]:
        """The ids of the blobs in these rows whose bytes are others; noted of those in pieces."""
        for row in batch.select(_COLUMNS).to_pylist():
            blob = (*(row[name] for name in SCOPE_PARTS), row["hash"])
            if row["kind"] == BLOB:
                if row["data"] is not None and sha256(row["data"]).hexdigest() != row["hash"]:
                    yield row["id"]
                elif row["data"] is None:
                    self._sizes[blob] = row["id"], n_pieces(row["size"] or 0)
                continue
            digest, n_seen = self._pieces.get(blob, (sha256(), 0))
            if digest is None or row["position"] != n_seen:
                self._pieces[blob] = None, n_seen  # They come in another order: nothing is told.
                continue
            digest.update(row["data"] or b"")
            self._pieces[blob] = digest, n_seen + 1

    def wrong_pieces(self) -> Iterator[str]:
        """The ids of the blobs in pieces whose bytes are others, or not all there."""
        for blob, (id, n_wanted) in self._sizes.items():
            digest, n_seen = self._pieces.get(blob, (sha256(), 0))
            if digest is None or not n_wanted:
                continue
            if n_seen != n_wanted or digest.hexdigest() != blob[-1]:
                yield id
