"""The state of CrewAI's flows in the store: `@persist(LanceFlowPersistence("memory"))`."""

from pathlib import Path
from typing import Any, Self

from crewai.flow.async_feedback.types import PendingFeedbackContext
from crewai.flow.persistence.base import FlowPersistence
from pydantic import BaseModel, PrivateAttr

from crewai_lance_context._common import NAME
from crewai_lance_context._state import dumped, dumped_pending, loaded
from lance_context_core import InvalidRequestError, Item, KeyValues
from lance_context_core.adapting import Handle, StoreLike, check_name
from lance_context_core.protocols import ItemKey


class LanceFlowPersistence(FlowPersistence):
    """The last state of each flow, and what it waits for, as key-value items, shared by processes.

    A state is stored when `save_state` returns. A pause for feedback and its state are one commit,
    so that another process finds both, or neither. States come back as from CrewAI's
    SQLiteFlowPersistence. Only the last state of a flow is current; `checkout` of the store shows
    earlier ones.
    """

    persistence_type: str = "LanceFlowPersistence"
    place: str | None = None
    """The URI of the store; None if an open one was given."""
    user_id: str | None = None
    """Whose flows: those of other users do not exist for it."""
    _handle: Handle = PrivateAttr()
    _items: KeyValues = PrivateAttr()

    def __init__(
        self, store: StoreLike | None = None, /, *, user_id: str | None = None, **fields: Any
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        CrewAI restores it from its fields alone, which have a `place` if it was given a URI.
        """
        place = fields.pop("place", None)
        given = place if store is None else store
        if given is None:
            raise InvalidRequestError("store=None: give an open store, or where one is")
        text = str(given) if isinstance(given, str | Path) else None
        fields |= {"place": text, "user_id": user_id}
        super().__init__(**fields)
        self._handle = Handle(given)
        sync = self._handle.sync
        self._items = (sync if user_id is None else sync.scope(user_id=user_id)).kv(NAME)

    def init_db(self) -> None:
        """Does nothing: a place exists with the first write."""

    # States

    def save_state(
        self, flow_uuid: str, method_name: str, state_data: dict[str, Any] | BaseModel
    ) -> None:
        """Store the state of a flow after a method. Raises ValueError for what is no state."""
        self._items.put([_state(flow_uuid, method_name, dumped(state_data))])

    def load_state(self, flow_uuid: str) -> dict[str, Any] | None:
        """The last state of a flow; None if there is none."""
        item = self._get(_state_key(flow_uuid))
        return None if item is None else loaded(item.data)

    # Feedback

    def save_pending_feedback(
        self,
        flow_uuid: str,
        context: PendingFeedbackContext,
        state_data: dict[str, Any] | BaseModel,
    ) -> None:
        """Store the state of a flow and the feedback that it waits for, in one commit."""
        namespace, key = _pending_key(flow_uuid)
        pending = dumped_pending(context.to_dict(), state_data)
        state = _state(flow_uuid, context.method_name, dumped(state_data))
        asked = {"method": context.method_name, "message": context.message}
        self._items.put([state, Item(namespace=namespace, key=key, value=asked, data=pending)])

    def load_pending_feedback(
        self, flow_uuid: str
    ) -> tuple[dict[str, Any], PendingFeedbackContext] | None:
        """The state of a flow that waits, and for what; None if it does not wait."""
        item = self._get(_pending_key(flow_uuid))
        if item is None:
            return None
        found = loaded(item.data)
        return found["state"], PendingFeedbackContext.from_dict(found["context"])

    def clear_pending_feedback(self, flow_uuid: str) -> None:
        """Forget the feedback that a flow waits for; its state stays."""
        self._items.delete([_pending_key(flow_uuid)])

    # The store

    def close(self) -> None:
        """Close the store if it was given by its URI; a passed store stays open."""
        self._handle.close()

    def __enter__(self) -> Self:
        """Itself, closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """As `close`."""
        self.close()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """The same persistence: copies of a flow share it."""
        return self

    # Helpers

    def _get(self, key: ItemKey) -> Item | None:
        (item,) = self._items.get([key])
        return item


def _state_key(flow_uuid: str) -> ItemKey:
    return ("flows",), check_name(flow_uuid, "flow_uuid")


def _pending_key(flow_uuid: str) -> ItemKey:
    return ("pending",), check_name(flow_uuid, "flow_uuid")


def _state(flow_uuid: str, method_name: str, data: bytes) -> Item:
    namespace, key = _state_key(flow_uuid)
    return Item(namespace=namespace, key=key, value={"method": method_name}, data=data)
