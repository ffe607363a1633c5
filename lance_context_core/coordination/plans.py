"""Plans of agents: versioned texts, with branches and tasks."""

import asyncio
import builtins
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from lance_context_core._handle import handle
from lance_context_core._resources import Resources
from lance_context_core._util.checks import check_count, check_name, check_text, check_word, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.coordination.changes import Written, best, changed
from lance_context_core.coordination.task_types import Task, TaskStatus
from lance_context_core.coordination.tasks import AsyncTaskBoard, AsyncTaskStore
from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    StorageError,
)
from lance_context_core.protocols import ItemKey
from lance_context_core.scope import Scope
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.types import Item

# A plan and its status.

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


# Plans as items: the latest version is stored apart from the others.

NAME = "lance_context.plans"
"""The name of the key-value store of plans."""

LATEST = ("latest",)
_TIMES = ("merged_at", "created_at", "updated_at")


def latest_key(id: str) -> ItemKey:
    """Return the key of the latest version."""
    return LATEST, id


def versions_of(id: str) -> tuple[str, ...]:
    """Return the namespace of all versions."""
    return "versions", id


def version_key(id: str, number: int) -> ItemKey:
    """Return the key of one version."""
    return versions_of(id), f"{number:012d}"


def items_of(plan: AgentPlan) -> list[Item]:
    """Return the items of a new version."""
    value: dict[str, Any] = {one.name: getattr(plan, one.name) for one in fields(plan)}
    value["status"] = str(plan.status)
    for name in _TIMES:
        value[name] = None if value[name] is None else value[name].isoformat()
    places = (latest_key(plan.id), version_key(plan.id, plan.version))
    return [Item(namespace=tuple(space), key=key, value=value) for space, key in places]


def plan_of(value: Any) -> AgentPlan:
    """Return the plan of an item's value."""
    given = dict(value)
    for name in _TIMES:
        given[name] = None if given[name] is None else datetime.fromisoformat(given[name])
    return AgentPlan(**(given | {"status": PlanStatus(given["status"])}))


# Export of a plan as one markdown file, with its tasks.

_BOXES = {TaskStatus.COMPLETED: "x", TaskStatus.SKIPPED: "-"}
_HEAD = ("id", "title", "status", "version", "parent_id", "branch", "session_id")


def markdown(plan: AgentPlan, tasks: Iterable[Task]) -> str:
    """Return its fields as front matter, its text, and its tasks as a checklist."""
    head = [
        f"{name}: {json.dumps(getattr(plan, name), ensure_ascii=False)}"
        for name in _HEAD
        if getattr(plan, name) is not None
    ]
    parts = ["---", *head, "---", "", plan.text.rstrip("\n")]
    if boxes := list(_boxes(list(tasks), None, 0)):
        parts += ["", "## Tasks", "", *boxes]
    return "\n".join(parts) + "\n"


def _boxes(tasks: list[Task], parent_id: str | None, depth: int) -> Iterator[str]:
    for one in tasks:
        if one.parent_id == parent_id:
            yield f"{'  ' * depth}- [{_BOXES.get(one.status, ' ')}] {one.title}"
            yield from _boxes(tasks, one.id, depth + 1)


# The plans of a store, with all versions.


