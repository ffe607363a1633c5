"""What LangGraph's stores are asked alike: an item for each message, a namespace for each session."""

from collections.abc import Sequence
from typing import Any

from langgraph.store.base import BaseStore, PutOp

from benchmarks.sides.conversations import Conversations, Rows, Said, Wanted
from benchmarks.sides.langchain_vectors import Known

_ROOT = "sessions"
_ALL = 100_000
"""More items than a session has: a listing of items needs a limit."""


class LangGraphItems(Conversations):
    """Items under keys that say their order, found by their text."""

    api: BaseStore

    def _append(self, message: Said) -> None:
        self.api.put((_ROOT, message.session), _key(message), _value(message))

    def _turn(self, messages: Sequence[Said]) -> None:
        self.api.batch([PutOp((_ROOT, one.session), _key(one), _value(one)) for one in messages])

    def _whole(self, session: str) -> list[str]:
        items = self.api.search((_ROOT, session), limit=_ALL)
        return [item.value["text"] for item in sorted(items, key=lambda item: item.key)]

    def _vector(self, wanted: Wanted) -> list[str]:
        return self._found(wanted)

    def _filter(self, wanted: Wanted) -> list[str]:
        return self._found(wanted, filter={"topic": wanted.topic})

    def _found(self, wanted: Wanted, **more: Any) -> list[str]:
        found = self.api.search((_ROOT,), query=wanted.text, limit=wanted.limit, **more)
        return [item.value["text"] for item in found]


def index_of(rows: Rows) -> dict[str, Any]:
    """What the items are found by."""
    return {"dims": 384, "embed": Known(rows.vector_of), "fields": ["text"]}


def _key(said: Said) -> str:
    return f"{said.number:09d}"


def _value(said: Said) -> dict[str, str]:
    return {"role": said.role, "topic": said.topic, "text": said.text}
