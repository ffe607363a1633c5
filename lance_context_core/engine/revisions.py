"""Revisions: what tells one content of a row from every other, on whatever branch it was written.

A revision has 62 bits. The upper half is drawn at random; the lower half repeats the upper half of
the revision that it replaces. So two changes of one row, made on two branches or before and after
the row was restored, differ; and a write that was made on top of another can prove it.
"""

import os
import secrets

_HALF = 31
_BASE = 1 << _HALF

SUCCEEDS = f"target.revision / {_BASE} = source.revision % {_BASE}"
"""The condition of a merge that a row was written on top of the one that it replaces."""


def new_revision() -> int:
    """The revision of a row that replaces none."""
    return int.from_bytes(os.urandom(8)) >> 64 - 2 * _HALF


def next_revision(revision: int) -> int:
    """The revision of a row that replaces the one with `revision`."""
    return secrets.randbits(_HALF) << _HALF | revision >> _HALF


def succeeds(revision: int, other: int) -> bool:
    """Whether a row was written on top of the `other` one."""
    return revision % _BASE == other >> _HALF
