"""What a model says of new facts beside those that are near to them; the code checks it and does it.

The model is asked once for a neighbourhood: the new facts that are near to some of the same known
ones. It only names an operation: nothing is deleted, what is superseded stays with its evidence,
and what came first in time never takes the place of what came later.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, get_args

from lance_context_core._util.frozen import frozen
from lance_context_core.knowledge import kept, prompts
from lance_context_core.knowledge.consolidating import Known
from lance_context_core.knowledge.extracting import Asking, asked
from lance_context_core.knowledge.sentences import fault_of
from lance_context_core.knowledge.values import Consolidation, Decision, Op
from lance_context_core.models import problem_of
from lance_context_core.types import ContextRecord

_MENDED = {"delete": "supersede"}
"""A model may not delete: what is true no more is superseded."""
_TARGETED = ("update", "supersede", "merge")


@frozen
class ModelConsolidator(Asking):
    """Lets a language model say what becomes of facts without a slot: one call a neighbourhood.

    Facts with a slot need none: their dates decide. `instructions` are added to the prompt; `timeout`
    is in seconds.
    """

    @property
    def name(self) -> str:
        """The prompt and the model."""
        return f"{prompts.DECIDE_NAME}+{self.model.name}"

    async def decide(
        self, new: Sequence[ContextRecord], known: Sequence[ContextRecord]
    ) -> Consolidation:
        """What becomes of each of the new facts; those of which nothing can be used are added."""
        request = prompts.consolidate(
            [*map(_shown, new)], [*map(_shown, known)], instructions=self.instructions
        )
        answer = await asked(self.model, request, self.timeout)
        faults = answer.faults
        decided: list[Decision] = []
        for one in answer.data["decisions"]:
            decision = _decision(one, new, known, faults)
            if isinstance(decision, str):
                faults[decision] += 1
            else:
                decided.append(decision)
        return Consolidation(decisions=decided, faults=dict(faults), usage=dict(answer.usage))


def checked(
    answer: Consolidation, new_ids: Collection[str], known_ids: Collection[str]
) -> Consolidation:
    """What a consolidator decided of what it was given, each once; the rest is counted by its name.

    Several new facts may be merged into one known fact; else what was touched is not touched again.
    """
    faults = Counter(answer.faults)
    decided: dict[str, Decision] = {}
    touched: dict[str, Op] = {}
    for one in answer.decisions:
        if one.op not in get_args(Op):
            faults["wrong_schema"] += 1
        elif one.new_id not in new_ids or (one.op in _TARGETED and one.target_id not in known_ids):
            faults["unknown_fact"] += 1
        elif one.new_id in decided or _is_taken(one, touched):
            faults["decided_twice"] += 1
        else:
            decided[one.new_id] = one
            touched |= {one.target_id: one.op} if one.target_id else {}
    return replace(answer, decisions=tuple(decided.values()), faults=dict(faults))


def _is_taken(one: Decision, touched: Mapping[str, Op]) -> bool:
    before = touched.get(one.target_id or "")
    return before is not None and not before == one.op == "merge"


@frozen
class Decided:
    """What was decided of the new facts of a job, by their ids."""

    decisions: Mapping[str, Decision] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    usage: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, found: Iterable[Consolidation]) -> "Decided":
        """All that was decided, neighbourhood by neighbourhood."""
        decisions: dict[str, Decision] = {}
        faults: Counter[str] = Counter()
        usage: Counter[str] = Counter()
        for one in found:
            decisions |= {each.new_id: each for each in one.decisions}
            faults.update(one.faults)
            usage.update(one.usage)
        return cls(decisions, faults, usage)

    def targets(self) -> list[str]:
        """The known facts that are meant."""
        return sorted({one.target_id for one in self.decisions.values() if one.target_id})

    def apply(self, known: Known, new: ContextRecord) -> None:
        """Do with a new fact what was decided; where that cannot be any more, what its date says."""
        decision = self.decisions.get(new.id)
        if decision is None or new.id in known.facts or decision.op == "add":
            known.consider(new)
        elif decision.op == "noop":
            known.decisions["noop"] += 1
        elif decision.op == "merge":
            known.merge_into(decision.target_id or "", new)
        else:
            said = new if decision.text is None else _saying(new, decision.text)
            known.put_in_place_of(decision.target_id or "", said)


def neighbourhoods(
    near: Mapping[str, Sequence[str]],
) -> list[tuple[list[str], list[str]]]:
    """New facts that share known ones near to them, with all these; those with none are left out."""
    groups: list[tuple[list[str], list[str]]] = []
    for new, known in near.items():
        if not known:
            continue
        mine = ([new], list(known))
        for group in [one for one in groups if {*one[1]} & {*known}]:
            groups.remove(group)
            mine = ([*group[0], *mine[0]], list(dict.fromkeys([*group[1], *mine[1]])))
        groups.append(mine)
    return groups


def _saying(one: ContextRecord, text: str) -> ContextRecord:
    return kept.with_fact(replace(one, text=text), words=kept.normalised(text))


def _shown(one: ContextRecord) -> dict[str, Any]:
    return {"fact": one.text or "", "since": kept.about(one)["valid_from"][:10]}


def _decision(
    one: Any,
    new: Sequence[ContextRecord],
    known: Sequence[ContextRecord],
    faults: Counter[str],
) -> Decision | str:
    """A decision that can be done; else what is wrong with it, in a word."""
    if problem_of(one, prompts.DECIDE) is not None:
        return "wrong_schema"
    op = one["op"]
    if not 1 <= one["new"] <= len(new):
        return "unknown_fact"
    if op in _MENDED:
        faults[f"mended_{op}"] += 1
        op = _MENDED[op]
    number = one.get("known")
    if op in _TARGETED and not (number is not None and 1 <= number <= len(known)):
        return "unknown_fact"
    text = one.get("text")
    if op == "update" and (fault := fault_of(text)) is not None:
        return fault
    return Decision(
        new_id=new[int(one["new"]) - 1].id,
        op=op,
        target_id=known[int(number) - 1].id if op in _TARGETED else None,
        text=text.strip() if op == "update" else None,
        reason=(one.get("reason") or "")[:200],
    )
