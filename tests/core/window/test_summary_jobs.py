"""Summaries that jobs make, beside the conversation: submitted by windows, done by whoever has a summariser."""

import asyncio
from datetime import timedelta

import pytest
from core.conformance.doubles import WordVectors

from lance_context_core import AsyncContextStore, ContextStore, InvalidRequestError, Message
from lance_context_core.knowledge import JobBudget
from lance_context_core.window import HistorySection, SummarySection

LATER = SummarySection(later=True, producer="nightly")


@pytest.fixture
def store(clock):
    with ContextStore.open("memory://", embedder=WordVectors(), clock=clock) as opened:
        say(opened, 12)
        yield opened


def say(store, n, *, first=0, session_id="s", agent_id=""):
    """A user's turn and its answer, `n` times."""
    said = []
    for number in range(first, first + n):
        text = f"number {number} " + "tea " * 20
        said.append(Message.user(text, id=f"u{number}"))
        said.append(Message.assistant(text, id=f"a{number}"))
    store.history.append_many(agent_id, said, session_id=session_id)


def window(store, **arguments):
    given = {"session_id": "s", "budget": 500, "sections": [LATER, HistorySection()], **arguments}
    return store.assemble(dialect="anthropic", **given)


def jobs(store):
    return store.knowledge.jobs.list(kind="summarise")


def raising(_):
    raise ValueError("tea with the king")


def test_a_window_that_lacks_a_summary_submits_one_job_which_makes_it(store):
    before = window(store)
    assert not before.tokens_by_section["summary"]
    assert window(store).messages == before.messages
    (job,) = jobs(store)
    assert before.report.notes == (
        f"summary: job {job.id}, which makes the next one, is scheduled",
    )
    (done,) = store.windows.jobs(lambda text: f"Of {text.count('number')} turns.").run_due()
    after = window(store)
    assert (done.id, done.state, done.usage["calls"]) == (job.id, "succeeded", 1)
    assert f"Of {len(job.input_ids)} turns." in after.messages[0].text
    assert after.report.ids("summarised") == job.input_ids
    assert after.report.notes == ()
    (kept,) = store.context("summaries").list()
    assert kept["source_ids"] == list(job.input_ids)
    assert (kept["layer"], kept["metadata"]["producer"]) == ("L0", "nightly")


def test_a_job_and_a_callable_make_the_same_record(store):
    window(store)
    store.windows.jobs(lambda _: "They spoke of tea.").run_due()
    (made,) = store.context("summaries").list()
    with ContextStore.open("memory://", embedder=WordVectors(), clock=store.clock) as other:
        say(other, 12)
        at_once = SummarySection(summariser=lambda _: "They spoke of tea.", producer="nightly")
        window(other, sections=[at_once, HistorySection()])
        assert other.context("summaries").list() == [made]


def test_there_is_one_job_a_step_each_of_the_summary_before_and_of_what_was_said_since(store):
    asked, shown, cuts = [], [], set()
    worker = store.windows.jobs(lambda text: asked.append(text) or f"No. {len(asked)}.")
    for number in range(12, 24):
        say(store, 1, first=number)
        window(store)
        worker.run_due()
        now = window(store)
        shown.append(now.messages[0].text)
        cuts.add(now.report.ids("summarised")[-1])
    assert len(asked) == len(jobs(store)) == len(cuts) <= 6
    assert [f"Summary so far: No. {n}." in text for n, text in enumerate(asked)] == [
        False,
        *[True] * (len(asked) - 1),
    ]
    assert f"No. {len(asked)}." in shown[-1]
    assert worker.run_due() == []


