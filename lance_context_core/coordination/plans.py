"""Plans of agents: versioned texts, with branches and tasks."""

import asyncio
import builtins
import secrets
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lance_context_core._handle import handle
from lance_context_core._resources import Resources
from lance_context_core._util.checks import check_count, check_name, check_text, shown
from lance_context_core.coordination.changes import Written, best, changed
from lance_context_core.coordination.plan_markdown import (
    ParsedPlan,
    markdown,
    new_tasks,
    parsed,
    task_paths,
    tick,
)
from lance_context_core.coordination.plan_types import (
    AgentPlan,
    PlanStatus,
    board_of,
    checked_status,
    require_transition,
    title_of,
)
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

    async def load(self, source: str | Path, *, id: str | None = None) -> AgentPlan:
        """Add the plan of a Markdown file, or bring it up to date with the file; returns it.

        `source` is the path of a file that `export` wrote and a person edited, or its text. The id is
        that of its front matter, unless one is given; without any, the plan is new. A checklist
        below a last heading `Tasks` is the tasks: a new line is a new task, `[x]` completes one, `[-]`
        skips it, and an empty box says nothing. No task is deleted. Raises ConflictError if the
        plan has a later version than the file, and another text; NotFoundError without the file. May
        be repeated after a crash: the plan is written before its tasks.
        """
        if isinstance(source, Path):
            source = await asyncio.to_thread(_file, source)
        given = parsed(check_text(source, "source"))
        known = given.head.get("id") if id is None else id
        id = secrets.token_hex(8) if known is None else check_name(known, "id")
        plan = await self._loaded(id, given)
        board = self.tasks(id)
        ids = task_paths(await board.list())
        new = new_tasks(given.boxes, ids, id)
        ids |= {path: one["id"] for path, one in new.items()}
        await board._apply(  # noqa: SLF001 - one commit for all that a file says
            list(new.values()), lambda graph: tick(graph, ids, given.boxes)
        )
        return plan

    async def _loaded(self, id: str, given: ParsedPlan) -> AgentPlan:
        """Return the plan as the file says it, without its tasks."""
        text, title = _text(given.text), given.head.get("title")
        status = given.head.get("status")
        status = None if status is None else checked_status(status)
        if title is not None:
            title = _title(title, text)
        try:
            await self._item(id, None)
        except NotFoundError:
            if given.head.get("branch") is not None:
                raise InvalidRequestError(
                    f"plan {id!r} is a branch, and does not exist: make it with branch(), then load it"
                ) from None
            about = {name: given.head.get(name) for name in ("parent_id", "session_id")}
            return await self.add(
                text, id=id, title=title, status=status or PlanStatus.DRAFT, **about
            )

        def change(plan: AgentPlan) -> AgentPlan:
            new = plan
            if plan.text.strip("\n") != text:
                version = given.head.get("version", plan.version)
                if version != plan.version:
                    raise _changed(plan, version)
                # A title that nobody changed follows the text.
                named = title if title not in (None, plan.title) else title_of(text)
                new = replace(plan, text=text, title=named)
            elif title is not None:
                new = replace(plan, title=title)
            if status is not None and status is not plan.status:
                require_transition(id, plan.status, status)
                new = replace(new, status=status)
            return new

        return await self._change(id, change)

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
                raise _changed(plan, of_version)
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
                f"plan {plan.id!r} already exists: choose another "
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
        raise InvalidRequestError(
            f"plan {branch.id!r} is not a branch of another one: merge a plan with a parent"
        )
    if branch.merged_at is not None:
        raise InvalidRequestError(f"plan {branch.id!r} was merged already: create another branch")
    if branch.status is PlanStatus.ABANDONED:
        raise InvalidRequestError(f"plan {branch.id!r} is abandoned: it cannot be merged")


def _changed(plan: AgentPlan, version: object) -> ConflictError:
    return ConflictError(
        f"plan {plan.id!r} has version {plan.version}, not {shown(version)}: nothing was written. "
        "Read it again"
    )


def _file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {str(path)!r}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{str(path)!r} is not in UTF-8: {error}") from error
    except OSError as error:
        raise StorageError(f"cannot read {str(path)!r}: {error.strerror}") from error


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
