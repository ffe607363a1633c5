"""What a graph is made of to rows and back: entities, relations, mentions and statements."""

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from lance_context_core._util.checks import (
    check_json_object,
    check_name,
    check_names,
    check_text,
    check_time,
    dumps,
    loads,
    shown,
)
from lance_context_core._util.lru import remembered
from lance_context_core.codecs.records import key_of
from lance_context_core.errors import InvalidRequestError
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.names import new_revision, next_revision
from lance_context_core.types.graph import Entity, Mention, Relation, Statement

Thing = Entity | Relation | Mention | Statement
"""What a row of the graph is."""

T = TypeVar("T", Entity, Relation, Mention, Statement)

ENTITY, RELATION, MENTION, STATEMENT = "entity", "relation", "mention", "statement"

MERGED = "merged"
"""The kind of an entity that was merged into another one: no walk comes to it, only its id leads on."""

COLUMNS = ("id", "kind", "content", "recorded_at", *SCOPE_PARTS)
"""What a thing is read from."""

REPLACED = (KEY, *COLUMNS, "revision", "created_at", "source_ids")
"""What is read of a row that another one is about to replace."""

Shares = dict[str | None, dict[str, Any]]
"""By source, earlier ones first, the properties and the weight that it gave; None is no source."""

_TOLD = "told"
"""The shares in the content of a row. Without them each of its sources gave what the row has."""

KINDS: Mapping[type, str] = {
    Entity: ENTITY,
    Relation: RELATION,
    Mention: MENTION,
    Statement: STATEMENT,
}
_OF_KIND: Mapping[str, type] = {kind: sort for sort, kind in KINDS.items()} | {MERGED: Entity}

_NAMES: Mapping[type, tuple[str, ...]] = {
    sort: tuple(one.name for one in fields(sort)) for sort in KINDS
}
_APART = frozenset(("id", "recorded_at", "superseded_by", "reason", *SCOPE_PARTS))
"""What has a column of its own, or is worked out when it is read."""

_SHARED = ("properties", "weight")
"""The fields that are merged by source."""

PACKED: Mapping[type, tuple[str, ...]] = {
    sort: tuple(name for name in names if name not in _APART) for sort, names in _NAMES.items()
}
"""The fields that are in the content, in their order there."""

LEADING = ("source_node", "target_node", "about_node")
"""The columns by which a thing leads to an entity."""

_TIMES = ("valid_from", "valid_to", "recorded_at")
quoted = json.encoder.encode_basestring
"""The JSON text of a text, as `dumps` has it, in a fraction of the time."""
_SPACES = re.compile(r"\s+")
NODE_DIGITS = 15
"""Hexadecimal ones, so that 60 bits: what fits a signed 64-bit number."""


def checked(thing: T, sort: type[T], where: str) -> T:
    """`thing` in plain types, with an id. Raises InvalidRequestError for what cannot be kept."""
    if not isinstance(thing, sort):
        raise InvalidRequestError(f"{where} is {shown(thing)}: pass {sort.__name__}(…)")
    plain: dict[str, Any] = {}
    changed: dict[str, Any] = {}
    for name, check, is_required in _TO_CHECK[sort]:
        value = getattr(thing, name)
        if value is None and not is_required:
            continue
        plain[name] = made = check(value, f"{where}.{name}") if check else value
        if made is not value and made != {}:
            changed[name] = made
    since, until = plain.get("valid_from"), plain.get("valid_to")
    if since is not None and until is not None and since >= until:
        raise InvalidRequestError(
            f"{where} is valid from {since.isoformat()} to {until.isoformat()}: "
            "the end must come after the beginning"
        )
    _check_span(plain, where)
    if "id" not in plain:
        changed["id"] = _made_id(sort, plain)
    # Most are in plain types already, and frozen: a copy takes as long as all the checks.
    return replace(thing, **changed) if changed else thing


