"""Which messages leave a conversation that has become too long for a model."""

from collections.abc import Sequence

from llama_index.core.base.llms.types import MessageRole

_INSTRUCTIONS = (MessageRole.SYSTEM, MessageRole.DEVELOPER)
"""What holds as long as the conversation does: it never leaves."""


def overflow(
    roles: Sequence[MessageRole], sizes: Sequence[int], *, limit: float, flush_size: int
) -> list[int]:
    """The positions of the messages that leave, oldest first; none while all fit into `limit`.

    They are as few as make the rest fit, but at least `flush_size` together, so that not every
    message pushes out another. Instructions stay. What stays begins with what a user said, so that
    no tool's result stands there without its call; therefore the last turn stays whole, however
    long it is.
    """
    excess = sum(sizes) - limit
    if excess <= 0:
        return []
    movable = [index for index, role in enumerate(roles) if role not in _INSTRUCTIONS]
    turns = [n for n, index in enumerate(movable) if roles[index] is MessageRole.USER]
    # Where no one has asked anything, one message is as good a beginning as another.
    cuts = turns or list(range(len(movable)))
    for cut in cuts:
        if sum(sizes[index] for index in movable[:cut]) >= max(excess, flush_size):
            return movable[:cut]
    return movable[: cuts[-1]] if cuts else []
