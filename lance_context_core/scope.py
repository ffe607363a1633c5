"""Scopes: the part of the store that a handle reads, and the owner of its writes."""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from lance_context_core._util.checks import check_name, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

SCOPE_PARTS = ("tenant", "user_id", "agent_id")
"""The columns that a scope may name."""


@frozen_by_name
class Scope:
    """The scope of a handle: each set part is equal in all rows it reads, writes or deletes.

    A part that is `None` does not restrict. A scope can only be narrowed: see `narrow`.
    """

    tenant: str | None = None
    user_id: str | None = None
    agent_id: str | None = None

    def parts(self) -> dict[str, str]:
        """The parts that are set, by column name."""
        return {part: value for part in SCOPE_PARTS if (value := getattr(self, part)) is not None}

    def narrow(
        self, *, tenant: str | None = None, user_id: str | None = None, agent_id: str | None = None
    ) -> "Scope":
        """This scope with more parts set.

        Raises InvalidRequestError for an empty name, and for a part that is set already to
        something else.
        """
        asked = {"tenant": tenant, "user_id": user_id, "agent_id": agent_id}
        checked = {k: None if v is None else check_name(v, k) for k, v in asked.items()}
        return Scope(**{name: self.resolve(name, value) for name, value in checked.items()})

    def resolve(self, part: str, value: str | None) -> str | None:
        """The value to write for `part`: the scope's, where it is set, else `value`.

        Raises InvalidRequestError if `value` lies outside the scope.
        """
        own: str | None = getattr(self, part)
        if own is None or value is None or value == own:
            return value if own is None else own
        raise InvalidRequestError(
            f"{part}={shown(value)} lies outside this handle's scope, {part}={shown(own)}: "
            f"leave {part} out, or use a handle of that scope"
        )

    def stamp(self, value: T) -> T:
        """`value` with this scope's parts in its fields of these names.

        Raises InvalidRequestError if it names another tenant, user or agent.
        """
        missing = {
            part: self.resolve(part, getattr(value, part))
            for part in SCOPE_PARTS
            if (own := getattr(self, part)) is not None and getattr(value, part) != own
        }
        return replace(value, **missing) if missing else value
