"""Return types of calls, in addition to the stored values."""

from lance_context_core.audit.audit import AsyncAudit
from lance_context_core.audit.types import (
    AuditAction,
    AuditEntry,
    AuditHead,
    AuditProblem,
    AuditProblemKind,
    AuditReport,
    AuditRow,
    AuditRowAction,
    Recalled,
)
from lance_context_core.blobs.blobs import AsyncBlobs
from lance_context_core.coordination.checkpoints import AsyncCheckpoints, Checkpoint
from lance_context_core.coordination.locks import (
    Acquiring,
    AsyncLock,
    AsyncLocks,
    LockInfo,
    LockStats,
)
from lance_context_core.coordination.plan_types import AgentPlan, PlanStatus
from lance_context_core.coordination.plans import AsyncPlans
from lance_context_core.coordination.state import AsyncShortTermState
from lance_context_core.coordination.task_runner import TaskHandler, WorkDone
from lance_context_core.coordination.task_types import (
    Priority,
    Task,
    TaskEvent,
    TaskStats,
    TaskStatus,
)
from lance_context_core.coordination.tasks import AsyncTaskBoard, AsyncTaskStore
from lance_context_core.coordination.templates import AsyncTemplates, Template
from lance_context_core.graph.contradictions import AsyncStatements
from lance_context_core.graph.graph import AsyncGraph
from lance_context_core.information.tables import AsyncInformationTables
from lance_context_core.jobs.jobs import AsyncJobs, AsyncJobWorker
from lance_context_core.maintenance.compaction import CompactionStats
from lance_context_core.maintenance.types import StoreStats, TableStats, TableUpkeep
from lance_context_core.media.images import AsyncImages
from lance_context_core.memory_index.scopes import SearchCacheStats
from lance_context_core.replay import Replay, ReplayedQuestion
from lance_context_core.routing.router import EngineIndexStats, EngineStats
from lance_context_core.storage.lance.fragments import CompactionMetrics
from lance_context_core.storage.lance.retention import Reason
from lance_context_core.store.transactions import AsyncTransaction
from lance_context_core.sync.store import Transaction
from lance_context_core.sync.stores import (
    Audit,
    Blobs,
    Checkpoints,
    Graph,
    Images,
    InformationTables,
    Jobs,
    JobWorker,
    Lock,
    Locks,
    Plans,
    ShortTermState,
    Statements,
    TaskBoard,
    TaskStore,
    Templates,
    TieredMemory,
    Windows,
)
from lance_context_core.transfer.conversations import Exported, Imported
from lance_context_core.transfer.copying import Copied
from lance_context_core.types import (
    Blob,
    Branch,
    ChannelScore,
    Conflict,
    Diff,
    DocumentChunk,
    DocumentProgress,
    DocumentsAdded,
    DocumentsSynced,
    Erasure,
    FailedDocument,
    ImageRecord,
    ItemsAppended,
    ItemsWritten,
    MergeReport,
    Page,
    Progress,
    RecordChange,
    Resolution,
    SearchHit,
    SourceDocument,
    TableMerge,
    Version,
    WriteResult,
)
from lance_context_core.verify import Problem, Verification
from lance_context_core.versioning.prune import Thinned, ThinnedTable
from lance_context_core.window.windows import AsyncWindows

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # While it runs
    "Progress",
    # Reading
    "SearchHit",
    "ChannelScore",
    "Page",
    "SourceDocument",
    "DocumentChunk",
    # Writing
    "WriteResult",
    "ItemsAppended",
    "ItemsWritten",
    "Erasure",
    "Transaction",
    "AsyncTransaction",
    # Pictures
    "ImageRecord",
    "Images",
    "AsyncImages",
    # Bytes
    "Blob",
    "Blobs",
    "AsyncBlobs",
    # The graph
    "Graph",
    "AsyncGraph",
    "Statements",
    "AsyncStatements",
    "Exported",
    "Imported",
    "Copied",
    # Looking after it
    "Verification",
    "Problem",
    "Replay",
    "ReplayedQuestion",
    # Audit log
    "Audit",
    "AsyncAudit",
    "AuditEntry",
    "AuditAction",
    "AuditRow",
    "AuditRowAction",
    "AuditHead",
    "AuditReport",
    "AuditProblem",
    "AuditProblemKind",
    "Recalled",
    # Knowledge
    "Jobs",
    "AsyncJobs",
    "JobWorker",
    "AsyncJobWorker",
    # Tiers
    "TieredMemory",
    # Tables of fixed names
    "InformationTables",
    "AsyncInformationTables",
    # Windows that were kept
    "Windows",
    "AsyncWindows",
    # Working together
    "Locks",
    "Lock",
    "AsyncLocks",
    "AsyncLock",
    "Acquiring",
    "LockInfo",
    "LockStats",
    "TaskStore",
    "TaskBoard",
    "AsyncTaskStore",
    "AsyncTaskBoard",
    "Task",
    "TaskStatus",
    "Priority",
    "TaskEvent",
    "TaskStats",
    "TaskHandler",
    "WorkDone",
    "Plans",
    "AsyncPlans",
    "AgentPlan",
    "PlanStatus",
    "Templates",
    "AsyncTemplates",
    "Template",
    "ShortTermState",
    "AsyncShortTermState",
    "Checkpoints",
    "AsyncCheckpoints",
    "Checkpoint",
    "DocumentsAdded",
    "DocumentsSynced",
    "FailedDocument",
    "DocumentProgress",
    # Versions and branches
    "Version",
    "Branch",
    "Diff",
    "RecordChange",
    "MergeReport",
    "TableMerge",
    "Conflict",
    "Resolution",
    # Maintaining
    "StoreStats",
    "SearchCacheStats",
    "EngineStats",
    "EngineIndexStats",
    "TableStats",
    "TableUpkeep",
    "Thinned",
    "ThinnedTable",
    "Reason",
    "CompactionStats",
    "CompactionMetrics",
]
