"""Durable jobs, done once, taken over if their worker dies, with recorded results."""

from lance_context_core.jobs.types import JOB_STATES, Job, JobBudget, JobState

__all__ = ["JOB_STATES", "Job", "JobBudget", "JobState"]
