"""Fact extraction by a model: one call per batch; each fact must quote a turn."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Any

from lance_context_core._util.checks import check_count, check_names, dumps
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.errors import ModelAnswerError
from lance_context_core.jobs.types import note_usage, spend, tokens_of
from lance_context_core.knowledge import prompts
from lance_context_core.knowledge.chunks import Span, sentences
from lance_context_core.knowledge.evidence_text import fault_of
from lance_context_core.knowledge.languages import language_of
from lance_context_core.knowledge.prompts import ProfileSchema, wanted
from lance_context_core.knowledge.rules import is_echo, is_heard
from lance_context_core.knowledge.types import (
    Extraction,
    FactCandidate,
    Polarity,
    SpokenTurn,
    Surroundings,
)
from lance_context_core.models.answers import as_numbers, problem_of, read_answer
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
"""In characters: a shorter quote occurs in any text."""
_MOST_FACTS = 10
"""Per turn: more facts from one turn are repetitions."""
_GAP = r"[\s.,;:!?\"'\u2018\u2019\u201c\u201d-]+"


@frozen_by_name
class Asked:
    """The answer of a model and its usage."""

    data: Mapping[str, Any]
    usage: Counter[str]
    faults: Counter[str]


async def asked(model: LanguageModel, request: ModelRequest, timeout: float) -> Asked:
    """Return the answer, whose lists may hold anything; an unusable answer is requested once more.

    Raises the errors of the model, and ModelAnswerError if the second answer is unusable too.
    """
    assert request.schema is not None
    schema = prompts.loosely(request.schema)
    usage: Counter[str] = Counter()
    completion = await _completion(model, request, timeout, usage)
    mended: Counter[str] = Counter()
    try:
        answer = read_answer(completion, schema)
    except ModelAnswerError as error:
        more = prompts.again(request, _text_of(completion), str(error))
        answer = read_answer(await _completion(model, more, timeout, usage), schema)
        mended[ASKED_AGAIN] = 1
    mended.update(f"mended_{one}" for one in answer.repairs)
    return Asked(data=answer.data, usage=usage, faults=mended)


ASKED_AGAIN = "mended_asked_again"
"""The first answer was unusable, the second one was usable."""


async def _completion(
    model: LanguageModel, request: ModelRequest, timeout: float, usage: Counter[str]
) -> Completion:
    """Call a model and return its answer.

    Adds its usage to `usage` and to that of the job.
    """
    characters = sum(len(one.text) for one in request.messages)
    more = Counter(calls=1, characters=characters, tokens=tokens_of(characters))
    spend(calls=1, tokens=more["tokens"])
    try:
        completion = await ask(model, request, timeout=timeout)
        # The model's own counts are more exact.
        more = Counter({**more, **completion.usage})
    finally:
        usage.update(more)
        note_usage(more)
    return completion


def _text_of(completion: Completion) -> str:
    return completion.text if completion.data is None else dumps(completion.data)


@frozen
class Asking:
    """Base of the classes that ask a language model; `timeout` is in seconds."""

    model: LanguageModel
    instructions: str = ""
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        check_asking(self.model, self.instructions, self.timeout)


@frozen
class ModelExtractor:
    """Extracts facts from people's turns with a language model: one call per batch.

    With the turns the model receives the messages before them, the assistant's too, with speakers
    and dates, and the known facts that are near. A fact is accepted only if it names one of the
    turns and quotes words that it contains; others are rejected and counted by fault. An unusable
    answer is requested once more, with the reason. If that answer is unusable too, or the model is
    unavailable or takes longer than `timeout` seconds, the batch is retried later, and the other
    batches are stored.

    - `model`: a `LanguageModel`, or a function of a prompt.
    - `instructions`: additions to the prompt, such as which facts matter.
    - `slots`: more slots than the usual ones, such as the fields of a profile; a person has one
      value of each at a time.
    - `profile`: a schema, as `profile` of the knowledge accepts it: its fields are slots too.
    - `batch_tokens`: approximate number of tokens of turns per call.
    - `context_turns`: number of turns before a batch that are shown with it.
    """

    model: LanguageModel
    instructions: str = ""
    slots: Sequence[str] = field(default=prompts.SLOTS)
    profile: ProfileSchema | None = None
    batch_tokens: int = 6_000
    max_output: int | None = None
    timeout: float = TIMEOUT
    context_turns: int = 6

    def __post_init__(self) -> None:
        check_asking(self.model, self.instructions, self.timeout)
        check_count(self.batch_tokens, "batch_tokens")
        check_count(self.context_turns, "context_turns", least=0)
        fields = [] if self.profile is None else [one.slot for one in wanted(self.profile)]
        slots = dict.fromkeys([*check_names(self.slots, "slots"), *fields])
        object.__setattr__(self, "slots", tuple(slots))

    @property
    def name(self) -> str:
        """The prompt, the model, and all other parameters that its answers depend on."""
        about = [self.instructions, *self.slots, str(self.batch_tokens), str(self.context_turns)]
        text = "\n".join(about)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return f"{prompts.EXTRACT_NAME}+{self.model.name}+{digest}"

    async def extract(self, turns: Sequence[SpokenTurn]) -> Extraction:
        """Return the facts that the model finds and the turns prove, without surroundings."""
        found: list[FactCandidate] = []
        usage: Counter[str] = Counter()
        faults: Counter[str] = Counter()
        before: list[SpokenTurn] = []
        for batch in self.batches(turns):
            one = await self.extract_within(batch, Surroundings(before=before))
            found += one.candidates
            usage.update(one.usage)
            faults.update(one.faults)
            before = [*before, *batch]
        return Extraction(candidates=tuple(found), faults=dict(faults), usage=dict(usage))

    async def extract_within(self, turns: Sequence[SpokenTurn], around: Surroundings) -> Extraction:
        """Return the facts that the model finds in one batch and its turns prove."""
        if not (heard := [one for one in turns if is_heard(one)]):
            return Extraction()
        before = [one for one in around.before if not is_echo(one)]
        request = prompts.extract(
            [one for one in turns if not is_echo(one)],
            around=replace(around, before=before[max(len(before) - self.context_turns, 0) :]),
            is_asked=is_heard,
            slots=self.slots,
            instructions=self.instructions,
            max_output=self.max_output,
        )
        answer = await asked(self.model, request, self.timeout)
        faults = answer.faults
        found = tuple(_taken(answer.data["facts"], heard, faults))
        return Extraction(candidates=found, faults=dict(faults), usage=dict(answer.usage))

    def batches(self, turns: Sequence[SpokenTurn]) -> list[list[SpokenTurn]]:
        """Split the turns into batches of about `batch_tokens` of people's words."""
        room = self.batch_tokens * _CHARACTERS_A_TOKEN
        found: list[list[SpokenTurn]] = []
        n_characters = 0
        for one in turns:
            more = len(one.text) if is_heard(one) else 0
            if not found or (n_characters and more and n_characters + more > room):
                found.append([])
                n_characters = 0
            found[-1].append(one)
            n_characters += more
        return found


