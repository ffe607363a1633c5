"""A plan, and what it can become."""

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
    """Where a plan stands."""

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
"""What may become of a plan."""


@frozen_by_name
class AgentPlan:
    """What is meant to be done, in one of its versions."""

    id: str
    version: int
    """From 1; every change of the plan makes one more."""
    title: str
    text: str
    """Markdown."""
    status: PlanStatus = PlanStatus.DRAFT
    parent_id: str | None = None
    """The plan that it is a part of, or that it was branched from."""
    branch: str | None = None
    """What it is called as another way to do what its parent plans; None for one that is none."""
    base_version: int | None = None
    """The version of the parent from which it was branched."""
    merged_at: datetime | None = None
    """When it became the parent's text."""
    session_id: str | None = None
    created_at: datetime
    """When the first version was made."""
    updated_at: datetime
    """When this one was."""

    @property
    def board(self) -> str:
        """The name of the board that has its tasks."""
        return board_of(self.id)


def board_of(plan_id: str) -> str:
    """The name of the board that has a plan's tasks."""
    return f"plan:{plan_id}"


def title_of(text: str) -> str:
    """The first line that says something, without the signs of a heading, cut to 50 characters."""
    lines = (line.strip().lstrip("#").strip() for line in text.splitlines())
    return next((line[:_TITLE_LENGTH] for line in lines if line), "")


def checked_status(status: Any) -> PlanStatus:
    """The status. Raises InvalidRequestError for one that there is not."""
    return check_word(status, PlanStatus, "status")


def require_transition(id: str, before: PlanStatus, after: PlanStatus) -> None:
    """Raise InvalidRequestError if the plan may not become that."""
    if after not in TRANSITIONS[before]:
        allowed = ", ".join(TRANSITIONS[before]) or "nothing: it is at its end"
        raise InvalidRequestError(
            f"plan {id!r} is {before} and cannot become {after}: it may become {allowed}"
        )
