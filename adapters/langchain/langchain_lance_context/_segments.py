"""Stores growing values as differences: bytes as segments of rows, most of them older.

A list of messages that is serialized after each turn repeats all but its end. So only the bytes
that the previous value lacks are stored, and a value is reassembled from segments of several rows.
Small segments are joined and written again when the end has grown as long as they are: a value of n
bytes has O(log n) segments, and each byte is written O(log n) times.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

Version: TypeAlias = str | int | float

_MIN_MATCH = 64
"""Minimum number of common bytes for a segment."""
_MAX_MATCHES = 16
"""Values with more differences are stored whole."""
_MAX_ROWS = 24
"""Maximum number of rows of a value: all of them are read with it."""
_PROBE = 16
"""Distance within which a match is searched after a difference."""


class Segment(NamedTuple):
    """A range of bytes in a row."""

    version: Version
    """The row of that version of the same channel."""
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Rope:
    """A value, and the rows from which it can be reassembled."""

    data: bytes
    segments: tuple[Segment, ...]
    """Their lengths add up to the length of `data`."""

    @classmethod
    def whole(cls, data: bytes, version: Version) -> "Rope":
        """A value in a row of its own."""
        return cls(data, (Segment(version, 0, len(data)),))

    @property
    def versions(self) -> set[Version]:
        """The rows that the value uses."""
        return {one.version for one in self.segments}


def spun(data: bytes, version: Version, base: Rope | None) -> tuple[Rope, bytes]:
    """The rope of a value, and the bytes of its own row; the rest is in the rows of `base`."""
    whole = Rope.whole(data, version)
    if base is None or len(data) < 2 * _MIN_MATCH or version in base.versions:
        return whole, data
    parts = _joined(_parts(data, base), data)
    own = b"".join(data[start:end] for start, end, segment in parts if segment is None)
    segments, position = [], 0
    for start, end, segment in parts:
        segments.append(segment or Segment(version, position, end - start))
        position += end - start if segment is None else 0
    rope = Rope(data, tuple(segments))
    if len(rope.versions) > _MAX_ROWS or 4 * len(own) > 3 * len(data):
        return whole, data
    return rope, own


def joined(segments: Sequence[Segment], rows: Mapping[Version, bytes]) -> bytes:
    """Reassembles a value from its segments; the rows must be unchanged."""
    return b"".join(rows[v][start : start + length] for v, start, length in segments)


_Part: TypeAlias = tuple[int, int, Segment | None]
"""A range of the new value, and its source if it is a copy."""


def _parts(data: bytes, base: Rope) -> list[_Part]:
    """The new value from beginning to end, as new parts and copies."""
    parts: list[_Part] = []
    done = 0
    for there, here, length in _matches(base.data, data):
        if done < here:
            parts.append((done, here, None))
        for segment in _cut(base.segments, there, length):
            parts.append((here, here + segment.length, segment))
            here += segment.length  # noqa: PLW2901 - the copies stand one behind the other
        done = here
    if done < len(data):
        parts.append((done, len(data), None))
    return parts


def _joined(parts: Sequence[_Part], data: bytes) -> list[_Part]:
    """The parts, with short copies turned into new bytes."""
    stack: list[_Part] = []
    for part in parts:
        start, end, segment = part
        if segment is not None and end - start < _MIN_MATCH:
            segment = None
        while stack:
            before, _, other = stack[-1]
            if segment is None and (other is None or start - before <= end - start):
                start = before
            elif segment is not None and other is None and end - start <= start - before:
                start, segment = before, None
            else:
                break
            stack.pop()
        stack.append((start, end, segment))
    assert not stack or stack[-1][1] == len(data)
    return stack


def _cut(segments: Sequence[Segment], start: int, length: int) -> Iterator[Segment]:
    """The part of a value from `start` on, as segments."""
    for segment in segments:
        if start < segment.length and length > 0:
            taken = min(segment.length - start, length)
            yield Segment(segment.version, segment.start + start, taken)
            length -= taken
            start = 0
        else:
            start -= min(start, segment.length)


def _matches(old: bytes, new: bytes) -> list[tuple[int, int, int]]:
    """Matching ranges of the old and the new value: both positions and the length, in order."""
    found: list[tuple[int, int, int]] = []
    there = here = 0
    while len(found) < _MAX_MATCHES:
        length = _common(old, there, new, here)
        if length >= _MIN_MATCH:
            found.append((there, here, length))
        there, here = there + length, here + length
        place = _resumed(old, there, new, here)
        if place is None:
            break
        there, here = place
    length = _common_end(old, there, new, here)
    if length >= _MIN_MATCH:
        found.append((len(old) - length, len(new) - length, length))
    return found


def _resumed(old: bytes, there: int, new: bytes, here: int) -> tuple[int, int] | None:
    """The positions after a difference from which both continue alike, if easily found."""
    # Usually a count in front of a list: as many bytes as before, or more.
    for skipped, added in ((1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (8, 8), (1, 3), (3, 5)):
        probe = new[here + added : here + added + _MIN_MATCH]
        if len(probe) == _MIN_MATCH and old.startswith(probe, there + skipped):
            return there + skipped, here + added
    probe = new[here + _PROBE : here + _PROBE + _MIN_MATCH]
    if len(probe) == _MIN_MATCH and (place := old.find(probe, there)) >= 0:
        return place, here + _PROBE
    probe = old[there + _PROBE : there + _PROBE + _MIN_MATCH]
    if len(probe) == _MIN_MATCH and (place := new.find(probe, here)) >= 0:
        return there + _PROBE, place
    return None


def _common(old: bytes, there: int, new: bytes, here: int) -> int:
    """Number of equal bytes from these positions on."""
    longest = min(len(old) - there, len(new) - here)
    alike, step, has_differed = 0, 4096, False
    while alike < longest and step:
        size = min(step, longest - alike)
        if old[there + alike : there + alike + size] == new[here + alike : here + alike + size]:
            alike += size
            step *= 1 if has_differed else 2
        else:
            has_differed, step = True, size // 2
    return alike


def _common_end(old: bytes, there: int, new: bytes, here: int) -> int:
    """Number of equal bytes at the ends, after these positions."""
    longest = min(len(old) - there, len(new) - here)
    return _common(old[len(old) - longest :][::-1], 0, new[len(new) - longest :][::-1], 0)
