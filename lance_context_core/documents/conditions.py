"""Which documents are meant: conditions on scopes, types and ids."""

from collections.abc import Iterable, Mapping, Sequence

from lance_context_core._util.checks import check_names, shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.storage import sql
from lance_context_core.types import DocumentScope

Scopes = DocumentScope | Sequence[DocumentScope]
"""One scope, or several."""


def place_of(scope: object) -> DocumentScope:
    """For whom a document is; for everybody, if that is not said."""
    if scope is None:
        return DocumentScope()
    if not isinstance(scope, DocumentScope):
        raise InvalidRequestError(
            f"scope={shown(scope)}: give DocumentScope(conversation_id=…) or (project_id=…)"
        )
    return scope


def in_scopes(scope: Scopes | None) -> sql.Clause:
    """What is in one of the scopes, or for everybody."""
    if scope is None:
        return sql.EVERYTHING
    given = [scope] if isinstance(scope, DocumentScope) else scope
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidRequestError(f"scope={shown(scope)}: give a DocumentScope, or several")
    everybody = sql.all_of([sql.is_absent("conversation_id"), sql.is_absent("project_id")])
    named = [
        sql.equals(part, value)
        for one in map(place_of, given)
        for part in ("conversation_id", "project_id")
        if (value := getattr(one, part)) is not None
    ]
    return sql.any_of([everybody, *named])


def among(column: str, values: str | Sequence[str] | None, where: str) -> sql.Clause:
    """That a column has one of the values; everything for None."""
    if values is None:
        return sql.EVERYTHING
    return sql.in_list(column, check_names([values] if isinstance(values, str) else values, where))
