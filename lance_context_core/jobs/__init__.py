"""Work that is owed: durable, done once, taken over from whoever died, and told what became of it."""

from lance_context_core.jobs.types import JOB_STATES, Job, JobBudget, JobState

__all__ = ["JOB_STATES", "Job", "JobBudget", "JobState"]
