"""What callers give: a tier by its name, an entry to keep, and the grant for what is canonical."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from lance_context_core._util.checks import (
    check_json_object,
    check_name,
    check_text,
    check_time,
    shown,
)
from lance_context_core.codecs.records import new_id
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import Message
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.stores.records.scoped import Records
from lance_context_core.tiers import entries
from lance_context_core.tiers.values import (
    Authority,
    Ranking,
    Tier,
    TierConfig,
    WriteGrant,
    check_share,
)
from lance_context_core.types import ContextRecord


def tier_of(value: Tier | str) -> Tier:
    """The tier of that name. Raises InvalidRequestError if there is none."""
    if value not in set(Tier):
        raise InvalidRequestError(f"tier={shown(value)}: there are {', '.join(Tier)}")
    return Tier(value)


def authority_of(record: ContextRecord) -> Authority:
    """What the entry of a record stands for."""
    return entries.authority_of(record.metadata.get("authority"))


def check_grant(record: ContextRecord, grant: WriteGrant | None) -> None:
    """Refuse to write or move what is canonical without a grant that counts there."""
    if authority_of(record) is not Authority.CANONICAL:
        return
    if not isinstance(grant, WriteGrant):
        raise InvalidRequestError(
            f"entry {record.id!r} is canonical: pass grant=tiers.grant() if you mean to"
        )
    for part in SCOPE_PARTS:
        wanted = getattr(grant.scope, part)
        if wanted is not None and wanted != getattr(record, part):
            raise InvalidRequestError(
                f"the grant is for {part}={wanted!r}, and entry {record.id!r} is not of it"
            )


def check_policy(config: object, **wording: object) -> None:
    """Refuse a policy that is none, and wording that nobody can call."""
    if config is not None and not isinstance(config, TierConfig):
        raise InvalidRequestError(f"config is {shown(config)}: pass a TierConfig")
    for name, function in wording.items():
        if function is not None and not callable(function):
            raise InvalidRequestError(f"{name} is {shown(function)}: pass what can be called")


def check_ranking(ranking: object, top_k: object) -> None:
    """Refuse a ranking that there is not, and a number of hits that is none."""
    if ranking not in get_args(Ranking):
        raise InvalidRequestError(
            f"ranking={shown(ranking)}: there are {', '.join(get_args(Ranking))}"
        )
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 0:
        raise InvalidRequestError(f"top_k={shown(top_k)}: give a number of hits, 0 or more")


def entry_record(
    records: Records,
    config: TierConfig,
    content: str | Message,
    *,
    id: str | None,
    session_id: str | None,
    importance: float,
    authority: Authority | str,
    expires_at: datetime | None,
    source_ids: Sequence[str],
    metadata: Mapping[str, Any] | None,
) -> ContextRecord:
    """What `add` is given as a record to write, stamped with its scope; see there what is refused."""
    message = content if isinstance(content, Message) else None
    text = message.text if message else check_text(content, "content")
    if not text.strip():
        raise InvalidRequestError("content is empty: there is nothing to keep")
    if authority not in set(Authority):
        raise InvalidRequestError(f"authority={shown(authority)}: there are {', '.join(Authority)}")
    standing = Authority(authority)
    now = records.now()
    end = None if expires_at is None else check_time(expires_at, "expires_at")
    if end is None and config.session_ttl and standing is not Authority.CANONICAL:
        end = now + config.session_ttl
    known = id if id is not None else message.id if message else None
    said = check_json_object(metadata or {}, "metadata")
    given = {**message.metadata, **said} if message else said
    share = check_share(importance, "importance")
    record = ContextRecord(
        id=new_id() if known is None else check_name(known, "id"),
        kind=entries.ENTRY,
        layer=str(Tier.HOT),
        context=entries.CONTEXT,
        content_type="text/plain",
        created_at=(message.created_at if message else None) or now,
        updated_at=now,
        session_id=None if session_id is None else check_name(session_id, "session_id"),
        source_ids=tuple(check_name(one, "source_ids") for one in source_ids),
        role=message.role if message else None,
        name=message.name if message else None,
        text=text,
        metadata=entries.own_metadata(given, importance=share, authority=standing, at=now),
        expires_at=end,
    )
    return records.stamped(record)
