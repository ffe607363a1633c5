"""One search of one table: queries the channels, ranks their candidates, returns the best."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar, Unpack, cast

import numpy as np

from lance_context_core._embedding import as_vector
from lance_context_core._resources import Resources
from lance_context_core._util import cooperative as steps
from lance_context_core._util.calls import defaults_of
from lance_context_core._util.checks import check_text
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import Columns, FilterLike
from lance_context_core.memory_index.columns import Condition
from lance_context_core.memory_index.segment import UnsureError
from lance_context_core.memory_index.segment_search import HotTable, Picked
from lance_context_core.protocols import SearchMode
from lance_context_core.routing.router import LANCEDB, RoutedRows, Router
from lance_context_core.search import ranking
from lance_context_core.search.boosts import Boost, asked
from lance_context_core.search.candidates import asked_by, placed
from lance_context_core.search.fusion import DEFAULT_FUSION, Convex, Fusion
from lance_context_core.search.mmr import varied
from lance_context_core.search.options import ALONE, AS_USUAL, Room, SearchArguments, SearchOptions
from lance_context_core.search.previous_turns import Order, order
from lance_context_core.search.ranking import FusedHit, by_text, by_vector, fuse
from lance_context_core.storage import sql
from lance_context_core.storage.lance.reads import Found, Rows
from lance_context_core.storage.lance.schema import KEY, LINK, VECTOR
from lance_context_core.storage.prefilter import Narrowed
from lance_context_core.storage.sql.predicates import UnsureError as UnsureOfRowError
from lance_context_core.storage.table import Table
from lance_context_core.types import SearchHit

# Queries of a table, or of its part in memory: two channels, and neighbouring turns.

_MOST = 2**31 - 1
"""Maximum number of rows per query of the engine; no table of ours has more."""


class Question(NamedTuple):
    """A query."""

    text: str | None
    """The text as given, for a reranker."""
    words: str | None
    """The text for the word search; None without one."""
    vector: np.ndarray | None
    """None if absent, or not computed yet."""
    model: str | None
    """The model of the vector; None for the caller's own."""
    mode: SearchMode
    is_embedded: bool
    """Whether to embed the text."""


class Findings(NamedTuple):
    """The rows that the channels found, and their neighbours."""

    vector: Found
    text: Found
    around: Sequence[Found] = ()


class Asking(NamedTuple):
    """The parameters of both channels, besides the query."""

    table: Table | HotTable
    where: sql.Clause
    """The condition for the engine; rows in memory have their own."""
    limit: int
    columns: list[str]
    narrowed: Narrowed | None
    """The rows that meet a long condition, for the engine."""
    preceding: float = 0.0
    """In memory: the weight of a short turn's words in the next one."""
    must_match: bool = True
    """Whether a turn must have a word of the query itself."""
    router: Router | None = None
    """The engines that are asked before the table."""

    async def nearest(self, vector: np.ndarray | None, model: str | None) -> Found:
        """Return the nearest rows; none without a vector."""
        if vector is None:
            return self._nothing("_distance")
        limit, columns = min(self.limit, _MOST), self.columns
        if isinstance(self.table, HotTable):
            return await self.table.nearest(vector, model=model, limit=limit, columns=columns)
        if self.router is not None:
            routed = await self.router.nearest(
                self.table, vector, model=model, where=self.where, limit=limit, columns=columns
            )
            if routed is not None:
                return routed
        rows = await self.table.nearest(
            vector,
            model=model,
            where=self.where,
            limit=limit,
            columns=columns,
            narrowed=self.narrowed,
        )
        return Rows(rows, "_distance")

    async def matching(self, words: str | None) -> Found:
        """Return the rows with the words; none without words."""
        if words is None:
            return self._nothing("_score")
        limit, columns = min(self.limit, _MOST), self.columns
        if isinstance(self.table, HotTable):
            return await self.table.match(
                words,
                limit=limit,
                columns=columns,
                preceding=self.preceding,
                must_match=self.must_match,
            )
        if self.router is not None:
            routed = await self.router.match(
                self.table, words, where=self.where, limit=limit, columns=columns
            )
            if routed is not None:
                return routed
        rows = await self.table.match(
            words, where=self.where, limit=limit, columns=columns, narrowed=self.narrowed
        )
        return Rows(rows, "_score")

    async def channels(self, question: Question, matching: Found | None) -> Findings:
        """Return the results of the queried channels, of which one may already be known."""
        near = None if question.mode == "text" else question.vector
        if matching is not None:
            return Findings(await self.nearest(near, question.model), matching)
        if question.mode != "hybrid" or isinstance(self.table, HotTable):
            return Findings(
                await self.nearest(near, question.model), await self.matching(question.words)
            )
        # Concurrently, which has its cost.
        found = await asyncio.gather(
            self.nearest(near, question.model), self.matching(question.words)
        )
        return Findings(*found)

    def _nothing(self, score: str) -> Found:
        if isinstance(self.table, HotTable):
            return self.table.none(score)
        return Rows(self.table.nothing(self.columns, score), score)


