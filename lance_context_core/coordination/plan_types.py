"""Plans and their status."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from lance_context_core._util.checks import check_word
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError

_TITLE_LENGTH = 50


class PlanStatus(StrEnum):
    """The status of a plan."""

    DRAFT = "draft"
    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    ABANDONED = "abandoned"


TRANSITIONS: Mapping[PlanStatus, tuple[PlanStatus, ...]] = MappingProxyType(
    {
        PlanStatus.DRAFT: (PlanStatus.ACTIVE, PlanStatus.ABANDONED),
        PlanStatus.ACTIVE: (PlanStatus.PAUSED, PlanStatus.COMPLETED, PlanStatus.ABANDONED),
        PlanStatus.PAUSED: (PlanStatus.ACTIVE, PlanStatus.ABANDONED),
        PlanStatus.COMPLETED: (),
        PlanStatus.ABANDONED: (),
    }
)
"""The allowed changes of a plan's status."""


@frozen_by_name
class AgentPlan:
    """One version of a plan."""

    id: str
    version: int
    """From 1; each change of the plan creates a version."""
    title: str
    text: str
    """Markdown."""
    status: PlanStatus = PlanStatus.DRAFT
    parent_id: str | None = None
    """The plan of which it is a part, or a branch."""
    branch: str | None = None
    """The name of the branch; None if it is none."""
    base_version: int | None = None
    """The version of the parent at the branching."""
    merged_at: datetime | None = None
    """The time when it became the parent's text."""
    session_id: str | None = None
    created_at: datetime
    """The time of the first version."""
    updated_at: datetime
    """The time of this version."""

    @property
    def board(self) -> str:
        """The name of the board with its tasks."""
        return board_of(self.id)


def board_of(plan_id: str) -> str:
    """Return the name of the board with a plan's tasks."""
    return f"plan:{plan_id}"


def title_of(text: str) -> str:
    """Return the first non-empty line, without heading signs, cut to 50 characters."""
    lines = (line.strip().lstrip("#").strip() for line in text.splitlines())
    return next((line[:_TITLE_LENGTH] for line in lines if line), "")


def checked_status(status: Any) -> PlanStatus:
    """Return the status. Raises InvalidRequestError for an unknown one."""
    return check_word(status, PlanStatus, "status")


def require_transition(id: str, before: PlanStatus, after: PlanStatus) -> None:
    """Raise InvalidRequestError unless the plan may change to this status."""
    if after not in TRANSITIONS[before]:
        allowed = ", ".join(TRANSITIONS[before]) or "nothing: it is at its end"
        raise InvalidRequestError(
            f"plan {id!r} is {before} and cannot become {after}: it may become {allowed}"
        )
