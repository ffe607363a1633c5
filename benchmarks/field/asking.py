"""What is asked of every peer, and whether what it answers is right."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from benchmarks.field.data import Data, K

_ENOUGH = 0.95
"""What share of the true hits a search has to find: an approximate index may miss one now and then."""

Held = Sequence[int]
"""The messages that a peer has acknowledged, in order."""
Answers = Sequence[Sequence[int]]
"""The messages that each answer consisted of, in order; what is none of them is -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One way of asking, and how its answers are judged."""

    task: str
    title: str
    request: Callable[[Data, int], Mapping[str, Any]]
    """What a side is asked under a number."""
    problem: Callable[[Data, Held, Answers], str | None]
    """What is wrong with the answers, which come by number; None if they are right."""


def questions(data: Data) -> list[Question]:
    """All there are."""
    return [
        Question(
            task="last",
            title=f"last {data.last}",
            request=lambda data, number: {
                "op": "last",
                "session": _session(data, number),
                "limit": data.last,
            },
            problem=_wrong_ends,
        ),
        Question(
            task="whole",
            title="whole session",
            request=lambda data, number: {"op": "whole", "session": _session(data, number)},
            problem=_wrong_sessions,
        ),
        Question(
            task="vector",
            title="by vector",
            request=lambda data, number: _search(data, number, "vector"),
            problem=_wrong_neighbours,
        ),
        Question(
            task="words",
            title="by words",
            request=lambda data, number: {
                "op": "search",
                "how": "words",
                "text": data.pairs[number],
                "limit": K,
            },
            problem=_wrong_words,
        ),
        Question(
            task="hybrid",
            title="hybrid",
            request=lambda data, number: _search(data, number, "hybrid", text=data.words[number]),
            problem=_wrong_mixtures,
        ),
        Question(
            task="filter",
            title="filtered",
            request=lambda data, number: _search(
                data, number, "filter", topic=_topic(data, number)
            ),
            problem=_wrong_filtered,
        ),
    ]


def _session(data: Data, number: int) -> str:
    return f"s{number % (data.sizes.rows // data.sizes.session_rows)}"


def _topic(data: Data, number: int) -> str:
    return data.topics[number]


def _search(data: Data, number: int, how: str, **more: str) -> Mapping[str, Any]:
    vector = data.queries[number].tolist()
    text = f"question {number}"
    return {"op": "search", "how": how, "text": text, "vector": vector, "limit": K, **more}


def _wrong_ends(data: Data, held: Held, answers: Answers) -> str | None:
    rights = [
        data.session(_session(data, number), held)[-data.last :] for number in range(len(answers))
    ]
    return _unequal(answers, rights)


def _wrong_sessions(data: Data, held: Held, answers: Answers) -> str | None:
    rights = [data.session(_session(data, number), held) for number in range(len(answers))]
    return _unequal(answers, rights)


def _wrong_neighbours(data: Data, held: Held, answers: Answers) -> str | None:
    return _missed(answers, [data.nearest(number, held) for number in range(len(answers))])


def _wrong_words(data: Data, held: Held, answers: Answers) -> str | None:
    return _missed(
        answers, [data.containing(data.pairs[number], held) for number in range(len(answers))]
    )


def _wrong_mixtures(data: Data, held: Held, answers: Answers) -> str | None:
    """The nearest message and the only one that has the word are both among the hits."""
    rights = [
        {data.nearest(number, held, k=1)[0], *data.containing(data.words[number], held)}
        for number in range(len(answers))
    ]
    n_missed = sum(not right <= set(answer) for answer, right in zip(answers, rights, strict=True))
    if n_missed:
        return f"misses the nearest, or the word, in {n_missed} of {len(answers)}"
    return _malformed(answers)


def _wrong_filtered(data: Data, held: Held, answers: Answers) -> str | None:
    """If `K` messages match, `K` are found, and they are the nearest of those that match."""
    rights = [
        data.nearest(number, data.of_topic(_topic(data, number), held))
        for number in range(len(answers))
    ]
    n_strange = sum(
        number < 0 or data.topics[number] != _topic(data, place)
        for place, answer in enumerate(answers)
        for number in answer
    )
    if n_strange:
        return f"{n_strange} of {sum(map(len, answers))} hits do not match the filter"
    return _missed(answers, rights)


def _unequal(answers: Answers, rights: Sequence[Sequence[int]]) -> str | None:
    wrong = [
        (answer, right)
        for answer, right in zip(answers, rights, strict=True)
        if list(answer) != list(right)
    ]
    if not wrong:
        return None
    answer, right = wrong[0]
    why = "in another order" if sorted(answer) == sorted(right) else f"{len(answer)} messages"
    return f"{len(wrong)} of {len(answers)} sessions read otherwise, as {why} of {len(right)}"


def _missed(answers: Answers, rights: Sequence[Collection[int]]) -> str | None:
    """Whether the hits are too few, doubled, or others than the right ones."""
    expected = [min(K, len(right)) for right in rights]
    if any(len(answer) < count for answer, count in zip(answers, expected, strict=True)):
        return f"{mean(map(len, answers)):.1f} hits where {mean(expected):.1f} were to be had"
    found = mean(_shares(answers, rights))
    if found < _ENOUGH:
        return f"{found:.0%} of the right hits"
    return _malformed(answers)


def _shares(answers: Answers, rights: Sequence[Collection[int]]) -> Iterable[float]:
    for answer, right in zip(answers, rights, strict=True):
        yield len(set(answer) & set(right)) / len(right) if right else 1.0


def _malformed(answers: Answers) -> str | None:
    if any(len(set(answer)) != len(answer) for answer in answers):
        return "one hit more than once"
    if any(len(answer) > K for answer in answers):
        return f"more than {K} hits"
    return None