@pytest.mark.parametrize(
    ("summariser", "said"),
    [
        pytest.param(raising, "raised ValueError", id="raises"),
        pytest.param(lambda _: " ", "answered nothing", id="answers nothing"),
        pytest.param(lambda _: "<tool_call>x</tool_call>", "tool calls", id="calls tools"),
        pytest.param(lambda text: text * 2, "longer than what it is of", id="answers at length"),
    ],
)
def test_a_job_that_fails_leaves_a_valid_window_with_the_last_summary_that_says_so(
    store, clock, summariser, said
):
    window(store)
    store.windows.jobs(lambda _: "The first.").run_due()
    say(store, 12, first=12)
    window(store)
    failing = store.windows.jobs(summariser)
    for attempt in range(1, 6):
        (job,) = failing.run_due()
        assert (job.attempts, job.state) == (attempt, "failed" if attempt == 5 else "scheduled")
        clock.advance(hours=1)
    assert failing.run_due() == []
    now = window(store)
    assert now.validate() == []
    assert "The first." in now.messages[0].text
    (note,) = now.report.notes
    assert job.id in note
    assert "is failed: SummaryError: " in note
    assert said in note
    assert "king" not in str([note, job])
    failing.retry(job.id)
    store.windows.jobs(lambda _: "The second.").run_due()
    assert "The second." in window(store).messages[0].text


def test_a_failed_job_does_not_keep_the_next_step_from_its_own(store):
    window(store)
    store.windows.jobs(raising).run_due()
    say(store, 12, first=12)
    window(store)
    done = store.windows.jobs(lambda _: "All of it.").run_due()
    assert [one.state for one in done] == ["succeeded"], "the failed one is not due yet"
    assert "All of it." in window(store).messages[0].text
    assert done[0].input_ids[0] == "u0"


def test_a_run_asks_the_summariser_no_more_than_its_budget(store):
    window(store)
    worker = store.windows.jobs(lambda _: "They spoke.")
    assert worker.run_due(budget=JobBudget(tokens=10)) == []
    assert [(one.state, one.attempts) for one in jobs(store)] == [("scheduled", 0)]
    assert [one.state for one in worker.run_due(budget=JobBudget(calls=1))] == ["succeeded"]


@pytest.mark.parametrize("later", [True, False])
def test_what_is_too_much_for_one_call_is_told_in_several(store, later):
    """The first summary of a session that is long already."""
    asked = []

    def tell(text):
        asked.append(text)
        return f"No. {len(asked)}."

    if later:
        before = window(store)
        worker = store.windows.jobs(tell, max_input_tokens=80)
        assert worker.run_due(budget=JobBudget(calls=3)) == []
        (job,) = worker.run_due(budget=JobBudget(calls=4))
        assert job.usage["calls"] == 4
        assert before.messages == window(store).messages[1:]
    else:
        section = SummarySection(summariser=tell, max_input_tokens=80)
        window(store, sections=[section, HistorySection()])
    told = [text.removeprefix(f"Summary so far: No. {n}.\n") for n, text in enumerate(asked)]
    assert [text == one for text, one in zip(asked, told, strict=True)] == [True, *[False] * 3]
    assert max(map(len, told)) <= 320
    cut = window(store).report.ids("summarised")
    lines = [
        f"{'user' if id[0] == 'u' else 'assistant'}: number {id[1:]} " + "tea " * 20 for id in cut
    ]
    assert "\n".join(told).split("\n") == lines
    assert "No. 4." in window(store).messages[0].text


def test_of_a_message_that_is_too_much_for_one_call_the_middle_is_left_out(store):
    asked = []
    long = Message.user("a" * 500 + "b" * 500, id="long")
    store.history.append("", long, session_id="t")
    say(store, 12, session_id="t")
    window(store, session_id="t")
    store.windows.jobs(lambda text: asked.append(text) or "Tea.", max_input_tokens=10).run_due()
    assert asked[0] == f"user: {'a' * 14}… [966 chars left out] …{'b' * 20}"


def test_the_jobs_of_the_knowledge_leave_those_of_windows_alone(store):
    window(store)
    assert store.knowledge.jobs.run_due() == []
    (job,) = jobs(store)
    store.windows.jobs(lambda _: "They spoke.").run_due()
    with pytest.raises(InvalidRequestError, match="made a summary for windows"):
        store.knowledge.undo(job.id)
    assert [one.text for one in store.knowledge.trace("s") if one.kind == "job"] == [
        "summarise: succeeded"
    ]


