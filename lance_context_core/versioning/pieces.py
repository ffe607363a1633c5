"""The pieces of blobs in a merge: they are there where their blob is, whoever changed what of it."""

from collections.abc import Collection, Mapping
from dataclasses import field

import pyarrow as pa

from lance_context_core._util.frozen import frozen
from lance_context_core.codecs import blobs
from lance_context_core.codecs.blobs import BLOB
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage.lance.schema import KEY

COLUMNS = (KEY, "kind", "hash", "size", *SCOPE_PARTS)
"""What must be known of the rows that the branch changed."""


@frozen
class Pieces:
    """The pieces of the blobs that a branch changed: by the key of each, that of its blob.

    The bytes of a hash are always the same, so of a piece itself there is nothing to decide.
    """

    blobs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, *changed: pa.Table) -> "Pieces":
        """The pieces of the blobs in these rows, and those that are among the rows."""
        found = {}
        for row in (row for table in changed for row in table.to_pylist()):
            scope = blobs.scope_of(row)
            if row["kind"] == BLOB:
                for position in range(blobs.n_pieces(row["size"])):
                    found[blobs.key(scope, row["hash"], position)] = row[KEY]
            else:
                found[row[KEY]] = blobs.key(scope, row["hash"])
        return cls(found)

    def missing(
        self, taken: Collection[str], removed: Collection[str], ours: Collection[str]
    ) -> list[str]:
        """Those that the target lacks of the blobs that it has after the merge."""
        stay = {*taken, *ours} - {*removed}
        return [one for one, blob in self.blobs.items() if blob in stay and one not in ours]

    def orphaned(self, removed: Collection[str], ours: Collection[str]) -> list[str]:
        """Those that the target has of the blobs that go."""
        gone = {*removed}
        return [one for one, blob in self.blobs.items() if blob in gone and one in ours]
