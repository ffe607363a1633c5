"""Records of agentscope's app as key-value items of the store, each in the scope of its user."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from agentscope_lance_context._places import APP
from lance_context_core import AsyncKeyValues, ConflictError, Item
from lance_context_core.adapting import Attempts
from lance_context_core.arguments import ItemKey

R = TypeVar("R", bound=Any)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[T]):
    """The writes of a change, and its result."""

    outcome: T
    puts: Sequence[Item] = ()
    deletes: Sequence[ItemKey] = ()


@dataclass(frozen=True, slots=True)
class Records(Generic[R]):
    """The records of one kind, of one user, or of all where the items are those of the whole store."""

    items: AsyncKeyValues
    model: type[R]
    kind: str
    within: tuple[str, ...] = ()
    """Their parent, such as a knowledge base."""

    def key(self, id: str) -> ItemKey:
        """The path of a record."""
        return APP.key(id, self.kind, *self.within)

    def item(self, record: R, about: Mapping[str, Any] | None = None) -> Item:
        """A record as an item, with its searchable fields and id."""
        namespace, key = self.key(record.id)
        return Item(
            namespace=namespace,
            key=key,
            value=about,
            data=record.model_dump_json().encode(),
            data_type="application/json",
        )

    def read(self, item: Item | None) -> R | None:
        """The record of an item."""
        if item is None or item.data is None:
            return None
        return self.model.model_validate_json(item.data)  # type: ignore[no-any-return]

    async def get(self, id: str) -> R | None:
        """A record; None if it does not exist."""
        (item,) = await self.items.get([self.key(id)])
        return self.read(item)

    async def list(self, filter: Mapping[str, Any] | None = None) -> list[R]:
        """All records, or those that match, in the order of creation."""
        items = await self.items.list(
            prefix=APP.namespace(self.kind, *self.within), filter=filter, order="created"
        )
        return [record for record in map(self.read, items) if record is not None]

    async def put(self, record: R, about: Mapping[str, Any] | None = None) -> None:
        """Writes a record, replacing one with its id."""
        await self.items.put([self.item(record, about)])

    async def delete(self, id: str) -> bool:
        """Deletes a record; returns whether it existed."""
        (existed,) = await self.items.delete([self.key(id)])
        return existed

    async def change(self, id: str, decide: Callable[[R | None], Change[T]]) -> T:
        """Changes a record by its current value; concurrent changes are not lost."""
        key = self.key(id)

        def of_all(found: Mapping[ItemKey, Item | None]) -> Change[T]:
            return decide(self.read(found[key]))

        return await changed(self.items, [key], of_all)

    async def put_named(self, record: R, name: str, *, name_of: Callable[[R], str]) -> None:
        """Writes a record with a unique name for the user.

        Raises ValueError if the name is taken.
        """
        names = Records(self.items, self.model, f"{self.kind} names")
        key, taken = self.key(record.id), names.key(name)

        def decide(found: Mapping[ItemKey, Item | None]) -> Change[None]:
            if (holder := found[taken]) is not None and (holder.value or {})["id"] != record.id:
                raise ValueError(
                    f"name {name!r:.80} is that of another one of the {self.kind} already: choose "
                    "another one"
                )
            before = self.read(found[key])
            if before is not None:
                record.updated_at = datetime.now()  # noqa: DTZ005 - as AgentScope's records have it
            freed = [] if before is None or name_of(before) == name else [name_of(before)]
            namespace, place = taken
            named = Item(namespace=namespace, key=place, value={"id": record.id})
            return Change(
                outcome=None,
                puts=[self.item(record), named],
                deletes=[names.key(one) for one in freed],
            )

        await changed(self.items, [key, taken], decide)

    async def get_named(self, name: str) -> R | None:
        """The record of that name; None if it does not exist."""
        names = Records(self.items, self.model, f"{self.kind} names")
        (holder,) = await self.items.get([names.key(name)])
        return None if holder is None else await self.get((holder.value or {})["id"])

    async def delete_named(self, id: str, *, name_of: Callable[[R], str]) -> bool:
        """Deletes a record and frees its name; returns whether it existed."""
        names = Records(self.items, self.model, f"{self.kind} names")

        def decide(record: R | None) -> Change[bool]:
            if record is None:
                return Change(outcome=False)
            return Change(outcome=True, deletes=[self.key(id), names.key(name_of(record))])

        return await self.change(id, decide)


async def changed(
    items: AsyncKeyValues,
    keys: Sequence[ItemKey],
    decide: Callable[[Mapping[ItemKey, Item | None]], Change[T]],
) -> T:
    """Writes a decision about the items of these keys, if they are unchanged since the read."""
    attempts = Attempts("others kept changing the same records")
    while True:
        attempts.begin()
        found = dict(zip(keys, await items.get(keys), strict=True))
        change = decide(found)
        if not change.puts and not change.deletes:
            return change.outcome
        expected = {key: None if one is None else one.revision for key, one in found.items()}
        with suppress(ConflictError):
            await items.write(puts=change.puts, deletes=change.deletes, expected=expected)
            return change.outcome


def with_secrets(model: Any) -> dict[str, Any]:
    """A model as JSON with its secrets, which are masked elsewhere."""
    dumped: dict[str, Any] = json.loads(model.model_dump_json())
    for name in type(model).model_fields:
        if hasattr(value := getattr(model, name), "get_secret_value"):
            dumped[name] = value.get_secret_value()
    return dumped
