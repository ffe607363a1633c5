"""The arguments and results of both searches of the record API."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, cast

from lance_context_core._opening import OpenOptions
from lance_context_core._util.calls import check_options, defaults_of
from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.codecs.records import COLUMNS
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import FilterLike
from lance_context_core.maintenance.compaction import CompactionSchedule
from lance_context_core.maintenance.types import Maintenance
from lance_context_core.protocols import SearchMode
from lance_context_core.search.options import CONVERSATION, Room, SearchOptions
from lance_context_core.storage.lance.schema import VECTOR
from lance_context_core.stores.records.mappings import RecordDict, hit_dict
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records

_MOST_HITS = 10
"""The default number of hits."""


class HitArguments(TypedDict, total=False):
    """Selects the records to find, the columns to read, and the ranking."""

    include_expired: bool
    """Includes records whose `expires_at` is past."""
    include_retired: bool
    """Includes retired and superseded records."""
    include_relationships: bool
    """Includes the `relationships` of each hit; else it has none."""
    include_binary: bool
    """Includes the bytes of each hit; else they are None, and not read."""
    include_embedding: bool
    """Includes the vector of each hit; else it is None, and not read."""
    options: SearchOptions | None
    """The ranking options."""


async def found(
    records: Records,
    query: str | Sequence[float] | None,
    *,
    limit: int | None,
    filters: FilterLike | None,
    vector: Sequence[float] | None = None,
    mode: SearchMode | None = None,
    room: Room = CONVERSATION,
    include_expired: bool = False,
    include_retired: bool = False,
    include_relationships: bool = False,
    include_binary: bool = True,
    include_embedding: bool = True,
    options: SearchOptions | None = None,
) -> list[RecordDict]:
    """Return the hits as mappings; excluded payloads are not read."""
    hits = await records.search(
        query,
        vector=vector,
        mode=mode,
        filter=filters,
        limit=_MOST_HITS if limit is None else limit,
        options=options,
        include_expired=include_expired,
        include_retired=include_retired,
        columns=columns_of(binary=include_binary, embedding=include_embedding),
        room=room,
    )
    return [hit_dict(hit, relationships=include_relationships) for hit in hits]


DEFAULTS = defaults_of(found)


def columns_of(*, binary: bool, embedding: bool) -> list[str]:
    """Return the columns to read for these payloads."""
    return [*(COLUMNS if binary else WITHOUT_BLOB), *([VECTOR] if embedding else [])]


# The options of a context, including those of `lance-context`.


class OwnOptions(OpenOptions, total=False):
    """The options of `Context.create`: those of a store, and its own."""

    name: str
    """The name of the context in its store; "default" if absent."""
    embedding_dim: int | None
    """Fixes the length of the vectors; by default that of the first vector."""
    enable_background_compaction: bool
    """Counts the fragments periodically, and merges them if there are many."""
    compaction_interval_secs: float
    """The interval of the counts: 300 seconds by default."""
    compaction_min_fragments: int
    """The minimum number to merge: 5 by default."""
    quiet_hours: Iterable[tuple[int, int]] | None
    """Excluded times: pairs of hours of the machine's local day, such as (22, 6).

    Without `maintenance`, the store's own maintenance also pauses then.
    """


class ContextOptions(OwnOptions, total=False):
    """The options of `Context.create`: those of a store, and its own.

    Includes the aliases and additional options of `lance-context`.
    """

    embedding_provider: Any
    """An alias of `embedder`."""
    distance_metric: str | None
    """Only "cosine", the distance of every store."""
    id_index_type: str | None
    """"btree" or "zonemap", without effect: ids are indexed automatically."""
    compaction_target_rows: int
    """Without effect: the store chooses the size of fragments."""
    aws_access_key_id: str | None
    """Added to `storage_options`, as are the following ones."""
    aws_secret_access_key: str | None
    aws_session_token: str | None
    region: str | None
    endpoint_url: str | None
    allow_http: bool


_STORAGE = {
    "aws_access_key_id": "aws_access_key_id",
    "aws_secret_access_key": "aws_secret_access_key",
    "aws_session_token": "aws_session_token",
    "region": "aws_region",
    "endpoint_url": "aws_endpoint_url",
    "allow_http": "aws_allow_http",
}
"""The key of each such option in `storage_options`."""


@frozen_by_name
class Opening:
    """The checked options of a context."""

    store: OpenOptions
    """The options of its store."""
    name: str = "default"
    embedding_dim: int | None = None
    schedule: CompactionSchedule
    is_compacted: bool = False


def opening(options: Mapping[str, Any]) -> Opening:
    """Check `ContextOptions`. Raises InvalidRequestError for unsupported ones."""
    check_options(options, ContextOptions.__annotations__, "a context")
    given = dict(options)
    _check_metric(given.pop("distance_metric", None))
    _check_without_effect(given.pop("id_index_type", None), given.pop("compaction_target_rows", 1))
    given["embedder"] = _embedder(given.get("embedder"), given.pop("embedding_provider", None))
    given["storage_options"] = _storage(
        given.get("storage_options"), {name: given.pop(name, None) for name in _STORAGE}
    )
    dimension = given.get("embedding_dim")
    if dimension is not None and not (type(dimension) is int and dimension > 0):
        raise InvalidRequestError(
            f"embedding_dim={dimension!r}: give the length of the vectors, 1 or more"
        )
    schedule = CompactionSchedule(
        interval_secs=given.pop("compaction_interval_secs", 300),
        min_fragments=given.pop("compaction_min_fragments", 5),
        quiet_hours=tuple(given.pop("quiet_hours", None) or ()),
    )
    given.setdefault("maintenance", Maintenance(quiet_hours=schedule.quiet_hours))
    return Opening(
        name=given.pop("name", "default"),
        embedding_dim=given.pop("embedding_dim", None),
        schedule=schedule,
        is_compacted=bool(given.pop("enable_background_compaction", False)),
        store=cast("OpenOptions", given),
    )


def _check_metric(metric: object) -> None:
    if metric not in (None, "cosine"):
        raise InvalidRequestError(
            f"distance_metric={shown(metric)}: distance is cosine in every store, leave it out; "
            "vectors of length 1 have the same order by 'cosine', 'l2' and 'dot'"
        )


def _check_without_effect(id_index_type: object, compaction_target_rows: object) -> None:
    if id_index_type not in (None, "btree", "zonemap"):
        raise InvalidRequestError(
            f"id_index_type={shown(id_index_type)}: leave it out, ids are indexed by themselves"
        )
    if type(compaction_target_rows) is not int or compaction_target_rows < 1:
        raise InvalidRequestError(
            f"compaction_target_rows={shown(compaction_target_rows)}: leave it out, the store "
            "chooses how large fragments become"
        )


def _embedder(embedder: object, provider: object) -> object:
    if provider is None:
        return embedder
    if embedder is not None:
        raise InvalidRequestError(
            "embedder and embedding_provider are two names of one thing: pass one of them"
        )
    if isinstance(provider, Mapping):
        raise InvalidRequestError(
            "embedding_provider is a mapping: pass an object that embeds, such as an embedding of "
            "LangChain or of LanceDB's registry, see as_embedder"
        )
    if callable(getattr(provider, "embed_media", None)):
        raise InvalidRequestError(
            f"embedding_provider={shown(provider)} embeds media, a store only texts: pass the "
            "vectors of media as embedding=, and embedder=as_embedder(provider.embed_texts, "
            "model='its-name')"
        )
    return provider


def _storage(
    options: Mapping[str, str] | None, named: Mapping[str, object]
) -> Mapping[str, str] | None:
    """Return the `storage_options` with the separate ones added."""
    more = {}
    for name, value in named.items():
        if value is None or value is False:
            continue
        key, text = _STORAGE[name], "true" if value is True else value
        if not isinstance(text, str) or (value is True and name != "allow_http"):
            # Not the value: it may be a secret.
            raise InvalidRequestError(f"{name} is a {type(value).__name__}: give a text")
        if isinstance(options, Mapping) and options.get(key, text) != text:
            raise InvalidRequestError(
                f"{name} and storage_options[{key!r}] differ: give one of them"
            )
        more[key] = text
    return {**(options or {}), **more} if more else options
