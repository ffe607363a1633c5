"""Facts by rules: what people say of themselves in English, word for word. No model is needed."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from lance_context_core._util.checks import check_name, dumps, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError
from lance_context_core.knowledge.chunks import Span, sentences
from lance_context_core.knowledge.evidence_text import is_order
from lance_context_core.knowledge.types import FactCandidate, SpokenTurn

Rule = tuple[str, float, re.Pattern[str]]
"""A slot, how much it matters, and what says its value."""

_I_AM = r"\bI(?:'m| am)"
_I_HAVE = r"\bI(?:'ve| have)?"
_SOMETHING = r"(?P<value>[^,.;!?\n]{1,80}?)"
_PLACE = r"(?P<value>(?:the )?[A-Z][\w'-]*(?:[ -](?:of |the |de |la )?[A-Z][\w'-]*){0,3})"
_NAME = r"(?P<value>[A-Z][\w'-]*(?: [A-Z][\w'-]*){0,2})"
_UNTIL = r"(?= (?:and|but|because|since|so|when|which|who|now|these days|with|for|in|as|after)\b|[,.;!?\n]|$)"


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


_SLOTS: Sequence[tuple[str, float, re.Pattern[str]]] = (
    ("residence", 0.9, _rule(rf"\b(?:I|We|we)(?:'ve| have)?(?: just| recently| finally)? moved (?:from [^,.;!?]+? )?(?:back )?to {_PLACE}")),
    ("residence", 0.9, _rule(rf"\b(?:I|We|we)(?: now| currently)? live in {_PLACE}")),
    ("residence", 0.9, _rule(rf"{_I_AM} (?:now )?(?:living|based) in {_PLACE}")),
    ("name", 0.9, _rule(rf"\b[Mm]y name(?:'s| is) {_NAME}")),
    ("employer", 0.8, _rule(rf"\bI(?: now| currently)? work (?:at|for) {_NAME}")),
    ("employer", 0.8, _rule(rf"{_I_HAVE} (?:just )?(?:joined|started (?:working )?at) {_NAME}")),
    ("occupation", 0.8, _rule(rf"\bI(?: now| currently)? work as an? {_SOMETHING}{_UNTIL}")),
    ("birthday", 0.8, _rule(rf"\b[Mm]y birthday(?:'s| is)(?: on)? {_SOMETHING}{_UNTIL}")),
    ("birthplace", 0.8, _rule(rf"\bI was born in {_PLACE}")),
)  # fmt: skip
"""Those of which a person has one at a time; a later one takes the place of the earlier one."""

_NAMED_SLOTS: Sequence[tuple[float, re.Pattern[str]]] = (
    (0.7, _rule(rf"\b[Mm]y favou?rite (?P<slot>[a-z]+(?: [a-z]+)?)(?:'s| is) {_SOMETHING}{_UNTIL}")),
    (0.8, _rule(rf"\b[Mm]y (?P<slot>wife|husband|partner|son|daughter|sister|brother|mother|mom|father|dad|dog|cat|boss|manager)(?:'s| is) (?:called |named )?{_NAME}")),
)  # fmt: skip

_KINDS: Sequence[tuple[str, float, re.Pattern[str]]] = (
    ("need", 0.9, _rule(rf"{_I_AM} (?:allergic to|a vegan|vegan|a vegetarian|vegetarian|diabetic)\b")),
    ("preference", 0.7, _rule(r"\bI(?: really| absolutely| just)? (?:like|love|enjoy|prefer|hate|dislike)\b")),
    ("preference", 0.7, _rule(r"\bI (?:can't stand|don't like|do not like)\b")),
    ("decision", 0.7, _rule(r"\b(?:I|[Ww]e)(?:'ve| have)? decided\b")),
    ("plan", 0.6, _rule(rf"(?:{_I_AM} (?:going to|planning)|\bI(?:'ll| will| plan to| want to)\b)")),
    ("possession", 0.6, _rule(r"\bI(?:'ve got got| have| own)(?: an?| two| three| some)? [a-z]+")),
    ("identity", 0.6, _rule(rf"{_I_AM} an? [a-z]+")),
)  # fmt: skip
"""What says that a sentence is of a kind, and how much that matters; the first that does counts."""

_FIRST_PERSON = re.compile(r"\b(?:I|[Mm]y|[Ww]e|[Oo]ur|[Mm]e)\b")
_SAYS_WHEN = re.compile(
    r"\b(?:yesterday|today|tomorrow|last|next|ago|\d{4}|\d{1,2}(?:st|nd|rd|th)"
    r"|Mon|Tues|Wednes|Thurs|Fri|Satur|Sun|January|February|March|April|May|June|July|August"
    r"|September|October|November|December)(?:day)?\b"
)
_SAYS_WHO_OR_HOW_MANY = re.compile(r"(?<!^)(?<![.!?] )\b(?!I\b)[A-Z][a-z]+|\d")
_IS_NO_STATEMENT = re.compile(r"^(?:[Ii]f|[Ww]ould|[Ss]hould|[Ii]magine|[Ss]uppose)\b")
_DENIES = re.compile(r"\b(?:not|never|no longer|don't|didn't|won't|isn't|haven't)\b")
_MOST_CHARACTERS = 400
"""Of a sentence: what is longer is hardly one."""
_CURLY = "\N{RIGHT SINGLE QUOTATION MARK}"
"""Read as the straight one, which is as long."""
_ECHOES = ("recalled_ids", "recalled")
"""Keys in the metadata of a turn that repeats what was recalled."""


@frozen
class RuleExtractor:
    """Finds what the speakers say of themselves: names, places, work, preferences, plans, dates.

    Only statements in the first person, and only of people: not of the system, of tools, or of an
    assistant without a name of its own; nor what was recalled from the memory before. The text of a
    fact is the sentence itself.

    - `fields`: rules of your own, such as for a profile: by the name of a slot a regular expression
      whose group `value` is what it is. They come before the others.
    """

    name: str = "rules/1"
    fields: Mapping[str, str] = field(default_factory=dict)
    _own: tuple[Rule, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rules = tuple((_slot_name(one), 0.8, _own_rule(one, of)) for one, of in self.fields.items())
        object.__setattr__(self, "_own", rules)
        if self.fields and self.name == "rules/1":
            digest = hashlib.sha256(dumps(dict(self.fields)).encode()).hexdigest()[:8]
            object.__setattr__(self, "name", f"{self.name}+{digest}")

    def extract(self, turns: Sequence[SpokenTurn]) -> list[FactCandidate]:
        """The facts that these turns state, in their order."""
        return [one for turn in turns if is_heard(turn) for one in _of_turn(turn, self._own)]


@frozen
class NoteExtractor:
    """Takes each turn for one fact, such as where an agent notes what it wants to remember."""

    importance: float = 0.7
    name: str = "notes/1"

    def extract(self, turns: Sequence[SpokenTurn]) -> list[FactCandidate]:
        """A fact for each turn: all of its text."""
        return [
            FactCandidate(
                text=one.text,
                source_id=one.id,
                start=0,
                end=len(one.text),
                kind="note",
                importance=self.importance,
            )
            for one in turns
        ]


def _slot_name(name: str) -> str:
    return " ".join(check_name(name, "fields").casefold().replace("_", " ").split())


def _own_rule(name: str, pattern: str) -> re.Pattern[str]:
    try:
        rule = re.compile(pattern)
    except re.error as error:
        raise InvalidRequestError(f"fields[{name!r}] is {shown(pattern)}: {error}") from error
    if "value" not in rule.groupindex:
        raise InvalidRequestError(
            f"fields[{name!r}] is {shown(pattern)}: it needs a group (?P<value>…)"
        )
    return rule


def is_heard(turn: SpokenTurn) -> bool:
    """Whether a turn is a person's, and no echo of what was recalled."""
    is_person = turn.role == "user" or (turn.role == "assistant" and turn.name is not None)
    return is_person and not is_echo(turn)


