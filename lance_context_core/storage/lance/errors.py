"""Translates the engine's error texts into the store's errors."""

import re
from collections.abc import Awaitable
from typing import TypeVar

from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    ContextStoreError,
    InternalError,
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
    StoreFormatError,
)

T = TypeVar("T")

_MAX_SHOWN = 300
"""The number of characters of the engine's text in a message."""

_DAMAGE = re.compile(
    r"invalid magic|not appear to be a Lance file|file size is too small|Invalid range"
    r"|does not have sufficient data|failed to decode Protobuf"
    r"|fill whole buffer|Not found: |was not found|corrupt|outside metadata region"
    r"|does not contain correct footer|negative or overflowing position|scalar value buffer"
    r"|sliced Buffer cannot exceed|UnknownEnumValue|kind: OutOfOrder"
    r"|(EOF while parsing|expected value at) .{0,40}?line \d+ column \d+"
)

_LOST_RACE = re.compile(
    r"Too many concurrent writers|Failed to commit the transaction after \d{1,9} retries"
)

# In this order: the first that occurs in the whole text wins. tests/core/test_engine_errors.py
# provokes them. The first is there because such a text quotes a caller's query, which may be
# anything.
_TEXTS: list[tuple[str, type[ContextStoreError], str]] = [
    (
        r"resolving filter expression|invalid SQL predicate|No field named",
        InternalError,
        "the engine does not understand the condition that the store made",
    ),
    (
        (
            r"No space left on device|Disk quota exceeded|(os error|code:) (28|122)\b"
            r"|XMinioStorageFull|status(?: code)?: 507\b"
        ),
        StorageError,
        "the disk is full: free some space, nothing was half written",
    ),
    (
        r"File too large|(os error|code:) 27\b",
        StorageError,
        "the file would be larger than this process or file system may write: raise the limit",
    ),
    (
        r"Not a directory|NotADirectory|(os error|code:) 20\b",
        StorageError,
        "a file is where a directory should be: name another directory, or move the file",
    ),
    (
        r"RequestTimeTooSkewed|RequestExpired|Request date header too old",
        StorageError,
        "the object store takes the clock of this machine for wrong: set it right",
    ),
    (
        r"SlowDown|ServerBusy|TooManyRequests|status(?: code)?: (429|503)\b",
        StorageError,
        "the object store asks for fewer requests: wait a while, and try again",
    ),
    (
        (
            r"Permission denied|Read-only file system|(os error|code:) (1|13|30)\b|AccessDenied"
            r"|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|status(?: code)?: 40[13]\b"
            r"|credential"
        ),
        StorageError,
        "permission denied: check the permissions, or the keys in storage_options",
    ),
    (
        r"NoSuchBucket|ContainerNotFound|specified (bucket|container) does not exist",
        StorageError,
        "the bucket does not exist: create it first",
    ),
    (
        r"No object store provider|LanceDb Cloud|Could not parse bucket|object store prefix",
        InvalidRequestError,
        "this URI names no storage: give a directory, memory://, or a bucket under s3://, gs:// or az://",
    ),
    (
        r"cannot be modified when a specific version is checked out",
        ReadOnlyError,
        "this is a view of an earlier version: write through the store itself, or restore it",
    ),
    (
        (
            r"(?i:commit conflict|incompatible transaction|too many concurrent writers"
            r"|retry.{0,300}?exhausted)"
        ),
        ConflictError,
        "other writers kept winning the commit: try again",
    ),
    (
        r"[Ff]ield '[^']{1,300}' (does not exist in table schema|not found in target schema)",
        ConflictError,
        "another writer has just taken a column from the table: try again",
    ),
    (
        r"(?i:(tag|table) .{0,300}? already exists|Clone operation should not enter build_manifest)",
        AlreadyExistsError,
        "it exists already: choose another name, or delete it first",
    ),
    (
        (
            r"(?i:version .{0,300}? no longer exists|version not found|ref not found"
            r"|(version|tag) .{0,300}? does not exist)"
        ),
        NotFoundError,
        "no such version or tag: see versions() and tags()",
    ),
    (
        r"(?i:table .{0,300}? was not found)",
        NotFoundError,
        "no such table",
    ),
    (
        r"(?i:upgrade Lance|upgrade to a newer|newer version of Lance|unsupported FTS format)",
        StoreFormatError,
        "it was written by a newer engine: upgrade lancedb",
    ),
    (
        _DAMAGE.pattern,
        StorageError,
        "a file of the store is missing or damaged: restore it from a copy, or an earlier version",
    ),
    (
        (
            r"Failed to connect to namespace|LanceError\(IO\)|Generic \w+ error|(?i:object store)"
            r"|(?i:connection)|(?i:timed? ?out)|(?i:os error)"
        ),
        StorageError,
        "the storage failed: check that it can be reached, and try again",
    ),
]
_MEANINGS = [(re.compile(pattern), kind, way_out) for pattern, kind, way_out in _TEXTS]

