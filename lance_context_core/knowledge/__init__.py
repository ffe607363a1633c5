"""Knowledge extracted from conversations: chunks, facts and summaries, each with its evidence."""

from lance_context_core.jobs import JOB_STATES, Job, JobBudget, JobState
from lance_context_core.knowledge.adding import Told
from lance_context_core.knowledge.builders import Model
from lance_context_core.knowledge.episodes import Episode
from lance_context_core.knowledge.extracting import ModelExtractor
from lance_context_core.knowledge.managed import AsyncManagedMemory, HasKnowledge
from lance_context_core.knowledge.policies import ModelConsolidator, SimilarConsolidator
from lance_context_core.knowledge.profiles import FieldValue, Profile, ProfileField
from lance_context_core.knowledge.prompts import ProfileSchema
from lance_context_core.knowledge.protocols import (
    AsyncParaphraser,
    Consolidator,
    Extractor,
    ExtractorInContext,
    Paraphraser,
    SessionSummariser,
)
from lance_context_core.knowledge.pruning import CandidateLevel, CandidateWeights, ScoredFact
from lance_context_core.knowledge.review_rules import REVIEW_RULES, FindingKind, ReviewRule
from lance_context_core.knowledge.reviewing import (
    Review,
    ReviewFinding,
    ReviewJob,
    review_export,
)
from lance_context_core.knowledge.rules import NoteExtractor, RuleExtractor
from lance_context_core.knowledge.summaries import ModelSummariser
from lance_context_core.knowledge.types import (
    Added,
    Consolidation,
    Decision,
    Evidence,
    Explanation,
    Extraction,
    FactCandidate,
    FactChange,
    Infer,
    KnowledgeHit,
    Link,
    Op,
    Polarity,
    Proposal,
    Prune,
    Quote,
    SearchType,
    SpokenTurn,
    Summary,
    Surroundings,
    TraceEvent,
    Undone,
)

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # Managed memory for coroutines
    "AsyncManagedMemory",
    "HasKnowledge",
    # Return values
    "Added",
    "KnowledgeHit",
    "SearchType",
    "Evidence",
    "Quote",
    "Explanation",
    "Link",
    "TraceEvent",
    "FactChange",
    "Proposal",
    "Undone",
    "ScoredFact",
    "CandidateLevel",
    # Reviews
    "Review",
    "ReviewFinding",
    "FindingKind",
    "ReviewJob",
    "review_export",
    "ReviewRule",
    "REVIEW_RULES",
    # Profiles and episodes
    "Profile",
    "ProfileField",
    "FieldValue",
    "ProfileSchema",
    "Episode",
    # Arguments
    "Told",
    "Infer",
    "Prune",
    "CandidateWeights",
    # Jobs
    "Job",
    "JobState",
    "JOB_STATES",
    "JobBudget",
    # Fact extraction
    "Extractor",
    "RuleExtractor",
    "NoteExtractor",
    "SpokenTurn",
    "FactCandidate",
    "Polarity",
    "Extraction",
    "ExtractorInContext",
    "Surroundings",
    "Paraphraser",
    "AsyncParaphraser",
    "SimilarConsolidator",
    # Language models
    "Model",
    "ModelExtractor",
    "Consolidator",
    "ModelConsolidator",
    "Consolidation",
    "Decision",
    "Op",
    "SessionSummariser",
    "ModelSummariser",
    "Summary",
]
