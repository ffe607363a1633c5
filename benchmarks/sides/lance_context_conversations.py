"""lance-context from PyPI, through its own record API."""

from collections.abc import Sequence
from typing import Any

from lance_context import (  # type: ignore[import-not-found]  # only in its environment
    Context,
)

from benchmarks.sides.conversations import Conversations, Said, Wanted, operations
from benchmarks.sides.protocol import serve

_LEAN = {"include_binary": False, "include_embedding": False}


class LanceContext(Conversations):
    """It has no way to ask for the last messages, so that all of a session are read."""

    # It is the number of its calls that makes it slow.
    fills_at_once = 2_000

    def _open(self, folder: str) -> None:
        self._context = Context.create(
            f"{folder}/context.lance", embedding_dim=384, distance_metric="cosine"
        )

    def _settle(self) -> None:
        self._context.compact()

    def _tidy(self) -> None:
        self._context.compact()

    def _append(self, message: Said) -> None:
        self._context.add(**_record(message))

    def _turn(self, messages: Sequence[Said]) -> None:
        self._context.add_many([_record(one) for one in messages])

    def _whole(self, session: str) -> list[str]:
        return _texts(self._context.list(filters={"session_id": session}, **_LEAN))

    def _vector(self, wanted: Wanted) -> list[str]:
        return _texts(self._context.search(wanted.vector, wanted.limit, **_LEAN))

    def _words(self, wanted: Wanted) -> list[str]:
        return _texts(self._context.retrieve(text=wanted.text, limit=wanted.limit))

    def _hybrid(self, wanted: Wanted) -> list[str]:
        return _texts(
            self._context.retrieve(text=wanted.text, vector=wanted.vector, limit=wanted.limit)
        )

    def _filter(self, wanted: Wanted) -> list[str]:
        topic = {"topic": wanted.topic}
        return _texts(self._context.search(wanted.vector, wanted.limit, filters=topic, **_LEAN))


def _record(said: Said) -> dict[str, Any]:
    return {
        "role": said.role,
        "content": said.text,
        "embedding": said.vector,
        "session_id": said.session,
        "metadata": {"topic": said.topic},
    }


def _texts(records: list[dict[str, Any]]) -> list[str]:
    return [record["text"] for record in records]


if __name__ == "__main__":
    serve(operations(LanceContext, "lance-context"))
