"""Where a history is cut: in steps, at places that stay the same while the conversation goes on.

A place to cut is where a whole number of steps has been said since the session began. The first of them is
taken from which on all fits. As more is said, it is left for the next one, once; until then every window
begins with the same messages. Nothing is remembered for this: two processes cut alike.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from lance_context_core.window.groups import Group

BYTES_A_TOKEN = 4
_FAR = 16
"""In bytes a token: what is farther back than that many of the room does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a session may be cut."""

    starts: tuple[int, ...]
    """The indexes of messages, in order; the first is 0."""
    nearest: int
    """How many of the `starts` are too far back for all to fit."""

    @property
    def offset(self) -> int:
        """The message from which on the session has to be read."""
        return self.starts[self.nearest]


def places(sizes: Sequence[int], room: int, step: float) -> Places:
    """Where a session of messages of these bytes may be cut, for a room of tokens."""
    ends = list(accumulate(sizes))
    total = ends[-1] if ends else 0
    stride = max(1, int(room * step * BYTES_A_TOKEN))
    starts = [0]
    for number in range(1, total // stride + 1):
        # The first message that begins behind that many steps.
        index = bisect_left(ends, number * stride) + 1
        if starts[-1] < index < len(sizes):
            starts.append(index)
    far = total - room * _FAR
    nearest = sum(1 for index in starts[1:] if ends[index - 1] <= far)
    return Places(starts=tuple(starts), nearest=nearest)


def first_shown(
    groups: Sequence[Group],
    indexes: Sequence[int],
    sizes: Sequence[int],
    cuts: Sequence[int],
    room: int,
) -> int | None:
    """Which group is shown first: the first at a place to cut from which on all fits.

    `indexes` are the messages at which the groups begin, `sizes` their tokens, `cuts` the places. None if
    not even what follows the last place fits.
    """
    rest = list(accumulate(reversed(sizes), initial=0))[::-1]
    for number, cut in enumerate(cuts):
        following = cuts[number + 1] if number + 1 < len(cuts) else None
        at = bisect_left(indexes, cut)
        end = len(groups) if following is None else bisect_left(indexes, following)
        # A conversation is best begun by its user.
        at = next((i for i in range(at, end) if groups[i].is_user_turn), at)
        if at < len(groups) and rest[at] <= room:
            return at
    return None
