"""Stored windows: the agent's view at each step, readable later."""

import builtins
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from lance_context_core._handle import handle
from lance_context_core._util.checks import check_name, check_span, check_text, shown
from lance_context_core.codecs.records import KNOWLEDGE, SUMMARIES
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.jobs.jobs import AsyncJobs
from lance_context_core.storage import sql
from lance_context_core.stores.records.context import AsyncContext
from lance_context_core.stores.records.scoped import Records
from lance_context_core.stores.vectors import AsyncVectors
from lance_context_core.types import ContextRecord
from lance_context_core.window.compaction.plans import MAX_INPUT_TOKENS, Summariser, SummaryMaker
from lance_context_core.window.params import Entry, KeptWindow, Seen, noted, read
from lance_context_core.window.summaries import Summarising
from lance_context_core.window.window import Cited, Window

WINDOWS = "windows"
"""Their context."""


@handle
class AsyncWindows:
    """The windows that agents saw, stored as arguments and ids, without texts.

    So erased and expired records disappear from them, too, and the window lists them.
    """

    _records: Records

    async def keep(
        self, window: Window, *, run_id: str = "", expires_at: datetime | None = None
    ) -> str:
        """Store a window as a step of a session or run; returns its id.

        The program's own arguments are stored unchanged, including instructions and pinned texts.
        Of a user's texts, in `query` and `messages`, nothing is stored. Raises InvalidRequestError
        for a window that `assemble` did not make.
        """
        at = _made(window).at
        fields: dict[str, Any] = {
            "kind": "window",
            "session_id": window.asked["session_id"],
            "run_id": check_name(run_id, "run_id") if run_id else None,
            "expires_at": expires_at,
            "created_at": at,
            "metadata": {"tokens": window.tokens, "room": window.room},
        }
        if agent := self._records.whose("agent_id", window.asked.get("agent_id", "")):
            fields["agent_id"] = agent
        said = noted(window).encode()
        made = await AsyncContext(self._own()).add("window", said, "application/json", **fields)
        return made.ids[0]

    async def get(self, window_id: str) -> KeptWindow:
        """Return a window with the texts of that time, if its version still exists.

        Raises NotFoundError for an unknown id.
        """
        records = self._own()
        found = await records.visible(
            sql.all_of(
                [sql.equals("id", check_name(window_id, "window_id")), sql.equals("kind", "window")]
            )
        )
        if found is None or found.blob is None:
            raise NotFoundError(f"no window {window_id!r}: pass a window that assemble returned")
        return await self._shown(found)

    async def cite(self, window: Window, answer: str) -> Cited:
        """Resolve the marks in an answer, as `Window.cite`, and find erased records.

        The citation of a record that was erased, or has expired, has no text; its mark is among the
        `erased`. Raises InvalidRequestError for a window that `assemble` did not make.
        """
        cited = _made(window).cite(check_text(answer, "answer"))
        ids = {one.record_id for one in cited.citations if one.record_id}
        there = await _read(self._records, window.asked, ids) if ids else {}
        erased = [
            one.mark
            for one in cited.citations
            if one.record_id and _place(there, one.session_id, one.record_id) is None
        ]
        citations = tuple(
            replace(one, text="") if one.mark in erased else one for one in cited.citations
        )
        return replace(cited, citations=citations, erased=tuple(erased))

    async def list(
        self,
        session_id: str,
        *,
        agent_id: str = "",
        run_id: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> builtins.list[str]:
        """Return the ids of a session's or run's windows, in the order of the steps."""
        check_span(offset=offset, limit=limit, last=None)
        records = self._own()
        where = records.where(
            sql.equals("kind", "window"),
            sql.equals("session_id", check_name(session_id, "session_id")),
            sql.equals("agent_id", records.whose("agent_id", agent_id)),
            *([] if run_id is None else [sql.equals("run_id", check_name(run_id, "run_id"))]),
        )
        rows = await records.table.slice(where, columns=["id"], offset=offset, limit=limit)
        ids: builtins.list[str] = rows["id"].to_pylist()
        return ids

    def jobs(
        self,
        summariser: Summariser,
        *,
        timeout_seconds: float = 60.0,
        max_input_tokens: int = MAX_INPUT_TOKENS,
    ) -> AsyncJobs:
        """Return the store's jobs, with a summariser for those of `SummarySection(later=True)`.

        - `summariser`: a function of a transcript; it receives the last summary and the messages
          since.
        - `timeout_seconds`: timeout of one call.
        - `max_input_tokens`: maximum length of a conversation per call, four characters a token; a
          longer one is split into several calls, each with the summary of the messages before.

        Nothing runs automatically: a program, a thread or cron calls `run_due`, or has a `worker`.
        A failed job has its error, which the windows show too, and is retried later, up to five
        times; a window whose history was cut again since submits another. Raises
        InvalidRequestError if it is no function.
        """
        maker = SummaryMaker(summariser, timeout_seconds, max_input_tokens)
        return AsyncJobs(Summarising(self._records, maker).queue)

    def _own(self) -> Records:
        return replace(self._records, context=WINDOWS)

    async def _shown(self, record: ContextRecord) -> KeptWindow:
        said, entries = read((record.blob or b"").decode())
        at = datetime.fromisoformat(said["at"])
        texts, is_as_of_then = await self._texts(said["asked"], entries, at)
        return KeptWindow(
            id=record.id,
            at=at,
            session_id=said["asked"]["session_id"],
            run_id=record.run_id,
            asked=said["asked"],
            tokens=said["tokens"],
            tokens_by_section=said["tokens_by_section"],
            room=said["room"],
            seen=tuple(_seen(one, texts, said["asked"]) for one in entries),
            left_out=said["left_out"],
            n_not_considered=said["n_not_considered"],
            is_as_of_then=is_as_of_then,
        )

    async def _texts(
        self, asked: Mapping[str, Any], entries: Iterable[Entry], at: datetime
    ) -> tuple[dict[tuple[str | None, str], str], bool]:
        """Return the texts of that time by place, and whether they were readable."""
        ids = {id for one in entries for id in one.ids}
        now = await _read(self._records, asked, ids)
        try:
            resources = await self._records.resources.shown_at(at)
        except NotFoundError:
            return now, False
        then = await _read(replace(self._records, resources=resources), asked, ids)
        # Messages of the same moment may have been stored right after it. Records that are gone now
        # are in none of the versions read here.
        return {place: then.get(place, text) for place, text in now.items()}, True


def _made(window: Window) -> Window:
    """Return a window with its arguments. Raises InvalidRequestError for another."""
    if not isinstance(window, Window):
        raise InvalidRequestError(f"window={shown(window)}: give what assemble returned")
    if window.at is None or not window.asked:
        raise InvalidRequestError("window has no arguments: pass one that assemble returned")
    return window


_TEXT = ("session_id", "id", "text")


async def _read(
    records: Records, asked: Mapping[str, Any], ids: Iterable[str]
) -> dict[tuple[str | None, str], str]:
    found: dict[tuple[str | None, str], str] = {}
    wanted = sorted(ids)
    for context in (records.context, SUMMARIES, KNOWLEDGE):
        own = replace(records, context=context)
        rows = await own.table.select(own.where(sql.in_list("id", wanted)), columns=_TEXT)
        session_ids, row_ids, texts = (rows[name].to_pylist() for name in _TEXT)
        for session_id, id, text in zip(session_ids, row_ids, texts, strict=True):
            found[session_id, id] = text or ""
    for section in asked["sections"]:
        if section["section"] == "DocumentsSection":
            vectors = AsyncVectors(
                section.get("collection", "default"), records.resources, records.scope
            )
            found |= {(None, str(one.id)): one.text or "" for one in await vectors.get(wanted)}
    return found


def _seen(
    entry: Entry, texts: Mapping[tuple[str | None, str], str], asked: Mapping[str, Any]
) -> Seen:
    there = [
        texts[place]
        for id in entry.ids
        if (place := _place(texts, entry.session_id, id)) is not None
    ]
    named = (one for one in asked["sections"] if one["name"] == entry.section)
    given: Mapping[str, Any] = next(named, {})
    if not entry.ids and entry.verdict == "kept":
        there = [one for one in (given.get("text"), *given.get("texts", ())) if one]
    return Seen(
        section=entry.section,
        verdict=entry.verdict,
        tokens=entry.tokens,
        ids=tuple(entry.ids),
        session_id=entry.session_id if entry.kind == "message" else None,
        text="\n".join(there) if there else None,
        gone=tuple(id for id in entry.ids if _place(texts, entry.session_id, id) is None),
    )


def _place(
    texts: Mapping[tuple[str | None, str], str], session_id: str | None, id: str
) -> tuple[str | None, str] | None:
    """Return the key of a record: ids of memories and documents belong to no session."""
    return next((one for one in ((session_id, id), (None, id)) if one in texts), None)
