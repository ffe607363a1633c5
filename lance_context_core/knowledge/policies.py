"""Consolidation: a model decides on new facts; the code checks and applies the decision.

The model is called once per neighbourhood: the new facts that are near to some of the same known
ones. It only names an operation: nothing is deleted, superseded facts stay with their evidence, and
an earlier fact never replaces a later one.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, get_args

import numpy as np

from lance_context_core._util.calls import called
from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen
from lance_context_core.embedders import AnyEmbedder
from lance_context_core.embedders._adapt import as_embedder
from lance_context_core.errors import InvalidRequestError
from lance_context_core.knowledge import params, prompts
from lance_context_core.knowledge.evidence_text import fault_of
from lance_context_core.knowledge.extracting import Asking, asked
from lance_context_core.knowledge.types import Consolidation, Decision, Op
from lance_context_core.models.answers import problem_of
from lance_context_core.types import ContextRecord

_MENDED = {"delete": "supersede"}
"""A model may not delete: an outdated fact is superseded."""
_TARGETED = ("update", "supersede", "merge")


@frozen
class ModelConsolidator(Asking):
    """Decides on facts without a slot with a language model: one call per neighbourhood.

    Facts with a slot need no model: their dates decide. `instructions` are added to the prompt;
    `timeout` is in seconds.
    """

    @property
    def name(self) -> str:
        """The prompt and the model."""
        return f"{prompts.DECIDE_NAME}+{self.model.name}"

    async def decide(
        self, new: Sequence[ContextRecord], known: Sequence[ContextRecord]
    ) -> Consolidation:
        """Return a decision for each new fact; those without a usable one are added."""
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
    """Return the valid decisions, one per new fact; counts the others by fault.

    Several new facts may be merged into one known fact; otherwise a known fact is changed only
    once.
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
    """The decisions on the new facts of a job, by their ids."""

    decisions: Mapping[str, Decision] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    usage: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, found: Iterable[Consolidation]) -> "Decided":
        """Combine the decisions of all neighbourhoods."""
        decisions: dict[str, Decision] = {}
        faults: Counter[str] = Counter()
        usage: Counter[str] = Counter()
        for one in found:
            decisions |= {each.new_id: each for each in one.decisions}
            faults.update(one.faults)
            usage.update(one.usage)
        return cls(decisions, faults, usage)

    def applied(self, new: ContextRecord) -> ContextRecord | None:
        """Apply the decision on a new fact and link its target; None if dropped."""
        decision = self.decisions.get(new.id)
        if decision is None or decision.op == "add":
            return new
        if decision.op == "noop":
            return None
        said = new if decision.text is None else _saying(new, decision.text)
        link = {"op": "merge" if decision.op == "merge" else "after", "to": decision.target_id}
        return params.with_fact(params.with_observed(said, link=link), is_joined=True)


def neighbourhoods(
    near: Mapping[str, Sequence[str]],
) -> list[tuple[list[str], list[str]]]:
    """Group new facts by shared neighbours, with these; those without any are left out."""
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
    return params.with_fact(replace(one, text=text), words=params.normalised(text))


def _shown(one: ContextRecord) -> dict[str, Any]:
    return {"fact": one.text or "", "since": params.about(one)["valid_from"][:10]}


def _decision(
    one: Any,
    new: Sequence[ContextRecord],
    known: Sequence[ContextRecord],
    faults: Counter[str],
) -> Decision | str:
    """Return a valid decision, or else the name of its fault."""
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


# Merging of nearly equal facts without a model: by near vectors, and equal words that change the
# meaning.

