"""The blocking audit."""

from lance_context_core.audit.audit import AsyncAudit
from lance_context_core.sync._blocking import Blocking, blocking


class Audit(Blocking[AsyncAudit]):
    """The audit of a whole store. `AsyncAudit` is the asynchronous one."""

    seal = blocking(AsyncAudit.seal)
    head = blocking(AsyncAudit.head)
    entries = blocking(AsyncAudit.entries)
    of = blocking(AsyncAudit.of)
    note_read = blocking(AsyncAudit.note_read)
    verify = blocking(AsyncAudit.verify)
    export = blocking(AsyncAudit.export)
    why = blocking(AsyncAudit.why)