@pytest.mark.parametrize(
    "derived", [pytest.param(True, id="with it"), pytest.param("rebuild", id="rebuilt")]
)
@pytest.mark.parametrize("when", ["before it ran", "while it runs", "after it ran"])
def test_what_is_erased_is_in_no_summary_that_a_job_makes(store, derived, when):
    def erase(text=""):
        del text
        store.erase(ids=["u2"], derived=derived)
        return "Of number 2."

    window(store)
    if when == "before it ran":
        erase()
    tell = erase if when == "while it runs" else (lambda _: "Of number 2.")
    store.windows.jobs(tell).run_due()
    if when == "after it ran":
        erase()
    for one in store.context("summaries").list():
        assert when == "before it ran"
        assert "u2" not in one["source_ids"]
    assert not any("u2" in one.input_ids for one in jobs(store))


def test_a_job_that_is_erased_while_it_runs_leaves_the_others_to_be_done(store):
    def erase_first(_):
        if not erased:
            erased.append(store.erase(filter={"session_id": "s"}))
        return "They spoke."

    erased = []
    window(store)
    (gone,) = jobs(store)
    say(store, 12, first=100, session_id="t")
    window(store, session_id="t")
    done = store.windows.jobs(erase_first).run_due()
    assert [one.state for one in done] == ["succeeded"]
    assert gone.id not in {one.id for one in done}
    assert jobs(store) == done


@pytest.mark.parametrize("derived", [True, "rebuild"])
def test_a_session_that_is_erased_takes_nothing_from_another_with_turns_of_the_same_ids(
    store, derived
):
    say(store, 12, session_id="other")
    for session_id in ("s", "other"):
        window(store, session_id=session_id)
    store.erase(filter={"session_id": "other"}, derived=derived)
    assert [one.session_id for one in jobs(store)] == ["s"]
    store.windows.jobs(lambda _: "Tea.").run_due()
    assert "Tea." in window(store).messages[0].text
    say(store, 12, session_id="other")
    erased = store.erase(filter={"session_id": "other"}, derived=derived)
    assert (erased.records, erased.derived) == (24, 0)
    assert "Tea." in window(store).messages[0].text
    assert [one.state for one in jobs(store)] == ["succeeded"]


def test_a_summary_of_more_than_is_cut_is_not_shown(store):
    window(store, budget=720)
    store.windows.jobs(lambda _: "Of much.").run_due()
    assert "Of much." in window(store, budget=720).messages[0].text
    less = window(store)
    assert "Of much." not in str(less.messages)
    assert not less.tokens_by_section["summary"]
    store.windows.jobs(lambda _: "Of less.").run_due()
    less = window(store)
    assert "Of less." in less.messages[0].text
    assert not {*less.report.ids("summarised")} & {one.id for one in less.messages}
    assert "Of much." in window(store, budget=720).messages[0].text


@pytest.mark.parametrize("producer", ["nightly", None])
def test_a_session_that_begins_anew_has_a_job_and_a_summary_of_its_own(store, producer):
    sections = [SummarySection(later=True, producer=producer), HistorySection()]
    window(store, sections=sections)
    store.windows.jobs(lambda _: "Of the old ones.").run_due()
    store.history.clear("", session_id="s")
    say(store, 12, first=100)
    anew = window(store, sections=sections)
    assert "Of the old ones." not in str(anew.messages)
    store.windows.jobs(lambda _: "Of the new ones.").run_due()
    assert "Of the new ones." in window(store, sections=sections).messages[0].text


def test_a_summary_that_somebody_made_meanwhile_is_the_one_that_stays(store):
    def tell(_):
        at_once = SummarySection(summariser=lambda _: "The first.", producer="nightly")
        window(store, sections=[at_once, HistorySection()])
        return "The second."

    window(store)
    (done,) = store.windows.jobs(tell).run_due()
    (kept,) = store.context("summaries").list()
    assert (done.state, done.attempts, kept["text"]) == ("succeeded", 1, "The first.")
    assert "The first." in window(store).messages[0].text


