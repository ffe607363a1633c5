"""The conversation in a window: the shown groups, their form, and all outcomes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lance_context_core.messages import (
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from lance_context_core.window.counting import Measure
from lance_context_core.window.groups import Group, groups_of, replaced
from lance_context_core.window.providers.common import Dialect, is_opaque
from lance_context_core.window.truncation import first_shown
from lance_context_core.window.window import Outcome, Verdict

# Parts that only their provider can read: encrypted reasoning, signatures, its own summaries.
#
# They are sent back unchanged to the same provider if nothing that they depend on is missing;
# otherwise they are left out, with everything bound to them.

_SIGNATURES = ("thought_signature", "thoughtSignature")

_MAKERS = {
    "google": "gemini",
    "google_genai": "gemini",
    "google_vertexai": "gemini",
    "azure_openai": "openai",
    "openai_responses": "openai",
}


def fitted(group: Group, provider: str | None, *, keeps: bool) -> Group | None:
    """Return the group as it may be sent to a provider; its notes name omissions.

    With `keeps`, nothing before it is missing or shortened, or the model is still at work on its
    step. None if nothing is left of it.
    """
    notes = list(group.notes)
    messages = []
    for message in group.messages:
        parts = tuple(
            kept
            for part in message.parts
            if (kept := _kept(part, message, provider, keeps=keeps)) is not None
        )
        if len(parts) < len(message.parts):
            notes.append("reasoning_left_out")
        if parts:
            is_same = all(a is b for a, b in zip(parts, message.parts, strict=False))
            is_same = is_same and len(parts) == len(message.parts)
            messages.append(message if is_same else replaced(message, parts=parts))
    if not messages:
        return None
    return replace(group, messages=tuple(messages), notes=tuple(dict.fromkeys(notes)))


def _is_bound(group: Group) -> bool:
    """Whether it may be sent only with the messages before it."""
    return any(
        isinstance(part, ReasoningPart) or is_opaque(part)
        for message in group.messages
        for part in message.parts
    )


def _kept(part: Part, message: Message, provider: str | None, *, keeps: bool) -> Part | None:
    if isinstance(part, ToolCallPart) and any(name in part.extra for name in _SIGNATURES):
        if provider == "gemini":
            return part
        extra = {name: one for name, one in part.extra.items() if name not in _SIGNATURES}
        return replace(part, extra=extra)
    if not (isinstance(part, ReasoningPart) or is_opaque(part)):
        return part
    is_own = provider is not None and maker(part, message) == provider
    if isinstance(part, UnknownPart) and part.type == "compaction":
        # An empty one is a failure of its provider.
        holds = part.payload.get("content") or part.payload.get("encrypted_content")
        return part if is_own and holds else None
    return part if is_own and keeps else None


def maker(part: Part, message: Message) -> str | None:
    """Return the provider of a part, from the message or its shape; None if unknown."""
    extra: Any = part.payload if isinstance(part, UnknownPart) else part.extra
    said = _said([extra, message.metadata, message.metadata.get("response_metadata")])
    if said is not None:
        return _MAKERS.get(said, said)
    if isinstance(part, UnknownPart) and part.type in ("thinking", "redacted_thinking"):
        return "anthropic"
    if "encrypted_content" in extra or str(extra.get("id", "")).startswith("rs_"):
        return "openai"
    is_signed = isinstance(part, ReasoningPart) and part.signature
    return "anthropic" if is_signed or isinstance(part, UnknownPart) else None


def _said(places: Iterable[Any]) -> str | None:
    for place in places:
        for name in ("provider", "model_provider"):
            if isinstance(place, dict) and isinstance(place.get(name), str):
                return str(place[name])
    return None


# The placeholder of a long tool result: its length, and the id that finds it again.


def stub_text(tokens: int, id: str | None) -> str:
    """Return the placeholder of a result."""
    return f"[… {tokens} tokens, id {id}]" if id else f"[… {tokens} tokens]"


def stubbed(group: Group, measure: Measure) -> Group | None:
    """Return the group with stubs for results longer than these; None without any."""
    messages = []
    is_shorter = False
    for message in group.messages:
        parts = []
        for part in message.parts:
            if isinstance(part, ToolResultPart):
                tokens = measure.parts(part.content)
                stub = TextPart(text=stub_text(tokens, message.id))
                if measure.parts([stub]) < tokens:
                    part, is_shorter = replace(part, content=(stub,)), True  # noqa: PLW2901
            parts.append(part)
        messages.append(replaced(message, parts=tuple(parts)))
    if not is_shorter:
        return None
    notes = tuple(dict.fromkeys((*group.notes, "result_stubbed")))
    return replace(group, messages=tuple(messages), notes=notes)


CUT = Message.user("[Earlier turns of this conversation are left out.]")
"""The first message of a conversation whose beginning is cut, unless a user speaks first."""


class Told(NamedTuple):
    """The shown messages of a conversation, and the outcomes of all of it."""

    messages: list[Message]
    outcomes: list[Outcome]


class _Shown(NamedTuple):
    """The shown form of a group, and its tokens."""

    group: Group
    tokens: int


@dataclass(slots=True, kw_only=True)
class Conversation:
    """A conversation to show within a token limit."""

    name: str
    """The name of its section."""
    groups: Sequence[Group]
    indexes: Sequence[int]
    """The index in the session of each group's first message."""
    cuts: Sequence[int]
    """The message indexes at which the session may be cut."""
    is_from_start: bool
    min_turns: int
    dialect: Dialect
    measure: Measure
    rejected: Sequence[Outcome] = ()
    cut: int = 0
    """Number of messages of the session before the shown ones, which include its end."""
    _sizes: dict[tuple[int, bool], _Shown | None] = field(default_factory=dict)
    _last_user: int = field(init=False)
    """The index of the user's newest turn among the groups; -1 if absent."""

    def __post_init__(self) -> None:
        turns = (i for i in reversed(range(len(self.groups))) if self.groups[i].is_user_turn)
        self._last_user = next(turns, -1)

    @classmethod
    def of(
        cls,
        stored: Sequence[Message],
        now: Sequence[Message],
        *,
        name: str,
        offset: int,
        cuts: Sequence[int],
        min_turns: int,
        dialect: Dialect,
        measure: Measure,
    ) -> "Conversation":
        """Create it from the end of a session, starting at `offset`, and the new messages."""
        grouped = groups_of([*stored, *now])
        at = {one.id: offset + index for index, one in enumerate(stored)}
        indexes, last = [], offset
        for group in grouped.groups:
            last = max(last, at.get(group.ids[0], last) if group.ids else last)
            indexes.append(last)
        rejected = [
            Outcome(
                section=name,
                verdict="rejected",
                reason=reason,
                tokens=0,
                ids=(one.id,) if one.id else (),
            )
            for one, reason in grouped.rejected
        ]
        return cls(
            name=name,
            groups=grouped.groups,
            indexes=indexes,
            cuts=cuts,
            is_from_start=offset == 0,
            min_turns=min_turns,
            dialect=dialect,
            measure=measure,
            rejected=rejected,
        )

    @property
    def least(self) -> int:
        """The tokens of required groups: the newest turn of the user, and open calls."""
        return sum(self._tokens(index) for index in self._musts()) + self._cut_before(self._musts())

    def asked(self) -> str | None:
        """The text of the user's last message."""
        last = self._last_user
        return None if last < 0 else "\n".join(m.text for m in self.groups[last].messages) or None

    def n_waiting(self, shown: Sequence[Message]) -> int:
        """Number of shown messages that wait for results, so that nothing may follow them."""
        if not (shown and self.groups and self.groups[-1].is_open):
            return 0
        form = self._form(len(self.groups) - 1, keeps=True)
        return len(form.group.messages) if form else 0

    def shown(self, room: int) -> Told:
        """Return the messages to show in `room` tokens, at least `least`."""
        if self.is_from_start:
            everything = [self._form(index, keeps=True) for index in range(len(self.groups))]
            note = self._cut_before([i for i, one in enumerate(everything) if one])
            if sum(one.tokens for one in everything if one) + note <= room:
                return self._told(dict(enumerate(everything)), 0)
        return self._told(*self._cut(room))

    # Selection

    def _cut(self, room: int) -> tuple[dict[int, _Shown | None], int]:
        """Return the groups from a cut on, or as many of the last as fit."""
        n = len(self.groups)
        sizes = [self._tokens(index) for index in range(n)]
        note = self.measure.message(CUT)
        start = first_shown(
            self.groups, self.indexes, sizes, [cut for cut in self.cuts if cut], room - note
        )
        musts = self._musts()
        if start is None or (musts and start > musts[0]):
            return self._recent(room), 0
        turns = [index for index in range(n) if self.groups[index].is_user_turn][-self.min_turns :]
        if self.min_turns and turns and turns[0] < start and sum(sizes[turns[0] :]) + note <= room:
            start = turns[0]
        self.cut = self.indexes[start]
        return {index: self._form(index, keeps=False) for index in range(start, n)}, start

    def _recent(self, room: int) -> dict[int, _Shown | None]:
        """Return the required groups, and as many of the last groups as fit."""
        musts = self._musts()
        chosen: dict[int, _Shown | None] = {i: self._form(i, keeps=False) for i in musts}
        left = room - sum(one.tokens for one in chosen.values() if one)
        left -= self.measure.message(CUT)
        for index in range(len(self.groups) - 1, -1, -1):
            if index in chosen:
                continue
            form = self._form(index, keeps=False)
            if form and form.tokens > left and (short := stubbed(form.group, self.measure)):
                form = _Shown(short, self.measure.messages(short.messages))
            if form and form.tokens > left:
                break
            chosen[index] = form
            left -= form.tokens if form else 0
            # A summary ends where a step does, so that the next windows can use it, too.
            self.cut = max((cut for cut in self.cuts if cut <= self.indexes[index]), default=0)
        return chosen

    def _musts(self) -> list[int]:
        """The indexes of the required groups: without a user's turn, the last one with content."""
        last = self._last_user
        if last < 0:
            saying = [i for i, one in enumerate(self.groups) if one.kind != "system"]
            last = next((i for i in reversed(saying) if self._form(i, keeps=False)), -1)
        found = [last] if last >= 0 else []
        if self.groups and self.groups[-1].is_open:
            found.append(len(self.groups) - 1)
        return list(dict.fromkeys(found))

    # Form

    def _form(self, index: int, *, keeps: bool) -> _Shown | None:
        """Return the group as the provider may receive it; None if nothing is left."""
        keeps = keeps or index > self._last_user or not _is_bound(self.groups[index])
        if (index, keeps) not in self._sizes:
            group = fitted(self.groups[index], self.dialect.provider, keeps=keeps)
            self._sizes[index, keeps] = (
                None if group is None else _Shown(group, self.measure.messages(group.messages))
            )
        return self._sizes[index, keeps]

    def _tokens(self, index: int) -> int:
        form = self._form(index, keeps=False)
        return form.tokens if form else 0

    def _cut_before(self, chosen: Sequence[int]) -> int:
        """The tokens of the note before groups that do not begin with a user."""
        first = next((self.groups[i] for i in chosen if self.groups[i].kind != "system"), None)
        return 0 if first is None or first.is_user_turn else self.measure.message(CUT)

    def _told(self, chosen: dict[int, _Shown | None], start: int) -> Told:
        """Return the messages of the chosen groups, and the outcome of every group."""
        messages: list[Message] = []
        outcomes: list[Outcome] = []
        there = sorted(index for index, one in chosen.items() if one is not None)
        if tokens := self._cut_before(there):
            messages.append(CUT)
            outcomes.append(self._outcome("frame", "begins_without_user", tokens))
        for index, group in enumerate(self.groups):
            form = chosen.get(index)
            if form is not None:
                messages += form.group.messages
                is_short = "result_stubbed" in form.group.notes
                verdict: Verdict = "stubbed" if is_short else "kept"
                notes = (*form.group.notes, *self._named(form.group))
                outcomes.append(self._outcome(verdict, "fits", form.tokens, group.ids, notes))
            elif index in chosen:
                outcomes.append(self._outcome("dropped", "other_provider", 0, group.ids))
            else:
                reason = "before_the_cut" if index < start else "over_budget"
                outcomes.append(self._outcome("dropped", reason, 0, group.ids))
        return Told(messages, [*outcomes, *self.rejected])

    def _named(self, group: Group) -> tuple[str, ...]:
        """The kinds of media in a group sent as text only, such as `image_named`."""
        named = (one for message in group.messages for one in self.dialect.named_only(message))
        return tuple(dict.fromkeys(f"{one.type}_named" for one in named))

    def _outcome(
        self,
        verdict: Verdict,
        reason: str,
        tokens: int,
        ids: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> Outcome:
        return Outcome(
            section=self.name, verdict=verdict, reason=reason, tokens=tokens, ids=ids, notes=notes
        )
