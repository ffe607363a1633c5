"""What one request looks at: the store of a scope, on a branch, at a moment; and the links from there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from lance_context_core import AsyncContextStore
from lance_context_core.errors import InvalidRequestError, NotFoundError

SCOPE_PARTS = ("tenant", "user_id", "agent_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The store that is looked at, and what of it may be seen and done."""

    store: AsyncContextStore
    """The store, or a scope of it: nothing that is outside is ever asked for."""
    scope: Mapping[str, str] = field(default_factory=dict)
    """The parts of the scope by name; empty if all may be seen."""
    can_write: bool = False
    branch: str | None = None
    """The branch that is looked at where a link names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a page is made of."""

    opened: Opened
    store: AsyncContextStore
    """The store of the scope, on the branch, at the moment."""
    params: Mapping[str, str]
    """What the link says."""
    branch: str | None
    at: str | None
    path: str = "/"

    @classmethod
    async def of(cls, opened: Opened, path: str, params: Mapping[str, str]) -> "View":
        """What these parameters name. Raises NotFoundError for what is not there."""
        branch, at = params.get("branch") or opened.branch, params.get("at") or None
        if opened.scope and branch != opened.branch:
            raise NotFoundError(f"no branch {branch!r}")
        store = opened.store
        if branch is not None:
            store = await store.branch(branch)
        if at is not None:
            store = await store.checkout(ref(at, is_scoped=bool(opened.scope)))
        return cls(opened=opened, store=store, params=params, branch=branch, at=at, path=path)

    @property
    def is_whole(self) -> bool:
        """Whether all of the store is seen: versions, branches and files are everybody's."""
        return not self.opened.scope

    @property
    def can_write(self) -> bool:
        """Whether forms are shown and taken."""
        return self.opened.can_write and self.at is None

    def require_whole(self) -> None:
        """Raise NotFoundError in a scope."""
        if not self.is_whole:
            raise NotFoundError("no such page")

    async def now(self) -> AsyncContextStore:
        """The store on the branch as it is now, whatever the moment that is looked at."""
        store = self.opened.store
        return store if self.branch is None else await store.branch(self.branch)

    def of_user(self, user_id: str) -> AsyncContextStore:
        """The store as far as it is of that user. Raises NotFoundError outside the scope."""
        own = self.opened.scope.get("user_id")
        if own is not None and own != user_id:
            raise NotFoundError(f"nothing is known of {user_id!r}")
        return self.store.scope(user_id=user_id)

    def within(self, *names: str) -> dict[str, Any]:
        """A filter for the parts of an address, absent where they are absent. See `filters`."""
        return {name: self.params.get(name) or None for name in names}

    def one(self, name: str) -> str:
        """What a link must say. Raises InvalidRequestError if it does not."""
        if not (value := self.params.get(name)):
            raise InvalidRequestError(f"this page needs {name}=")
        return value

    def number(self, name: str, default: int, *, most: int) -> int:
        """A whole number from 1 on, at most `most`."""
        given = self.params.get(name) or str(default)
        if not (given.isascii() and given.isdecimal()) or not 1 <= int(given[:10]) <= most:
            raise InvalidRequestError(f"{name}={given!r:.40}: give a number from 1 to {most}")
        return int(given)

    def link(self, path: str, **params: Any) -> str:
        """The address of another page, on the same branch and at the same moment."""
        here = {"branch": None if self.branch == self.opened.branch else self.branch, "at": self.at}
        told = {name: one for name, one in {**here, **params}.items() if one not in (None, "")}
        return f"{path}?{urlencode(told)}" if told else path

    def here(self, **params: Any) -> str:
        """The address of this page with other parameters."""
        return self.link(self.path, **{**self.params, **params})


def ref(text: str, *, is_scoped: bool = False) -> int | str | datetime:
    """A version's number, a moment in ISO 8601, or else the name of a tag.

    In a scope tags are not known: they are the store's. Raises NotFoundError for one then.
    """
    if text.isascii() and text.isdecimal() and len(text) <= 15:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        if is_scoped:
            raise NotFoundError(f"no version {text!r}") from None
        return text
    return moment if moment.tzinfo else moment.astimezone()
