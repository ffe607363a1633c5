"""What a store must hold, kept in plain dicts; it knows nothing of the store."""

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

SESSIONS = ("morning", "noon", "night")
VERBS = {
    "add": 30,
    "upsert": 12,
    "update": 8,
    "delete": 6,
    "fold": 6,
    "maintain": 10,
    "thin": 5,
    "tag": 4,
    "untag": 2,
    "fork": 5,
    "merge": 5,
    "drop": 3,
    "erase": 4,
}
"""What a worker does, and how often beside the rest."""

MAIN = "main"
_MAX_BRANCHES = 2
_MAX_TAGS = 2
_OFTEN = 20


class Turn(NamedTuple):
    """One record as a reader sees it."""

    session: str
    text: str
    number: int


Shown = dict[str, Turn]
"""The turns of one branch or tag by id, in the order in which they were added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that a worker does, decided before it is done."""

    verb: str
    branch: str = MAIN
    turns: Mapping[str, Turn] = field(default_factory=dict)
    """What is written, by id."""
    ids: tuple[str, ...] = ()
    """What is deleted or erased."""
    name: str = ""
    """The tag or branch that is made, merged or removed."""


@dataclass(slots=True)
class Model:
    """Everything that the store shows."""

    branches: dict[str, Shown] = field(default_factory=lambda: {MAIN: {}})
    bases: dict[str, set[str]] = field(default_factory=dict)
    """The ids that a branch had in common with main when it was made or last merged."""
    tags: dict[str, Shown] = field(default_factory=dict)
    n_steps: int = 0

    def after(self, step: Step) -> "Model":
        """The model once `step` is done; this one stays as it is."""
        model = deepcopy(self)
        getattr(model, f"_{step.verb}")(step)
        model.n_steps += 1
        return model

    def next_step(self, random: Random, *, often: Collection[str] = ()) -> Step:
        """Something that can be done now; the verbs of `often` come so many times as often."""
        weights = [weight * (_OFTEN if verb in often else 1) for verb, weight in VERBS.items()]
        while True:
            (verb,) = random.choices(list(VERBS), weights=weights)
            if (step := self._possible(verb, random)) is not None:
                return step

    def _possible(self, verb: str, random: Random) -> Step | None:
        branch = random.choice(list(self.branches))
        known = list(self.branches[branch])
        others = [name for name in self.branches if name != MAIN]
        name = f"{verb}-{self.n_steps}"
        match verb:
            case "add":
                return Step(verb=verb, branch=branch, turns=self._turns(random, []))
            case "upsert" if known and branch == MAIN:
                changed = random.sample(known, min(len(known), random.randint(1, 4)))
                return Step(verb=verb, turns=self._turns(random, changed))
            case "update" if known and branch == MAIN:
                one = random.choice(known)
                turn = self.branches[branch][one]._replace(number=self.n_steps)
                return Step(verb=verb, turns={one: turn})
            case "delete" if known and branch == MAIN:
                return Step(verb=verb, ids=(random.choice(known),))
            case "erase" if known and branch == MAIN:
                ids = random.sample(known, min(len(known), random.randint(1, 5)))
                return Step(verb=verb, ids=tuple(ids))
            case "tag" if len(self.tags) < _MAX_TAGS and self.branches[MAIN]:
                return Step(verb=verb, name=name)
            case "fork" if len(others) < _MAX_BRANCHES and self.branches[MAIN]:
                return Step(verb=verb, name=name)
            case "untag" if self.tags:
                return Step(verb=verb, name=random.choice(list(self.tags)))
            case "merge" | "drop" if others:
                return Step(verb=verb, name=random.choice(others))
            case "fold" | "maintain" | "thin":
                return Step(verb=verb, branch=MAIN)
        return None

    def _turns(self, random: Random, changed: list[str]) -> dict[str, Turn]:
        """New turns of one session, between those that are to be changed."""
        session = random.choice(SESSIONS)
        new = [f"{self.n_steps}-{n}" for n in range(random.choice((1, 1, 2, 5, 20)))]
        turns = {one: Turn(session, f"turn {one}", self.n_steps) for one in new}
        old = {
            one: self.branches[MAIN][one]._replace(text=f"again {self.n_steps}") for one in changed
        }
        return old | turns

    # What each verb does

    def _add(self, step: Step) -> None:
        self.branches[step.branch] |= step.turns

    def _upsert(self, step: Step) -> None:
        self.branches[step.branch] |= step.turns

    def _update(self, step: Step) -> None:
        self.branches[step.branch] |= step.turns

    def _delete(self, step: Step) -> None:
        for one in step.ids:
            del self.branches[step.branch][one]

    def _erase(self, step: Step) -> None:
        for one in step.ids:
            for shown in (*self.branches.values(), *self.tags.values()):
                shown.pop(one, None)

    def _tag(self, step: Step) -> None:
        self.tags[step.name] = dict(self.branches[MAIN])

    def _untag(self, step: Step) -> None:
        del self.tags[step.name]

    def _fork(self, step: Step) -> None:
        self.branches[step.name] = dict(self.branches[MAIN])
        self.bases[step.name] = set(self.branches[MAIN])

    def _merge(self, step: Step) -> None:
        branch, base = self.branches[step.name], self.bases[step.name]
        # Branches only grow, so that what a merge brings is what the branch has gained.
        self.branches[MAIN] |= {one: turn for one, turn in branch.items() if one not in base}
        self.bases[step.name] = set(branch)

    def _drop(self, step: Step) -> None:
        del self.branches[step.name], self.bases[step.name]

    def _fold(self, step: Step) -> None:
        pass

    def _maintain(self, step: Step) -> None:
        pass

    def _thin(self, step: Step) -> None:
        pass
