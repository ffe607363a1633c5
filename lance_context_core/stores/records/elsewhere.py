"""A search that finds nothing because it looks where nothing is."""

import warnings

from lance_context_core.errors import ElsewhereWarning
from lance_context_core.storage import sql
from lance_context_core.stores.records.scoped import Records


async def warn_if_elsewhere(records: Records) -> None:
    """Warn that the view's context is empty while the scope's records are in other contexts.

    Asks the table until there is something in the context, then never again.
    """
    warned, about = records.resources.warned, ("elsewhere", records.scope, records.context)
    if about in warned:
        return
    is_here = sql.equals("context", records.context)
    if await records.table.count(sql.all_of([records.everything(), is_here])):
        warned.add(about)
        return
    others = sql.all_of([records.everything(), sql.differs("context", records.context)])
    found = await records.table.slice(others, columns=["context"], offset=0, limit=1, last=None)
    for name in found["context"].to_pylist():
        warned.add(about)
        warnings.warn(
            f"nothing was found, since context {records.context!r}, in which this looks, is empty: "
            f"the records are in others, such as {name!r}; search there, "
            f"store.context({name!r}).search(…)",
            ElsewhereWarning,
            stacklevel=2,
        )
