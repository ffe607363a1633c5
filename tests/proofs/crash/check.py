"""What a new process finds in the store, beside what must be there."""

from proofs.crash.model import MAIN, SESSIONS, Model, Shown, Step, Turn
from proofs.crash.worker import AGENT

from lance_context_core import ContextStore


def found(store: ContextStore) -> Model:
    """Everything that the store shows: its branches, and its tags."""
    branches = {MAIN: _shown(store)}
    branches |= {one.name: _shown(store.branch(one.name)) for one in store.branches()}
    return Model(branches=branches, tags={tag: _shown(store.checkout(tag)) for tag in store.tags()})


def explain(seen: Model, before: Model, step: Step | None) -> str | None:
    """Why what was seen cannot be; None if it can.

    It must be what was there `before` the step in which the process was killed, or what is there
    after it: a batch, a merge, a branch or a tag is all there or not at all. Erasure goes branch by
    branch, and is whole once it has been repeated.
    """
    if differences(seen, before) is None:
        return None
    if step is None:
        return differences(seen, before)
    after = before.after(step)
    if step.verb != "erase":
        return differences(seen, after) and (
            f"{step}\n  is not undone: {differences(seen, before)}"
            f"\n  nor done: {differences(seen, after)}"
        )
    for what, name, shown in _named(seen):
        either = (getattr(before, what)[name], getattr(after, what)[name])
        if not any(_same(shown, one) for one in either):
            return (
                f"{step}\n  left {name} between before and after:"
                f"\n  {differences(seen, before)}\n  {differences(seen, after)}"
            )
    return None


def differences(seen: Model, expected: Model) -> str | None:
    """The first difference between two models; None if they show the same."""
    for what in ("branches", "tags"):
        ours, theirs = getattr(seen, what), getattr(expected, what)
        if set(ours) != set(theirs):
            return f"{what} are {sorted(ours)}, not {sorted(theirs)}"
    for what, name, shown in _named(seen):
        wanted = getattr(expected, what)[name]
        if not _same(shown, wanted):
            lost = [one for one in wanted if one not in shown]
            gained = [one for one in shown if one not in wanted]
            changed = [one for one in wanted if one in shown and shown[one] != wanted[one]]
            return f"{name}: lost {lost}, not expected {gained}, changed {changed}, or the order"
    return None


def _named(model: Model) -> list[tuple[str, str, Shown]]:
    return [
        (what, name, shown)
        for what in ("branches", "tags")
        for name, shown in getattr(model, what).items()
    ]


def _same(one: Shown, other: Shown) -> bool:
    """Whether two branches have the same turns, each session in the same order."""
    return one == other and all(_ids(one, s) == _ids(other, s) for s in SESSIONS)


def _ids(shown: Shown, session: str) -> list[str]:
    return [one for one, turn in shown.items() if turn.session == session]


def _shown(store: ContextStore) -> Shown:
    shown: Shown = {}
    n_messages = 0
    for session in SESSIONS:
        for message in store.history.get_messages(AGENT, session_id=session):
            n_messages += 1
            shown[message.id or ""] = Turn(session, message.text, 0)
    records = store.context().list()
    twice = n_messages - len(shown)
    assert twice == 0, f"{twice} messages are there twice"
    assert len(records) == len(shown), f"{len(records)} records, but {len(shown)} messages"
    return {one: turn._replace(number=_numbers(records)[one]) for one, turn in shown.items()}


def _numbers(records: list[dict[str, object]]) -> dict[str, int]:
    return {str(one["id"]): one["metadata"]["number"] for one in records}  # type: ignore[index]
