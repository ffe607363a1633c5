"""Cuts of a history: in steps, at places that stay the same.

A session is divided into blocks of equal numbers of messages; a cut is at the beginning of a block,
or a whole number of steps after it. The first cut after which everything fits is used. New messages
eventually force the next cut, once; until then every window begins with the same messages. This
needs no stored state, and reads only the last blocks: two processes cut alike.
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
"""In bytes per token: messages farther back than this times the room do not fit."""
_SHORT = 8
"""In tokens: with messages this short, one block fills the room."""
_BLOCKS = (64, 4_096)
"""In messages: the minimum and maximum length of a block."""


@frozen_by_name
class Places:
    """The places at which a session may be cut."""

    nearest: int
    """Number of `starts` after which not everything fits."""
    starts: tuple[int, ...]
    """The indexes of messages in the session, in order."""

    @property
    def offset(self) -> int:
        """The first message of the session to read."""
        return self.starts[self.nearest]


_PIECES = r"[A-Za-z]{1,9}|[0-9]{1,3}|[!-/:-@\[-`{-~]{1,2}|[^\x00-\x7f]"
"""About one token each.

Bytes are no measure: English has five per token, Chinese and code two or three.
"""
_PIECE = re.compile(_PIECES)
_FRAMING_BYTES = 16
"""Bytes of a message besides its text."""


def size_of(text: str | None) -> int:
    """The estimated bytes of a message with that text; `BYTES_A_TOKEN` make a token."""
    pieces = sum(1 for _ in _PIECE.finditer(text or ""))
    return pieces * BYTES_A_TOKEN + _FRAMING_BYTES


def sizes_of(texts: pa.ChunkedArray) -> tuple[int, ...]:
    """`size_of` each of these texts."""
    pieces = pc.fill_null(pc.count_substring_regex(texts, _PIECES), 0).to_pylist()
    return tuple(int(one) * BYTES_A_TOKEN + _FRAMING_BYTES for one in pieces)


def block_of(room: int) -> int:
    """Messages per block, for a room of tokens: a power of two."""
    least, most = _BLOCKS
    return min(max(1 << (max(room // _SHORT, 1) - 1).bit_length(), least), most)


def is_enough(sizes: Sequence[int], room: int) -> bool:
    """Whether messages of these bytes exceed what `room` tokens can hold."""
    return sum(sizes) > room * _FAR


def places(sizes: Sequence[int], room: int, step: float, *, first: int, block: int) -> Places:
    """Return the cuts of a session whose last messages have these sizes.

    The message `first` begins a block.
    """
    ends = list(accumulate(sizes))
    total = ends[-1] if ends else 0
    stride = max(1, int(room * step * BYTES_A_TOKEN))
    found = [0]
    for begin in range(0, len(sizes), block):
        before = ends[begin - 1] if begin else 0
        there = ends[min(begin + block, len(sizes)) - 1] - before
        steps = (before + number * stride for number in range(1, there // stride + 1))
        # The first message that begins after that many steps.
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
    """Return the first group to show: at the first cut after which all fits.

    `indexes` are the messages at which the groups begin, `sizes` their tokens, `cuts` the places.
    None if even the messages after the last place do not fit.
    """
    rest = list(accumulate(reversed(sizes), initial=0))[::-1]
    for number, cut in enumerate(cuts):
        following = cuts[number + 1] if number + 1 < len(cuts) else None
        at = bisect_left(indexes, cut)
        end = len(groups) if following is None else bisect_left(indexes, following)
        # A conversation should begin with its user.
        at = next((i for i in range(at, end) if groups[i].is_user_turn), at)
        if at < len(groups) and rest[at] <= room:
            return at
    return None


# Quoted texts in a window can neither end their quotation nor forge a mark.
#
# Recalled text is data. A memory may contain «ignore your instructions», and a fake end of its
# quotation: so anything in a text that looks like one of our marks is escaped.

_TAG = re.compile(r"<(?=\s*/?\s*[a-z])", re.IGNORECASE)
_MARK = re.compile(r"\[(m[0-9]+)\]")
_ENDS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def quoted(text: str) -> str:
    """Escape a text: it cannot end its quotation, begin an item, or contain marks."""
    text = _MARK.sub(r"(\1)", _TAG.sub("\u2039", text))
    return _ENDS.sub("\n    ", text)