def test_a_turn_with_the_id_of_another_sessions_summary_is_no_summary(store):
    window(store)
    store.windows.jobs(lambda _: "Of the first session.").run_due()
    (summary,) = store.context("summaries").list()
    asked = []
    store.history.append(
        "", Message.user("number 0 " + "tea " * 20, id=summary["id"]), session_id="t"
    )
    say(store, 12, first=1, session_id="t")
    window(store, session_id="t")
    worker = store.windows.jobs(lambda text: asked.append(text) or "Of the second.")
    assert [one.state for one in worker.run_due()] == ["succeeded"]
    assert "Of the first session." not in asked[0]
    assert "number 0" in asked[0]
    assert "Of the second." in window(store, session_id="t").messages[0].text


def test_each_owner_and_agent_has_summaries_of_its_own(store):
    ada, eve = (store.scope(user_id=one) for one in ("ada", "eve"))
    for one in (ada, eve):
        say(one, 12, agent_id="host")
    window(ada, agent_id="host")
    assert jobs(eve) == []
    (job,) = jobs(ada)
    assert (job.user_id, job.agent_id) == ("ada", "host")
    store.windows.jobs(lambda _: "Of Ada's.").run_due()
    assert "Of Ada's." in window(ada, agent_id="host").messages[0].text
    assert "Of Ada's." not in window(eve, agent_id="host").messages[0].text
    assert "Of Ada's." not in window(store).messages[0].text


def test_a_session_that_is_no_longer_what_the_job_is_about_fails_it_and_says_so(store):
    window(store)
    (job,) = jobs(store)
    store.context().update(id=job.input_ids[3], retired_at=store.clock.now())
    (done,) = store.windows.jobs(lambda _: "They spoke.").run_due()
    assert done.state == "failed"
    assert "changed since this job was submitted" in done.error
    store.windows.jobs(lambda _: "They spoke.")
    window(store)
    assert [one.state for one in store.windows.jobs(lambda _: "Tea.").run_due()] == ["succeeded"]


def test_a_session_of_which_a_turn_is_gone_has_a_job_of_its_own_up_to_the_same_end(store):
    say(store, 2, session_id="t")
    store.history.append("", Message.user("Hm.", id="hm"), session_id="t")
    say(store, 10, first=2, session_id="t")
    window(store, session_id="t")
    (first,) = jobs(store)
    store.context().update(id="hm", retired_at=store.clock.now())
    window(store, session_id="t")
    (second,) = (one for one in jobs(store) if one.id != first.id)
    assert [one for one in first.input_ids if one != "hm"] == list(second.input_ids)
    done = store.windows.jobs(lambda _: "Tea.").run_due()
    assert {one.id: one.state for one in done} == {first.id: "failed", second.id: "succeeded"}
    assert "Tea." in window(store, session_id="t").messages[0].text


def test_an_earlier_version_submits_nothing_and_says_so(store):
    store.tag("now")
    with store.checkout("now") as then:
        (note,) = window(then).report.notes
    assert "keeps no new job" in note
    assert jobs(store) == []


async def test_a_worker_does_them_beside_the_conversation(clock):
    async with AsyncContextStore.open("memory://", embedder=WordVectors(), clock=clock) as store:
        said = [Message.user(f"number {n} " + "tea " * 20, id=f"u{n}") for n in range(24)]
        await store.history.append_many("", said, session_id="s")

        async def tell(_):
            return "They spoke."

        async with store.windows.jobs(tell).worker(every=timedelta(milliseconds=1)):
            while True:
                made = await store.assemble(
                    session_id="s", budget=500, sections=[LATER, HistorySection()]
                )
                if made.tokens_by_section["summary"]:
                    break
                await asyncio.sleep(0.001)
        assert "They spoke." in made.messages[0].text


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda s: s.windows.jobs("tell"), id="a summariser that is none"),
        pytest.param(lambda s: s.windows.jobs(str, timeout_seconds=0), id="no time"),
        pytest.param(lambda s: s.windows.jobs(str, max_input_tokens=0), id="no text"),
        pytest.param(lambda _: SummarySection(max_input_tokens=True), id="no number"),
        pytest.param(lambda _: SummarySection(later=True, summariser=str), id="two makers"),
    ],
)
def test_a_wrong_argument_is_refused(store, make):
    with pytest.raises(InvalidRequestError):
        make(store)
    assert jobs(store) == []
