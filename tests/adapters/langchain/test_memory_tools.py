"""What an agent manages of its user's memories, and what is made of conversations for it."""

import json

import pytest
from adapters.langchain.test_middleware import Scripted
from langchain_core.messages import AIMessage, HumanMessage
from langchain_lance_context import (
    LanceContextMemoryManager,
    create_manage_memory_tool,
    create_search_memory_tool,
    language_model,
)
from langgraph.graph import START, MessagesState, StateGraph

from lance_context_core import ContextStoreError, InvalidRequestError

ADA = {"configurable": {"user_id": "ada", "thread_id": "t"}}
BOB = {"configurable": {"user_id": "bob", "thread_id": "t"}}
ANSWER = '```json\n{"facts": [{"text": "Ada keeps bees.", "turn": 1, "quote": "I keep bees"}]}\n```'


def known(store, config=ADA, query="bees tea"):
    return json.loads(create_search_memory_tool(store).invoke({"query": query}, config))


def manage(store, config=ADA, **given):
    return create_manage_memory_tool(store).invoke(given, config)


def test_a_memory_is_created_updated_and_deleted_and_its_history_stays(store):
    said = manage(store, content="Ada likes green tea.")
    (one,) = known(store)
    assert said == f"Created {one['id']}."
    assert one["said"] == ["Ada likes green tea."]
    manage(store, action="update", id=one["id"], content="Ada likes black tea.")
    assert [each["text"] for each in known(store)] == ["Ada likes black tea."]
    manage(store, action="delete", id=one["id"])
    changes = store.scope(user_id="ada").knowledge.history(one["id"])
    assert [each.kind for each in changes] == ["add", "correct", "invalidate"]
    assert "Ada likes black tea." not in [each["text"] for each in known(store)]


def test_what_is_created_twice_is_one_memory_and_once_deleted_it_is_found_no_more(store):
    first, again = (manage(store, content="Ada likes green tea.") for _ in range(2))
    assert again == "That is remembered already."
    (one,) = known(store)
    assert first == f"Created {one['id']}."
    assert one["said"] == ["Ada likes green tea."] * 2
    manage(store, action="delete", id=one["id"])
    assert known(store) == []


def test_what_no_job_has_read_yet_is_found_and_cannot_be_updated(store):
    heard = HumanMessage("I brew my tea with water from the well.")
    LanceContextMemoryManager(store).submit({"messages": [heard]}, ADA)
    manage(store, content="Ada likes green tea.")
    assert [(one["id"] is None, one["text"]) for one in known(store)] == [
        (False, "Ada likes green tea."),
        (True, heard.content),
    ]


async def test_the_tools_are_awaited_too(store):
    await create_manage_memory_tool(store).ainvoke({"content": "Ada likes tea."}, ADA)
    found = json.loads(await create_search_memory_tool(store).ainvoke({"query": "tea"}, ADA))
    assert [one["text"] for one in found] == ["Ada likes tea."]


def test_no_user_finds_or_touches_a_memory_of_another(store):
    manage(store, content="Ada likes tea.")
    (one,) = known(store)
    assert known(store, BOB) == []
    said = manage(store, BOB, action="delete", id=one["id"])
    assert said.startswith("Error: ")
    assert known(store) == [one]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"action": "update", "content": "x"}, "needs the id"),
        ({"action": "delete"}, "needs the id"),
        ({"action": "create", "content": " "}, "content is empty"),
        ({"action": "update", "id": "nothing", "content": "x"}, "not a fact"),
    ],
)
def test_a_model_is_told_what_was_wrong_with_its_call(store, given, problem):
    assert problem in manage(store, **given)


def test_what_is_not_permitted_is_not_done(store):
    tool = create_manage_memory_tool(store, actions_permitted=["create"])
    assert "not permitted" in tool.invoke({"action": "delete", "id": "x"}, ADA)


def test_without_a_user_a_model_is_told_so_and_nothing_is_kept(store):
    tool = create_manage_memory_tool(store)
    assert tool.invoke({"content": "x"}).startswith("Error: user_id")
    assert store.knowledge.jobs.list() == []


def test_a_manager_makes_facts_of_messages_by_a_chat_model(store):
    model = Scripted(script=[ANSWER])
    manager = LanceContextMemoryManager(store, model=language_model(model, name="m"))
    messages = [HumanMessage("I keep bees, you know."), AIMessage("Lovely.")]
    (fact,) = manager.invoke({"messages": messages}, ADA)
    assert fact["text"] == "Ada keeps bees."
    assert "I keep bees, you know." in model.heard[0][-1].content
    assert store.scope(user_id="ada").knowledge.explain(fact["id"]).is_verified


def test_a_manager_in_the_background_owes_the_job_and_another_process_does_it(store):
    messages = [HumanMessage("I live in Oslo.", id="m1")]
    manager = LanceContextMemoryManager(store)
    job_id = manager.submit({"messages": messages}, ADA)
    assert manager.submit({"messages": messages}, ADA) == job_id
    assert known(store, query="live Oslo") != []  # what was said is found by then, no fact yet
    (job,) = LanceContextMemoryManager(store).run_due()
    assert (job.id, job.state) == (job_id, "succeeded")
    assert job.result["facts"] != []


async def test_a_manager_is_a_node_of_a_graph(store):
    graph = StateGraph(MessagesState)
    manager = LanceContextMemoryManager(store)

    async def remember(state, config):
        await manager.ainvoke(state, config)
        return {}

    graph.add_node("remember", remember)
    graph.add_edge(START, "remember")
    await graph.compile().ainvoke({"messages": [("user", "I live in Oslo.")]}, ADA)
    facts = store.scope(user_id="ada").context("knowledge").list(filters={"kind": "fact"})
    assert [one["text"] for one in facts] == ["I live in Oslo."]


def test_where_the_model_says_what_cannot_be_used_the_messages_are_kept_and_the_job_says_why(store):
    model = Scripted(script=["I cannot do that.", "I cannot do that.", ANSWER])
    manager = LanceContextMemoryManager(store, model=language_model(model, name="m"))
    with pytest.raises(ContextStoreError, match="are kept, and not all facts"):
        manager.invoke({"messages": [HumanMessage("I keep bees, you know.", id="m1")]}, ADA)
    (job,) = store.knowledge.jobs.list(state="scheduled")
    store.knowledge.jobs.retry(job.id)
    assert [one.state for one in manager.run_due()] == ["succeeded"]
    assert [one["text"] for one in known(store)] == ["Ada keeps bees."]


@pytest.mark.parametrize("wrong", [{}, "I keep bees.", None], ids=["no messages", "a text", "None"])
def test_what_has_no_messages_is_refused(store, wrong):
    with pytest.raises(InvalidRequestError, match="input is"):
        LanceContextMemoryManager(store).invoke(wrong, ADA)


def test_messages_that_say_nothing_make_nothing(store):
    assert LanceContextMemoryManager(store).invoke({"messages": []}, ADA) == []
    assert LanceContextMemoryManager(store).submit({"messages": []}, ADA) is None


def test_what_is_no_chat_model_is_refused():
    with pytest.raises(InvalidRequestError, match="chat model of LangChain"):
        language_model("gpt")
