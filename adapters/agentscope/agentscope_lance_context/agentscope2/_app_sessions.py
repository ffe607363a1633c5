"""Sessions of agentscope's app as key-value items of the store, each with its state."""

import warnings
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from agentscope_lance_context._places import APP
from agentscope_lance_context.agentscope2._app_framework import (
    ChannelOrigin,
    ScheduleOrigin,
    SessionRecord,
    UserOrigin,
)
from agentscope_lance_context.agentscope2._app_records import Records
from agentscope_lance_context.agentscope2._app_states import Contexts
from lance_context_core import InvalidRequestError, Item
from lance_context_core.arguments import ItemKey

R = TypeVar("R", bound=Any)


class Sessions(Records[SessionRecord]):
    """The sessions of a user, each with a separate state, which is written after each turn."""

    def keys(self, id: str) -> list[ItemKey]:
        """The paths of a session and of its state."""
        return [self.key(id), APP.key(id, "states")]

    def item(self, record: SessionRecord, about: Mapping[str, Any] | None = None) -> Item:
        """A session as an item, without its state."""
        namespace, key = self.key(record.id)
        origin = record.origin
        found_by = {
            "agent_id": record.agent_id,
            "schedule_id": origin.schedule_id if isinstance(origin, ScheduleOrigin) else None,
            "channel_id": origin.channel_id if isinstance(origin, ChannelOrigin) else None,
        }
        return Item(
            namespace=namespace,
            key=key,
            value={**found_by, **(about or {})},
            data=record.model_dump_json(exclude={"state"}).encode(),
            data_type="application/json",
        )

    def item_of_state(self, id: str, data: bytes, moment: datetime) -> Item:
        """The data of a state as an item."""
        namespace, key = APP.key(id, "states")
        return Item(
            namespace=namespace,
            key=key,
            value={"updated_at": moment.isoformat()},
            data=data,
            data_type="application/json",
        )

    def dated(self, found: Mapping[ItemKey, Item | None]) -> SessionRecord | None:
        """The session of two such items, without its state."""
        session, state = found.values()
        record = self.read(session)
        if record is not None and state is not None and state.data is not None:
            saved_at = datetime.fromisoformat((state.value or {})["updated_at"])
            record.updated_at = max(record.updated_at, saved_at)
        return record

    async def joined(
        self, found: Mapping[ItemKey, Item | None], contexts: Contexts
    ) -> SessionRecord | None:
        """The session of two such items, with its state."""
        record = self.dated(found)
        _, state = found.values()
        if record is not None and state is not None and state.data is not None:
            record.state = await contexts.load(record.id, state.data)
        return record

    async def newest(self, filter: Mapping[str, Any], contexts: Contexts) -> list[SessionRecord]:
        """The matching sessions, the newest first."""
        records = await self.list(filter)
        states = await self.items.get([APP.key(one.id, "states") for one in records])
        found = [
            await self.joined(
                {self.key(one.id): self.item(one), APP.key(one.id, "states"): state}, contexts
            )
            for one, state in zip(records, states, strict=True)
        ]
        return newest(one for one in found if one is not None)


def newest(records: Iterable[R]) -> list[R]:
    """Records by creation, the newest first."""
    return sorted(records, key=lambda one: one.created_at, reverse=True)


def origin_of(origin: Any, legacy: Mapping[str, str | None]) -> dict[str, Any]:
    """The origin of a session, in the fields of this release or of earlier ones."""
    if unknown := legacy.keys() - _LEGACY:
        raise InvalidRequestError(f"upsert_session has no {sorted(unknown)}: give origin")
    if origin is not None:
        return {"origin": origin}
    given = {name: value for name, value in legacy.items() if value}
    if not given:
        return {"origin": UserOrigin()}
    warnings.warn(f"{sorted(given)} are deprecated: give origin", DeprecationWarning, stacklevel=3)
    return {"source": "user", **given}


_LEGACY = frozenset(
    ("source", "source_schedule_id", "source_chat_id", "source_chat_name", "source_channel_id")
)
