"""Knowledge made of what was said: chunks, facts and summaries, each with its evidence."""

from lance_context_core.jobs import JOB_STATES, Job, JobState
from lance_context_core.knowledge.adding import Told
from lance_context_core.knowledge.protocols import AsyncParaphraser, Extractor, Paraphraser
from lance_context_core.knowledge.rules import RuleExtractor
from lance_context_core.knowledge.values import (
    Added,
    Evidence,
    Explanation,
    FactCandidate,
    FactChange,
    Infer,
    KnowledgeHit,
    Link,
    Proposal,
    Prune,
    Quote,
    SearchType,
    SpokenTurn,
    TraceEvent,
    Undone,
)

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # What calls return
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
    # What is taken
    "Told",
    "Infer",
    "Prune",
    # Jobs
    "Job",
    "JobState",
    "JOB_STATES",
    # Making facts
    "Extractor",
    "RuleExtractor",
    "SpokenTurn",
    "FactCandidate",
    "Paraphraser",
    "AsyncParaphraser",
]
