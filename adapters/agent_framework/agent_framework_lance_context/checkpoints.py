"""The framework's checkpoint storage over key-value items.

| namespace | key | item |
|---|---|---|
| `("checkpoints", workflow)` | its time and id | the checkpoint, by the framework's encoder, as JSON |
| `("checkpoint ids",)` | its id | the key of the one above |
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from agent_framework import WorkflowCheckpoint
from agent_framework._workflows._checkpoint_encoding import (
    decode_checkpoint_value,
    encode_checkpoint_value,
)
from agent_framework.exceptions import WorkflowCheckpointException

from agent_framework_lance_context._errors import as_checkpoint_errors, scoped
from agent_framework_lance_context.sessions import NAME
from lance_context_core import ConflictError, Item
from lance_context_core.adapting import (
    Handle,
    HandleOwner,
    StoreLike,
    beside_the_loop,
    check_name,
    check_names,
    retried,
)
from lance_context_core.protocols import ItemKey


class LanceCheckpointStorage(HandleOwner):
    """A `CheckpointStorage`: checkpoints of workflows, which any process resumes from.

    A checkpoint is stored when `save` returns, in one commit. Objects are stored by the framework's
    encoder, and a load makes those types alone that the framework allows, or
    `allowed_checkpoint_types` and `register_checkpoint_type` name: `save` refuses the others.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        user_id: str | None = None,
        tenant: str | None = None,
        allowed_checkpoint_types: Iterable[str] = (),
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `aclose` closes again.

        - `user_id`, `tenant`: the owner of the checkpoints; another owner's do not exist for it.
        - `allowed_checkpoint_types`: types of your own, such as `"my_app.models:State"`.
        """
        with as_checkpoint_errors():
            self._handle = Handle(store)
            self._allowed = frozenset(
                check_names(allowed_checkpoint_types, "allowed_checkpoint_types")
            )
        self._store = scoped(self._handle, tenant=tenant, user_id=user_id)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Stores a copy of the checkpoint, in place of one with the same id; returns its id.

        Raises WorkflowCheckpointException, before anything is written, for a checkpoint that could
        not be loaded again.
        """
        if not isinstance(checkpoint, WorkflowCheckpoint):
            raise WorkflowCheckpointException(
                f"checkpoint={checkpoint!r:.80}: give a WorkflowCheckpoint"
            )
        with as_checkpoint_errors():
            id = check_name(checkpoint.checkpoint_id, "checkpoint_id")
            workflow = check_name(checkpoint.workflow_name, "workflow_name")
        key = f"{_moment(checkpoint)} {id}"
        item = Item(
            namespace=("checkpoints", workflow),
            key=key,
            value={"workflow": workflow, "checkpoint_id": id},
            data=self._encoded(checkpoint),
            data_type="application/json",
        )
        namespace, name = _id_key(id)
        pointer = Item(namespace=namespace, key=name, value={"workflow": workflow, "key": key})

        async def attempt() -> None:
            before = await self._pointer(id)
            stale = [place for place in _places(before) if place != (item.namespace, key)]
            await self._store.kv(NAME).write(
                puts=[item, pointer],
                deletes=stale,
                expected={_id_key(id): None if before is None else before.revision},
            )

        with as_checkpoint_errors():
            await retried(attempt, on=ConflictError)
        return id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Returns a copy of the checkpoint.

        Raises WorkflowCheckpointException if there is none, or if it holds an object of a type that
        is not allowed.
        """
        with as_checkpoint_errors():
            places = _places(await self._pointer(checkpoint_id))
            items = await self._store.kv(NAME).get(places) if places else []
        if not items or items[0] is None:
            raise WorkflowCheckpointException(
                f"checkpoint_id={checkpoint_id!r:.80}: there is no such checkpoint"
            )
        return await self._decoded(items[0])

    async def delete(self, checkpoint_id: str) -> bool:
        """Removes the checkpoint; returns whether it existed."""

        async def attempt() -> bool:
            pointer = await self._pointer(checkpoint_id)
            if pointer is None:
                return False
            key = _id_key(checkpoint_id)
            await self._store.kv(NAME).write(
                deletes=[key, *_places(pointer)], expected={key: pointer.revision}
            )
            return True

        with as_checkpoint_errors():
            return await retried(attempt, on=ConflictError)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Returns copies of the checkpoints of a workflow, the oldest first.

        Raises WorkflowCheckpointException if one holds an object of a type that is not allowed.
        """
        return [await self._decoded(item) for item in await self._items(workflow_name)]

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Returns the ids of the checkpoints of a workflow, the oldest first."""
        items = await self._items(workflow_name, include_data=False)
        return [_id_of(item) for item in items]

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Returns a copy of the checkpoint with the latest `timestamp`; None if there is none."""
        items = await self._items(workflow_name, reverse=True, limit=1)
        return await self._decoded(items[0]) if items else None

    # Helpers

    async def _items(self, workflow_name: str, **how: Any) -> list[Item]:
        with as_checkpoint_errors():
            namespace = ("checkpoints", check_name(workflow_name, "workflow_name"))
            return await self._store.kv(NAME).list(namespace=namespace, order="key", **how)

    async def _pointer(self, checkpoint_id: str) -> Item | None:
        key = _id_key(check_name(checkpoint_id, "checkpoint_id"))
        (item,) = await self._store.kv(NAME).get([key])
        return item

    def _encoded(self, checkpoint: WorkflowCheckpoint) -> bytes:
        """Returns the JSON of a checkpoint, after it was decoded from it on trial."""
        try:
            data = json.dumps(encode_checkpoint_value(checkpoint.to_dict())).encode()
            self._decode(data)
        except WorkflowCheckpointException:
            raise
        except Exception as error:
            # Pickling calls code of the objects, which may raise anything.
            raise WorkflowCheckpointException(
                f"checkpoint {checkpoint.checkpoint_id!r:.80} cannot be stored: {error}"
            ) from error
        return data

    async def _decoded(self, item: Item) -> WorkflowCheckpoint:
        data = item.data or b""
        return await beside_the_loop(lambda: self._decode(data), n_bytes=len(data))

    def _decode(self, data: bytes) -> WorkflowCheckpoint:
        decoded = decode_checkpoint_value(json.loads(data), allowed_types=self._allowed)
        return WorkflowCheckpoint.from_dict(decoded)


def _id_key(id: str) -> ItemKey:
    return ("checkpoint ids",), id


def _places(pointer: Item | None) -> list[ItemKey]:
    """Returns where the checkpoint is that an item points to."""
    value = {} if pointer is None else pointer.value or {}
    return [(("checkpoints", value["workflow"]), value["key"])] if value else []


def _id_of(item: Item) -> str:
    return str((item.value or {})["checkpoint_id"])


def _moment(checkpoint: WorkflowCheckpoint) -> str:
    """Returns the time of a checkpoint so that texts sort as times do; without a zone it is UTC."""
    try:
        time = datetime.fromisoformat(checkpoint.timestamp)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return time.astimezone(UTC).isoformat(timespec="microseconds")
    except (TypeError, ValueError, OverflowError) as error:
        raise WorkflowCheckpointException(
            f"timestamp={checkpoint.timestamp!r:.80}: give a time as ISO 8601"
        ) from error
