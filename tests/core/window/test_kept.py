"""Windows that were kept: what an agent saw, whatever became of the store since."""

import asyncio
import json
from datetime import timedelta

import pytest
from core.conformance.doubles import WordVectors

from lance_context_core import ContextStore, Document, InvalidRequestError, Message, NotFoundError
from lance_context_core.window import (
    DocumentsSection,
    FactsSection,
    HistorySection,
    PinnedSection,
    RecallSection,
    SummarySection,
    SystemSection,
)

SYSTEM = SystemSection(text="You pour tea.")


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path / "memory", embedder=WordVectors()) as opened:
        opened.history.append_many(
            "",
            [Message.user("Mint is what I like.", id="m1"), Message.assistant("Noted.", id="m2")],
            session_id="old",
        )
        opened.history.append("", Message.user("Pour tea.", id="t1"), session_id="s")
        yield opened


def assembled(store, *sections, session_id="s", budget=800, **arguments):
    return store.assemble(
        session_id=session_id, budget=budget, sections=[SYSTEM, *sections], **arguments
    )


def texts(kept):
    return {id: one.text for one in kept.seen for id in one.ids}


def test_what_the_agent_saw_is_told_as_it_was_said_then(store):
    window = assembled(store, HistorySection(), RecallSection(), query="what mint do I like")
    id = store.windows.keep(window, run_id="r")
    store.history.rewrite("", Message.user("Pour milk.", id="t1"), session_id="s")
    store.history.append("", Message.user("More.", id="t2"), session_id="s")
    kept = store.windows.get(id)
    assert texts(kept) == {"t1": "Pour tea.", "m1": "Mint is what I like.", "m2": "Noted."}
    assert {one.session_id for one in kept.seen if "m1" in one.ids} == {"old"}
    assert kept.seen[0].text == "You pour tea."
    assert (kept.tokens, kept.room, kept.run_id) == (window.tokens, window.room, "r")
    assert sum(one.tokens for one in kept.seen) == window.tokens
    assert (kept.gone, kept.is_as_of_then) == ((), True)


def test_no_text_of_a_conversation_is_kept(store):
    store.windows.keep(assembled(store, HistorySection(), RecallSection()))
    (record,) = store.context("windows").list()
    said = json.dumps(record, default=repr)
    assert "Mint" not in said
    assert "Pour" not in said
    assert store.search("Pour tea", limit=9)[0].record.id == "t1"


def test_of_a_question_nothing_is_kept_since_it_may_be_a_turn_that_is_erased(store):
    question = "Which xylophone did I buy?"
    id = store.windows.keep(assembled(store, HistorySection(), query=question))
    (record,) = store.context("windows").list()
    assert b"xylophone" not in record["binary"]
    assert store.windows.get(id).asked["query_characters"] == len(question)


def test_what_is_erased_or_expires_is_gone_and_named(store):
    soon = store.aio._records().now() + timedelta(seconds=0.4)
    store.history.append("", Message.user("Soon over.", id="e1"), session_id="s", expires_at=soon)
    id = store.windows.keep(assembled(store, HistorySection(), RecallSection(), query="mint"))
    store.erase(ids=["m1"])
    while store.history.count("", session_id="s") > 1:
        asyncio.run(asyncio.sleep(0.05))
    kept = store.windows.get(id)
    assert set(kept.gone) == {"m1", "e1"}
    assert texts(kept) == {"t1": "Pour tea.", "m2": "Noted.", "m1": None, "e1": None}


def test_an_answer_that_cites_what_was_erased_since_is_told_so(store):
    window = assembled(store, HistorySection(), RecallSection(), query="what mint do I like")
    marks = {one.record_id: mark for mark, one in window.citations.items()}
    answer = f"Mint [{marks['m1']}], as noted [{marks['m2']}], and so on [m99]."
    assert store.windows.cite(window, answer) == window.cite(answer)
    store.erase(ids=["m1"])
    cited = store.windows.cite(window, answer)
    assert (cited.erased, cited.invented) == ((marks["m1"],), ("m99",))
    assert {one.record_id: one.text for one in cited.citations} == {"m1": "", "m2": "Noted."}


def test_the_facts_that_a_window_showed_are_told_as_they_were(store):
    store.knowledge.add("I live in Oslo.", user_id="ada", session_id="talk")
    window = assembled(store, HistorySection(), FactsSection(), query="live where", user_id="ada")
    kept = store.windows.get(store.windows.keep(window))
    assert [one.text for one in kept.seen if one.section == "facts"] == ["I live in Oslo."]


def test_the_steps_of_a_session_are_listed_in_order_and_compared(store):
    first = store.windows.keep(assembled(store, HistorySection()), run_id="r1")
    store.history.append("", Message.assistant("Poured.", id="t2"), session_id="s")
    second = store.windows.keep(assembled(store, HistorySection()), run_id="r2")
    assert store.windows.list("s") == [first, second]
    assert store.windows.list("s", run_id="r2") == [second]
    assert store.windows.list("s", limit=1, offset=1) == [second]
    diff = store.windows.get(second).diff(store.windows.get(first))
    assert (diff.added, diff.removed, diff.stable) == (("t2",), (), 1.0)


def test_both_faces_show_the_same_window(store):
    id = store.windows.keep(assembled(store, HistorySection()))
    assert asyncio.run(store.aio.windows.get(id)) == store.windows.get(id)


def test_pins_documents_and_summaries_are_told_too(store):
    store.vectors("handbook").add([Document(id="p7", text="Tea is poured at noon.")])
    many = [Message.user(f"number {n} " + "tea " * 20, id=f"n{n}") for n in range(60)]
    store.history.append_many("", many, session_id="long")
    summary = SummarySection(summariser=lambda _: "They spoke of tea.")
    window = assembled(
        store, PinnedSection(texts=["No mint."]), summary, HistorySection(),
        DocumentsSection(collection="handbook"), session_id="long", query="tea poured when",
    )  # fmt: skip
    kept = store.windows.get(store.windows.keep(window))
    told = {one.section: one.text for one in kept.seen if one.section != "history"}
    assert told["pinned"] == "No mint."
    assert told["summary"] == "They spoke of tea."
    assert told["documents"] == "Tea is poured at noon."
    assert kept.left_out["summarised: in_the_summary"] > 0


def test_a_window_of_a_version_that_is_gone_says_that_its_texts_are_todays(store):
    id = store.windows.keep(assembled(store, HistorySection()))
    store.history.append("", Message.user("More.", id="t2"), session_id="s")
    store.erase(ids=["m2"])
    kept = store.windows.get(id)
    assert texts(kept) == {"t1": "Pour tea."}


def test_another_scope_sees_no_window(store):
    id = store.windows.keep(assembled(store, HistorySection()))
    with pytest.raises(NotFoundError, match="no window"):
        store.scope(tenant="other").windows.get(id)
    assert store.scope(tenant="other").windows.list("s") == []


def test_a_window_goes_with_its_session(store):
    id = store.windows.keep(assembled(store, HistorySection()))
    store.erase(filter={"session_id": "s"})
    with pytest.raises(NotFoundError):
        store.windows.get(id)


def test_what_is_no_window_is_refused(store):
    with pytest.raises(InvalidRequestError, match="window="):
        store.windows.keep("window")
    with pytest.raises(NotFoundError, match="nowhere"):
        store.windows.get("nowhere")
