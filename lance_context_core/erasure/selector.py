"""The target of an erasure, given by conditions."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from lance_context_core._util.checks import check_names, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import DOCUMENT_FIELDS, RECORD_FIELDS, Columns, FilterLike
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.sql import EVERYTHING, NOTHING, Clause

Derived = bool | Literal["rebuild"]
"""The treatment of rows derived from erased records: see `AsyncContextStore.erase`."""


@frozen_by_name
class Target:
    """The rows to erase: some records, some documents, or all of a scope."""

    scope: Scope
    scope_condition: Clause
    """The condition of being in the scope."""
    records: Clause | None = None
    """The condition on records; None for none."""
    ids: tuple[str, ...] = ()
    """The names in the condition: they leave traces also if no version shows them."""
    documents: Mapping[str, Clause] = field(default_factory=dict)
    """The conditions on documents, by table."""
    is_whole_scope: bool = False
    """Whether the sessions, documents and items of the scope are erased with its records."""
    derived: bool = True
    staying: frozenset[str] | None = None
    """The keys of rows rebuilt from other sources: then only rows that name an erased record now are
    erased."""

    def derives(self, key: str, *, is_present: bool) -> bool:
        """Whether a row is erased because of its current or former references."""
        return self.staying is None or (is_present and key not in self.staying)

    @property
    def is_nothing(self) -> bool:
        """Whether nothing at all is selected."""
        return self.records in {None, NOTHING} and not self.documents


def records(
    scope: Scope, *, ids: Sequence[str] | None, filter: FilterLike | None, derived: Derived
) -> Target:
    """Selects some records, of any contexts; or, if none are named, all of the scope.

    Raises InvalidRequestError for the whole store.
    """
    if derived not in (True, False, "rebuild"):
        raise InvalidRequestError(f"derived={shown(derived)}: use True, False or 'rebuild'")
    in_scope = _in_scope(scope)
    if named := _named(ids, filter, RECORD_FIELDS):
        return Target(
            scope=scope,
            scope_condition=in_scope,
            records=named if named == NOTHING else sql.all_of([in_scope, named]),
            ids=tuple(ids) if ids is not None and filter is None else (),
            derived=bool(derived),
        )
    if not in_scope or filter is not None:
        raise InvalidRequestError(
            f"erase what? {_matches_all(filter)}pass ids or filter, or call scope(user_id=…).erase() "
            "for all that a user has; to keep nothing, remove the store's directory"
        )
    return Target(
        scope=scope,
        scope_condition=in_scope,
        records=in_scope,
        is_whole_scope=True,
        derived=bool(derived),
    )


def documents(
    scope: Scope, table: str, *, ids: Sequence[str] | None, filter: FilterLike | None
) -> Target:
    """Selects some documents of one collection; in a scope, if none are named, all of them."""
    named, in_scope = _named(ids, filter, DOCUMENT_FIELDS), _in_scope(scope)
    if not named and (not in_scope or filter is not None):
        raise InvalidRequestError(
            f"erase what? {_matches_all(filter)}pass ids or filter, or call delete_collection()"
        )
    where = named if named == NOTHING else sql.all_of([in_scope, named])
    return of_table(scope, table, where)


def of_table(scope: Scope, table: str, where: Clause) -> Target:
    """Selects the documents of one table that meet a condition."""
    documents = {} if where == NOTHING else {table: where}
    return Target(scope=scope, scope_condition=_in_scope(scope), documents=documents)


def _named(ids: Sequence[str] | None, filter: FilterLike | None, columns: Columns) -> Clause:
    """Matches rows among `ids` that match `filter`; empty without a restriction."""
    named = [] if ids is None else [sql.in_list("id", check_names(ids, "ids"))]
    if filter is not None:
        matching = sql.filtered(filter, columns=columns)
        named += [] if matching == EVERYTHING else [matching]
    return NOTHING if NOTHING in named else sql.all_of(named)


def _matches_all(filter: FilterLike | None) -> str:
    return "" if filter is None else f"filter={shown(filter)} matches everything: "


def _in_scope(scope: Scope) -> Clause:
    return sql.all_equal(scope.parts())
