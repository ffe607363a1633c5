"""Facts by a model: asked once for a batch of turns, and believed only where a turn says so."""

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
    """The answer, whose lists may hold anything; one that is no good is asked for once more.

    Raises what the model raises, and ModelAnswerError if the second answer is no good either.
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
"""The first answer was no good, and the second one was."""


async def _completion(
    model: LanguageModel, request: ModelRequest, timeout: float, usage: Counter[str]
) -> Completion:
    """What a model answers; `usage` grows by what that takes, and so does that of the job."""
    characters = sum(len(one.text) for one in request.messages)
    more = Counter(calls=1, characters=characters, tokens=tokens_of(characters))
    spend(calls=1, tokens=more["tokens"])
    try:
        completion = await ask(model, request, timeout=timeout)
        # What a model counts itself, it knows better.
        more = Counter({**more, **completion.usage})
    finally:
        usage.update(more)
        note_usage(more)
    return completion


def _text_of(completion: Completion) -> str:
    return completion.text if completion.data is None else dumps(completion.data)


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

    With the turns the model is given what was said before them, by the assistant too, who said it and
    when, and the known facts that are near. A fact is taken only if it names one of the turns and
    quotes words that stand there; what is not is refused, and counted by what is wrong with it. An
    answer of which nothing can be taken is asked for once more, with what was wrong; if that one is no
    better, or the model is away, or takes longer than `timeout` seconds, the batch is due again later,
    and the others are kept.

    - `model`: a `LanguageModel`, or a function of a prompt.
    - `instructions`: what else the model is told, such as what matters.
    - `slots`: what a person has one of at a time; more than the usual ones, such as the fields of a
      profile.
    - `profile`: a schema, as `profile` of the knowledge takes it: its fields are slots too.
    - `batch_tokens`: so many tokens of turns, about, are one call.
    - `context_turns`: so many turns before a batch are shown with it.
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
        """The prompt, the model, and whatever else its answers depend on."""
        about = [self.instructions, *self.slots, str(self.batch_tokens), str(self.context_turns)]
        text = "\n".join(about)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return f"{prompts.EXTRACT_NAME}+{self.model.name}+{digest}"

    async def extract(self, turns: Sequence[SpokenTurn]) -> Extraction:
        """The facts that the model finds and the turns prove, without anything around them."""
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
        """The facts that the model finds in one batch and its turns prove."""
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
        """The turns in parts of about `batch_tokens` of what people say."""
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
    """The facts of an answer that may be kept; what is wrong with the others is counted."""
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
        # What is said again is no other fact, however the model has spelt it.
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
    """A fact that its turn proves; else what is wrong with it, in a word."""
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
    """The fact in the words of the turn, if a model has put them into another language."""
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
