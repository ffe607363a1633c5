"""The one place that reads the engine's error texts and says what they mean in the store's words."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    ContextStoreError,
    InternalError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
    StoreFormatError,
)

# Read from top to bottom, the first that matches wins; each is provoked by a test.
_MEANINGS: list[tuple[re.Pattern[str], type[ContextStoreError], str]] = [
    (
        re.compile(r"no space left|disk quota", re.IGNORECASE),
        StorageError,
        "the disk is full: free some space, nothing was half written",
    ),
    (
        re.compile(
            r"read-only file system|permission denied|os error 13|AccessDenied", re.IGNORECASE
        ),
        StorageError,
        "permission denied: the process may not read or write there",
    ),
    (
        re.compile(r"cannot be modified when a specific version is checked out"),
        ReadOnlyError,
        "this is a view of an earlier version: write through the store itself, or restore it",
    ),
    (
        re.compile(
            r"commit conflict|incompatible transaction|too many concurrent writers"
            r"|retry.*exhausted",
            re.IGNORECASE,
        ),
        ConflictError,
        "other writers kept winning the commit: try again",
    ),
    (
        re.compile(r"tag .* already exists|table .* already exists", re.IGNORECASE),
        AlreadyExistsError,
        "it exists already: choose another name, or delete it first",
    ),
    (
        re.compile(
            r"version .* no longer exists|version not found|version .* does not exist"
            r"|ref not found|tag .* does not exist",
            re.IGNORECASE,
        ),
        NotFoundError,
        "there is no such version or tag: see versions() and tags()",
    ),
    (
        re.compile(r"table .* was not found", re.IGNORECASE),
        NotFoundError,
        "there is no such table",
    ),
    (
        re.compile(
            r"feature flag|not supported by this version|unsupported.*format", re.IGNORECASE
        ),
        StoreFormatError,
        "it was written by a newer engine: upgrade lancedb",
    ),
    (
        re.compile(
            r"object store|Generic (S3|GCS|MicrosoftAzure|LocalFileSystem)|LanceError\(IO\)"
            r"|not found:|connection|timed? ?out|corrupt|os error",
            re.IGNORECASE,
        ),
        StorageError,
        "the storage failed",
    ),
]


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Raise what the engine raises inside the block as an error of the store that names `action`."""
    try:
        yield
    except ContextStoreError:
        raise
    except (ValueError, RuntimeError, OSError, KeyError) as error:
        raise meaning(error, action) from error


def meaning(error: BaseException, action: str) -> ContextStoreError:
    """The store's error for an engine's `error` that was raised while doing `action`."""
    text = _without_source_paths(str(error))
    for pattern, kind, way_out in _MEANINGS:
        if pattern.search(text):
            return kind(f"cannot {action}: {way_out} ({text})")
    return InternalError(f"cannot {action}: {text}")


def _without_source_paths(text: str) -> str:
    """`text` without the places in the engine's sources that it ends with, in at most 300 letters."""
    text = re.sub(r",? ?\S*/(?:\.cargo|registry|rustc)/\S+", "", text)
    return text if len(text) <= 300 else text[:297] + "..."
