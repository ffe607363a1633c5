"""The memory in tiers, from synchronous code."""

from lance_context_core.sync._blocking import Blocking, blocking, handing
from lance_context_core.tiers.tiers import AsyncTieredMemory
from lance_context_core.tiers.types import TierConfig, WriteGrant


class TieredMemory(Blocking[AsyncTieredMemory]):
    """Entries that are hot, warm or cold; `AsyncTieredMemory` is the asynchronous one."""

    using = handing(AsyncTieredMemory.using)

    @property
    def config(self) -> TierConfig:
        """The policy."""
        return self._aio.config

    def grant(self) -> WriteGrant:
        """What `add`, `demote` and `delete` ask for where an entry is canonical."""
        return self._aio.grant()

    add = blocking(AsyncTieredMemory.add)
    get = blocking(AsyncTieredMemory.get)
    list = blocking(AsyncTieredMemory.list)
    delete = blocking(AsyncTieredMemory.delete)
    search = blocking(AsyncTieredMemory.search)
    record_access = blocking(AsyncTieredMemory.record_access)
    flush = blocking(AsyncTieredMemory.flush)
    candidates = blocking(AsyncTieredMemory.candidates)
    demote = blocking(AsyncTieredMemory.demote)
    promote = blocking(AsyncTieredMemory.promote)
    maintain = blocking(AsyncTieredMemory.maintain)
    stats = blocking(AsyncTieredMemory.stats)
