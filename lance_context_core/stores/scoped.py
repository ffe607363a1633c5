"""What of a table one handle sees."""

from datetime import datetime

from lance_context_core._resources import Resources
from lance_context_core._util.frozen import frozen
from lance_context_core.scope import Scope
from lance_context_core.storage import sql


@frozen
class Scoped:
    """The rows of one scope: what lies outside can be neither read nor written."""

    resources: Resources
    scope: Scope

    def now(self) -> datetime:
        """The current moment in UTC."""
        return self.resources.clock.now()

    def where(self, *conditions: sql.Clause) -> sql.Clause:
        """The condition that a row is in the scope, and satisfies what is given."""
        return sql.all_of([sql.all_equal(self.scope.parts()), *conditions])
