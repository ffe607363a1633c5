"""Rule-based fact extraction: statements of people about themselves in English. Needs no model."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from lance_context_core._util.checks import check_name, dumps, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError
from lance_context_core.knowledge.languages import language_of
from lance_context_core.knowledge.types import Extraction, FactCandidate, SpokenTurn

if TYPE_CHECKING:
    from lance_context_core.knowledge.rule_patterns import Rule

_ECHOES = ("recalled_ids", "recalled")
"""Metadata keys of a turn that repeats recalled text."""
_MINE = "en"
"""The language of the rules."""


@frozen
class RuleExtractor:
    """Extracts people's statements about themselves, such as names, places, work and preferences.

    Reads only statements in the first person (plans and dates too), and only of people: not of the
    system, of tools, or of an assistant without a name of its own; nor text recalled from the
    memory. The text of a fact is the sentence itself.

    - `fields`: your own rules, such as for a profile: a slot name and a regular expression whose
      group `value` is the value. They precede the others.
    """

    name: str = "rules/2"
    fields: Mapping[str, str] = field(default_factory=dict)
    _own: "tuple[Rule, ...]" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rules = tuple((_slot_name(one), 0.8, _own_rule(one, of)) for one, of in self.fields.items())
        object.__setattr__(self, "_own", rules)
        if self.fields and self.name == "rules/2":
            digest = hashlib.sha256(dumps(dict(self.fields)).encode()).hexdigest()[:8]
            object.__setattr__(self, "name", f"{self.name}+{digest}")

    def extract(self, turns: Sequence[SpokenTurn]) -> Extraction:
        """Return the facts of these turns, in order; `language` counts unreadable turns."""
        # Compiling its expressions takes longer than most programs take to start.
        from lance_context_core.knowledge.rule_patterns import of_turn

        found: list[FactCandidate] = []
        n_unread = 0
        for turn in turns:
            if is_heard(turn):
                mine = of_turn(turn, self._own)
                found += mine
                n_unread += not mine and language_of(turn.text) not in (None, _MINE)
        return Extraction(candidates=found, faults={"language": n_unread} if n_unread else {})


@frozen
class NoteExtractor:
    """Returns each turn as one fact, for agents that write notes."""

    importance: float = 0.7
    name: str = "notes/1"

    def extract(self, turns: Sequence[SpokenTurn]) -> list[FactCandidate]:
        """Return a fact for each turn: all of its text."""
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
    """Whether a turn is a person's, and does not repeat recalled text."""
    is_person = turn.role == "user" or (turn.role == "assistant" and turn.name is not None)
    return is_person and not is_echo(turn)


def is_echo(turn: SpokenTurn) -> bool:
    """Whether a turn repeats recalled text."""
    return any(turn.metadata.get(key) for key in _ECHOES)