def to_row(
    thing: Thing,
    *,
    now: datetime,
    author: str | None,
    old: Mapping[str, Any] | None = None,
    told: Shares | None = None,
) -> dict[str, Any]:
    """The row of a checked thing, which replaces the row `old`, if there is one.

    `told` are the shares of its sources, from which the thing was merged.
    """
    assert thing.id is not None
    scope = scope_of(thing)
    sources = getattr(thing, "source_ids", None) or (
        [thing.source_id] if isinstance(thing, Mention) else None
    )
    row: dict[str, Any] = {
        KEY: key_of(scope, KINDS[type(thing)], thing.id),
        "id": thing.id,
        "created_at": old["created_at"] if old else now,
        "updated_at": now,
        "revision": next_revision(old["revision"]) if old else new_revision(),
        "kind": KINDS[type(thing)],
        "source_ids": list(sources) if sources else None,
        "author": author,
        "content": _packed(thing, _beside(old, told) if old else {}),
        **scope.parts(),
    }
    if not isinstance(thing, Mention):
        row |= {"valid_from": thing.valid_from, "valid_to": thing.valid_to}
        row["recorded_at"] = thing.recorded_at or (old and old["recorded_at"]) or now
    match thing:
        case Entity():
            row |= {"type": thing.type, "name_key": name_key(thing.name), "node": node_of(row[KEY])}
            if old and old["kind"] == MERGED:
                row |= {"kind": MERGED, "node": None}
        case Relation():
            row |= {
                "type": thing.type,
                "source_node": node(scope, thing.source_id),
                "target_node": node(scope, thing.target_id),
                "weight": thing.weight,
            }
        case Mention():
            row |= {
                "name_key": name_key(thing.text),
                "about_node": node(scope, thing.entity_id),
                "session_id": thing.session_id,
                "document_id": thing.document_id,
            }
        case Statement():
            row |= {"type": thing.predicate, "about_node": node(scope, thing.subject_id)}
    return row


def from_row(row: Mapping[str, Any]) -> Thing:
    """The thing of a row of whatever kind."""
    sort = _OF_KIND[row["kind"]]
    known = _NAMES[sort]
    # A later release may have packed more than this one knows.
    values = {k: v for k, v in loads(row["content"], "content").items() if k in known}
    for name in _TIMES:
        if values.get(name) is not None:
            values[name] = datetime.fromisoformat(values[name])
    if "source_ids" in values:
        values["source_ids"] = tuple(values["source_ids"])
    if "recorded_at" in known and row.get("recorded_at") is not None:
        values["recorded_at"] = row["recorded_at"].replace(tzinfo=UTC)
    made: Thing = sort(id=row["id"], **values, **{part: row.get(part) for part in SCOPE_PARTS})
    return made


