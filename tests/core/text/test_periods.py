"""The time that a question speaks of, resolved at the moment at which it is asked."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.text.queries import periods

TUESDAY = datetime(2026, 9, 1, 10, tzinfo=UTC)


def days(question, asked_at=TUESDAY):
    """The first day and the last one of what the question most likely means."""
    found = periods(question, asked_at)
    return [f"{one:%Y-%m-%d}" for one in (found[0].start, found[0].end - timedelta(days=1))]


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What did I say on 3 March 2024?", "2024-03-03", "2024-03-03"),
        ("What did I say on the 3rd of March?", "2026-03-03", "2026-03-03"),
        ("What was bought on October 13, 2023?", "2023-10-13", "2023-10-13"),
        ("What came on Dec. 24th?", "2025-12-24", "2025-12-24"),
        ("Who called on 2026-08-30?", "2026-08-30", "2026-08-30"),
        ("What did I eat yesterday?", "2026-08-31", "2026-09-01"),
        ("Who wrote the day before yesterday?", "2026-08-30", "2026-08-30"),
        ("What did I ask this morning?", "2026-09-01", "2026-09-01"),
        ("What broke three days ago?", "2026-08-28", "2026-08-30"),
        ("What broke two weeks ago?", "2026-08-15", "2026-08-21"),
        ("Which trip was a month ago?", "2026-07-17", "2026-08-18"),
        ("What was new in the last 10 days?", "2026-08-22", "2026-09-01"),
        ("What happened last week?", "2026-08-23", "2026-08-30"),
        ("What happened this week?", "2026-08-30", "2026-09-01"),
        ("Where were we last weekend?", "2026-08-29", "2026-08-31"),
        ("What hurt last month?", "2026-08-01", "2026-08-31"),
        ("What hurt last year?", "2025-01-01", "2025-12-31"),
        ("What did the dog do last Sunday?", "2026-08-30", "2026-08-31"),
        ("What did the dog do on Tuesday?", "2026-08-25", "2026-08-27"),
        ("What did I build in May?", "2026-05-01", "2026-05-31"),
        ("What did I build in October?", "2025-10-01", "2025-10-31"),
        ("What did I build in May 2023?", "2023-05-01", "2023-05-31"),
        ("Which race was at the end of September 2023?", "2023-09-21", "2023-09-30"),
        ("Which race was in early June?", "2026-06-01", "2026-06-11"),
        ("What did I plant in spring?", "2026-03-01", "2026-05-31"),
        ("Where did we go last winter?", "2025-12-01", "2026-02-28"),
        ("How often did I swim in 2023?", "2023-01-01", "2023-12-31"),
    ],
)  # fmt: skip
def test_a_time_is_resolved_at_the_moment_at_which_it_is_asked_for(question, first, last):
    assert days(question) == [first, last]
    assert days(question.upper()) == [first, last]


@pytest.mark.parametrize(
    "question",
    [
        "What may I eat?",
        "May I have a dog?",
        "Did they march on?",
        "What did we talk about before the wedding?",
        "What is on 31 February?",
        "What costs 2023 euros?",
        "",
    ],
)
def test_what_names_no_time_means_none(question):
    assert periods(question, TUESDAY) == []


def test_a_month_without_a_year_may_be_that_of_earlier_years_the_last_one_first():
    years = [one.start.year for one in periods("What did I do in October?", TUESDAY)]
    assert years == [2025, 2024, 2023, 2022, 2021]


def test_the_day_is_that_in_utc():
    late = datetime(2026, 9, 1, 23, tzinfo=timezone(timedelta(hours=-5)))
    assert days("What did I eat today?", late) == ["2026-09-02", "2026-09-02"]


@given(
    st.text(alphabet="0123456789 -last week mondy mrchagof"), st.datetimes(timezones=st.just(UTC))
)
def test_no_question_and_no_moment_is_too_much(question, asked_at):
    for one in periods(question, asked_at):
        assert one.start < one.end