async def surroundings(
    table: Table | HotTable,
    where: sql.Clause,
    found: Sequence[Found],
    *,
    columns: Sequence[str],
    order: Order | None,
) -> Found:
    """Return the previous and next turns of found ones that meet `where`, without these.

    One query by keys. Without an `order` the rows name the previous ones; rows that are gone, or do
    not meet `where`, are left out.
    """
    if isinstance(table, HotTable) and LINK in table.spec.schema.names:
        picked = [one for one in found if isinstance(one, Picked)]
        return await table.beside(picked, columns=columns)
    keys = {key for rows in found for key in rows.column(KEY)}
    if order is not None and not isinstance(table, HotTable):
        around = {*map(order.before.get, keys), *map(order.after.get, keys)} - keys
        if not (there := sorted(key for key in around if key)):
            return order.linked(Rows(table.nothing(columns)))
        beside = sql.all_of([where, sql.in_list(KEY, there)])
        return order.linked(Rows(await table.select(beside, columns=columns)))
    links = {key for rows in found for key in rows.column(LINK)}
    before = sorted(key for key in links if key and key not in keys)
    if not keys or isinstance(table, HotTable) or LINK not in table.spec.schema.names:
        # Documents have no previous turns.
        return Rows(table.nothing(columns))
    return await _beside(table, where, keys=keys, before=before, columns=columns)


async def _beside(
    table: Table,
    where: sql.Clause,
    *,
    keys: Collection[str],
    before: Collection[str],
    columns: Sequence[str],
) -> Found:
    beside = sql.any_of([sql.in_list(LINK, sorted(keys)), sql.in_list(KEY, before)])
    another = sql.not_in_list(KEY, sorted(keys))
    return Rows(await table.select(sql.all_of([where, beside, another]), columns=columns))


def beside_each(ids: Sequence[int], found: Sequence[Found]) -> dict[int, list[int]]:
    """Return the found previous and next turns of each of these rows."""
    there: dict[str, int] = {}
    links: dict[int, str | None] = {}
    for rows in found:
        there.update(zip(rows.column(KEY), rows.ids, strict=True))
        links.update(zip(rows.ids, rows.column(LINK), strict=True))
    before = {id: there[key] for id, key in links.items() if key in there}
    after = {previous: id for id, previous in before.items()}
    return {id: [one for one in (before.get(id), after.get(id)) if one is not None] for id in ids}


R = TypeVar("R")

_ASKING = 2
"""The number of `_steps.STEP` that parsing a query takes."""


@frozen_by_name
class Searched(Generic[R]):
    """The rows to search, and their conversion."""

    table: Table
    resources: Resources
    where: sql.Clause
    """The condition of searchable rows; empty for all."""
    moments: Sequence[tuple[str, datetime]] = ()
    """Columns that must be null, or later, in addition."""
    filterable: Columns
    """The columns for filters."""
    columns: Sequence[str]
    """The columns read of a hit."""
    read: Callable[[Mapping[str, Any]], R]
    """Converts a row for the caller."""
    in_two: tuple[Callable[[Mapping[str, Any]], Any], Callable[[Any], R]] | None = None
    """The same in two steps: the first result is cached with rows in memory."""
    room: Room = ALONE
    """The default ranking."""
    scope: sql.Clause | None = None
    """The part of `where` that selects the owner; None prevents a search in memory.

    All of its rows may be cached and searched in the process.
    """
    is_explained: bool = True
    """Whether a hit says what gave its score."""
    looked: HotTable | None = None
    """The scope in memory, if it was looked up for this call; not for a `filter`."""
    names_links: bool = False
    """Whether a row names the previous one; else its session's order decides."""


class Around(NamedTuple, Generic[R]):
    """A hit with its neighbours."""

    hit: SearchHit[R]
    turns: Sequence[R] = ()
    """The previous and the next turn, if they are searchable themselves."""


async def search(
    searched: Searched[R],
    query: str | Sequence[float] | None,
    *,
    vector: Sequence[float] | None = None,
    mode: SearchMode | None = None,
    filter: FilterLike | None = None,
    limit: int = 10,
    options: SearchOptions | None = None,
) -> list[SearchHit[R]]:
    """Return the best `limit` hits, best first, equal ones in the order of writing.

    `AsyncContextStore.search` documents the arguments and the defaults.
    """
    given = SearchArguments(vector=vector, mode=mode, filter=filter, limit=limit, options=options)
    return [hit for hit, _ in await _answered(searched, query, given, with_turns=False)]


