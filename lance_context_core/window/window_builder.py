"""Assembles a window: required content, then each section in turn, then the final order."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from lance_context_core._util.calls import defaults_of
from lance_context_core._util.checks import check_name, check_text, listed, shown
from lance_context_core.errors import BudgetError, InvalidRequestError
from lance_context_core.messages import Message
from lance_context_core.stores.records.scoped import Records
from lance_context_core.window.conversation import Conversation
from lance_context_core.window.counting import (
    Budget,
    Measure,
    TokenCounter,
    as_budget,
    as_token_counter,
)
from lance_context_core.window.params import asked
from lance_context_core.window.providers import DialectName, dialect
from lance_context_core.window.providers.common import told_of
from lance_context_core.window.sections import HistorySection, Offer, Section, Snippet
from lance_context_core.window.sources import Sources, ending_of
from lance_context_core.window.truncation import block_of, places, quoted
from lance_context_core.window.window import Citation, Outcome, Report, Window

# Quotations in a window: items in one user message, one line each, with their marks.


def quoted_line(item: Snippet, mark: str | None) -> str:
    """Return an item with its mark and its label."""
    head = " ".join(
        one
        for one in (f"[{mark}]" if mark else "-", quoted(item.label) if item.label else "")
        if one
    )
    return f"{head}: {quoted(item.text)}" if item.label else f"{head} {quoted(item.text)}"


def quoted_block(
    section: Section, items: Sequence[Snippet], marks: Iterable[str | None]
) -> Message:
    """Return the message that quotes these items, in order."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", section.name)
    lines = [quoted_line(item, mark) for item, mark in zip(items, marks, strict=True)]
    guidance = [section.guidance] if section.guidance else []
    return Message.user("\n".join([f"<{name}>", *guidance, *lines, f"</{name}>"]))


@dataclass(slots=True)
class _Filled:
    """The contents of a section in the window."""

    messages: list[Message] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    tokens: int = 0
    tail: list[Message] = field(default_factory=list)
    """Messages of a prefix section that are placed in the tail."""


