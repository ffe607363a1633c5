"""The part of a table that a handle sees."""

from datetime import datetime

from lance_context_core._resources import Resources
from lance_context_core._util.frozen import frozen
from lance_context_core.scope import Scope
from lance_context_core.storage import sql


@frozen
class Scoped:
    """The rows of one scope: no other row can be read or written."""

    resources: Resources
    scope: Scope

    def now(self) -> datetime:
        """The current moment in UTC."""
        return self.resources.clock.now()

    def where(self, *conditions: sql.Clause) -> sql.Clause:
        """Return the condition that a row is in the scope, and meets these conditions."""
        return sql.all_of([sql.all_equal(self.scope.parts()), *conditions])
