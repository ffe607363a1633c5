"""The errors of the store, in one tree; each is also the matching builtin exception.

ContextStoreError
├── InvalidRequestError (ValueError)            the request itself is wrong; nothing was written
│   ├── DimensionMismatchError                  a vector of another length than the table's
│   ├── EmbeddingModelMismatchError             an embedder other than the table was built with
│   ├── FilterError                             a filter that cannot be understood
│   ├── UnreadableDocumentError                 a file without readable text
│   ├── ModelAnswerError                        an unusable answer of a language model
│   └── BudgetError                             a budget below the minimum of a window
├── NotFoundError (LookupError)                 a version, tag or table that does not exist
├── AlreadyExistsError (ValueError)             an id, tag or collection that is taken
├── ReadOnlyError (PermissionError)             a write to an earlier version, or read_only=True
├── StoreClosedError (RuntimeError)             the store was closed, or belongs to a parent process
├── BlockingCallError (RuntimeError)            a blocking call where it would wait for itself
├── ConflictError (RuntimeError)                others changed the expected state, or kept winning
│   ├── CompactionInProgressError               another process compacts; may be retried
│   ├── LockTimeoutError (TimeoutError)         others held a lock until the timeout
│   ├── DeadlockError                           each holder would wait for a lock of the next
│   └── StaleLockError                          the lock was lost: a write that needs it is refused
├── EmbeddingError (RuntimeError)               the embedder failed or returned nonsense
├── ModelError (RuntimeError)                   a language model's service is unreachable or refused
├── RerankingError (RuntimeError)               the reranker failed, or gave no scores
├── StorageError (OSError)                      the disk or the object store refused
│   └── StoreFormatError                        written by a newer release, or not a store
├── MissingExtraError (ImportError)             an optional dependency is not installed
└── InternalError (RuntimeError)                an unknown failure of the engine

Warnings are issued once for each store or embedder:

ContextStoreWarning (UserWarning)
├── NotEmbeddedWarning                          texts get no vectors without the embedder
├── TruncatedTextWarning                        a text is longer than the model's limit
├── NotRerankedWarning                          a search ran without the reranker, which failed
└── ElsewhereWarning                            the searched context is empty, others have records
"""

__all__ = [  # noqa: RUF022 - in the order of the tree
    # Errors
    "ContextStoreError",
    "InvalidRequestError",
    "DimensionMismatchError",
    "EmbeddingModelMismatchError",
    "FilterError",
    "UnreadableDocumentError",
    "ModelAnswerError",
    "ModelError",
    "BudgetError",
    "NotFoundError",
    "AlreadyExistsError",
    "ReadOnlyError",
    "StoreClosedError",
    "BlockingCallError",
    "ConflictError",
    "CompactionInProgressError",
    "LockTimeoutError",
    "DeadlockError",
    "StaleLockError",
    "EmbeddingError",
    "RerankingError",
    "StorageError",
    "StoreFormatError",
    "MissingExtraError",
    "InternalError",
    # Warnings
    "ContextStoreWarning",
    "NotEmbeddedWarning",
    "TruncatedTextWarning",
    "NotRerankedWarning",
    "ElsewhereWarning",
]


class ContextStoreError(Exception):
    """The root of everything that the store raises on purpose."""


class InvalidRequestError(ContextStoreError, ValueError):
    """The request itself is wrong: the same call can only fail again. Nothing was written."""


class DimensionMismatchError(InvalidRequestError):
    """A vector has another length than the vectors that the table holds."""

    stored: int | None
    """The length of the table's vectors; None if the vectors of one call differ."""
    given: int | None
    """The length of the refused vector; None as above."""

    def __init__(
        self, message: str, *, stored: int | None = None, given: int | None = None
    ) -> None:
        super().__init__(message)
        self.stored, self.given = stored, given


class EmbeddingModelMismatchError(InvalidRequestError):
    """The embedder is another model than the one that the table was built with."""


class FilterError(InvalidRequestError):
    """A filter that cannot be understood: an unknown operator, an operand of the wrong shape."""


class UnreadableDocumentError(InvalidRequestError):
    """No text can be had of a file: it is encrypted, broken, too large, or has none."""


class ModelAnswerError(InvalidRequestError):
    """A language model's answer is refused, empty, cut off, no JSON, or JSON of another shape."""

    fault: str
    """Which of these, in a word: see `lance_context_core.models.FAULTS`."""

    def __init__(self, message: str, *, fault: str = "not_json") -> None:
        super().__init__(message)
        self.fault = fault


class BudgetError(InvalidRequestError):
    """A budget is smaller than the required sections of a window."""

    minimum: int
    """The tokens of the required sections: the minimum for the budget."""

    def __init__(self, message: str, *, minimum: int = 0) -> None:
        super().__init__(message)
        self.minimum = minimum


class NotFoundError(ContextStoreError, LookupError):
    """The named version, tag, collection or session does not exist."""


class AlreadyExistsError(ContextStoreError, ValueError):
    """An id, tag or collection is taken already."""


class ReadOnlyError(ContextStoreError, PermissionError):
    """A write through a view of an earlier version, or to a store that is open for reading only."""


class StoreClosedError(ContextStoreError, RuntimeError):
    """The store was closed, or was opened before this process was forked."""


class BlockingCallError(ContextStoreError, RuntimeError):
    """A blocking call on the store's own event loop, where it would wait for itself forever."""


class ConflictError(ContextStoreError, RuntimeError):
    """Other writers kept winning the commit: the call may be retried. Nothing was written.

    Or a precondition of the caller failed: read the current state first.
    """


class CompactionInProgressError(ConflictError):
    """A compaction of the same table is running. The call may be retried."""


class LockTimeoutError(ConflictError, TimeoutError):
    """Others held the lock for as long as the caller would wait. The call may be retried."""


class DeadlockError(ConflictError):
    """Waiting for this lock would never end: each holder waits for a lock of the next one.

    Release the held locks, let the others finish, and acquire again.
    """

    cycle: tuple[tuple[str, str], ...] = ()
    """Pairs of owner and resource; each waits for the next, the last for the first."""


class StaleLockError(ConflictError):
    """A lock is held no more: its lease has passed, or another process took it. Nothing was written."""


class EmbeddingError(ContextStoreError, RuntimeError):
    """The embedder failed, or returned something that is not one finite vector per text."""


class ModelError(ContextStoreError, RuntimeError):
    """The service of a language model did not answer, or not as such a service does."""


class RerankingError(ContextStoreError, RuntimeError):
    """The reranker failed, or returned something that is not one finite score per text."""


class StorageError(ContextStoreError, OSError):
    """The disk or the object store refused: permissions, space, network, a missing file."""


class StoreFormatError(StorageError):
    """The directory was written by a newer release of the store, or is not a store of ours."""


class MissingExtraError(ContextStoreError, ImportError):
    """An optional dependency is not installed; the message has the command that installs it."""


class InternalError(ContextStoreError, RuntimeError):
    """The engine failed in a way that the store does not know; the cause is attached."""


class ContextStoreWarning(UserWarning):
    """The root of the store's warnings: the call succeeded, but possibly not as intended."""


class NotEmbeddedWarning(ContextStoreWarning):
    """Texts are written without vectors, since the embedder that made the others was not given."""


class TruncatedTextWarning(ContextStoreWarning):
    """A text is longer than the model's limit: its vector ignores the rest."""


class NotRerankedWarning(ContextStoreWarning):
    """The reranker failed, and the hits are ranked as they would be without it."""


class ElsewhereWarning(ContextStoreWarning):
    """A search found nothing, since all records are in other contexts than the one it looks in."""
