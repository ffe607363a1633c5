"""The tables of the information layer, from synchronous code."""

import pyarrow as pa

from lance_context_core.information.layouts import Family
from lance_context_core.information.tables import AsyncInformationTables
from lance_context_core.sync._blocking import Blocking, blocking


class InformationTables(Blocking[AsyncInformationTables]):
    """What the store holds, as tables; `AsyncInformationTables` is the asynchronous one."""

    def names(self, family: Family | None = None) -> list[str]:
        """The tables, of one family or of all. See `AsyncInformationTables.names`."""
        return self._aio.names(family)

    def schema(self, name: str) -> pa.Schema:
        """The columns of a table. See `AsyncInformationTables.schema`."""
        return self._aio.schema(name)

    read = blocking(AsyncInformationTables.read)