DEFAULTS = defaults_of(search)


async def search_around(
    searched: Searched[R],
    query: str | Sequence[float] | None,
    **arguments: Unpack[SearchArguments],
) -> list[Around[R]]:
    """As `search`, each hit with its neighbours, which are read together with the hits."""
    given = cast("SearchArguments", DEFAULTS | {**arguments})
    return await _answered(searched, query, given, with_turns=True)


async def _answered(
    searched: Searched[R],
    query: str | Sequence[float] | None,
    given: SearchArguments,
    *,
    with_turns: bool,
) -> list[Around[R]]:
    """Return the best hits, from memory or from the engine."""
    limit, mode, options = given["limit"], given["mode"], given["options"]
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidRequestError(f"limit={limit!r}: give a number of hits, 0 or more")
    options = AS_USUAL if options is None else options
    if not isinstance(options, SearchOptions):
        raise InvalidRequestError(f"options={options!r:.80}: give SearchOptions(...), or nothing")
    await steps.take_all(_ASKING)
    room = searched.room.with_options(options, mode)
    where = searched.where
    if (filter := given["filter"]) is not None:
        where = sql.all_of([where, sql.filtered(filter, columns=searched.filterable)])
    moments = searched.moments
    question = await _asked(searched, query, given["vector"], mode, options)
    hot, scope = searched.resources.hot, searched.scope
    if hot is not None and scope is not None and limit:
        shown = Condition.of(searched.where, moments)
        table: HotTable | None = None
        if searched.looked is not None and filter is None and options.reranker is None:
            table = searched.looked.where(shown, shown, columns=searched.columns)
        if table is None:
            table = await hot.of(
                *(searched.table, scope),
                *(shown if where is searched.where else Condition.of(where, moments), shown),
                columns=searched.columns,
                # A reranker gets all columns of a row.
                is_whole=options.reranker is not None,
            )
        with suppress(UnsureError, UnsureOfRowError):
            if table is not None:
                await steps.take_all(table.n_steps)
                hits = await _found(
                    searched, table, question, where, room, limit, options, with_turns=with_turns
                )
                hot.count(table)
                return hits
    later = (sql.absent_or_after(column, moment) for column, moment in moments)
    where = sql.all_of([where, *later])
    return await _found(
        searched, searched.table, question, where, room, limit, options, with_turns=with_turns
    )


