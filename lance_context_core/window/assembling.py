"""What `assemble` is asked for: its arguments, checked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

from lance_context_core._util.calls import defaults_of
from lance_context_core._util.checks import check_name, check_text, listed, shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import Message
from lance_context_core.stores.records.scoped import Records
from lance_context_core.window.assembly import Assembly
from lance_context_core.window.budget import Budget, as_budget
from lance_context_core.window.counting import Measure, TokenCounter, as_token_counter
from lance_context_core.window.dialects import DialectName
from lance_context_core.window.kept import asked
from lance_context_core.window.sections import HistorySection, Section
from lance_context_core.window.sources import Sources
from lance_context_core.window.window import Window


class AssembleArguments(TypedDict, total=False):
    """What `assemble` takes beside the session and the budget.

    - `sections`: what the window is made of, in the order in which it stands there; absent, the history
      alone.
    - `query`: what is asked; absent, what the user said last.
    - `messages`: what is said now, and not yet kept: it comes after the history.
    - `agent_id`, `user_id`: whose session it is, and whose memories.
    - `dialect`: whose rules the window keeps.
    - `counter`: what counts tokens: a function of a text, or a `TokenCounter`; absent, an estimate.
    """

    sections: Sequence[Section]
    query: str | None
    messages: Sequence[Message]
    agent_id: str
    user_id: str
    dialect: DialectName
    counter: Any


async def assemble(
    records: Records,
    *,
    session_id: str,
    budget: Budget | int,
    sections: Sequence[Section] = (),
    query: str | None = None,
    messages: Sequence[Message] = (),
    agent_id: str = "",
    user_id: str = "",
    dialect: DialectName = "plain",
    counter: TokenCounter | Any = None,
) -> Window:
    """The window. `AsyncContextStore.assemble` says what the arguments mean, whose defaults stand here."""
    chosen = _checked(sections)
    sources = Sources(
        _records=records,
        agent_id=agent_id,
        session_id=check_name(session_id, "session_id"),
        user_id=user_id,
        query=None if query is None else check_text(query, "query"),
    )
    given, said, at = as_budget(budget), _messages(messages), records.now()
    assembly = Assembly(
        sources=sources,
        sections=chosen,
        room=given.room,
        measure=Measure(as_token_counter(counter)),
        dialect=dialect,
    )
    told = asked(
        session_id=session_id,
        agent_id=agent_id,
        user_id=user_id,
        query_characters=None if query is None else len(query),
        dialect=dialect,
        budget=given,
        sections=chosen,
        messages=len(said),
    )
    return replace(await assembly.run(said), asked=told, at=at)


DEFAULTS: Mapping[str, object] = {
    name: one
    for name, one in defaults_of(assemble).items()
    if name in AssembleArguments.__annotations__
}


def assemble_arguments(sections: Sequence[Section], messages: Sequence[Message]) -> None:
    """Raise InvalidRequestError for what `assemble` would refuse."""
    _checked(sections)
    _messages(messages)


def _checked(sections: Sequence[Section]) -> list[Section]:
    found = listed(sections, "sections") or [HistorySection()]
    for index, one in enumerate(found):
        if not isinstance(one, Section):
            raise InvalidRequestError(f"sections[{index}] is {shown(one)}: give a Section")
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise InvalidRequestError(f"sections have the names {names}: give each a name of its own")
    if sum(isinstance(one, HistorySection) for one in found) > 1:
        raise InvalidRequestError("sections has more than one HistorySection: keep one of them")
    return found


def _messages(messages: Sequence[Message]) -> list[Message]:
    found = listed(messages, "messages")
    for index, one in enumerate(found):
        if not isinstance(one, Message):
            raise InvalidRequestError(f"messages[{index}] is {shown(one)}: pass Message.user('…')")
    return found