@dataclass(slots=True, kw_only=True)
class WindowBuilder:
    """Fills a window within its room."""

    sources: Sources
    sections: list[Section]
    room: int
    measure: Measure
    dialect: DialectName
    left: int = 0
    """Free tokens of the room."""
    aside: dict[str, int] = field(default_factory=dict)
    """Reserved tokens, by the names of the sections that come later."""
    filled: dict[str, _Filled] = field(default_factory=dict)
    citations: dict[str, Citation] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    n_not_considered: int = 0

    async def run(self, now: Sequence[Message]) -> Window:
        """Assemble the window."""
        history = next((one for one in self.sections if isinstance(one, HistorySection)), None)
        talk = await self._talk(history, now)
        if self.sources.query is None:
            self.sources.query = talk.asked()
        offers: dict[str, Offer] = {}
        required = {talk.name: talk.least}
        for section in self.sections:
            if section.required:
                offers[section.name] = await section.offer(self.sources)
                required[section.name] = self._size(section, offers[section.name])
        self._require(required)
        self._set_aside(required)
        for section in self._by_turn("prefix"):
            offer = offers.get(section.name) or await section.offer(self.sources)
            self._fill(section, offer)
        told = talk.shown(self._allotted(talk.name, history))
        tokens = sum(one.tokens for one in told.outcomes)
        self.filled[talk.name] = _Filled(told.messages, told.outcomes, tokens)
        self._took(talk.name)
        self.sources.shown = frozenset(
            (self.sources.session_id, id)
            for one in self.filled[talk.name].outcomes
            if one.tokens
            for id in one.ids
        )
        self.sources.cut = talk.cut
        for section in self._by_turn("tail"):
            offer = offers.get(section.name) or await section.offer(self.sources)
            self._fill(section, offer)
            if self.sources.covered and not self.filled[section.name].messages:
                self.sources.covered = 0
        return self._window(talk)

    async def _talk(self, section: HistorySection | None, now: Sequence[Message]) -> Conversation:
        """Return the session's end within reach of the room, with the new messages."""
        stored: list[Message] = []
        cuts: tuple[int, ...] = (0,)
        if section is not None:
            # The sections' limits, not their use: so the cuts stay the same.
            others = sum(one.wants(self.room) for one in self.sections if one is not section)
            nominal = max(1, self.room - others)
            if section.max_tokens is not None:
                nominal = max(1, min(nominal, section.max_tokens))
            block = block_of(nominal)
            end = await ending_of(self.sources, room=nominal, block=block)
            found = places(end.sizes, nominal, section.step, first=end.first, block=block)
            cuts = found.starts[found.nearest :]
            last_user = end.last_user
            offset = found.offset if last_user is None else min(found.offset, last_user)
            stored, self.n_not_considered = end.messages(offset), offset
        return Conversation.of(
            stored,
            now,
            name="messages" if section is None else section.name,
            offset=self.n_not_considered,
            cuts=cuts,
            min_turns=0 if section is None else section.min_turns,
            dialect=dialect(self.dialect),
            measure=self.measure,
        )

    # Sizes

    def _require(self, required: Mapping[str, int]) -> None:
        least = sum(required.values())
        if least > self.room:
            parts = ", ".join(f"{name} {tokens}" for name, tokens in required.items() if tokens)
            raise BudgetError(
                f"the window has {self.room} tokens, but the required sections need {least} "
                f"({parts}): raise the budget, or pin less",
                minimum=least,
            )

    def _set_aside(self, required: Mapping[str, int]) -> None:
        self.left = self.room
        free = self.room - sum(required.values())
        self.aside = dict(required)
        for section in sorted(self.sections, key=lambda one: -one.priority):
            more = min(free, max(0, section.wants(self.room) - required.get(section.name, 0)))
            self.aside[section.name] = required.get(section.name, 0) + more
            free -= more

    def _allotted(self, name: str, section: Section | None) -> int:
        """The tokens that a section may use now: neither used nor reserved for others."""
        others = sum(tokens for other, tokens in self.aside.items() if other != name)
        allotted = self.left - others
        if section is not None and section.max_tokens is not None:
            allotted = min(allotted, max(section.max_tokens, self.aside.get(name, 0)))
        return allotted

    def _took(self, name: str) -> None:
        self.aside.pop(name, None)
        self.left -= self.filled[name].tokens

    def _by_turn(self, placement: str) -> list[Section]:
        placed = [
            one
            for one in self.sections
            if not isinstance(one, HistorySection)
            and (one.placement == "prefix" and not one.follows_history) == (placement == "prefix")
        ]
        # Marks in the prefix must not depend on content behind it.
        return sorted(placed, key=lambda one: (one.placement != "prefix", -one.priority))

    # Contents

    def _size(self, section: Section, offer: Offer) -> int:
        """Return the tokens of all contents of an offer."""
        found = self.measure.messages(offer.messages)
        if offer.items:
            found += self.measure.message(self._block(section, offer.items, first=1))
        return found

    def _fill(self, section: Section, offer: Offer) -> None:
        filled = self.filled[section.name] = _Filled()
        allotted = self._allotted(section.name, section)
        self.notes += [f"{section.name}: {note}" for note in offer.notes]
        if offer.messages:
            self._fill_messages(section, offer.messages, allotted, filled)
        if offer.items:
            room = allotted - filled.tokens
            if section.placement == "prefix" and section.follows_history:
                # The history leaves more in one turn and less in the next.
                room = min(room, section.wants(self.room) or room)
            self._fill_items(section, offer.items, room, filled, filled.messages)
        if offer.later:
            self._fill_items(section, offer.later, allotted - filled.tokens, filled, filled.tail)
        self._took(section.name)

    def _fill_messages(
        self, section: Section, messages: Sequence[Message], allotted: int, filled: _Filled
    ) -> None:
        size = self.measure.messages(messages)
        fits = size <= allotted
        ids = tuple(one.id for one in messages if one.id)
        filled.outcomes.append(
            Outcome(
                section=section.name,
                verdict="kept" if fits else "dropped",
                reason="fits" if fits else "over_budget",
                tokens=size if fits else 0,
                ids=ids,
            )
        )
        if fits:
            filled.messages += messages
            filled.tokens += size

    def _fill_items(
        self,
        section: Section,
        items: Sequence[Snippet],
        allotted: int,
        filled: _Filled,
        into: list[Message],
    ) -> None:
        """Add the best items that fit, skipping longer ones; quotes them in order."""
        sizes = [self.measure.text(quoted_line(one, "m000") + "\n") for one in items]
        frame = self.measure.message(self._block(section, [], first=1))
        taken: list[int] = []
        total = frame
        for index, size in enumerate(sizes):
            if total + size <= allotted:
                taken.append(index)
                total += size
        message, size = None, 0
        while taken:
            # The parts of a text may count less than the whole.
            shown_items = self._ordered(items, taken)
            message = self._block(section, shown_items, first=len(self.citations) + 1)
            if (size := self.measure.message(message)) <= allotted:
                break
            taken.pop()
        chosen = set(taken)
        lines = [sizes[index] for index in sorted(taken)]
        spread = _spread(size if taken else 0, lines)
        shares = dict(zip(sorted(taken), spread, strict=True))
        for index, item in enumerate(items):
            filled.outcomes.append(
                Outcome(
                    section=section.name,
                    verdict="kept" if index in chosen else "dropped",
                    reason="fits" if index in chosen else "over_budget",
                    tokens=shares.get(index, 0),
                    ids=item.ids,
                )
            )
        if taken and message is not None:
            into.append(message)
            filled.tokens += size
            if section.cited:
                for item in self._ordered(items, taken):
                    self._cite(item)

    def _block(self, section: Section, items: Sequence[Snippet], *, first: int) -> Message:
        marks = [f"m{first + n}" if section.cited else None for n in range(len(items))]
        return quoted_block(section, items, marks)

    def _ordered(self, items: Sequence[Snippet], taken: Sequence[int]) -> list[Snippet]:
        return sorted((items[index] for index in taken), key=lambda one: one.order)

    def _cite(self, item: Snippet) -> None:
        mark = f"m{len(self.citations) + 1}"
        self.citations[mark] = Citation(
            mark=mark,
            record_id=item.ids[0] if item.ids else "",
            kind=item.kind,
            text=item.text,
            session_id=item.session_id,
            created_at=item.created_at,
            score=item.score,
            channels=item.channels,
        )

    # Order

    def _window(self, talk: Conversation) -> Window:
        prefix = [m for s in self.sections if s.placement == "prefix" for m in self._of(s.name)]
        # Instructions always come first, since some providers take them separately.
        prefix.sort(key=lambda one: one.role != "system")
        said = self.filled[talk.name].messages
        tail = [
            message
            for section in self.sections
            if not isinstance(section, HistorySection)
            for message in (
                self.filled[section.name].tail
                if section.placement == "prefix"
                else self._of(section.name)
            )
        ]
        n_waiting = talk.n_waiting(said)
        stable, waiting = said[: len(said) - n_waiting], said[len(said) - n_waiting :]
        messages = [*prefix, *stable, *tail, *waiting]
        if not any(one.role != "system" for one in messages):
            raise InvalidRequestError(
                f"session {self.sources.session_id!r} has no messages, and nothing else is in the "
                "window: append a message, or pass it as messages"
            )
        self._tell_covered(talk)
        self._tell_named()
        sizes = tuple(map(self.measure.message, messages))
        names = [one.name for one in self.sections]
        names += [talk.name] if talk.name not in names else []
        ends = (len(prefix) - 1, len(prefix) + len(stable) - 1)
        return Window(
            messages=tuple(messages),
            tokens=sum(sizes),
            tokens_by_section={name: self.filled[name].tokens for name in names},
            room=self.room,
            citations=self.citations,
            report=Report(
                outcomes=tuple(one for name in names for one in self.filled[name].outcomes),
                n_not_considered=self.n_not_considered,
                notes=tuple(self.notes),
            ),
            breakpoints=tuple(sorted({end for end in ends if end >= 0})),
            dialect=self.dialect,
            sizes=sizes,
        )

    def _tell_covered(self, talk: Conversation) -> None:
        """Mark hidden groups that a summary covers."""
        indexes = dict(zip((one.ids for one in talk.groups), talk.indexes, strict=True))
        self.filled[talk.name].outcomes = [
            replace(one, verdict="summarised", reason="in_the_summary")
            if one.verdict == "dropped"
            and indexes.get(one.ids, self.sources.covered) < self.sources.covered
            else one
            for one in self.filled[talk.name].outcomes
        ]

    def _tell_named(self) -> None:
        """Note the media that are sent as text only."""
        to = dialect(self.dialect)
        for name, filled in self.filled.items():
            for message in (*filled.messages, *filled.tail):
                where = f" of message {message.id}" if message.id else ""
                self.notes += [
                    f"{name}: the {told_of(part)}{where} is named in words: "
                    f"{to.name} does not take it there"
                    for part in to.named_only(message)
                ]

    def _of(self, name: str) -> list[Message]:
        return self.filled[name].messages