def is_echo(turn: SpokenTurn) -> bool:
    """Whether a turn repeats what was recalled."""
    return any(turn.metadata.get(key) for key in _ECHOES)


def _of_turn(turn: SpokenTurn, own: Sequence[Rule]) -> Iterator[FactCandidate]:
    text = turn.text.replace(_CURLY, "'")
    for start, end in sentences(text):
        sentence = text[start:end]
        if (
            end - start > _MOST_CHARACTERS
            or sentence.endswith("?")
            or not (_FIRST_PERSON.search(sentence) or _is_of(sentence, own))
            or _IS_NO_STATEMENT.match(sentence)
            or is_order(sentence)
        ):
            continue
        yield from _of_sentence(turn, sentence, (start, end), own)


def _is_of(sentence: str, rules: Sequence[Rule]) -> bool:
    return any(pattern.search(sentence) for _, _, pattern in rules)


def _of_sentence(
    turn: SpokenTurn, sentence: str, span: Span, own: Sequence[Rule]
) -> Iterator[FactCandidate]:
    def candidate(kind: str, importance: float, **slot: Any) -> FactCandidate:
        return FactCandidate(
            text=turn.text[span[0] : span[1]],
            source_id=turn.id,
            start=span[0],
            end=span[1],
            kind=kind,
            importance=importance,
            **slot,
        )

    slots = {} if _DENIES.search(sentence) else _slots(sentence, own)
    for slot, (importance, value) in slots.items():
        yield candidate("attribute", importance, slot=slot, value=value)
    if slots:
        return
    for kind, importance, pattern in _KINDS:
        if pattern.search(sentence):
            yield candidate(kind, importance)
            return
    if _SAYS_WHEN.search(sentence) or _SAYS_WHO_OR_HOW_MANY.search(sentence):
        yield candidate("statement", 0.4)


def _slots(sentence: str, own: Sequence[Rule]) -> dict[str, tuple[float, str]]:
    found: dict[str, tuple[float, str]] = {}
    for slot, importance, pattern in (*own, *_SLOTS):
        if match := pattern.search(sentence):
            found.setdefault(slot, (importance, match["value"].strip()))
    for importance, pattern in _NAMED_SLOTS:
        if match := pattern.search(sentence):
            slot = match["slot"]
            slot = f"favourite {slot}" if "avo" in match[0].split(slot)[0] else slot
            found.setdefault(slot, (importance, match["value"].strip()))
    return found
