"""Plans as items, and back: the latest version of each stands apart from all of them."""

from dataclasses import fields
from datetime import datetime
from typing import Any

from lance_context_core.coordination.plans.values import AgentPlan, PlanStatus
from lance_context_core.protocols import ItemKey
from lance_context_core.types import Item

NAME = "lance_context.plans"
"""What the items are called in which plans are kept."""

LATEST = ("latest",)
_TIMES = ("merged_at", "created_at", "updated_at")


def latest(id: str) -> ItemKey:
    """Where the latest version is."""
    return LATEST, id


def versions(id: str) -> tuple[str, ...]:
    """The namespace of all versions."""
    return "versions", id


def version(id: str, number: int) -> ItemKey:
    """Where one version is."""
    return versions(id), f"{number:012d}"


def items_of(plan: AgentPlan) -> list[Item]:
    """What is written of a new version."""
    value: dict[str, Any] = {one.name: getattr(plan, one.name) for one in fields(plan)}
    value["status"] = str(plan.status)
    for name in _TIMES:
        value[name] = None if value[name] is None else value[name].isoformat()
    places = (latest(plan.id), version(plan.id, plan.version))
    return [Item(namespace=tuple(space), key=key, value=value) for space, key in places]


def plan_of(value: Any) -> AgentPlan:
    """The plan that was written."""
    given = dict(value)
    for name in _TIMES:
        given[name] = None if given[name] is None else datetime.fromisoformat(given[name])
    return AgentPlan(**(given | {"status": PlanStatus(given["status"])}))
