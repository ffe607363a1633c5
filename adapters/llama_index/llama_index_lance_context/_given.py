"""Parameters that name the store and its scope, under this package's and other packages' names."""

from collections.abc import Iterable, Mapping
from typing import Any

from lance_context_core import InvalidRequestError
from lance_context_core.adapting import StoreLike

_DETOURS = {
    "api_key": "an object store's credentials go to ContextStore.open(uri, storage_options=…)",
    "connection": "give the store, or the uri of one",
    "mode": "nothing is ever overwritten; clear() empties a collection",
    "query_type": "a query says it: VectorStoreQuery(mode=…), or as_retriever(vector_store_query_mode=…)",
    "region": "an object store's options go to ContextStore.open(uri, storage_options=…)",
    "table": "give the store, and the collection's name",
}
"""Replacements of parameters that other vector stores have."""


def store_given(store: StoreLike | None, uri: StoreLike | None) -> StoreLike:
    """The value that was given under one of two names of a parameter."""
    if store is not None and uri is not None:
        raise InvalidRequestError(
            f"uri={uri!r:.80}: uri is another name of store; give one of them"
        )
    given = uri if store is None else store
    if given is None:
        raise InvalidRequestError("store is missing: give an open store, or the uri of one")
    return given


def collection_given(collection: str | None, table_name: str | None) -> str | None:
    """The value that was given under one of two names of a parameter, or None."""
    if collection is not None and table_name is not None:
        raise InvalidRequestError(
            f"table_name={table_name!r:.80}: table_name is another name of collection; give one of "
            "them"
        )
    return table_name if collection is None else collection


def refuse_unknown(class_name: str, kwargs: Mapping[str, Any], *, known: Iterable[str]) -> None:
    """Raises InvalidRequestError for keywords that are not `known`."""
    for name in kwargs.keys() - set(known):
        detour = _DETOURS.get(name, "leave it out")
        raise InvalidRequestError(
            f"{name}={kwargs[name]!r:.80}: {class_name} takes {', '.join(known)}; {detour}"
        )
