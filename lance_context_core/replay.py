"""Repeats recorded searches at one version in two ways, and compares the results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

from lance_context_core._opening import opened
from lance_context_core._progress import check_progress, tell
from lance_context_core._resources import Resources
from lance_context_core._util import cooperative as steps
from lance_context_core._util.calls import check_options
from lance_context_core._util.checks import check_name, check_text, listed, shown
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.codecs.records import COLUMNS, from_row, to_row
from lance_context_core.embedders import as_embedder
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.search import query as searching
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY, VECTOR
from lance_context_core.storage.lance.versions import Ref
from lance_context_core.storage.write_batch import WriteBatch
from lance_context_core.stores.records import embedding_backlog
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord, Progress, SearchHit
from lance_context_core.versioning.locations import Whole

# Questions that were asked, asked again of the same moment in two ways: what one finds alone.

_AT_ONCE = 1_000

Way: TypeAlias = Mapping[str, Any]
"""Arguments of a search, and `embedder`: another one than the store's."""


@frozen_by_name
class ReplayedQuestion:
    """The results of one question in both ways."""

    question: str
    id: str | None
    """The id of the turn that asked it; absent for a question from the caller."""
    asked_at: datetime | None
    """The time of the question: the search excludes records from then on."""
    before: tuple[SearchHit[ContextRecord], ...]
    after: tuple[SearchHit[ContextRecord], ...]

    @property
    def gained(self) -> tuple[str, ...]:
        """The ids that only the second way finds, best first."""
        return _alone(self.after, self.before)

    @property
    def lost(self) -> tuple[str, ...]:
        """The ids that only the first way finds, best first."""
        return _alone(self.before, self.after)


@frozen_by_name
class Replay:
    """The results of all questions in both ways."""

    questions: tuple[ReplayedQuestion, ...]

    @property
    def n_gained(self) -> int:
        """How much only the second way finds, of all questions."""
        return sum(len(one.gained) for one in self.questions)

    @property
    def n_lost(self) -> int:
        """How much only the first way finds, of all questions."""
        return sum(len(one.lost) for one in self.questions)

    @property
    def n_changed(self) -> int:
        """Of how many questions the ways find different things, or the same in another order."""
        ids = (
            [[hit.record.id for hit in way] for way in (q.before, q.after)] for q in self.questions
        )
        return sum(before != after for before, after in ids)


async def replay(
    whole: Whole,
    questions: str | Sequence[str] | None,
    *,
    session_id: str | None,
    at: Ref | None,
    before: Way,
    after: Way,
    limit: int,
    progress: Callable[[Progress], object] | None,
) -> Replay:
    """The result of `ContextStore.replay`."""
    check_progress(progress)
    if (questions is None) is (session_id is None):
        raise InvalidRequestError(
            "give either questions, or the session_id of a session with questions"
        )
    for name, way in (("before", before), ("after", after)):
        if not isinstance(way, Mapping):
            raise InvalidRequestError(
                f"{name}={shown(way)}: give a mapping of arguments of a search"
            )
        check_options(way, {**searching.DEFAULTS, "embedder": None}, name)
    then = whole.resources if at is None else await whole.resources.shown_at(at)
    records = Records(then, whole.scope)
    if session_id is not None:
        asked = await _asked_in(records, check_name(session_id, "session_id"))
    else:
        given = [questions] if isinstance(questions, str) else listed(questions, "questions")
        asked = [_Asked(check_text(one, "questions"), None, None) for one in given]
    found = [await _Searching.of(records, way, limit) for way in (before, after)]
    try:
        answered = []
        for n, question in enumerate(asked, start=1):
            now = ReplayedQuestion(
                question=question.text,
                id=question.id,
                asked_at=question.at,
                before=tuple(await found[0].search(question)),
                after=tuple(await found[1].search(question)),
            )
            answered.append(now)
            await tell(progress, Progress(n_done=n, n_total=len(asked), what="questions"))
        return Replay(questions=tuple(answered))
    finally:
        for one in found:
            await one.close()


@frozen
class _Asked:
    """A question."""

    text: str
    id: str | None
    at: datetime | None


async def _asked_in(records: Records, session_id: str) -> list[_Asked]:
    where = records.where(
        sql.equals("kind", "message"),
        sql.equals("session_id", session_id),
        sql.equals("role", "user"),
    )
    found = [one for one in await records.read(where) if one.text]
    if not found:
        raise NotFoundError(
            f"session {session_id!r} has no message of a user: pass another session_id"
        )
    return [_Asked(str(one.text), one.id, one.created_at) for one in found]


@frozen
class _Searching:
    """One way to search."""

    records: Records
    arguments: Mapping[str, Any]
    own: Resources | None
    """Resources created for this replay."""

    @classmethod
    async def of(cls, records: Records, way: Way, limit: int) -> "_Searching":
        arguments = {
            "limit": limit,
            **{name: one for name, one in way.items() if name != "embedder"},
        }
        if (embedder := way.get("embedder")) is None:
            return cls(records, arguments, None)
        own = opened(
            "memory://", {"embedder": as_embedder(embedder), "clock": records.resources.clock}
        )
        copied = replace(records, resources=own)
        try:
            await _copy(records, copied)
        except BaseException:
            await own.close()
            raise
        return cls(copied, arguments, own)

    async def search(self, asked: _Asked) -> list[SearchHit[ContextRecord]]:
        """The hits among the records that existed at the time of the question."""
        earlier = [] if asked.at is None else [sql.before("created_at", asked.at)]
        return await self.records.search(asked.text, *earlier, **self.arguments)

    async def close(self) -> None:
        """Release its resources."""
        if self.own is not None:
            await self.own.close()


async def _copy(records: Records, copied: Records) -> None:
    """Put the records that are shown into another store, whose embedder makes their vectors."""
    compose = copied.resources.composer.index_text
    rows = await records.table.select(
        records.where(), columns=[KEY, "revision", "previous_key", *COLUMNS]
    )
    for start in range(0, rows.num_rows, _AT_ONCE):

        def made(row: dict[str, Any]) -> dict[str, Any]:
            record = from_row(row)
            kept = {name: row[name] for name in ("revision", "previous_key")}
            said = to_row(record, key=row[KEY], search_text=compose(record))
            return {**said, **kept, VECTOR: None}

        made_rows = await steps.each_row(made, rows.slice(start, _AT_ONCE))
        await copied.table.write(WriteBatch(made_rows))
    await embedding_backlog.embed_all(copied, filter=None, limit=None)


def _alone(
    ours: Sequence[SearchHit[ContextRecord]], theirs: Sequence[SearchHit[ContextRecord]]
) -> tuple[str, ...]:
    known = {hit.record.id for hit in theirs}
    return tuple(hit.record.id for hit in ours if hit.record.id not in known)
