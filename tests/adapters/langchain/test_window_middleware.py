"""LanceContextWindowMiddleware: what the model is shown, and what stays where it was."""

import asyncio

import pytest
from adapters.langchain.test_middleware import Scripted
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_lance_context import LanceContextWindowMiddleware
from langgraph.checkpoint.memory import InMemorySaver

from lance_context_core import ContextStore, InvalidRequestError, Message
from lance_context_core.adapting import WindowMaker
from lance_context_core.errors import BudgetError, StorageError
from lance_context_core.window import Budget, HistorySection, RecallSection, SystemSection

THREAD = {"configurable": {"thread_id": "t"}}
ROOM = Budget(total=700, margin=0)


@pytest.fixture
def store():
    with ContextStore.open("memory://") as opened:
        yield opened


def talk(n, words=20):
    """As many turns, each with its answer."""
    return [
        one
        for number in range(n)
        for one in (
            HumanMessage(f"number {number} " + "tea " * words, id=f"u{number}"),
            AIMessage("cup " * words, id=f"a{number}"),
        )
    ]


def agent(model, store, **given):
    options = {"budget": ROOM, **given}
    return create_agent(
        model,
        tools=[look],
        system_prompt="You pour tea.",
        middleware=[LanceContextWindowMiddleware(store, **options)],
        checkpointer=InMemorySaver(),
    )


@tool
def look(where: str) -> str:
    """Look somewhere."""
    return f"{where} is " + "full of leaves " * 90


def test_the_model_is_shown_a_window_and_the_thread_stays_whole(store):
    model = Scripted()
    one = agent(model, store)
    said = [*talk(40), HumanMessage("And now?", id="now")]
    state = one.invoke({"messages": said}, THREAD)
    heard = model.heard[-1]
    assert isinstance(heard[0], SystemMessage)
    assert heard[0].text == "You pour tea."
    assert heard[-1].id == "now"
    assert 2 < len(heard) < 30
    assert [m.id for m in state["messages"]][:-1] == [m.id for m in said]
    kept = store.history.get_messages("", session_id="t")
    assert [m.id for m in kept] == [m.id for m in said]


def test_the_window_has_the_ids_that_the_store_would_choose(store):
    model = Scripted()
    agent(model, store).invoke({"messages": [*talk(40), HumanMessage("Now?", id="now")]}, THREAD)
    window = store.assemble(
        session_id="t",
        budget=ROOM,
        sections=[SystemSection(text="You pour tea."), HistorySection()],
        dialect="openai_chat",
    )
    assert [m.id for m in model.heard[-1][1:]] == [m.id for m in window.messages[1:]]
    assert [m.text for m in model.heard[-1][1:]] == [m.text for m in window.messages[1:]]


def test_what_the_model_is_shown_begins_alike_for_many_calls(store):
    model = Scripted(script=["cup " * 30] * 40)
    one = agent(model, store)
    for number in range(25):
        one.invoke({"messages": [HumanMessage(f"{number} " + "tea " * 30)]}, THREAD)
    firsts = [heard[1].text for heard in model.heard]
    assert len(set(firsts)) <= 8
    assert store.history.count("", session_id="t") == 49  # the last answer comes with the next call


def test_calls_keep_their_results_and_a_message_its_whole_form(store):
    call = {"name": "look", "args": {"where": "pot"}, "id": "c1", "type": "tool_call"}
    model = Scripted(script=[AIMessage("", tool_calls=[call]), "It is full."])
    history = [
        *talk(20),
        AIMessage("", id="old", tool_calls=[{**call, "id": "c0"}]),
        ToolMessage("leaf", tool_call_id="c0", id="r0", artifact={"at": [1]}),
    ]
    one = agent(model, store, budget=1_200)
    one.invoke({"messages": [*history, HumanMessage("Look into the pot.", id="u")]}, THREAD)
    heard = model.heard[-1]
    calls = {c["id"] for m in heard if isinstance(m, AIMessage) for c in m.tool_calls}
    results = {m.tool_call_id: m for m in heard if isinstance(m, ToolMessage)}
    assert calls == results.keys() == {"c0", "c1"}
    assert results["c0"].artifact == {"at": [1]}


