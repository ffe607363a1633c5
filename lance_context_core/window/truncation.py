"""Where a history is cut: in steps, at places that stay the same while the conversation goes on.

A session is divided into blocks of as many messages; a place to cut is where a block begins, or a whole
number of steps after that. The first of them is taken from which on all fits. As more is said, it is left
for the next one, once; until then every window begins with the same messages. Nothing is remembered for
this, and nothing is read but the last blocks: two processes cut alike.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.window.groups import Group

BYTES_A_TOKEN = 4
_FAR = 8
"""In bytes a token: what is farther back than that many of the room does not fit."""
_SHORT = 8
"""In tokens: of messages as short as that, one block fills the room."""
_BLOCKS = (64, 4_096)
"""In messages: no block is shorter, and none is longer."""


@frozen_by_name
class Places:
    """Where a session may be cut."""

    nearest: int
    """How many of the `starts` are too far back for all to fit."""
    starts: tuple[int, ...]
    """The indexes of messages in the session, in order."""

    @property
    def offset(self) -> int:
        """The message from which on the session has to be read."""
        return self.starts[self.nearest]


_PIECES = r"[A-Za-z]{1,9}|[0-9]{1,3}|[!-/:-@\[-`{-~]{1,2}|[^\x00-\x7f]"
"""What is about a token. Bytes are not: English has five of them a token, Chinese and code two or three."""
_PIECE = re.compile(_PIECES)
_FRAMING_BYTES = 16
"""What a message is taken for beside its text."""


def size_of(text: str | None) -> int:
    """What a message of that text is taken for, in bytes, of which there are `BYTES_A_TOKEN`."""
    pieces = sum(1 for _ in _PIECE.finditer(text or ""))
    return pieces * BYTES_A_TOKEN + _FRAMING_BYTES


def sizes_of(texts: pa.ChunkedArray) -> tuple[int, ...]:
    """`size_of` each of these texts."""
    pieces = pc.fill_null(pc.count_substring_regex(texts, _PIECES), 0).to_pylist()
    return tuple(int(one) * BYTES_A_TOKEN + _FRAMING_BYTES for one in pieces)


def block_of(room: int) -> int:
    """How many messages a block has, for a room of tokens: a power of two."""
    least, most = _BLOCKS
    return min(max(1 << (max(room // _SHORT, 1) - 1).bit_length(), least), most)


def is_enough(sizes: Sequence[int], room: int) -> bool:
    """Whether messages of these bytes are more than a room of tokens might hold."""
    return sum(sizes) > room * _FAR


def places(sizes: Sequence[int], room: int, step: float, *, first: int, block: int) -> Places:
    """Where a session may be cut that ends in messages of these bytes, of which the `first` begins a block."""
    ends = list(accumulate(sizes))
    total = ends[-1] if ends else 0
    stride = max(1, int(room * step * BYTES_A_TOKEN))
    found = [0]
    for begin in range(0, len(sizes), block):
        before = ends[begin - 1] if begin else 0
        there = ends[min(begin + block, len(sizes)) - 1] - before
        steps = (before + number * stride for number in range(1, there // stride + 1))
        # The first message that begins behind that many steps.
        for index in (begin, *(bisect_left(ends, one) + 1 for one in steps)):
            if found[-1] < index < len(sizes):
                found.append(index)
    far = total - room * _FAR
    nearest = sum(1 for index in found[1:] if ends[index - 1] <= far)
    return Places(starts=tuple(first + index for index in found), nearest=nearest)


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


# Texts that are quoted in a window: they can neither end their quotation, nor bear a mark of ours.
#
# What was remembered is data. A memory may say «ignore your instructions», and close what looks like the end of
# the quotation before it: so what looks like one of our marks in a text is made to look like none.

_TAG = re.compile(r"<(?=\s*/?\s*[a-z])", re.IGNORECASE)
_MARK = re.compile(r"\[(m[0-9]+)\]")
_ENDS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def quoted(text: str) -> str:
    """A text that can neither end its quotation, nor begin an item, nor bear a mark."""
    text = _MARK.sub(r"(\1)", _TAG.sub("\u2039", text))
    return _ENDS.sub("\n    ", text)
