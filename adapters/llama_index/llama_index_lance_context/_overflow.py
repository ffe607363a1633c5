"""Selects the messages that leave a conversation that is too long for a model."""

from collections.abc import Sequence

from llama_index.core.base.llms.types import MessageRole

_INSTRUCTIONS = (MessageRole.SYSTEM, MessageRole.DEVELOPER)
"""Instructions, which never leave."""


def overflow(
    roles: Sequence[MessageRole], sizes: Sequence[int], *, limit: float, flush_size: int
) -> list[int]:
    """The positions of the messages that leave, oldest first; none while all fit into `limit`.

    As few as necessary, but at least `flush_size` together, so that not every message removes
    another. Instructions stay. The rest begins with a user's message, so that no tool result lacks
    its call; therefore the last turn stays whole, of any length.
    """
    excess = sum(sizes) - limit
    if excess <= 0:
        return []
    movable = [index for index, role in enumerate(roles) if role not in _INSTRUCTIONS]
    turns = [n for n, index in enumerate(movable) if roles[index] is MessageRole.USER]
    # Without a user's message any one can be the beginning.
    cuts = turns or list(range(len(movable)))
    for cut in cuts:
        if sum(sizes[index] for index in movable[:cut]) >= max(excess, flush_size):
            return movable[:cut]
    return movable[: cuts[-1]] if cuts else []
