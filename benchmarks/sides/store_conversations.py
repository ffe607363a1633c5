"""The store of this project: its history, and its search over everything that was said."""

from collections.abc import Sequence
from typing import Any

from benchmarks.sides.conversations import Conversations, Said, Wanted, operations
from benchmarks.sides.known import Known
from benchmarks.sides.protocol import serve
from lance_context_core import ContextStore, Message
from lance_context_core.settings import SearchOptions

_AGENT = "bench"
_PLAIN = SearchOptions(neighbours=0, speaker=0, without_names=False)
"""Each hit for itself, as the peers have it: by default the turns around it count, too."""


class Core(Conversations):
    """Opened with its defaults."""

    def _open(self, folder: str) -> None:
        self._store = ContextStore.open(folder, embedder=Known(self._rows))

    def _settle(self) -> None:
        self._store.maintain()

    def _append(self, message: Said) -> None:
        self._store.history.append(_AGENT, _message(message), session_id=message.session)

    def _turn(self, messages: Sequence[Said]) -> None:
        self._store.history.append_many(
            _AGENT, [_message(one) for one in messages], session_id=messages[0].session
        )

    def _last(self, session: str, limit: int) -> list[str]:
        found = self._store.history.get_messages(_AGENT, session_id=session, last=limit)
        return [message.text for message in found]

    def _whole(self, session: str) -> list[str]:
        found = self._store.history.get_messages(_AGENT, session_id=session)
        return [message.text for message in found]

    def _vector(self, wanted: Wanted) -> list[str]:
        return self._found(vector=wanted.vector, mode="vector", limit=wanted.limit)

    def _words(self, wanted: Wanted) -> list[str]:
        return self._found(wanted.text, mode="text", limit=wanted.limit)

    def _hybrid(self, wanted: Wanted) -> list[str]:
        return self._found(wanted.text, vector=wanted.vector, mode="hybrid", limit=wanted.limit)

    def _filter(self, wanted: Wanted) -> list[str]:
        topic = {"topic": wanted.topic}
        return self._found(vector=wanted.vector, mode="vector", filter=topic, limit=wanted.limit)

    def _found(self, text: str | None = None, **how: Any) -> list[str]:
        return [hit.record.text or "" for hit in self._store.search(text, options=_PLAIN, **how)]


def _message(said: Said) -> Message:
    return Message.of(said.role, said.text, metadata={"topic": said.topic})


if __name__ == "__main__":
    serve(operations(Core, "lance-context-core", "lancedb"))
