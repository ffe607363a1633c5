"""Reading texts into a graph: what an extractor finds, with where it stands, in one commit a text."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from lance_context_core._progress import tell
from lance_context_core._util.calls import called
from lance_context_core._util.checks import check_name, check_text, shown
from lance_context_core.codecs.graph import entity_id, name_key
from lance_context_core.documents.documents import AsyncDocuments
from lance_context_core.documents.scoped import ScopedDocuments
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.graph.found import EntityExtractor, Extracted, GraphExtraction, SourceText
from lance_context_core.graph.rules import RuleEntityExtractor
from lance_context_core.graph.scoped import ScopedGraph
from lance_context_core.graph.writing import Batch
from lance_context_core.storage import sql
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import Progress
from lance_context_core.types.graph import Entity, Mention, Relation, Statement


async def sources(
    graph: ScopedGraph,
    texts: Sequence[SourceText] | None,
    session_id: str | None,
    document_id: str | None,
) -> list[SourceText]:
    """The texts that are meant: those given, or those of a session or a document."""
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
            raise NotFoundError(f"document_id={shown(document_id)}: there is no such document")
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
    """Read texts into the graph; each replaces what was found in it before."""
    extractor = RuleEntityExtractor() if extractor is None else extractor
    if not callable(getattr(extractor, "extract", None)):
        raise InvalidRequestError(
            f"extractor is {shown(extractor)}: it needs a name and extract(…)"
        )
    graph.resources.writable()
    done: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    usage: Counter[str] = Counter()
    for n_done, source in enumerate(given, 1):
        found = await called(extractor.extract, source)
        if not isinstance(found, Extracted):
            raise InvalidRequestError(
                f"extractor {extractor.name!r} returned {shown(found)}: it has to return Extracted"
            )
        done += await _write(graph, source, found)
        faults.update(found.faults)
        usage.update(found.usage)
        now = Progress(n_done=n_done, n_total=len(given), what="texts", name=source.id)
        await tell(progress, now)
    return GraphExtraction(
        sources=len(given),
        **{name: done[name] for name in ("entities", "mentions", "relations", "statements")},
        faults={name: n for name, n in faults.items() if n},
        usage=dict(usage),
    )


async def _write(graph: ScopedGraph, source: SourceText, found: Extracted) -> Counter[str]:
    known: dict[str, str] = {}
    entities: dict[str, Entity] = {}
    mentions = []
    told: dict[str, Any] = {"source_ids": (source.id,)}
    for one in found.entities:
        if not 0 <= one.start <= one.end <= len(source.text):
            raise InvalidRequestError(
                f"what the extractor found goes from {one.start} to {one.end}, outside of the text "
                f"of {source.id!r}"
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
    """The ids of these entities; none if one of them is not known."""
    ids = [known[key] for name in names if (key := name_key(name)) in known]
    return ids if len(ids) == len(names) else []


def _checked(source: object, where: str) -> SourceText:
    if not isinstance(source, SourceText):
        raise InvalidRequestError(f"{where} is {shown(source)}: pass SourceText(id=…, text=…)")
    check_name(source.id, f"{where}.id")
    check_text(source.text, f"{where}.text")
    return source