_SOURCE = re.compile(
    r",?\s*(\S{1,300}\.rs:\d+(:\d+)?|location: Location \{[^{}]{1,300}\}|backtrace: MaybeBacktrace)"
)
"""The positions in the engine's sources that its texts name."""


class translated:  # noqa: N801 - a word of the `with` statement, as `suppress` is
    """Translates the engine's errors in its block into store errors that name `action`.

    The cause is always kept. Errors of the store, cancellations and interrupts pass unchanged.
    """

    # A generator under contextlib.contextmanager would let StopIteration through: it takes a
    # RuntimeError raised from it for Python's own conversion in generators.

    def __init__(self, action: str) -> None:
        """`action` completes "cannot …", such as "read 'records'"."""
        self._action = action

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, ContextStoreError):
            raise meaning(error, self._action) from error


async def asked(action: str, work: Awaitable[T]) -> T:
    """The result of `work`, one call of the engine, with its errors `translated`."""
    try:
        return await work
    except ContextStoreError:
        raise
    except Exception as error:
        raise meaning(error, action) from error


def meant(action: str, error: Exception) -> Exception:
    """The meaning of an error during `action`; store errors stay as they are."""
    if isinstance(error, ContextStoreError):
        return error
    failure = meaning(error, action)
    failure.__cause__ = error
    return failure


def meaning(error: BaseException, action: str) -> ContextStoreError:
    """The store's error for an engine's `error` during `action`."""
    text = str(error)
    for pattern, kind, way_out in _MEANINGS:
        if pattern.search(text):
            return kind(f"cannot {action}: {way_out} ({_shown(text)})")
    return InternalError(
        f"cannot {action}: the engine failed with {type(error).__name__}, which is a defect, "
        f"please report it ({_shown(text)})"
    )


def is_missing_file(error: Exception) -> bool:
    """Whether a file is missing: damaged, or removed with an old version."""
    return "Not found: " in str(error.__cause__)


def may_pass(error: ContextStoreError) -> bool:
    """Whether a concurrent creation or removal, such as of a branch, may cause it."""
    if isinstance(error, StorageError):
        return is_damage(error) or "Directory not empty" in str(error.__cause__)
    return isinstance(error, NotFoundError | AlreadyExistsError | InternalError)


def is_lost_race(error: ContextStoreError) -> bool:
    """Whether other writers committed first each time, so that nothing was written."""
    return isinstance(error, ConflictError) and bool(_LOST_RACE.search(str(error.__cause__)))


def is_division_by_zero(error: ContextStoreError) -> bool:
    """Whether an expression divided by zero, as one does to stop a write."""
    return "Divide by zero" in str(error.__cause__)


def is_damage(error: ContextStoreError) -> bool:
    """Whether a file is missing, or not whole."""
    return isinstance(error, StorageError) and bool(_DAMAGE.search(str(error.__cause__)))


def is_panic(error: ContextStoreError) -> bool:
    """Whether the engine failed unexpectedly, as on meaningless bytes."""
    return isinstance(error, InternalError) and "panicked" in str(error.__cause__)


def damaged(action: str, file: str) -> StorageError:
    """The error for a `file` that prevents `action`."""
    return StorageError(
        f"cannot {action}: a file of the store is damaged: restore it from a copy, or an earlier "
        f"version{file}"
    )


def _shown(text: str) -> str:
    """The start and the end of `text`, which describe the failure, without source positions."""
    text = _SOURCE.sub("", _shortened(text, 10 * _MAX_SHOWN))
    return _shortened(text, _MAX_SHOWN)


def _shortened(text: str, length: int) -> str:
    half = length // 2
    return text if len(text) <= length else f"{text[:half]} … {text[-half:]}"
