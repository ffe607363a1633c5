"""To remember, to read, to correct and to forget by id."""

from datetime import datetime, timedelta
from typing import Any

from lance_context_core import (
    AsyncContextStore,
    ContextRecord,
    InvalidRequestError,
    NotFoundError,
)
from lance_context_core.adapting import remember_once
from lance_context_mcp import answers
from lance_context_mcp.graph import Graph
from lance_context_mcp.memory import Memory, moment
from lance_context_mcp.tool import (
    AS_OF,
    BRANCH,
    VISIBLE,
    Arguments,
    Effect,
    Schema,
    Tool,
    each,
    offset,
    text,
    whole,
)
from lance_context_mcp.tools.recalling import RECALL

_MOST = 20_000
"""How many characters of a text `get` returns at once."""
_CORRECTED = ("memory", "record")
_FACTS = "knowledge"
"""The context of the record API that holds facts."""


async def _remember(memory: Memory, arguments: Arguments) -> dict[str, Any]:
    store = await memory.at(branch=arguments.get("branch"))
    kept = await remember_once(
        store,
        arguments["text"],
        session_id=arguments.get("session_id", ""),
        metadata=arguments.get("metadata"),
        expires_at=_expiry(store, arguments),
    )
    return kept._asdict()


def _expiry(store: AsyncContextStore, arguments: Arguments) -> datetime | None:
    days, at = arguments.get("expires_in_days"), arguments.get("expires_at")
    if days is not None and at is not None:
        raise InvalidRequestError(
            f"expires_in_days={days} and expires_at={at!r}: give one of the two"
        )
    if days is not None:
        return store.clock.now() + timedelta(days=days)
    if at is None:
        return None
    if (found := moment(at, "expires_at")) <= store.clock.now():
        raise InvalidRequestError(f"expires_at={at!r} is over: give a moment to come")
    return found


async def _record(store: AsyncContextStore, id: str) -> ContextRecord | None:
    found = await store.context().records(1, filters={"id": id})
    return found[0] if found else None


async def _get(memory: Memory, arguments: Arguments) -> dict[str, Any]:
    store = await memory.at(branch=arguments.get("branch"), as_of=arguments.get("as_of"))
    id, begin = arguments["id"], arguments.get("offset", 0)
    told = await _told(store, id)
    whole, end = told["text"], begin + _MOST
    told["text"] = whole[begin:end]
    return {**told, "next_offset": end} if len(whole) > end else told


async def _told(store: AsyncContextStore, id: str) -> dict[str, Any]:
    if (record := await _record(store, id)) is not None:
        return answers.record(record)
    if (fact := await store.context(_FACTS).records(1, filters={"id": id, "kind": "fact"})) != []:
        return answers.fact_of(fact[0])
    if (document := await store.documents.get(id)) is not None:
        told = {**answers.document(document), "kind": "document"}
        return {**told, "text": await store.documents.text(id)}
    if (entities := (await Graph(store).open([id]))["entities"]) != []:
        return {"id": id, "kind": "entity", "text": "\n".join(entities[0]["observations"])}
    if (entity := await store.graph.get(id)) is not None:
        return await answers.entity(store, entity)
    raise _absent(id)


def _absent(id: str) -> NotFoundError:
    return NotFoundError(f"id={id[:200]!r} does not exist: recall returns the ids that do")


async def _update(memory: Memory, arguments: Arguments) -> dict[str, Any]:
    store = await memory.at(branch=arguments.get("branch"))
    id, told, metadata = arguments["id"], arguments.get("text"), arguments.get("metadata")
    if told is None and metadata is None:
        raise InvalidRequestError(f"id={id[:200]!r}: give text, metadata or both")
    if (record := await _record(store, id)) is not None:
        await _correct(store, record, told, metadata)
    elif await store.context(_FACTS).records(1, filters={"id": id, "kind": "fact"}):
        if told is None:
            raise InvalidRequestError("metadata: a fact's is its evidence; give text")
        await store.knowledge.correct(id, told)
    elif await store.documents.get(id) is not None:
        source = None if told is None else told.encode()
        await store.documents.update(id, source, metadata=metadata)
    else:
        raise _absent(id)
    return {"id": id}


