"""Facts by a model: asked once for a batch of turns, and believed only where a turn says so."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

from lance_context_core._util.checks import check_count, check_names
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.jobs.types import spend, tokens_of
from lance_context_core.knowledge import prompts
from lance_context_core.knowledge.chunks import Span
from lance_context_core.knowledge.evidence_text import fault_of
from lance_context_core.knowledge.prompts import ProfileSchema, wanted
from lance_context_core.knowledge.rules import is_heard
from lance_context_core.knowledge.types import Extraction, FactCandidate, SpokenTurn
from lance_context_core.models.answers import problem_of, read_answer
from lance_context_core.models.asking import (
    Completion,
    LanguageModel,
    ModelRequest,
    ask,
    check_asking,
)

TIMEOUT = 120.0
_CHARACTERS_A_TOKEN = 4
_LEAST_QUOTE = 3
"""Characters: what is shorter stands anywhere."""
_MOST_FACTS = 10
"""Of one turn: who states more of it repeats it."""
_GAP = r"[\s.,;:!?\"'\u2018\u2019\u201c\u201d-]+"


@frozen_by_name
class Asked:
    """What was had of a model, and what that took."""

    data: Mapping[str, Any]
    usage: Counter[str]
    faults: Counter[str]


async def asked(model: LanguageModel, request: ModelRequest, timeout: float) -> Asked:
    """The answer, whose lists may hold anything. Raises what the model raises, and ModelAnswerError."""
    spend(calls=1, tokens=tokens_of(_characters(request)))
    completion = await ask(model, request, timeout=timeout)
    assert request.schema is not None
    answer = read_answer(completion, prompts.loosely(request.schema))
    repairs = Counter(f"mended_{one}" for one in answer.repairs)
    return Asked(data=answer.data, usage=_usage(request, completion), faults=repairs)


@frozen
class Asking:
    """What asks a language model about one thing at a time; `timeout` is in seconds."""

    model: LanguageModel
    instructions: str = ""
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        check_asking(self.model, self.instructions, self.timeout)


@frozen
class ModelExtractor:
    """Finds facts with a language model, in the turns of people: one call for a batch of them.

    A fact is taken only if it names one of the turns and quotes words that stand there; what is not
    is refused, and counted by what is wrong with it. An answer of which nothing can be taken fails
    the job with the reason; a model that is away, or takes longer than `timeout` seconds, leaves it
    scheduled.

    - `instructions`: what else the model shall know, such as what matters.
    - `slots`: what a person has one of at a time; more than the usual ones, such as the fields of a
      profile.
    - `profile`: a schema, as `profile` of the knowledge takes it: its fields are slots too.
    - `batch_tokens`: so many tokens of turns, about, are one call.
    """

    model: LanguageModel
    instructions: str = ""
    slots: Sequence[str] = field(default=prompts.SLOTS)
    profile: ProfileSchema | None = None
    batch_tokens: int = 6_000
    max_output: int | None = None
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        check_asking(self.model, self.instructions, self.timeout)
        check_count(self.batch_tokens, "batch_tokens")
        fields = [] if self.profile is None else [one.slot for one in wanted(self.profile)]
        slots = dict.fromkeys([*check_names(self.slots, "slots"), *fields])
        object.__setattr__(self, "slots", tuple(slots))

    @property
    def name(self) -> str:
        """The prompt, the model, and whatever else its answers depend on."""
        about = "\n".join([self.instructions, *self.slots, str(self.batch_tokens)])
        digest = hashlib.sha256(about.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return f"{prompts.EXTRACT_NAME}+{self.model.name}+{digest}"

    async def extract(self, turns: Sequence[SpokenTurn]) -> Extraction:
        """The facts that the model finds and the turns prove."""
        found: list[FactCandidate] = []
        usage: Counter[str] = Counter()
        faults: Counter[str] = Counter()
        for batch in self._batches([one for one in turns if is_heard(one)]):
            request = prompts.extract(
                batch,
                slots=self.slots,
                instructions=self.instructions,
                max_output=self.max_output,
            )
            answer = await asked(self.model, request, self.timeout)
            usage.update(answer.usage)
            faults.update(answer.faults)
            found += _taken(answer.data["facts"], batch, faults)
        return Extraction(candidates=tuple(found), faults=dict(faults), usage=dict(usage))

    def _batches(self, turns: Sequence[SpokenTurn]) -> Iterator[list[SpokenTurn]]:
        room = self.batch_tokens * _CHARACTERS_A_TOKEN
        batch: list[SpokenTurn] = []
        for one in turns:
            if batch and sum(len(each.text) for each in batch) + len(one.text) > room:
                yield batch
                batch = []
            batch.append(one)
        if batch:
            yield batch


def _usage(request: ModelRequest, completion: Completion) -> Counter[str]:
    characters = _characters(request)
    about = {"calls": 1, "characters": characters, "tokens": tokens_of(characters)}
    return Counter({**about, **completion.usage})


def _characters(request: ModelRequest) -> int:
    return sum(len(one.text) for one in request.messages)


def _taken(
    given: Sequence[Any], turns: Sequence[SpokenTurn], faults: Counter[str]
) -> Iterator[FactCandidate]:
    """The facts of an answer that may be kept; what is wrong with the others is counted."""
    seen: set[tuple[Any, ...]] = set()
    per_turn: Counter[str] = Counter()
    for one in given:
        candidate = _candidate(one, turns)
        if isinstance(candidate, str):
            faults[candidate] += 1
            continue
        # What is said again is no other fact, however the model has spelt it.
        key = (candidate.source_id, candidate.text.casefold(), candidate.slot)
        if key in seen:
            faults["repeated"] += 1
        elif per_turn[candidate.source_id] == _MOST_FACTS:
            faults["too_many"] += 1
        else:
            seen.add(key)
            per_turn[candidate.source_id] += 1
            yield candidate


def _candidate(one: Any, turns: Sequence[SpokenTurn]) -> FactCandidate | str:
    """A fact that its turn proves; else what is wrong with it, in a word."""
    if problem_of(one, prompts.FACT) is not None:
        return "wrong_schema"
    if not 1 <= one["turn"] <= len(turns):
        return "unknown_turn"
    if (fault := fault_of(one["text"])) is not None:
        return fault
    turn = turns[int(one["turn"]) - 1]
    if (span := place_of(one["quote"], turn.text)) is None:
        return "not_said"
    slot, value = _slot_of(one)
    if (slot is None) != (value is None):
        return "slot_without_value" if value is None else "value_without_slot"
    moment = moment_of(one.get("valid_from"))
    if isinstance(moment, str):
        return moment
    return FactCandidate(
        text=one["text"].strip(),
        source_id=turn.id,
        start=span[0],
        end=span[1],
        kind=_word(one.get("kind")) or "statement",
        slot=slot,
        value=value,
        importance=min(max(float(one.get("importance") or 0.5), 0.0), 1.0),
        valid_from=moment,
    )


def place_of(quote: str, text: str) -> Span | None:
    """Where the words of a quote stand in a text, in this order; None if they do not.

    Case, white space and punctuation between the words may be others.
    """
    words = re.findall(r"[^\W_]+", quote)
    if len("".join(words)) < min(_LEAST_QUOTE, len(text.strip())) or not words:
        return None
    if (start := text.find(quote.strip())) >= 0 and _is_whole(text, start, quote.strip()):
        return start, start + len(quote.strip())
    match = re.search(rf"(?<!\w){_GAP.join(map(re.escape, words))}(?!\w)", text, re.IGNORECASE)
    return None if match is None else match.span()


def _is_whole(text: str, start: int, quote: str) -> bool:
    """Whether a quote begins and ends where words do; where there are no spaces, anywhere."""
    if not quote.isascii():
        return True
    before, after = text[:start][-1:], text[start + len(quote) :][:1]
    return not (before.isalnum() and quote[0].isalnum()) and not (
        after.isalnum() and quote[-1].isalnum()
    )


def _slot_of(one: Mapping[str, Any]) -> tuple[str | None, str | None]:
    slot, value = _word(one.get("slot")), one.get("value")
    text = "" if value is None else str(value).strip()
    return slot, text[:200] or None


def _word(given: str | None) -> str | None:
    """A name as it is compared: small, and words parted by a space."""
    return " ".join(re.findall(r"[^\W_]+", (given or "").casefold()))[:60] or None


def moment_of(given: str | None) -> datetime | str | None:
    """A date, in UTC; `no_date` if it is none."""
    if given is None or not given.strip():
        return None
    try:
        moment = datetime.fromisoformat(given.strip())
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return "no_date"