def _taken(
    given: Sequence[Any], turns: Sequence[SpokenTurn], faults: Counter[str]
) -> Iterator[FactCandidate]:
    """Yield the valid facts of an answer; counts the faults of the others."""
    seen: set[tuple[Any, ...]] = set()
    per_turn: Counter[str] = Counter()
    for said in given:
        one = as_numbers(said, prompts.FACT)
        candidate = _candidate(one, turns)
        if one != said and not isinstance(candidate, str):
            faults["mended_number"] += 1
        if isinstance(candidate, str):
            faults[candidate] += 1
            continue
        # A repetition is no new fact, however the model has spelt it.
        key = (candidate.source_id, candidate.text.casefold(), candidate.slot)
        if key in seen:
            faults["repeated"] += 1
        elif per_turn[candidate.source_id] == _MOST_FACTS:
            faults["too_many"] += 1
        else:
            seen.add(key)
            per_turn[candidate.source_id] += 1
            yield _in_its_language(candidate, turns[int(one["turn"]) - 1].text, faults)


def _candidate(one: Any, turns: Sequence[SpokenTurn]) -> FactCandidate | str:
    """Return a fact that its turn proves, or else the name of its fault."""
    if problem_of(one, prompts.FACT) is not None:
        return "wrong_schema"
    polarity: Polarity = one.get("polarity") or "states"
    if not 1 <= one["turn"] <= len(turns):
        return "unknown_turn"
    if (fault := fault_of(one["text"])) is not None:
        return fault
    turn = turns[int(one["turn"]) - 1]
    if (span := place_of(one["quote"], turn.text)) is None:
        return "not_said"
    slot, value = _slot_of(one)
    if slot is not None and value is None and polarity == "states":
        return "slot_without_value"
    if slot is None and value is not None:
        return "value_without_slot"
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
        polarity=polarity,
    )


def _in_its_language(one: FactCandidate, said: str, faults: Counter[str]) -> FactCandidate:
    """Return the fact in the words of the turn if the model has translated it."""
    mine, own = language_of(one.text), language_of(said)
    if mine is None or own is None or mine == own:
        return one
    for start, end in sentences(said):
        words = said[start : max(end, one.end)]
        if start <= one.start < end and fault_of(words) is None:
            faults["mended_language"] += 1
            return replace(one, text=words)
    return one


def place_of(quote: str, text: str) -> Span | None:
    """Return the span of a quote's words in a text, in order; None if absent.

    Case, white space and punctuation between the words may differ.
    """
    words = re.findall(r"[^\W_]+", quote)
    if len("".join(words)) < min(_LEAST_QUOTE, len(text.strip())) or not words:
        return None
    if (start := text.find(quote.strip())) >= 0 and _is_whole(text, start, quote.strip()):
        return start, start + len(quote.strip())
    match = re.search(rf"(?<!\w){_GAP.join(map(re.escape, words))}(?!\w)", text, re.IGNORECASE)
    return None if match is None else match.span()


def _is_whole(text: str, start: int, quote: str) -> bool:
    """Whether a quote begins and ends at word boundaries; without spaces, anywhere."""
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
    """A name for comparison: lower case, words separated by a space."""
    return " ".join(re.findall(r"[^\W_]+", (given or "").casefold()))[:60] or None


def moment_of(given: str | None) -> datetime | str | None:
    """Parse a date, in UTC; returns `no_date` if it is invalid."""
    if given is None or not given.strip():
        return None
    try:
        moment = datetime.fromisoformat(given.strip())
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return "no_date"
