"""Which conversations there are: what descriptions of sessions and messages belong together.

A session is that of a tenant and a user: two users who call theirs alike have two. The agents in it
share it, save those that have described one of their own, in a scope of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from lance_context_core.codecs.sessions import from_row
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage import sql
from lance_context_core.types import Session

Row = Mapping[str, Any]
Place = tuple[str, str | None, str | None]
"""The id of a session, its tenant and its user."""


@dataclass(slots=True)
class Conversation:
    """A session: its description, what is known of its messages by agent, or both."""

    id: str
    tenant: str | None
    user_id: str | None
    row: Row | None = None
    activity: list[Row] = field(default_factory=list)
    own_agent: str | None = None
    """Whose alone it is, where that agent has described it."""
    other_agents: tuple[str, ...] = ()
    """Those who have one of their own."""

    @property
    def messages(self) -> sql.Clause:
        """The condition that a message in a view of the session's is one of it."""
        parts = {"session_id": self.id, "tenant": self.tenant, "user_id": self.user_id}
        clauses = [sql.all_equal(parts)]
        if self.own_agent is not None:
            clauses.append(sql.equals("agent_id", self.own_agent))
        elif self.other_agents:
            others = sql.not_in_list("agent_id", self.other_agents)
            clauses.append(sql.any_of([sql.is_absent("agent_id"), others]))
        return sql.all_of(clauses)

    def session(self) -> Session:
        """It as callers see it."""
        begun = [_utc(one["created_at"]) for one in self.activity]
        active = [_utc(one["updated_at"]) for one in self.activity]
        agents = [one["agent_id"] for one in self.activity if one["agent_id"] is not None]
        if self.row is None:
            described = Session(id=self.id, created_at=min(begun), updated_at=max(active))
        else:
            described = from_row(self.row)
        return replace(
            described,
            created_at=min([described.created_at, *begun]),
            updated_at=max([described.updated_at, *active]),
            n_messages=sum(one["n_messages"] for one in self.activity),
            tenant=self.tenant,
            user_id=self.user_id,
            agent_id=described.agent_id or max(agents, default=None),
        )


def conversations(rows: Iterable[Row], activity: Iterable[Row]) -> list[Conversation]:
    """The conversations that descriptions, and activity by session and scope, amount to.

    A row of `activity` has a `session_id`, the parts of a scope, `n_messages`, `created_at` of the
    first and `updated_at` of the last.
    """
    described: dict[Place, dict[str | None, Row]] = {}
    for row in rows:
        described.setdefault((row["id"], row["tenant"], row["user_id"]), {})[row["agent_id"]] = row
    active: dict[Place, list[Row]] = {}
    for one in activity:
        place = (one["session_id"], one["tenant"], one["user_id"])
        active.setdefault(place, []).append(one)
    _lend(described, active)
    found = []
    for place in described.keys() | active.keys():
        found += _of_place(place, described.get(place, {}), active.get(place, []))
    return sorted(
        found, key=lambda one: [one.id, *(getattr(one, p) or "" for p in SCOPE_PARTS[:2])]
    )


def _lend(
    described: dict[Place, dict[str | None, Row]],
    active: Mapping[Place, Sequence[Row]],
) -> None:
    """Give descriptions made outside the scopes of users to the one whose messages there are.

    They know less than the messages do. Of several users', none is meant.
    """
    for place in [one for one in described if one not in active]:
        id, tenant, user = place
        inside = [
            one
            for one in active
            if one[0] == id and tenant in (None, one[1]) and user in (None, one[2])
        ]
        if len(inside) == 1 and inside[0] not in described:
            described[inside[0]] = described.pop(place)


def _of_place(
    place: Place, rows: Mapping[str | None, Row], activity: Sequence[Row]
) -> list[Conversation]:
    """The conversations of one id of one tenant and user."""
    agents = tuple(sorted(agent for agent in rows if agent is not None))
    found = []
    for agent in agents:
        own = [one for one in activity if one["agent_id"] == agent]
        found.append(Conversation(*place, row=rows[agent], activity=own, own_agent=agent))
    rest = [one for one in activity if one["agent_id"] not in agents]
    if rest or None in rows:
        shared = Conversation(*place, row=rows.get(None), activity=rest, other_agents=agents)
        found.append(shared)
    return found


def _utc(moment: datetime) -> datetime:
    # Arrow has a UTC of its own.
    return moment.replace(tzinfo=UTC)
