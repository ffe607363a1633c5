"""Going on with what is left of a store that lacks something which was acknowledged."""

from lance_context_core.storage.database import spec_of
from lance_context_core.upkeep.claims import UPKEEP_TABLE
from lance_context_core.verifying.verifying import Problem
from lance_context_core.versioning.places import Whole


async def accept_loss(whole: Whole) -> tuple[Problem, ...]:
    """What `ContextStore.accept_loss` returns."""
    whole.require("accept a loss")
    database = whole.resources.writable().root
    connection = database.connection
    lost = []
    if (journal := connection.journal) is not None and (wrong := await journal.accept_loss()):
        lost.append(_problem("journal", str(journal.path), wrong))
    for part, where, what in await connection.lacking(UPKEEP_TABLE, is_damaged=True):
        is_wanted = await connection.accept(part.name, part.ref)
        if not part.ref:
            access = database.table(part.name, spec_of(part.name)).access
            access.close()
            if is_wanted:
                await access.commits.know(await access.opened())
        lost.append(_problem("table", str(where), what))
    return tuple(lost)


def _problem(kind: str, where: str, what: str) -> Problem:
    return Problem(kind=kind, where=where, what=what, way_out="none: the loss is accepted")