def with_content(row: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """The row with these values in its content; None removes one."""
    packed = {**loads(row["content"], "content"), **changes}
    return {**row, "content": dumps({k: v for k, v in packed.items() if v is not None})}


def merged_with(
    thing: Entity | Relation | Statement, old: Mapping[str, Any], *, keeps: bool
) -> tuple[Thing, Shares | None]:
    """A thing merged with its row, and the shares of all sources; None if all gave the same.

    Of one property, or the weight, the value that was written last counts. With `keeps`, the thing
    gives no properties and no weight.
    """
    sources = tuple(dict.fromkeys([*(old["source_ids"] or ()), *thing.source_ids]))
    if not isinstance(thing, Entity | Relation):
        return replace(thing, source_ids=sources), None
    shares = shares_of(old)
    if not keeps:
        given = {name: getattr(thing, name, None) for name in _SHARED}
        said = {name: one for name, one in given.items() if one not in (None, {})}
        for source in thing.source_ids or (None,):
            shares.pop(source, None)
            if said:
                shares[source] = said
    values = _of_shares(shares)
    if isinstance(thing, Entity):
        values.pop("weight")
    return replace(thing, source_ids=sources, **values), _apart(shares, sources)


def shares_of(row: Mapping[str, Any]) -> Shares:
    """What each source of an entity or a relation gave, of those that gave any."""
    content = loads(row["content"], "content")
    if (told := content.get(_TOLD)) is not None:
        return dict(told)
    said = {name: one for name in _SHARED if (one := content.get(name)) not in (None, {})}
    return dict.fromkeys(row["source_ids"] or (None,), said) if said else {}


def _of_shares(shares: Shares) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    weight = None
    for said in shares.values():
        properties |= said.get("properties", {})
        weight = said.get("weight", weight)
    return {"properties": properties, "weight": weight}


def _apart(shares: Shares, sources: Collection[str]) -> Shares | None:
    """The shares, if they have to be kept: None if each of the sources gave the same."""
    if not shares:
        return None
    is_same = len(set(map(dumps, shares.values()))) == 1
    return None if is_same and shares.keys() == set(sources or (None,)) else shares


def without_sources(row: Mapping[str, Any], gone: Callable[[str], bool]) -> dict[str, Any]:
    """The row without those among its sources, and what they alone gave.

    It has None as sources if there are no others.
    """
    kept = [one for one in row["source_ids"] or () if not gone(one)] or None
    changed = {**row, "source_ids": kept}
    if row["kind"] != MENTION:
        changed = with_content(changed, source_ids=kept)
    if row["kind"] in (ENTITY, RELATION, MERGED):
        left = {one: said for one, said in shares_of(row).items() if one is None or not gone(one)}
        values, told = _of_shares(left), _apart(left, kept or ())
        changed = with_content(
            changed,
            properties=values["properties"] or None,
            weight=values["weight"],
            **{_TOLD: told and list(told.items())},
        )
        if row["kind"] == RELATION:
            changed["weight"] = values["weight"]
    if merged := loads(row["content"], "content").get("merged"):
        evidence = [one for one in merged["source_ids"] if not gone(one)]
        changed = with_content(changed, merged={**merged, "source_ids": evidence})
    return changed


def scope_of(thing: Thing) -> Scope:
    """Whose it is."""
    return _scope(thing.tenant, thing.user_id, thing.agent_id)


@remembered(64 * 1024)
def _scope(tenant: str | None, user_id: str | None, agent_id: str | None) -> Scope:
    return Scope(tenant=tenant, user_id=user_id, agent_id=agent_id)


def node(scope: Scope, entity_id: str) -> int:
    """What walks know an entity by."""
    return node_of(key_of(scope, ENTITY, entity_id))


def node_of(key: str) -> int:
    """What walks know the entity of that key by."""
    return int(key[:NODE_DIGITS], 16)


def name_key(name: str) -> str:
    """What of a name counts when two are compared: not its case, its width, or its spaces."""
    return _SPACES.sub(" ", unicodedata.normalize("NFKC", name).casefold()).strip()


def entity_id(name: str, type: str) -> str:
    """The id of an entity that is given none: what is called alike, whatever its case, has the same."""
    return _digest(ENTITY, name_key(type), name_key(name))


def _made_id(sort: type, values: Mapping[str, Any]) -> str:
    """The id of a thing of that sort which is given none, by its checked values."""

    def told(*names: str) -> list[Any]:
        return [values.get(name) for name in names]

    since = _iso(values.get("valid_from"))
    if sort is Entity:
        return entity_id(values["name"], values["type"])
    if sort is Relation:
        return _digest(RELATION, *told("source_id", "type", "target_id"), since)
    if sort is Mention:
        return _digest(MENTION, *told("entity_id", "source_id", "start", "end", "text"))
    about = values.get("object_id") or name_key(values["object"])
    return _digest(STATEMENT, *told("subject_id", "predicate"), about, since)


def _digest(kind: str, *about: Any) -> str:
    # As `dumps`, which takes several times as long for a few texts.
    parts = [quoted(one) if type(one) is str else dumps(one) for one in about]
    told = f"[{','.join([quoted(kind), *parts])}]".encode()
    return f"{kind}-{hashlib.blake2b(told, digest_size=12).hexdigest()}"


def _beside(row: Mapping[str, Any], told: Shares | None) -> dict[str, Any]:
    """What is kept in the content of a row that its thing does not say: decisions, and mergers."""
    known = (*_NAMES[_OF_KIND[row["kind"]]], _TOLD)
    kept = {k: v for k, v in loads(row["content"], "content").items() if k not in known}
    return kept if told is None else {**kept, _TOLD: list(told.items())}


def _packed(thing: Thing, beside: Mapping[str, Any]) -> str:
    if type(thing) is Relation and not beside and _says_no_more(thing):
        ends = quoted(thing.source_id), quoted(thing.target_id)
        return f'{{"source_id":{ends[0]},"target_id":{ends[1]},"type":{quoted(thing.type)}}}'
    values = {name: getattr(thing, name) for name in PACKED[type(thing)]}
    return dumps({**beside, **packed(values)})


def packed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a thing as its content has them: in JSON, without those that are absent."""
    kept = {
        k: v for k, v in values.items() if v is not None and v is not False and v not in ({}, ())
    }
    for name in _TIMES:
        if name in kept:
            kept[name] = kept[name].isoformat()
    if "source_ids" in kept:
        kept["source_ids"] = list(kept["source_ids"])
    return kept


def _says_no_more(relation: Relation) -> bool:
    """Whether a relation is two ends and a type, as most are."""
    return (
        relation.weight is None
        and not relation.properties
        and not relation.source_ids
        and relation.valid_from is None
        and relation.valid_to is None
    )


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _check_span(plain: Mapping[str, Any], where: str) -> None:
    start, end = plain.get("start"), plain.get("end")
    if (start is None) is not (end is None) or (start is not None and start > end):
        raise InvalidRequestError(
            f"{where} goes from start={shown(start)} to end={shown(end)}: give both, or none"
        )


def _check_word(value: object, where: str) -> str:
    text = check_name(value, where)
    if not text.strip():
        raise InvalidRequestError(f"{where} is blank: give it at least one letter")
    return text


def _check_weight(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequestError(f"{where}={shown(value)}: give a number, 0 or more, or None")
    if not (math.isfinite(value) and value >= 0):
        raise InvalidRequestError(f"{where}={value}: give a finite number, 0 or more, or None")
    return float(value)


def _check_share(value: object, where: str) -> float:
    share = _check_weight(value, where)
    if share > 1:
        raise InvalidRequestError(f"{where}={share}: give a number in [0, 1], or None")
    return share


def _check_offset(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidRequestError(f"{where}={shown(value)}: give a whole number, 0 or more")
    return int(value)


def _check_flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequestError(f"{where}={shown(value)}: give True or False")
    return value


def _check_sources(values: object, where: str) -> tuple[str, ...]:
    if isinstance(values, tuple) and not values:
        return values
    return tuple(dict.fromkeys(check_names(values, where)))


_REQUIRED = frozenset(
    (
        *("name", "type", "properties", "source_ids", "source_id", "target_id"),
        *("entity_id", "text", "subject_id", "predicate", "object", "one_of_many"),
    )
)
_CHECKS: Mapping[str, Any] = {
    **dict.fromkeys(("name", "type", "predicate"), _check_word),
    **dict.fromkeys(
        (
            *("id", "source_id", "target_id", "entity_id", "subject_id", "object_id"),
            *("session_id", "document_id"),
        ),
        check_name,
    ),
    **dict.fromkeys(("text", "object"), check_text),
    **dict.fromkeys(_TIMES, check_time),
    **dict.fromkeys(("start", "end"), _check_offset),
    "properties": check_json_object,
    "source_ids": _check_sources,
    "weight": _check_weight,
    "confidence": _check_share,
    "one_of_many": _check_flag,
}

_TO_CHECK: Mapping[type, tuple[tuple[str, Any, bool], ...]] = {
    sort: tuple((name, _CHECKS.get(name), name in _REQUIRED) for name in names)
    for sort, names in _NAMES.items()
}
"""By what each field of a sort is checked, and whether it may be absent."""