async def _correct(
    store: AsyncContextStore,
    record: ContextRecord,
    told: str | None,
    metadata: dict[str, Any] | None,
) -> None:
    if record.kind not in _CORRECTED:
        raise InvalidRequestError(
            f"id={record.id!r} is a {record.kind}: conversations stay as they were; forget it, or "
            "remember what is right"
        )
    if told is None:
        await store.context().update(id=record.id, metadata=metadata)
        return
    kept = ("session_id", "run_id", "expires_at", "source", "tags", "user_id", "agent_id")
    fields: dict[str, Any] = {name: getattr(record, name) for name in (*kept, "tenant", "kind")}
    fields["metadata"] = dict(record.metadata) if metadata is None else metadata
    fields = {name: value for name, value in fields.items() if value is not None}
    role = record.role or "user"
    await store.context().upsert(role, told, key="id", id=record.id, **fields)


async def _forget(memory: Memory, arguments: Arguments) -> dict[str, Any]:
    store = await memory.at(branch=arguments.get("branch"))
    told: dict[str, list[str]] = {"forgotten": [], "not_found": []}
    ids = list(dict.fromkeys(arguments["ids"]))
    # Before their messages, with which they go.
    facts = await store.context(_FACTS).records(filters={"id": {"$in": ids}, "kind": "fact"})
    for fact in facts:
        await store.knowledge.invalidate(fact.id, reason="forgotten")
    known = {one.id for one in facts}
    for id in ids:
        is_gone = id in known or await _forgotten(store, id)
        told["forgotten" if is_gone else "not_found"].append(id)
    return told


async def _forgotten(store: AsyncContextStore, id: str) -> bool:
    return await store.context().delete(id=id) or await store.documents.delete(id)


_METADATA: Schema = {"type": "object"}
_ID = text("From recall.", minLength=1)
_IDS: Schema = {"type": "array", "items": {"type": "string"}}

TOOLS = (
    Tool(
        name="remember",
        title="Remember",
        description=(
            "Remember, note or save one fact, preference or decision to keep in mind; also if the "
            "user says don't forget. Write names rather than 'he' or 'that'. The same text again "
            "updates the stored memory."
        ),
        effect=Effect.ADDS,
        arguments={
            "text": text("The sentence.", minLength=1, maxLength=100_000, pattern=VISIBLE),
            "session_id": text("The conversation it is from.", minLength=1),
            "metadata": _METADATA,
            "expires_in_days": whole("Days to keep it for.", minimum=1, maximum=36_500),
            "expires_at": text("Or keep it until this moment (ISO 8601)."),
            "branch": BRANCH,
        },
        required=("text",),
        answer={"id": {"type": "string"}, "is_new": {"type": "boolean"}},
        changes=(answers.STORE_URI,),
        call=_remember,
    ),
    RECALL,
    Tool(
        name="get",
        title="Get",
        description=(
            "Read, open or show the full text of a memory, message, fact, document or entity by its "
            "id; read on after a cut."
        ),
        effect=Effect.READS,
        arguments={
            "id": _ID,
            "offset": offset("Go on at next_offset."),
            "as_of": AS_OF,
            "branch": BRANCH,
        },
        required=("id",),
        answer={name: {"type": "string"} for name in ("id", "kind", "text")},
        call=_get,
    ),
    Tool(
        name="update",
        title="Update",
        description=(
            "Correct, fix, replace or change a memory, fact or document that is wrong or has changed; "
            "its id stays."
        ),
        effect=Effect.REMOVES,
        arguments={
            "id": _ID,
            "text": text("The new text.", minLength=1, maxLength=2_000_000, pattern=VISIBLE),
            "metadata": _METADATA,
            "branch": BRANCH,
        },
        required=("id",),
        answer={"id": {"type": "string"}},
        call=_update,
    ),
    Tool(
        name="forget",
        title="Forget",
        description=(
            "Forget, delete, remove or erase memories, messages, facts or documents: recall no longer "
            "finds them."
        ),
        effect=Effect.REMOVES,
        arguments={
            "ids": each(
                {"type": "string", "minLength": 1}, "From recall.", minItems=1, maxItems=100
            ),
            "branch": BRANCH,
        },
        required=("ids",),
        answer={"forgotten": _IDS, "not_found": _IDS},
        changes=(answers.STORE_URI,),
        call=_forget,
    ),
)
