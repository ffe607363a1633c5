"""Parses the input of `add` into turns: texts, bytes, and messages of any framework."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lance_context_core._progress import tell
from lance_context_core._util.checks import check_json_object, dumps, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.records import new_id
from lance_context_core.errors import InvalidRequestError
from lance_context_core.jobs.commits import owing
from lance_context_core.jobs.queue import Queue, begun
from lance_context_core.jobs.types import Job, job_id
from lance_context_core.knowledge.builders import Builders
from lance_context_core.knowledge.distilling import EXTRACT, MOST_TURNS, Distiller
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.types import Added, Infer
from lance_context_core.messages import FilePart, Message, parts_to_json
from lance_context_core.messages.message import text_message
from lance_context_core.messages.wire import from_wire
from lance_context_core.stores.history import drafting
from lance_context_core.stores.records import writes
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import Progress

Told = str | bytes | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any] | str]
"""The input of `add`: a text, bytes, a message, or several messages.

A mapping has a `role` and `content`. Accepts messages in the formats of the APIs of OpenAI and
Anthropic, and the objects that their clients return. A `created_at` or `timestamp` is a datetime, a
number, or a text in ISO 8601.
"""

_TEXT_TYPES = ("text/", "application/json")


def messages_of(
    content: Told, *, content_type: str | None, metadata: Mapping[str, Any] | None
) -> list[Message]:
    """Return the turns of the input. Raises InvalidRequestError for input of another type."""
    common = check_json_object(metadata, "metadata") if metadata is not None else None
    if not isinstance(content, list | tuple):
        return _turns(content, content_type, common, "content")
    if not content:
        raise InvalidRequestError("content is empty: give at least one message with a text")
    of_each = (_turns(one, content_type, common, f"content[{i}]") for i, one in enumerate(content))
    return [turn for turns in of_each for turn in turns]


@frozen
class Adding:
    """Stores turns and extracts knowledge from them."""

    distiller: Distiller
    jobs: Queue
    progress: Callable[[Progress], object] | None = None
    """Called after each job."""

    async def add(
        self,
        given: Sequence[Message],
        *,
        session_id: str,
        infer: Infer,
        expires_at: datetime | None = None,
    ) -> Added:
        """Store the turns together with the job that extracts knowledge from them."""
        spoken = self.distiller.spoken
        noted: list[Job] = []

        def begin(ids: Sequence[str]) -> list[dict[str, Any]]:
            jobs = self._jobs(session_id, ids)
            jobs[0] = begun(jobs[0], jobs[0].scheduled_at)
            noted.extend(jobs)
            return [self.jobs.row(job) for job in jobs]

        agent = spoken.scope.agent_id or ""
        draft, within = drafting(spoken, agent, session_id, "", expires_at=expires_at)
        beside = begin if infer == "auto" else None
        written = await writes.insert(spoken, draft, given, within=within, beside=beside)
        if infer == "never":
            return Added(session_id=session_id, ids=written.ids, job_id=None)
        jobs = noted or self._jobs(session_id, written.ids)
        if not noted and (infer == "later" or len(jobs) > 1):
            # If the call ends early, the jobs exist for any process that runs jobs.
            await self.jobs.submit(jobs)
        decisions: Counter[str] = Counter()
        faults: Counter[str] = Counter()
        errors: list[str] = []
        if infer == "auto":
            for n, job in enumerate(jobs, 1):
                done = await self._done(job)
                result = done.result
                errors += [] if done.error is None else [done.error]
                decisions.update(result.get("decisions", {}))
                faults.update(result.get("faults", {}))
                now = Progress(n_done=n, n_total=len(jobs), what="jobs", name=job.id)
                await tell(self.progress, now)
        return Added(
            session_id=session_id,
            ids=written.ids,
            job_id=jobs[0].id,
            job_ids=tuple(job.id for job in jobs),
            decisions=dict(decisions),
            faults=dict(faults),
            errors=tuple(errors),
        )

    def _jobs(self, session_id: str, ids: Sequence[str]) -> list[Job]:
        conversation = Conversation(self.distiller.spoken.scope, session_id)
        return [
            self.distiller.job(conversation, ids[start : start + MOST_TURNS])
            for start in range(0, len(ids), MOST_TURNS)
        ]

    async def _done(self, job: Job) -> Job:
        """Return the job after its run, whether it is begun, stored or neither."""
        if job.state == "running":
            return await self.jobs.work(job, job.scheduled_at)
        if (done := await self.jobs.run_new(job)) is not None:
            return done
        # The job existed before and is not due: its earlier result does not belong to this call.
        return replace(job, error=(await self.jobs.get(job.id)).error)


async def keep(
    spoken: Records,
    given: Sequence[Message],
    *,
    session_id: str,
    makers: Builders | None,
    expires_at: datetime | None = None,
) -> Added:
    """Store turns without ids. Their job for `makers` becomes a row only when requested.

    The turns themselves record that it is owed.
    """
    of_each: list[dict[str, str]] = []
    jobs: list[str] = []
    if makers is not None:
        producer = makers.name
        for start in range(0, len(given), MOST_TURNS):
            ids = [new_id() for _ in given[start : start + MOST_TURNS]]
            job = job_id(EXTRACT, spoken.scope, session_id, ids, producer)
            owed = owing(EXTRACT, job, producer)
            of_each += [{"id": id, "owes": owed} for id in ids]
            jobs.append(job)
    agent = spoken.scope.agent_id or ""
    draft, within = drafting(spoken, agent, session_id, "", expires_at=expires_at, of_each=of_each)
    written = await writes.insert(spoken, draft, given, within=within)
    first = jobs[0] if jobs else None
    return Added(session_id=session_id, ids=written.ids, job_id=first, job_ids=tuple(jobs))


def _turns(
    one: object, content_type: str | None, common: Mapping[str, Any] | None, where: str
) -> list[Message]:
    """Return messages with the shared metadata, and an id if they have a time."""
    given = _messages(one, content_type, where)
    if common:
        given = [replace(turn, metadata={**turn.metadata, **common}) for turn in given]
    return [
        turn if turn.id is not None or turn.created_at is None else _identified(turn)
        for turn in given
    ]


def _messages(one: object, content_type: str | None, where: str) -> list[Message]:
    if isinstance(one, Message):
        return [one]
    if isinstance(one, str):
        if not one.strip():
            raise InvalidRequestError(f"{where} is empty: give at least one message with a text")
        return [text_message(one, where)]
    if isinstance(one, bytes):
        return [_of_bytes(one, content_type, where)]
    if not isinstance(one, Mapping) and callable(dump := getattr(one, "model_dump", None)):
        one = dump()  # The objects that the providers' clients return.
    if isinstance(one, Mapping):
        return from_wire(one, where)
    raise InvalidRequestError(
        f"{where} is {shown(one)}: pass a text, bytes, a Message, or a mapping with role and content"
    )


def _of_bytes(data: bytes, content_type: str | None, where: str) -> Message:
    kind = content_type or "application/octet-stream"
    if kind.startswith(_TEXT_TYPES):
        try:
            return Message.user(data.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise InvalidRequestError(
                f"{where} is declared as {kind!r}, and is not UTF-8: {error.reason}"
            ) from error
    return Message(role="user", parts=(FilePart(data=data, media_type=kind),))


def _identified(message: Message) -> Message:
    """Give the message an id: the same words at the same time are one turn."""
    about = [
        message.role,
        message.name,
        message.created_at and message.created_at.isoformat(),
        parts_to_json(message.parts),
    ]
    return replace(message, id=f"turn-{hashlib.sha256(dumps(about).encode()).hexdigest()[:32]}")
