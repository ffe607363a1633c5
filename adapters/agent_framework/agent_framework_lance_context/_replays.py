"""Which of a run's messages are new, where a caller passes a whole transcript again."""

import re
from collections.abc import Sequence
from typing import TypeAlias

from agent_framework_lance_context._messages import Form

Identity: TypeAlias = tuple[object, ...]

_POSITION = re.compile(r"msg_\d+")
"""Ids that the framework's compaction gives by position: two messages may have one."""


def own_id(form: Form) -> str | None:
    """Returns the id of a message if it names this message alone."""
    id = form.get("message_id")
    return id if isinstance(id, str) and id and not _POSITION.fullmatch(id) else None


def identity(form: Form) -> Identity:
    """Returns what tells a message from others: its id and text, or else all that it says."""
    if (id := own_id(form)) is not None:
        texts = [content.get("text") for content in form["contents"] if content["type"] == "text"]
        return id, form["role"], texts
    return form["role"], form["contents"]


def n_replayed(stored: Sequence[Form], given: Sequence[Form]) -> int:
    """Returns how many messages at the start of `given` are stored already.

    `stored` is the end of the conversation, at least as long as `given` unless it is all of it.
    Either the whole conversation is in `given`, or the end of it is the start of `given`.

    Without ids, two things are not taken for a replay: a user who says the same again right away,
    and a turn that is the same as the one before, for a replay has something new at its end.
    """
    old, new = [[identity(one) for one in messages] for messages in (stored, given)]
    n_old, n_new = len(old), len(new)
    if not old:
        return 0
    whole = [(n, n + n_old) for n in range(n_new - n_old + 1) if new[n : n + n_old] == old]
    ends = [(0, n) for n in range(min(n_old, n_new), 0, -1) if old[-n:] == new[:n]]
    for start, end in (*whole, *ends):
        if _is_replay(given[start:end], is_last=end == n_new, is_first=start == 0):
            return end
    return 0


def _is_replay(again: Sequence[Form], *, is_first: bool, is_last: bool) -> bool:
    if any(own_id(one) is not None for one in again):
        return True
    if is_first and len(again) == 1 and again[0]["role"] == "user":
        return False
    return not is_last or sum(one["role"] == "user" for one in again) > 1