@handle
class AsyncPlans:
    """The plans of a store, by id."""

    _resources: Resources
    _scope: Scope

    # Reading

    async def get(self, id: str, *, version: int | None = None) -> AgentPlan:
        """Return the latest version of a plan, or another. Raises NotFoundError if absent."""
        return plan_of((await self._item(id, version)).value)

    async def list(
        self,
        *,
        status: str | None = None,
        parent_id: str | None = None,
        session_id: str | None = None,
    ) -> builtins.list[AgentPlan]:
        """Return the latest version of each plan, oldest plan first.

        All, or those of a status, of a session, or the parts and branches of one plan.
        """
        wanted = None if status is None else checked_status(status)
        rows = await self._items.list(namespace=LATEST)
        found = [plan_of(one.value) for one in rows]
        return sorted(
            (
                one
                for one in found
                if wanted in (None, one.status)
                and parent_id in (None, one.parent_id)
                and session_id in (None, one.session_id)
            ),
            key=lambda one: (one.created_at, one.id),
        )

    async def versions(self, id: str) -> builtins.list[AgentPlan]:
        """Return all versions of a plan, latest first; empty if absent."""
        id = check_name(id, "id")
        rows = await self._items.list(namespace=versions_of(id), reverse=True)
        return [plan_of(one.value) for one in rows]

    async def search(self, query: str, *, limit: int = 10) -> builtins.list[AgentPlan]:
        """Return the plans with words of `query`, most of them first.

        Of equal plans, those with the words in the title come first.
        """
        return best(query, await self.list(), lambda one: [one.title, one.text], limit=limit)

    def tasks(self, id: str) -> AsyncTaskBoard:
        """Return the board with a plan's tasks."""
        return AsyncTaskStore(self._resources, self._scope).board(board_of(check_name(id, "id")))

    async def markdown(self, id: str) -> str:
        """Return a plan as markdown: its fields, text, and tasks as a checklist."""
        return markdown(await self.get(id), await self.tasks(id).list())

    async def export(self, id: str, folder: str | Path) -> Path:
        """Write `markdown(id)` to the file `ID.md` of that folder; returns its path.

        An existing file is replaced atomically. In the file's name `/` and the like are escaped as
        in a URL.
        """
        text = await self.markdown(id)
        path = Path(folder) / f"{quote(id, safe=' ()+,=@')}.md"
        try:
            await asyncio.to_thread(_replace, path, text)
        except OSError as error:
            raise StorageError(f"cannot write {str(path)!r}: {error.strerror}") from error
        return path

    # Changing

    async def add(
        self,
        text: str,
        *,
        id: str | None = None,
        title: str | None = None,
        status: str = PlanStatus.DRAFT,
        parent_id: str | None = None,
        session_id: str | None = None,
    ) -> AgentPlan:
        """Add a plan in markdown, as a part of `parent_id` if given.

        Its default title is the first line. Raises InvalidRequestError for a blank text,
        AlreadyExistsError for an existing id, NotFoundError for an unknown parent.
        """
        now = self._resources.clock.now()
        plan = AgentPlan(
            id=secrets.token_hex(8) if id is None else check_name(id, "id"),
            version=1,
            text=_text(text),
            title=_title(title, text),
            status=checked_status(status),
            parent_id=None if parent_id is None else check_name(parent_id, "parent_id"),
            session_id=None if session_id is None else check_name(session_id, "session_id"),
            created_at=now,
            updated_at=now,
        )
        return await self._add(plan)

    async def edit(
        self, id: str, text: str, *, title: str | None = None, of_version: int | None = None
    ) -> AgentPlan:
        """Replace the text of a plan; its title is as for `add`.

        Raises ConflictError if `of_version` is given, and the plan has a later one.
        """
        text = _text(text)

        def change(plan: AgentPlan) -> AgentPlan:
            if of_version is not None and plan.version != of_version:
                raise ConflictError(
                    f"plan {id!r} has version {plan.version}, not {of_version}: nothing was written. "
                    "Look what others have made of it"
                )
            return replace(plan, text=text, title=_title(title, text))

        return await self._change(id, change)

    async def set_status(self, id: str, status: str) -> AgentPlan:
        """Change the status. Raises InvalidRequestError, which lists the allowed ones."""
        wanted = checked_status(status)

        def change(plan: AgentPlan) -> AgentPlan:
            require_transition(id, plan.status, wanted)
            return replace(plan, status=wanted)

        return await self._change(id, change)

    async def branch(self, id: str, branch: str, *, text: str | None = None) -> AgentPlan:
        """Create a branch of a plan: an alternative, to be merged or abandoned.

        It begins as a draft, with the text of the plan unless another is given, and without tasks.
        Raises AlreadyExistsError if the plan has a branch of that name.
        """
        parent = await self.get(id)
        now = self._resources.clock.now()
        chosen = parent.text if text is None else _text(text)
        plan = AgentPlan(
            id=f"{parent.id}@{check_name(branch, 'branch')}",
            version=1,
            text=chosen,
            title=parent.title if text is None else title_of(chosen),
            parent_id=parent.id,
            branch=branch,
            base_version=parent.version,
            session_id=parent.session_id,
            created_at=now,
            updated_at=now,
        )
        return await self._add(plan)

    async def merge(self, id: str, *, text: str | None = None) -> AgentPlan:
        """Replace the text of the parent plan by that of a branch; returns the parent.

        This completes the branch and sets `merged_at`. Raises ConflictError if the plan's own text
        has changed since the branching: then pass the merged `text`.
        """
        chosen = None if text is None else _text(text)

        async def decide(value: Mapping[str, Any] | None) -> tuple[Written, AgentPlan]:
            branch = self._known(id, value)
            _require_open(branch)
            assert branch.parent_id is not None
            assert branch.base_version is not None
            at = await self._item(branch.parent_id, None)
            parent = plan_of(at.value)
            base = await self.get(branch.parent_id, version=branch.base_version)
            if chosen is None and parent.text != base.text:
                raise ConflictError(
                    f"plan {parent.id!r} was changed since {id!r} was branched from its version "
                    f"{base.version}: nothing was written. Look at both, and pass text="
                )
            now = self._resources.clock.now()
            taken = branch.text if chosen is None else chosen
            title = branch.title if chosen is None else title_of(chosen)
            after = _next(replace(parent, text=taken, title=title), now)
            done = _next(replace(branch, status=PlanStatus.COMPLETED, merged_at=now), now)
            return (
                Written(
                    puts=[*items_of(after), *items_of(done)],
                    expected={latest_key(parent.id): at.revision},
                ),
                after,
            )

        id = check_name(id, "id")
        return await changed(self._items, latest_key(id), decide, what=f"plan {id!r}")

    async def delete(self, id: str) -> builtins.list[str]:
        """Delete a plan with its parts, its branches and all their tasks; returns their ids.

        May be repeated after a crash. Returns an empty list if the plan does not exist.
        """
        every = await self.list()
        gone = [one.id for one in every if one.id == check_name(id, "id")]
        for one in gone:
            gone.extend(child.id for child in every if child.parent_id == one)
        for one in gone:
            await AsyncTaskStore(self._resources, self._scope).delete_board(board_of(one))
        keys = [latest_key(one) for one in gone]
        for one in gone:
            keys += await self._items.keys(namespace=versions_of(one))
        if keys:
            await self._items.delete(keys)
        return gone

    # Helpers

    @property
    def _items(self) -> AsyncKeyValues:
        return AsyncKeyValues(NAME, self._resources, self._scope)

    async def _item(self, id: str, version: int | None) -> Item:
        id = check_name(id, "id")
        key = latest_key(id)
        if version is not None:
            key = version_key(id, check_count(version, "version"))
        (item,) = await self._items.get([key])
        if item is None:
            which = f"plan {id!r}" + ("" if version is None else f" of version {version}")
            raise NotFoundError(f"no {which}")
        return item

    async def _add(self, plan: AgentPlan) -> AgentPlan:
        expected = {}
        if plan.parent_id is not None:
            parent = await self._item(plan.parent_id, None)
            expected = {latest_key(plan.parent_id): parent.revision}
        try:
            await self._items.write(adds=items_of(plan), expected=expected)
        except AlreadyExistsError:
            raise AlreadyExistsError(
                f"there is a plan {plan.id!r} already: choose another "
                f"{'id' if plan.branch is None else 'branch'}"
            ) from None
        return plan

    async def _change(self, id: str, change: Callable[[AgentPlan], AgentPlan]) -> AgentPlan:
        id = check_name(id, "id")

        async def decide(value: Mapping[str, Any] | None) -> tuple[Written, AgentPlan]:
            before = self._known(id, value)
            if (after := change(before)) == before:
                return Written(), before
            after = _next(after, self._resources.clock.now())
            return Written(puts=items_of(after)), after

        return await changed(self._items, latest_key(id), decide, what=f"plan {id!r}")

    @staticmethod
    def _known(id: str, value: Mapping[str, Any] | None) -> AgentPlan:
        if value is None:
            raise NotFoundError(f"no plan {id!r}")
        return plan_of(value)


def _next(plan: AgentPlan, now: Any) -> AgentPlan:
    return replace(plan, version=plan.version + 1, updated_at=now)


def _text(text: object) -> str:
    checked = check_text(text, "text")
    if not title_of(checked):
        raise InvalidRequestError("text is blank: say what is meant to be done")
    return checked


def _title(title: str | None, text: str) -> str:
    if title is None:
        return title_of(text)
    if not (checked := check_name(title, "title").strip()):
        raise InvalidRequestError(f"title={shown(title)} is blank: leave it out, or name the plan")
    return checked


def _require_open(branch: AgentPlan) -> None:
    if branch.branch is None:
        raise InvalidRequestError(f"plan {branch.id!r} is not a branch of another one")
    if branch.merged_at is not None:
        raise InvalidRequestError(f"plan {branch.id!r} was merged already")
    if branch.status is PlanStatus.ABANDONED:
        raise InvalidRequestError(f"plan {branch.id!r} is abandoned: it cannot be merged")


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
