"""The plans of a store: each version of each is kept."""

import asyncio
import builtins
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lance_context_core._handle import handle
from lance_context_core._resources import Resources
from lance_context_core._util.checks import check_count, check_name, check_text, shown
from lance_context_core.coordination.changing import Written, changed
from lance_context_core.coordination.matching import best
from lance_context_core.coordination.plans import stored
from lance_context_core.coordination.plans.markdown import markdown
from lance_context_core.coordination.plans.values import (
    AgentPlan,
    PlanStatus,
    board_of,
    checked_status,
    require_transition,
    title_of,
)
from lance_context_core.coordination.tasks.board import AsyncTaskBoard, AsyncTaskStore
from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    StorageError,
)
from lance_context_core.scope import Scope
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.types import Item


@handle
class AsyncPlans:
    """The plans of a store, by id."""

    _resources: Resources
    _scope: Scope

    # Reading

    async def get(self, id: str, *, version: int | None = None) -> AgentPlan:
        """The latest version of a plan, or another one. Raises NotFoundError if there is none."""
        return stored.plan_of((await self._item(id, version)).value)

    async def list(
        self,
        *,
        status: str | None = None,
        parent_id: str | None = None,
        session_id: str | None = None,
    ) -> builtins.list[AgentPlan]:
        """The latest version of each plan, those that were made first before the others.

        All, or those of a status, of a session, or the parts and branches of one plan.
        """
        wanted = None if status is None else checked_status(status)
        rows = await self._items.list(namespace=stored.LATEST)
        found = [stored.plan_of(one.value) for one in rows]
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
        """All versions of a plan, the latest first; empty if there is none."""
        id = check_name(id, "id")
        rows = await self._items.list(namespace=stored.versions(id), reverse=True)
        return [stored.plan_of(one.value) for one in rows]

    async def search(self, query: str, *, limit: int = 10) -> builtins.list[AgentPlan]:
        """The plans that have words of `query`, most of them first; of equals those with them in the title."""
        return best(query, await self.list(), lambda one: [one.title, one.text], limit=limit)

    def tasks(self, id: str) -> AsyncTaskBoard:
        """The board that has a plan's tasks."""
        return AsyncTaskStore(self._resources, self._scope).board(board_of(check_name(id, "id")))

    async def markdown(self, id: str) -> str:
        """A plan as one text: what is known of it, its text, and its tasks with a box for each."""
        return markdown(await self.get(id), await self.tasks(id).list())

    async def export(self, id: str, folder: str | Path) -> Path:
        """Write `markdown(id)` to a file of that folder, called `ID.md`; returns its path.

        What there is by that name is replaced, as a whole. In the file's name `/` and the like are
        written as in a URL.
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
        """Keep a plan, which is markdown, as a part of `parent_id` if that is given.

        Its title is the first line unless it is given. Raises InvalidRequestError for a blank text,
        AlreadyExistsError for an id that is taken, NotFoundError for a parent that is not there.
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
        """Give a plan another text; its title is as for `add`.

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
        """Have a plan stand elsewhere. Raises InvalidRequestError, which says what it may become."""
        wanted = checked_status(status)

        def change(plan: AgentPlan) -> AgentPlan:
            require_transition(id, plan.status, wanted)
            return replace(plan, status=wanted)

        return await self._change(id, change)

    async def branch(self, id: str, branch: str, *, text: str | None = None) -> AgentPlan:
        """Another way to do what a plan means to do: a plan of its own, to be tried, and merged or abandoned.

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
        """Give the text of a branch to the plan that it was made from; returns that plan.

        The branch is completed by that, and `merged_at` says when. Raises ConflictError if the
        plan's own text was changed since it was branched: then say with `text` what it is to be.
        """
        chosen = None if text is None else _text(text)

        async def decide(value: Mapping[str, Any] | None) -> tuple[Written, AgentPlan]:
            branch = self._known(id, value)
            _require_open(branch)
            assert branch.parent_id is not None
            assert branch.base_version is not None
            at = await self._item(branch.parent_id, None)
            parent = stored.plan_of(at.value)
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
                    puts=[*stored.items_of(after), *stored.items_of(done)],
                    expected={stored.latest(parent.id): at.revision},
                ),
                after,
            )

        id = check_name(id, "id")
        return await changed(self._items, stored.latest(id), decide, what=f"plan {id!r}")

    async def delete(self, id: str) -> builtins.list[str]:
        """Forget a plan with its parts, its branches and the tasks of them all; returns their ids.

        May be repeated after a crash. None if there is no such plan: the list is empty.
        """
        every = await self.list()
        gone = [one.id for one in every if one.id == check_name(id, "id")]
        for one in gone:
            gone.extend(child.id for child in every if child.parent_id == one)
        for one in gone:
            await AsyncTaskStore(self._resources, self._scope).delete_board(board_of(one))
        keys = [stored.latest(one) for one in gone]
        for one in gone:
            keys += await self._items.keys(namespace=stored.versions(one))
        if keys:
            await self._items.delete(keys)
        return gone

    # Helpers

    @property
    def _items(self) -> AsyncKeyValues:
        return AsyncKeyValues(stored.NAME, self._resources, self._scope)

    async def _item(self, id: str, version: int | None) -> Item:
        id = check_name(id, "id")
        key = stored.latest(id)
        if version is not None:
            key = stored.version(id, check_count(version, "version"))
        (item,) = await self._items.get([key])
        if item is None:
            which = f"plan {id!r}" + ("" if version is None else f" of version {version}")
            raise NotFoundError(f"there is no {which}")
        return item

    async def _add(self, plan: AgentPlan) -> AgentPlan:
        expected = {}
        if plan.parent_id is not None:
            parent = await self._item(plan.parent_id, None)
            expected = {stored.latest(plan.parent_id): parent.revision}
        try:
            await self._items.write(adds=stored.items_of(plan), expected=expected)
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
            return Written(puts=stored.items_of(after)), after

        return await changed(self._items, stored.latest(id), decide, what=f"plan {id!r}")

    @staticmethod
    def _known(id: str, value: Mapping[str, Any] | None) -> AgentPlan:
        if value is None:
            raise NotFoundError(f"there is no plan {id!r}")
        return stored.plan_of(value)


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
        raise InvalidRequestError(f"plan {branch.id!r} is no branch of another one")
    if branch.merged_at is not None:
        raise InvalidRequestError(f"plan {branch.id!r} was merged already")
    if branch.status is PlanStatus.ABANDONED:
        raise InvalidRequestError(f"plan {branch.id!r} is abandoned: it cannot be merged")


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
