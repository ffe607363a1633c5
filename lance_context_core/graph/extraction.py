"""Extracts a graph from texts: entities with their positions, one commit a text."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lance_context_core._progress import tell
from lance_context_core._util.calls import called
from lance_context_core._util.checks import check_name, check_text, shown
from lance_context_core._util.frozen import frozen
from lance_context_core._util.logs import log
from lance_context_core.codecs.graph import entity_id, name_key
from lance_context_core.documents.documents import AsyncDocuments
from lance_context_core.documents.scoped import ScopedDocuments
from lance_context_core.errors import InvalidRequestError, ModelAnswerError, NotFoundError
from lance_context_core.graph.model import (
    EntityExtractor,
    Extracted,
    FoundEntity,
    GraphExtraction,
    SourceText,
)
from lance_context_core.graph.scoped import ScopedGraph
from lance_context_core.graph.writing import Batch
from lance_context_core.storage import sql
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import Progress
from lance_context_core.types.graph import Entity, Mention, Relation, Statement

# Extraction without a model, by spelling, in any script.

_MONTHS = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec"
    "|Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember"
    "|janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre"
    "|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
    "|января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря"
)
_MONEY = "€$£¥₹₽₩₺"
_CURRENCY = "USD|EUR|GBP|JPY|CNY|CHF|INR|euros?|dollars?|pounds?|yen|元|円|원|руб(?:лей|ля|\\.)?"
_UNITS = "%|km|cm|mm|kg|mg|GB|MB|TB|GHz|MHz|kWh|ms|h|°C"
_NUMBER = r"\d[\d.,\u00a0\u202f]*\d|\d"

PATTERNS: Mapping[str, re.Pattern[str]] = {
    # In this order: text that one pattern matched is closed to the next.
    "url": re.compile(
        r"\bhttps?://[^\s<>\"'`\])}]{1,2000}(?<![.,;:!?])|\bwww\.[^\s<>\"'`\])}]{1,2000}(?<![.,;:!?])"
    ),
    "email": re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}\b"),
    "date": re.compile(
        r"\b\d{4}-\d{2}-\d{2}\b"
        r"|\d{4}年\d{1,2}月(?:\d{1,2}日)?|\d{4}년 ?\d{1,2}월(?: ?\d{1,2}일)?"
        r"|\b\d{1,2}[./]\d{1,2}[./]\d{4}\b"
        rf"|\b\d{{1,2}}(?:st|nd|rd|th|\.)? (?:{_MONTHS})\.?(?:,? \d{{4}})?\b"
        rf"|\b(?:{_MONTHS})\.? \d{{1,2}}(?:st|nd|rd|th)?(?:, \d{{4}})?\b"
        rf"|\b(?:{_MONTHS})\.? \d{{4}}\b"
    ),
    "amount": re.compile(
        rf"[{_MONEY}] ?(?:{_NUMBER})(?: ?(?:million|billion|[kKmM]n?)\b)?"
        rf"|(?<![\w.,])(?:{_NUMBER}) ?(?:[{_MONEY}]|(?:{_CURRENCY}|{_UNITS})(?![^\W\d_]))"
    ),
    "hashtag": re.compile(r"(?<![\w#&/])#[^\W\d_][\w-]{0,99}"),
    "code": re.compile(
        r"`[^`\n]{1,200}`"
        r"|(?<![\w.])[A-Za-z_]\w{0,80}(?:(?:\.|::)[A-Za-z_]\w{0,80}){1,8}(?:\(\))?(?![\w.]*@)"
        r"|(?<![\w.])[A-Za-z_]\w{0,80}\(\)"
        r"|(?<!\w)[a-z][a-z0-9]{0,60}(?:_[a-z0-9]{1,60}){1,8}(?!\w)"
        r"|(?<!\w)[A-Z][A-Z0-9]{0,60}(?:_[A-Z0-9]{1,60}){1,8}(?!\w)"
        r"|(?<!\w)[a-z]{1,40}(?:[A-Z][a-z0-9]{1,40}){1,8}(?!\w)"
        r"|(?<!\w)(?:[A-Z][a-z0-9]{1,40}){2,8}(?!\w)"
    ),
    "title": re.compile(r"《([^《》\n]{1,60})》|『([^『』\n]{1,60})』|「([^「」\n]{1,60})」"),
    "person": re.compile(
        r"[\u4e00-\u9fff]{1,4}(?=(?:先生|女士|老师|老師|博士|教授|さん|様|氏|君))"
        r"|[\u30a0-\u30ff]{2,10}(?=(?:さん|様|氏))"
        r"|[\uac00-\ud7a3]{2,4}(?=(?: ?씨|님))"
        r"|(?:(?<=श्री )|(?<=डॉ\. ))[\u0900-\u097f]{2,20}(?: [\u0900-\u097f]{2,20})?"
    ),
}

_WORD = re.compile(r"[^\W\d_](?:[^\W_]|['’.-](?=[^\W_]))*")
_PARTICLES = frozenset("de da di del della der den van von zu la le of the bin ibn al el".split())
_ENDS = re.compile(r"[.!?…:。！？]['\"”’)\]]*\s*$|^\s*$|\n\s*(?:[-*#>]+\s*)?$|[\"“„«(]\s*$")
_COMMON = frozenset(
    (
        "a an and are as at be but by can do for from had has have he her his how i if in is it its "
        "let may more my no not of on or our please she so that the their then there these they "
        "this those to was we were what when where which who why will with would yes you your "
        "after also although before both during each even every finally first however once one "
        "only since some still such than thanks though today tomorrow two until while yesterday "
        "der die das ein eine und ist im in am es er sie wir ich nicht mit von zu auf für wenn "
        "le la les un une et est il elle nous vous je ne pas avec pour dans sur au aux des du "
        "el los las una y es en con para por que no se su lo al "
        "и в на он она мы вы я не с по это что как но а у вчера сегодня завтра когда если"
    ).split()
)
"""Words that start sentences, and are no names because of a capital there."""

EMPTY = "empty_text"
"""The fault of a text without a letter."""

_LONGEST_NAME = 6
"""Words."""


@frozen
class RuleEntityExtractor:
    """Extracts entities by their spelling, without a model.

    Finds dates, amounts, e-mail addresses, URLs, hashtags, code identifiers, quoted titles, people
    before their honorifics, and names: words with capitals, several in a row, or one within a
    sentence or several times; in Latin, Cyrillic and Greek letters. Finds no relations and no
    statements. The time is linear in the length of the text.
    """

    @property
    def name(self) -> str:
        """The name of the rules, with their version."""
        return "entity-rules/1"

    def extract(self, source: SourceText) -> Extracted:
        """Returns the entities in a text, in order."""
        taken = bytearray(len(source.text))
        found = [*_written(source.text, taken), *_names(source.text, taken)]
        return Extracted(entities=sorted(found, key=lambda one: (one.start, one.end)))


def _written(text: str, taken: bytearray) -> Iterator[FoundEntity]:
    for type_, pattern in PATTERNS.items():
        for match in pattern.finditer(text):
            group = next((n for n in range(1, pattern.groups + 1) if match[n] is not None), 0)
            start, end = match.span(group)
            if any(taken[start:end]):
                continue
            taken[match.start() : match.end()] = b"\x01" * len(match[0])
            name = text[start:end].strip("`") if type_ == "code" else text[start:end]
            if name.strip():
                yield FoundEntity(name=name, type=type_, start=start, end=end)


def _names(text: str, taken: bytearray) -> list[FoundEntity]:
    """Returns runs of capitalised words."""
    rows = list(_rows(text, taken))
    inside = Counter(text[start:end] for start, end, begins, _ in rows if not begins)
    often = Counter(text[start:end] for start, end, _, _ in rows)
    found = []
    for start, end, begins, n_words in rows:
        name = text[start:end]
        if n_words > 1 or not begins or inside[name] or often[name] > 1:
            found.append(FoundEntity(name=name, type="name", start=start, end=end))
    return found


def _rows(text: str, taken: bytearray) -> Iterator[tuple[int, int, bool, int]]:
    """Yields runs of capitalised words, whether a sentence starts there, and their number."""
    row: list[re.Match[str]] = []
    last = 0
    for word in _WORD.finditer(text):
        gap = text[last : word.start()] if row else ""
        joins = gap in (" ", "\u00a0", "-") and len(row) < _LONGEST_NAME
        if (row and not (joins and (_is_capital(word[0]) or word[0] in _PARTICLES))) or any(
            taken[word.start() : word.end()]
        ):
            yield from _row(text, row)
            row = []
        if not any(taken[word.start() : word.end()]) and (row or _is_capital(word[0])):
            row.append(word)
        last = word.end()
    yield from _row(text, row)


def _row(text: str, row: list[re.Match[str]]) -> Iterator[tuple[int, int, bool, int]]:
    """Yields the run without particles at its end, and without a common word at a sentence start."""
    while row and not _is_capital(row[-1][0]):
        row = row[:-1]
    if not row:
        return
    begins = _ENDS.search(text[max(row[0].start() - 40, 0) : row[0].start()]) is not None
    while row and row[0][0].casefold() in _COMMON:
        row, begins = row[1:], False
        while row and not _is_capital(row[0][0]):
            row = row[1:]
    if row and (len(row[0][0]) > 1 or len(row) > 1):
        yield row[0].start(), row[-1].end(), begins, len(row)


def _is_capital(word: str) -> bool:
    return word[0].isupper()


async def sources(
    graph: ScopedGraph,
    texts: Sequence[SourceText] | None,
    session_id: str | None,
    document_id: str | None,
) -> list[SourceText]:
    """Returns the texts to read: those given, or those of a session or a document."""
    if sum(one is not None for one in (texts, session_id, document_id)) != 1:
        raise InvalidRequestError(
            "extract from what? pass one of texts, session_id and document_id"
        )
    if session_id is not None:
        records = Records(graph.resources, graph.scope)
        of_session = sql.equals("session_id", check_name(session_id, "session_id"))
        found = await records.read(records.where(of_session, sql.equals("kind", "message")))
        return [
            SourceText(id=one.id, text=one.text, session_id=session_id, said_at=one.created_at)
            for one in found
            if one.text
        ]
    if document_id is not None:
        documents = AsyncDocuments(ScopedDocuments(graph.resources, graph.scope))
        if await documents.get(document_id) is None:
            raise NotFoundError(f"document_id={shown(document_id)}: no such document")
        return [
            SourceText(id=one.id, text=one.text, document_id=document_id)
            for one in await documents.chunks(document_id)
        ]
    return [_checked(one, f"texts[{index}]") for index, one in enumerate(texts or ())]


async def extract(
    graph: ScopedGraph,
    given: Sequence[SourceText],
    extractor: EntityExtractor | None,
    progress: Callable[[Progress], object] | None,
) -> GraphExtraction:
    """Extracts texts into the graph; each replaces its earlier extraction."""
    extractor = RuleEntityExtractor() if extractor is None else extractor
    if not callable(getattr(extractor, "extract", None)):
        raise InvalidRequestError(
            f"extractor is {shown(extractor)}: it needs a name and extract(…)"
        )
    graph.resources.writable()
    done: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    usage: Counter[str] = Counter()
    n_refused = 0
    for n_done, source in enumerate(given, 1):
        found, fault = await _extracted(extractor, source)
        if fault is not None:
            n_refused += 1
            faults[fault] += 1
        if not isinstance(found, Extracted):
            raise InvalidRequestError(
                f"extractor {extractor.name!r} returned {shown(found)}: it has to return Extracted"
            )
        if fault in (None, EMPTY):
            done += await _write(graph, source, found)
        faults.update(found.faults)
        usage.update(found.usage)
        now = Progress(n_done=n_done, n_total=len(given), what="texts", name=source.id)
        await tell(progress, now)
    return GraphExtraction(
        sources=len(given),
        refused=n_refused,
        **{name: done[name] for name in ("entities", "mentions", "relations", "statements")},
        faults={name: n for name, n in faults.items() if n},
        usage=dict(usage),
    )


async def _extracted(
    extractor: EntityExtractor, source: SourceText
) -> tuple[Extracted, str | None]:
    """Returns the output for a text, or none and the fault for which the text is refused."""
    if not source.text.strip():
        return Extracted(), EMPTY
    try:
        return await called(extractor.extract, source), None
    except ModelAnswerError as error:
        log.warning("text %r is refused: %s", source.id, error)
        return Extracted(), error.fault


async def _write(graph: ScopedGraph, source: SourceText, found: Extracted) -> Counter[str]:
    known: dict[str, str] = {}
    entities: dict[str, Entity] = {}
    mentions = []
    told: dict[str, Any] = {"source_ids": (source.id,)}
    for one in found.entities:
        if not 0 <= one.start <= one.end <= len(source.text):
            raise InvalidRequestError(
                f"the extractor returned the range {one.start} to {one.end}, outside of the text "
                f"of {source.id!r}: return offsets within it"
            )
        id = entity_id(one.name, one.type)
        known.setdefault(name_key(one.name), id)
        entities.setdefault(id, Entity(name=one.name, type=one.type, id=id, **told))
        mentions.append(
            Mention(
                entity_id=id,
                source_id=source.id,
                text=source.text[one.start : one.end],
                start=one.start,
                end=one.end,
                session_id=source.session_id,
                document_id=source.document_id,
            )
        )
    batch = Batch(graph, keeps=True)
    await batch.take(list(entities.values()), Entity, "entities")
    await batch.take(mentions, Mention, "mentions")
    relations = [
        Relation(source_id=ends[0], target_id=ends[1], type=one.type, **told)
        for one in found.relations
        if (ends := _all_known(known, one.source, one.target))
    ]
    await batch.take(relations, Relation, "relations")
    statements = [
        Statement(
            subject_id=of[0],
            predicate=one.predicate,
            object=one.object,
            object_id=known.get(name_key(one.object)),
            one_of_many=one.one_of_many,
            valid_from=one.valid_from,
            valid_to=one.valid_to,
            confidence=one.confidence,
            **told,
        )
        for one in found.statements
        if (of := _all_known(known, one.subject))
    ]
    await batch.take(statements, Statement, "statements")
    await batch.write(instead_of=[source.id])
    return Counter(
        entities=len(entities),
        mentions=len(mentions),
        relations=len(relations),
        statements=len(statements),
    )


def _all_known(known: dict[str, str], *names: str) -> list[str]:
    """Returns the ids of these entities; empty if one is unknown."""
    ids = [known[key] for name in names if (key := name_key(name)) in known]
    return ids if len(ids) == len(names) else []


def _checked(source: object, where: str) -> SourceText:
    if not isinstance(source, SourceText):
        raise InvalidRequestError(f"{where} is {shown(source)}: pass SourceText(id=…, text=…)")
    check_name(source.id, f"{where}.id")
    check_text(source.text, f"{where}.text")
    return source