def _spread(total: int, sizes: Sequence[int]) -> list[int]:
    """Split a total into integer shares as near to `sizes` as possible."""
    weight = sum(sizes) or 1
    shares, done, given = [], 0, 0
    for size in sizes:
        done += size
        shares.append(total * done // weight - given)
        given += shares[-1]
    if shares and given < total:
        shares[-1] += total - given
    return shares


# The arguments of `assemble`, and their checks.


class AssembleArguments(TypedDict, total=False):
    """The arguments of `assemble` besides the session and the budget.

    - `sections`: the parts of the window, in order; absent, the history alone.
    - `query`: the search query; absent, the user's last message.
    - `messages`: new messages, not stored yet, placed after the history.
    - `agent_id`, `user_id`: the owners of the session and of the memories.
    - `dialect`: the provider whose rules the window follows.
    - `counter`: counts tokens: a function of a text, or a `TokenCounter`; absent, an estimate.
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
    """Assemble a window. `AsyncContextStore.assemble` documents the arguments."""
    chosen = _checked(sections)
    sources = Sources(
        _records=records,
        agent_id=agent_id,
        session_id=check_name(session_id, "session_id"),
        user_id=user_id,
        query=None if query is None else check_text(query, "query"),
    )
    given, said, at = as_budget(budget), _messages(messages), records.now()
    assembly = WindowBuilder(
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
    """Raise InvalidRequestError for arguments that `assemble` rejects."""
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