NEARLY_THE_SAME = 0.93
"""A cosine of the `local` embedder.

Of sentences that agree in the words below, 8 of 14 that say the same are above it, and none of 22
that differ (the nearest is at 0.91).
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NOT = _words("no not never none nobody nothing nowhere neither nor without hardly cannot")
_HOW_MANY = _words(
    "one two three four five six seven eight nine ten eleven twelve twenty hundred thousand once "
    "twice half first second third all some most few many more less only both"
)
_ROUND = _words(
    "out off away from up down in on before after since until ago next last left right under over "
    "used will can could may might must should if but except stop stopped quit start started "
    "unlike instead former"
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_CURLY = "\N{RIGHT SINGLE QUOTATION MARK}"


@frozen
class SimilarConsolidator:
    """Merges facts that say nearly the same; calls no language model.

    A new fact without a slot is merged into the nearest known one of the same subject whose cosine
    is `threshold` or more, and which has the same numbers, names, negations and words such as `out`
    or `before`: that one then has the evidence of both, and an undo of the job removes its part.
    All other facts are added. The words are English; in other languages only numbers and names
    count.

    - `embedder`: computes the vectors; as in `ContextStore.open`.
    - `threshold`: in (0, 1]; the default was measured with `"local"`, and other models need their
      own.

    Raises InvalidRequestError for an invalid threshold or embedder.
    """

    embedder: Any = "local"
    threshold: float = NEARLY_THE_SAME
    _embedder: AnyEmbedder = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        is_number = isinstance(self.threshold, int | float) and not isinstance(self.threshold, bool)
        if not is_number or not 0 < self.threshold <= 1:
            raise InvalidRequestError(
                f"threshold={shown(self.threshold)}: give a cosine above 0, at most 1"
            )
        object.__setattr__(self, "_embedder", as_embedder(self.embedder))

    @property
    def name(self) -> str:
        """The rules, the embedder and the threshold."""
        return f"similar/1+{self._embedder.model}+{self.threshold:g}"

    async def decide(
        self, new: Sequence[ContextRecord], known: Sequence[ContextRecord]
    ) -> Consolidation:
        """Merge each new fact that says nearly the same as a known one."""
        texts = [one.text or "" for one in (*new, *known)]
        one = self._embedder
        embed = one.aembed_documents if hasattr(one, "aembed_documents") else one.embed_documents
        vectors = _directions(await called(embed, texts))
        cosines = vectors[: len(new)] @ vectors[len(new) :].T
        decided = []
        for fact, row in zip(new, cosines, strict=True):
            for n in np.argsort(-row, kind="stable"):
                if row[n] < self.threshold:
                    break
                if agree(fact.text or "", known[n].text or ""):
                    reason = f"cosine {row[n]:.2f}"
                    decided.append(
                        Decision(new_id=fact.id, op="merge", target_id=known[n].id, reason=reason)
                    )
                    break
        return Consolidation(decisions=decided)


def agree(one: str, other: str) -> bool:
    """Whether two sentences have the same numbers, names, negations and other deciding words."""
    first, second = (_WORD.findall(text.replace(_CURLY, "'")) for text in (one, other))
    return _telling(first, second) == _telling(second, first)


def _telling(words: Sequence[str], others: Sequence[str]) -> Counter[str]:
    """Count the words of a sentence that the other one must contain too."""
    plain = {word for word in others if word.islower()}
    found: Counter[str] = Counter()
    for place, word in enumerate(words):
        small = word.casefold()
        if small in _NOT or small.endswith("n't"):
            found["not"] += 1
        elif any(letter.isdigit() for letter in small) or small in _HOW_MANY or small in _ROUND:
            found[small] += 1
        elif word[0].isupper() and small.split("'")[0] != "i":
            # The first word of a sentence is capitalised anyway: a name unless the other has it in
            # lower case.
            is_name = small not in plain and (place > 0 or small not in _BEGINNINGS)
            found[small] += is_name
    return +found


_BEGINNINGS = _words(
    "a an and at every he her his it it's my our she so the their there they this we we're we've "
    "well yes you your"
)


def _directions(vectors: Any) -> np.ndarray:
    """Scale vectors to length 1; zero vectors stay zero, and are near to nothing."""
    given = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(given, axis=1, keepdims=True)
    directions: np.ndarray = given / np.where(lengths > 0, lengths, 1)
    return directions