async def _found(
    searched: Searched[R],
    table: Table | HotTable,
    question: Question,
    where: sql.Clause,
    room: Room,
    limit: int,
    options: SearchOptions,
    *,
    with_turns: bool,
) -> list[Around[R]]:
    """Return the best hits of `table`."""
    is_hot = isinstance(table, HotTable)
    now = searched.resources.clock.now()
    boosts = [*room.boosts(words_are_handed=is_hot), *(asked(one, now) for one in options.boosts)]
    is_picked = options.reranker is not None or options.mmr_lambda is not None
    looks_around = room.surroundings and room.is_lending and not is_picked
    n_candidates = max(limit, _n_candidates(searched, options))
    # Ranking columns of candidates first, then the rows of the best; or all at once.
    in_two_steps = (
        question.mode == "hybrid"
        or is_hot
        or bool(boosts)
        or room.without_names
        or is_picked
        or with_turns
    )
    by_order = not is_hot and not searched.names_links and LINK in table.spec.schema.names
    link = "session_id" if by_order else LINK
    columns = _ranked_by(options, boosts, link) if in_two_steps else list(searched.columns)
    asking = Asking(
        table,
        where,
        n_candidates if in_two_steps else limit,
        columns,
        None if isinstance(table, HotTable) or not limit else await table.narrowed(where),
        # A reranker scores each turn's own text.
        preceding=room.preceding if options.reranker is None else 0.0,
        must_match=not looks_around,
        router=None if is_hot else searched.resources.engines,
    )
    matching = None
    if room.without_names and question.is_embedded and limit:
        # The words first: their candidates name the speakers.
        matching = await asking.matching(
            question.words
            or await steps.of_text(searched.resources.composer.query_text, question.text or "")
        )
    question = await _embedded(searched, question, _names(matching))
    if limit == 0:
        return []

    found = channels = await asking.channels(question, matching if question.words else None)
    turns = None
    if by_order and isinstance(table, Table) and (boosts or with_turns):
        turns = await _order_of(table, searched.scope, found)
        found = Findings(turns.linked(found.vector), turns.linked(found.text))
    if looks_around:
        around = await surroundings(
            table, where, (found.vector, found.text), columns=asking.columns, order=turns
        )
        found = found._replace(around=(around,))
    weight = 1.0
    if isinstance(found.text, Picked) and found.text.coverage < room.coverage:
        weight = found.text.coverage / room.coverage
    hits = _ranked(
        *(question, found, _fusion(searched, options), boosts),
        limit=None if is_picked else limit,
        words_weigh=weight,
        is_explained=searched.is_explained,
    )
    if options.reranker is not None:
        hits = await _reranked(searched, question, found, options, hits)
    if options.mmr_lambda is not None and question.vector is not None:
        hits = varied(hits, found[:2], question.vector, k=limit, mmr_lambda=options.mmr_lambda)
    best = hits[:limit]
    beside: Mapping[int, Sequence[int]] = {}
    if with_turns:
        if not looks_around:
            given = (found.vector, found.text)
            around = await surroundings(table, where, given, columns=[KEY, link], order=turns)
            found = found._replace(around=(around,))
        beside = beside_each([hit.id for hit in best], [*found[:2], *found.around])
    wanted = dict.fromkeys([hit.id for hit in best])
    for ids in beside.values():
        wanted |= dict.fromkeys(ids)
    asked_of = found.vector if question.mode == "vector" else found.text
    records = await _read(searched, table, [*wanted], None if in_two_steps else asked_of)
    answered = {} if asking.router is None else _answered_by(channels, [hit.id for hit in best])
    return [
        Around(
            SearchHit(
                record=records[hit.id],
                score=hit.score,
                channels=hit.channels,
                why=hit.why,
                engines=answered.get(hit.id, {}),
            )
            if searched.is_explained
            else SearchHit(record=records[hit.id], score=hit.score),
            [records[one] for one in beside.get(hit.id, ()) if one in records],
        )
        for hit in best
        if hit.id in records  # Deleted meanwhile.
    ]


def _n_candidates(searched: Searched[Any], options: SearchOptions) -> int:
    """Return the given number; for the default one the embedder's, if any."""
    embeddings = searched.resources.embeddings
    own = None if embeddings is None else embeddings.n_candidates
    is_usual = options.n_candidates == AS_USUAL.n_candidates
    return own if own and is_usual else options.n_candidates


def _fusion(searched: Searched[Any], options: SearchOptions) -> Fusion:
    """Return the given fusion, else the default one with the embedder's weight."""
    embeddings = searched.resources.embeddings
    own = None if embeddings is None else embeddings.vector_weight
    if options.fusion is not DEFAULT_FUSION or own is None:
        return options.fusion
    return Convex(vector_weight=own)


