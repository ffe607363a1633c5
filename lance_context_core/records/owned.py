"""Whose a thing is, and since when it is so: what the things that are kept have in common."""

from datetime import datetime

from lance_context_core._util.frozen import frozen_by_name, own_first


@frozen_by_name
class Owned:
    """What is somebody's: it is seen where the scope has the same in each part that it names."""

    tenant: str | None = None
    user_id: str | None = None
    agent_id: str | None = None


@own_first
@frozen_by_name
class Written(Owned):
    """What is somebody's, and was written by somebody."""

    author: str | None = None
    """Who wrote it last, if a store was told: `written_by` in filters. Older versions have those before."""


@own_first
@frozen_by_name
class Known(Owned):
    """What is so for a time, and known from something."""

    source_ids: tuple[str, ...] = ()
    """The records, documents and chunks that it is known from."""
    valid_from: datetime | None = None
    """Since when it is so; None means always, and of a statement that its source does not tell."""
    valid_to: datetime | None = None
    """The first moment at which it is so no more; None means never, as above."""
    recorded_at: datetime | None = None
    """Since when it is known; None has the store say it."""
