"""What a question names: periods of time (`last week`, `in May`, `on 3 March 2024`), and speakers."""

import re
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple, TypeAlias

from lance_context_core._util.lru import remembered
from lance_context_core.text.analysis import asks


class Interval(NamedTuple):
    """From a moment, until before another one; in UTC."""

    start: datetime
    end: datetime


def periods(question: str, asked_at: datetime) -> list[Interval]:
    """What the first time that an English question names may mean, the likeliest first.

    A month without a year, a season or a day is the last one before `asked_at`, and else the one of
    an earlier year: years of these are given, as they go back. Empty where no time is named, and
    where the time is told by something else, as in `before the wedding`.
    """
    today = asked_at.astimezone(UTC).date()
    for pattern, meant in _TIMES:
        if found := pattern.search(question):
            try:
                spans = list(meant(found, today))
            except (ValueError, OverflowError):  # 31 February, or before the year 1
                continue
            if spans:
                return [Interval(_moment(first), _moment(end)) for first, end in spans]
    return []


_Span = tuple[date, date]
"""The first day, and the day after the last."""

_DAY = timedelta(days=1)
_YEARS_BACK = 5
_MONTH_NAMES = (
    ("january", "jan"),
    ("february", "feb"),
    ("march", "mar"),
    ("april", "apr"),
    ("may",),
    ("june", "jun"),
    ("july", "jul"),
    ("august", "aug"),
    ("september", "sept", "sep"),
    ("october", "oct"),
    ("november", "nov"),
    ("december", "dec"),
)
_MONTHS = {name: number for number, names in enumerate(_MONTH_NAMES, start=1) for name in names}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The months that they begin with."""
_PARTS = {"beginning": 0, "start": 0, "early": 0, "middle": 1, "mid": 1, "end": 2, "late": 2}
"""The thirds of a month."""
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_COUNTED = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_NUMBERS = {word: number for number, word in enumerate(_COUNTED.split("|"), start=1)} | {
    "a": 1,
    "an": 1,
    "couple of": 2,
    "a couple of": 2,
    "few": 3,
    "a few": 3,
}
_COUNT = rf"(\d{{1,3}}|an?|{_COUNTED}|(?:a )?(?:few|couple of))"
_MONTH = "(" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_PART = r"(?:(beginning|start|early|middle|mid|end|late)(?: of)?[- ])?"
_YEAR = r"(?:,? (\d{4})\b)"


def _moment(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _count(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text.lower()]


def _month(year: int, month: int, n: int = 1) -> _Span:
    """So many months from one on, which may be counted beyond the year."""
    first, end = (year * 12 + month - 1 + more for more in (0, n))
    return date(first // 12, first % 12 + 1, 1), date(end // 12, end % 12 + 1, 1)


def _day(today: date, *, year: str | None, month: str, day: str) -> Iterator[_Span]:
    number = int(month) if month.isdigit() else _MONTHS[month.lower()]
    for one in [int(year)] if year else _years(today, number):
        that = date(one, number, int(day))
        if year or that <= today:
            yield that, that + _DAY


def _years(today: date, month: int) -> list[int]:
    """Those in which there was such a month, the last one first."""
    last = today.year - (month > today.month)
    return list(range(last, last - _YEARS_BACK, -1))


def _in_month(found: re.Match[str], today: date) -> Iterator[_Span]:
    part, name, year = found[1], found[2], found[3]
    if not year and found.start(2) == found.start():
        return  # "May I ask", "March on"
    month = _MONTHS[name.lower()]
    for one in [int(year)] if year else _years(today, month):
        first, end = _month(one, month)
        third = (end - first) / 3
        if part:
            begins = _PARTS[part.lower()]
            first, end = first + begins * third, min(end, first + (begins + 1) * third + _DAY)
        yield first, end


def _in_season(found: re.Match[str], today: date) -> Iterator[_Span]:
    month, year = _SEASONS[found[1].lower()], found[2]
    for one in [int(year)] if year else _years(today, month):
        yield _month(one, month, 3)


def _in_year(found: re.Match[str], _today: date) -> Iterator[_Span]:
    yield _month(int(found[1]), 1, 12)


def _last(found: re.Match[str], today: date) -> Iterator[_Span]:
    """`last week`, `this month`, `the past year`."""
    is_this, unit = found[1].lower() == "this", found[2].lower()
    monday = today - timedelta(days=today.weekday())
    if unit == "week":
        # For some a week begins on Sunday.
        yield (monday - _DAY, today + _DAY) if is_this else (monday - 8 * _DAY, monday)
    elif unit == "weekend":
        saturday = monday - 2 * _DAY
        yield saturday, saturday + 3 * _DAY
    elif unit == "month":
        yield _month(today.year, today.month - (not is_this))
    elif unit == "year":
        yield _month(today.year - (not is_this), 1, 12)


def _within(found: re.Match[str], today: date) -> Iterator[_Span]:
    """`the last three weeks`."""
    yield today - _days(_count(found[1]), found[2]), today + _DAY


def _ago(found: re.Match[str], today: date) -> Iterator[_Span]:
    n, unit = _count(found[1]), found[2].lower()
    then = today - _days(n, unit)
    slack = {"day": 1, "week": 3, "month": 16, "year": 183}[unit] * _DAY
    yield then - slack, then + slack + _DAY


def _days(n: int, unit: str) -> timedelta:
    return n * {"day": 1, "week": 7, "month": 30.4375, "year": 365.25}[unit.lower()] * _DAY


def _weekday(found: re.Match[str], today: date) -> Iterator[_Span]:
    """The last such day before today, and two days more: what happened may be told later."""
    back = (today.weekday() - _WEEKDAYS.index(found[1].lower()) - 1) % 7 + 1
    yield today - back * _DAY, min(today, today - (back - 3) * _DAY)


def _back(n_days: int, n: int = 1) -> Callable[[re.Match[str], date], Iterator[_Span]]:
    def spans(_found: re.Match[str], today: date) -> Iterator[_Span]:
        yield today - n_days * _DAY, today - (n_days - n) * _DAY

    return spans


def _iso(found: re.Match[str], today: date) -> Iterator[_Span]:
    return _day(today, year=found[1], month=found[2], day=found[3])


def _day_month(found: re.Match[str], today: date) -> Iterator[_Span]:
    return _day(today, year=found[3], month=found[2], day=found[1])


def _month_day(found: re.Match[str], today: date) -> Iterator[_Span]:
    return _day(today, year=found[3], month=found[1], day=found[2])


_TIMES = [
    (re.compile(pattern, re.IGNORECASE), meant)
    for pattern, meant in [
        (r"\b(\d{4})-(\d\d)-(\d\d)\b", _iso),
        (rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH}{_YEAR}?", _day_month),
        (rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d){_YEAR}?", _month_day),
        (r"\b(?:the )?day before yesterday\b", _back(2)),
        (r"\byesterday\b|\blast night\b", _back(1, 2)),
        (r"\btoday\b|\bthis (?:morning|afternoon|evening)\b|\btonight\b", _back(0)),
        (rf"\b{_COUNT} (day|week|month|year)s? (?:ago|back)\b", _ago),
        (rf"\b(?:last|past) {_COUNT} (day|week|month|year)s\b", _within),
        (r"\b(last|this|past|previous) (weekend|week|month|year)\b", _last),
        (rf"\b(?:last|on|this past) ({'|'.join(_WEEKDAYS)})\b", _weekday),
        (
            rf"\b(?:(?:in|during|of|since|at) )?(?:the )?{_PART}(?:last |this )?{_MONTH}{_YEAR}?",
            _in_month,
        ),
        (
            r"\b(?:in|last|this|of)(?: the)? (spring|summer|autumn|fall|winter)(?:(?: of)? (\d{4}))?\b",
            _in_season,
        ),
        (r"\bin (\d{4})\b", _in_year),
    ]
]


# The speakers whom a question names: told apart from common words, and left out of what is embedded.

_Mentions: TypeAlias = list[tuple[re.Match[str], frozenset[str]]]


def named(question: str, names: Collection[str]) -> set[str]:
    """Those of `names` that the question speaks of, by a part of them, or by a short form.

    A part is a word of a name, as in `Ann` of `Ann Lee`; a short form its first three letters or
    more, as in `Mel` of `Melanie`, if no name has it as a part. A word counts where its letters are
    those of the name, so that `will` is not `Will`; in a question without any capital, any word that
    does not only ask. Names of scripts without spaces count wherever they stand.
    """
    found = {name for _, meant in _mentions(question, names) for name in meant}
    return found | {name for name in names if _is_unspaced(name) and name in question}


def without_names(question: str, names: Collection[str]) -> str:
    """The question without the words by which it names any of `names`, as in `named`.

    The question as it is if nothing else would be left. In a static embedding the name outweighs
    the rest: what is said by that speaker is then all near, whatever it is about.
    """
    kept, end = [], 0
    for word, _ in _mentions(question, names):
        kept.append(question[end : word.start()])
        end = word.end()
    if not kept:
        return question
    left = " ".join("".join([*kept, question[end:]]).split())
    return left if re.search(r"\w", left) else question


def _mentions(question: str, names: Collection[str]) -> _Mentions:
    """The words of the question that name somebody, in order, and whom each may mean."""
    if len(question) > _LONG:
        return _looked_for(question, names)
    # A search asks twice: whom to leave out of what is embedded, and whose turns gain.
    return _looked_for_before(question, frozenset(names))


def _looked_for(question: str, names: Collection[str]) -> _Mentions:
    meant = {name: re.findall(r"\w+", name) for name in names}
    parts: dict[str, set[str]] = {}
    for name, words in meant.items():
        for word in words:
            parts.setdefault(word, set()).add(name)
    if question == question.lower():
        for word in list(parts):
            if not asks(word.lower(), starts=False):
                parts.setdefault(word.lower(), set()).update(parts[word])
    found, starts = [], True
    for word in _WORD.finditer(question):
        text = word[1]
        whom = parts.get(text, set())
        if starts and asks(text, starts=True):
            whom = set()
        elif not whom and not starts and len(text) >= _SHORTEST and text[0].isupper():
            whom = {name for name, some in meant.items() if any(p.startswith(text) for p in some)}
        if whom:
            found.append((word, frozenset(whom)))
        starts = question[word.end() : word.end() + 2].strip() in {".", "!", "?"}
    return found


_looked_for_before = remembered(64 * 1024)(_looked_for)


def _is_unspaced(name: str) -> bool:
    return bool(_UNSPACED.search(name))


_WORD = re.compile(r"(\w+)(?:['\u2019]s\b)?")
_SHORTEST = 3
_LONG = 1_000
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f\uac00-\ud7a3]")