def _answered_by(found: Findings, ids: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return by channel what found each of these rows."""
    answered: dict[int, dict[str, str]] = {id: {} for id in ids}
    for channel, rows in (("vector", found.vector), ("text", found.text)):
        told = rows.answered if isinstance(rows, RoutedRows) else dict.fromkeys(rows.ids, LANCEDB)
        for id in answered.keys() & told.keys():
            answered[id][channel] = told[id]
    return answered


async def _read(
    searched: Searched[R], table: Table | HotTable, ids: Sequence[int], whole: Found | None
) -> dict[int, R]:
    """Return these converted rows by id, in their current state unless found `whole`."""
    columns, read = searched.columns, searched.read
    if isinstance(table, HotTable):
        return await table.made(ids, columns=columns, read=read, in_two=searched.in_two)
    rows = await table.take(ids, columns=columns) if whole is None else whole.table()
    return dict(await steps.each_row(lambda row: (row["_rowid"], read(row)), rows))


async def _asked(
    searched: Searched[Any],
    query: str | Sequence[float] | None,
    vector: Sequence[float] | None,
    mode: SearchMode | None,
    options: SearchOptions,
) -> Question:
    """Return the query from the arguments, with their vector.

    Without a `mode` both channels are queried, or the only possible one.
    """
    if query is not None and not isinstance(query, str):
        if vector is not None:
            raise InvalidRequestError(
                "query is a vector, and vector is given too: pass one of them"
            )
        query, vector = None, query
    text = None if query is None else check_text(query, "query")
    if text is None and vector is None:
        raise InvalidRequestError("nothing to search for: pass a text, a vector, or both")
    embeddings = searched.resources.embeddings
    can_embed = vector is not None or (text is not None and embeddings is not None)
    if mode is None:
        mode = "text" if not can_embed else "vector" if text is None else "hybrid"
    if mode not in ("hybrid", "vector", "text"):
        raise InvalidRequestError(f"mode={mode!r}: use 'hybrid', 'vector' or 'text'")
    if mode != "vector" and text is None:
        raise InvalidRequestError(f"mode={mode!r} needs a text: pass one, or use mode='vector'")
    needs_vector = mode != "text" or options.mmr_lambda is not None
    if needs_vector and not can_embed:
        raise InvalidRequestError(
            f"mode={mode!r} needs a vector: open the store with an embedder, pass a vector, or "
            "search with mode='text'"
        )
    if options.reranker is not None:
        ranking.require_method(options.reranker, mode)
    words = None
    if mode != "vector" and text is not None:
        words = await steps.of_text(searched.resources.composer.query_text, text)
    is_embedded = needs_vector and vector is None and bool(text) and not str(text).isspace()
    made = as_vector(vector, "vector") if needs_vector and vector is not None else None
    return Question(
        text=text, words=words, vector=made, model=None, mode=mode, is_embedded=is_embedded
    )


async def _embedded(
    searched: Searched[Any], question: Question, names: Collection[str]
) -> Question:
    """Return the query with its embedding, if needed."""
    embeddings = searched.resources.embeddings
    if question.is_embedded and question.text and embeddings is not None:
        text = question.text
        if names:
            text = searched.resources.composer.query_to_embed(text, names) or text
        made = await embeddings.embed_query(text)
        # A zero vector has no direction: nothing is near to it.
        vector = made if made.any() else None
        question = question._replace(vector=vector, model=embeddings.model)
    if question.mode == "text" and (given := question.vector) is not None:
        # The vector channel would check it.
        table = searched.table
        table.vectors.check(await table.schema(), len(given), question.model)
    return question


async def _order_of(table: Table, scope: sql.Clause | None, found: Findings) -> Order:
    """Return the order of the turns that the channels found."""
    keys = {key for rows in found[:2] for key in rows.column(KEY)}
    sessions = {one for rows in found[:2] for one in rows.column("session_id") if one is not None}
    return await order(table, scope, keys, sessions)


def _ranked_by(options: SearchOptions, boosts: Sequence[Boost], link: str) -> list[str]:
    """Return the columns for ranking; `link` names the previous turn."""
    turns = ["name", *asked_by(boosts)]
    vectors = [VECTOR] if options.mmr_lambda is not None else []
    texts = ranking.COLUMNS if options.reranker is not None else []
    return list(dict.fromkeys([KEY, link, *turns, *vectors, *texts]))


def _names(matching: Found | None) -> set[str]:
    """Return the speakers of the rows."""
    return set() if matching is None else {name for name in matching.column("name") if name}


def _ranked(
    question: Question,
    found: Findings,
    fusion: Fusion,
    boosts: Sequence[Boost],
    *,
    limit: int | None,
    words_weigh: float,
    is_explained: bool,
) -> list[FusedHit]:
    """Return the ranked candidates, by number, on the scale of the mode, best first."""
    rows = placed((found.vector, found.text, *found.around), boosts)
    near = rows.numbers[0], 1.0 - np.array(found.vector.scores, float)
    matching = rows.numbers[1], np.array(found.text.scores, float)
    given: dict[str, Any] = {"question": question.text, "boosts": boosts, "limit": limit}
    given["is_explained"] = is_explained
    if question.mode == "vector":
        return by_vector(rows.candidates, near, **given)
    if isinstance(found.text, Picked) and found.text.own is not None:
        given["own_words"] = own = np.ones(len(rows.candidates))
        own[rows.numbers[1]] = found.text.own
    if question.mode == "text":
        return by_text(rows.candidates, matching, **given)
    given |= {"fusion": fusion, "words_weigh": words_weigh}
    return fuse(rows.candidates, near, matching, **given)


async def _reranked(
    searched: Searched[Any],
    question: Question,
    found: Findings,
    options: SearchOptions,
    hits: list[FusedHit],
) -> list[FusedHit]:
    """Return the reranked hits with its scores, without boosts.

    If it fails and errors are ignored, returns all of them unchanged.
    """
    assert options.reranker is not None
    scores = await ranking.rerank(
        options.reranker,
        question.text or "",
        mode=question.mode,
        vector=found.vector.table(),
        text=found.text.table(),
        warned=searched.resources.warned if options.on_reranker_error == "ignore" else None,
    )
    if scores is None:
        return hits
    kept = [
        hit._replace(score=scores[hit.id], own=scores[hit.id], handed=0.0, gains={})
        for hit in hits
        if hit.id in scores
    ]
    return sorted(kept, key=lambda hit: -hit.score)