def test_a_long_result_is_shown_in_short_and_kept_whole(store):
    call = {"name": "look", "args": {"where": "pot"}, "id": "c1", "type": "tool_call"}
    model = Scripted(script=[AIMessage("", tool_calls=[call]), "It is full."])
    agent(model, store, budget=Budget(total=150, margin=0)).invoke(
        {"messages": [HumanMessage("Look into the pot.", id="u")]}, THREAD
    )
    (short,) = [m for m in model.heard[-1] if isinstance(m, ToolMessage)]
    assert short.text.startswith("[…")
    (kept,) = [m for m in store.history.get_messages("", session_id="t") if m.role == "tool"]
    assert kept.text.startswith("pot is full of leaves")
    assert kept.id in short.text


@pytest.mark.parametrize("kind", ["a model", "a function"])
def test_a_summary_tells_of_what_is_not_shown(store, kind):
    summariser = Scripted(script=["They spoke of tea."] * 9) if kind == "a model" else _summary
    model = Scripted()
    agent(model, store, summariser=summariser).invoke({"messages": talk(40)[:-1]}, THREAD)
    assert "They spoke of tea." in model.heard[-1][1].text
    assert isinstance(model.heard[-1][1], HumanMessage)
    assert len(store.context("summaries").list()) == 1


def _summary(_):
    return "They spoke of tea."


def test_a_user_is_reminded_of_other_threads_and_of_nobody_elses(store):
    for user in ("ada", "bob"):
        said = Message.user(f"{user} takes hazelnuts with tea", id=f"{user}-said")
        store.scope(user_id=user).history.append("", said, session_id=f"old {user}")
    model = Scripted()
    configured = {"configurable": {"thread_id": "t", "user_id": "ada"}}
    agent(model, store).invoke({"messages": [("user", "what about hazelnuts?")]}, configured)
    last = model.heard[-1][-1].text
    assert "ada takes hazelnuts" in last
    assert "bob" not in last


def test_both_ways_of_running_show_the_same(store):
    heard = []
    for run in ("invoke", "ainvoke"):
        model = Scripted()
        one = agent(model, store, sections=[HistorySection(), RecallSection()])
        config = {"configurable": {"thread_id": run}}
        given = {"messages": [*talk(30), HumanMessage("hello", id="now")]}
        if run == "invoke":
            one.invoke(given, config)
        else:
            asyncio.run(one.ainvoke(given, config))
        heard.append([m.id for m in model.heard[-1] if m.id in {"now", "u29", "a29"}])
    assert heard[0] == heard[1] == ["u29", "a29", "now"]


def test_a_window_can_be_looked_at_again(store):
    agent(Scripted(), store, keep_windows=True).invoke({"messages": [("user", "hello")]}, THREAD)
    (step,) = store.windows.list("t")
    assert [one.text for one in store.windows.get(step).seen] == ["You pour tea.", "hello"]


def test_what_does_not_fit_is_an_error_that_names_the_minimum(store):
    with pytest.raises(BudgetError, match="raise the budget"):
        agent(Scripted(), store, budget=20).invoke({"messages": [("user", "tea " * 90)]}, THREAD)


@pytest.mark.parametrize(
    "given",
    [{"budget": 0}, {"budget": "many"}, {"dialect": "klingon"}, {"sections": ["history"]}, {"user_id": 3}],
    ids=str,
)  # fmt: skip
def test_a_wrong_argument_is_refused_at_once(store, given):
    with pytest.raises(InvalidRequestError):
        LanceContextWindowMiddleware(store, **{"budget": 900, **given})


def test_half_an_emoji_fails_no_run(store):
    model = Scripted()
    agent(model, store).invoke({"messages": [HumanMessage("cut emoji \ud83d", id="u")]}, THREAD)
    assert [one.text for one in store.history.get_messages("", session_id="t")] == ["cut emoji ?"]
    assert model.heard[-1][-1].text == "cut emoji ?"


def test_a_store_that_fails_shows_the_model_the_whole_thread(store, monkeypatch, caplog):
    def failing(*_, **__):
        raise StorageError("the disk is away")

    monkeypatch.setattr(WindowMaker, "keep", failing)
    said = [*talk(40), HumanMessage("And now?", id="now")]
    model = Scripted()
    agent(model, store).invoke({"messages": said}, THREAD)
    assert [one.id for one in model.heard[-1][1:]] == [one.id for one in said]
    assert "no window could be made" in caplog.text
    with pytest.raises(StorageError):
        agent(model, store, on_error="raise").invoke({"messages": said}, THREAD)
    with pytest.raises(InvalidRequestError, match=r"^on_error='ignore'"):
        agent(model, store, on_error="ignore")
