"""Copies checkpoints from another LangGraph checkpointer."""

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple


def copy_checkpoints(source: BaseCheckpointSaver[Any], target: BaseCheckpointSaver[Any]) -> int:
    """Copies the checkpoints of all threads, with ids and writes; returns their number.

    Threads can continue and be forked as before. May be repeated, also after an interruption:
    existing checkpoints are written again without duplicates. Holds one checkpoint at a time in
    memory, and the ids of all.

    The checkpointers must be synchronous; SqliteSaver opens the file of AsyncSqliteSaver.
    """
    # The ids of checkpoints grow with time, so that parents come before their children.
    configs = sorted((one.config for one in source.list(None)), key=_id)
    for config in configs:
        found = source.get_tuple(config)
        if found is not None:  # else deleted since
            before = found.parent_config
            parent = source.get_tuple(before) if before else None
            _put(found, target, known=parent.checkpoint["channel_versions"] if parent else {})
    return len(configs)


def _put(
    found: CheckpointTuple, target: BaseCheckpointSaver[Any], *, known: Mapping[str, Any]
) -> None:
    """Writes one checkpoint; its parent has the versions `known`."""
    own = found.config["configurable"]
    parent = found.parent_config["configurable"] if found.parent_config else {}
    place = {"thread_id": own["thread_id"], "checkpoint_ns": own.get("checkpoint_ns", "")}
    place |= {"user_id": own["user_id"]} if "user_id" in own else {}
    before: RunnableConfig = {
        "configurable": place | {"checkpoint_id": parent.get("checkpoint_id")}
    }
    versions = found.checkpoint["channel_versions"]
    changed = {name: version for name, version in versions.items() if known.get(name) != version}
    written = target.put(before, found.checkpoint, found.metadata, changed)
    writes: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in found.pending_writes or ():
        writes.setdefault(task_id, []).append((channel, value))
    for task_id, of_task in writes.items():
        target.put_writes(written, of_task, task_id)


def _id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])
