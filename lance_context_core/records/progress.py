"""How far a long call has come."""

from lance_context_core._util.frozen import frozen_by_name


@frozen_by_name
class Progress:
    """How far a long call has come: what `progress` is given, after each step.

    The call waits for `progress`. It is called in the task that awaits, so that it may set an
    event or put into a queue of that loop; for a blocking call, in a worker thread, so that it may
    ask the store. What it raises ends the call, as cancelling does: what was told of is done, and
    nothing else is begun.
    """

    n_done: int
    """How much is dealt with, what failed or needed nothing among it."""
    n_total: int | None = None
    """How much there is, as far as it was known when the call began; None where that is not known."""
    what: str
    """What is counted, such as `tables`."""
    name: str | None = None
    """What was dealt with last, where it has a name."""
