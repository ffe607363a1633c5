"""What the tests of the knowledge share: a memory, and somebody who speaks."""

from datetime import UTC, datetime

from lance_context_core import ContextStore


def day(year, month=1, day_=1):
    return datetime(year, month, day_, 9, tzinfo=UTC)


def said(text, when=None, *, role="user", **more):
    """What somebody said."""
    moment = {} if when is None else {"created_at": when}
    return {"role": role, "content": text, **moment, **more}


OSLO = said("I live in Oslo.", day(2024))
BERGEN = said("We moved to Bergen last week.", day(2025))


def opened(path, clock, **options):
    return ContextStore.open(str(path / "store"), clock=clock, **options)


def facts(store, **filters):
    """What is current, as texts."""
    found = store.context("knowledge").list(filters={"kind": "fact", **filters})
    return [one["text"] for one in found]


def everything(store):
    """All that was made, hidden or not, by id: what tells one state of it from another."""
    found = store.context("knowledge").list(include_retired=True, filters={"kind": {"$ne": "job"}})
    return {
        one["id"]: (
            *(one["text"], one["lifecycle_status"], one["superseded_by_id"]),
            *(one["retired_at"] is None, one["source_ids"], one["metadata"].get("fact")),
        )
        for one in found
    }


class Scripted:
    """A model that answers as it was told, and notes what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def __call__(self, sentences):
        self.asked.append(list(sentences))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer(sentences) if callable(answer) else answer


def aloud(sentences):
    return [f"The user says: {one}" for one in sentences]


class DeathError(BaseException):
    """The end of a worker, after which it does nothing more."""


def dying(sentences):
    raise DeathError
