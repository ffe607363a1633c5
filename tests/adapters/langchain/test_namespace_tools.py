"""The tools of a memory as LangMem calls them: a namespace with names in braces, a schema, actions."""

import asyncio
import json
from uuid import UUID, uuid4

import pytest
from langchain_core.tools import BaseTool
from langchain_lance_context import (
    LanceContextStore,
    create_manage_memory_tool,
    create_search_memory_tool,
)
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from lance_context_core import InvalidRequestError

LABELS = ("memories", "{langgraph_user_id}")
ADA, BEN = ({"configurable": {"langgraph_user_id": one}} for one in ("ada", "ben"))


@pytest.fixture
def memory(store, embedding):
    return LanceContextStore(store, index={"dims": 64, "embed": embedding, "fields": ["content"]})


@pytest.fixture(params=["sync", "async"])
def call(request):
    def called(tool, given, config=ADA):
        if request.param == "sync":
            return tool.invoke(given, config)
        return asyncio.run(tool.ainvoke(given, config))

    return called


def tools(memory, **options):
    return (
        create_manage_memory_tool(LABELS, store=memory, **options),
        create_search_memory_tool(LABELS, store=memory),
    )


def found(said):
    return [(one["key"], one["value"]["content"]) for one in json.loads(said)]


def test_a_memory_is_created_updated_and_deleted_below_the_namespace(memory, call):
    manage, search = tools(memory)
    said = call(manage, {"content": "Ada likes green tea."})
    [item] = memory.search(("memories", "ada"))
    assert said == f"created memory {item.key}"
    assert item.value == {"content": "Ada likes green tea."}
    assert str(UUID(item.key)) == item.key
    assert found(call(search, {"query": "tea"})) == [(item.key, "Ada likes green tea.")]
    call(manage, {"action": "update", "id": item.key, "content": "Ada likes black tea."})
    assert found(call(search, {"query": "tea"})) == [(item.key, "Ada likes black tea.")]
    assert call(manage, {"action": "delete", "id": item.key}) == f"Deleted memory {item.key}"
    assert found(call(search, {"query": "tea"})) == []


def test_each_user_has_a_namespace(memory, call):
    manage, search = tools(memory)
    call(manage, {"content": "Ada likes tea."})
    call(manage, {"content": "Ben likes soup."}, BEN)
    assert [text for _, text in found(call(search, {"query": "likes"}))] == ["Ada likes tea."]
    assert memory.list_namespaces() == [("memories", "ada"), ("memories", "ben")]


def test_a_search_takes_a_limit_an_offset_and_a_filter(memory, call):
    manage, search = tools(memory)
    for text in ("tea", "tea soup", "tea soup cake"):
        call(manage, {"content": text})
    texts = [text for _, text in found(call(search, {"query": "tea", "limit": 2}))]
    assert texts == ["tea", "tea soup"]
    assert [t for _, t in found(call(search, {"query": "tea", "offset": 2}))] == ["tea soup cake"]
    filtered = call(search, {"query": "tea", "filter": {"content": "tea soup"}})
    assert [text for _, text in found(filtered)] == ["tea soup"]


class Profile(BaseModel):
    name: str
    age: int | None = None


def test_a_schema_is_the_type_of_a_memory(memory, call):
    manage, search = tools(memory, schema=Profile)
    assert manage.args["content"]["anyOf"][0] == {"$ref": "#/$defs/Profile"}
    call(manage, {"content": {"name": "Ada", "age": 36}})
    assert memory.search(("memories", "ada"))[0].value == {"content": {"name": "Ada", "age": 36}}
    assert [one for _, one in found(call(search, {"query": "x"}))] == [{"name": "Ada", "age": 36}]
    with pytest.raises(ValueError, match="name"):
        call(manage, {"content": {"age": 36}})
    assert len(memory.search(("memories",))) == 1


@pytest.mark.parametrize("actions", [("create", "update"), ("update",), ["delete"]], ids=str)
def test_a_model_is_offered_the_actions_that_are_permitted(memory, call, actions):
    manage, _ = tools(memory, actions_permitted=actions)
    offered = manage.args["action"]
    assert offered.get("enum", [offered.get("const")]) == list(actions)
    assert offered["default"] == actions[0]
    refused = ({"create", "update", "delete"} - set(actions)).pop()
    with pytest.raises(ValueError, match="action"):
        call(manage, {"action": refused, "content": "x", "id": str(uuid4())})
    assert memory.search(()) == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"action": "update", "content": "x"}, "needs the id"),
        ({"action": "delete"}, "needs the id"),
        ({"content": "x", "id": str(UUID(int=1))}, "takes no id"),
        ({}, "content is empty"),
    ],
)
def test_a_model_is_told_what_was_wrong_with_its_call(memory, call, given, problem):
    assert problem in call(tools(memory)[0], given)
    assert memory.search(()) == []


def test_without_the_name_in_braces_a_model_is_told_so(memory, call):
    manage, search = tools(memory)
    assert "langgraph_user_id" in call(manage, {"content": "x"}, {})
    assert "langgraph_user_id" in call(search, {"query": "x"}, {})
    assert memory.search(()) == []


def test_items_are_the_artifact_of_an_answer_that_has_one(memory, call):
    call(tools(memory)[0], {"content": "tea"})
    search = create_search_memory_tool(LABELS, store=memory, response_format="content_and_artifact")
    asked = {"name": search.name, "args": {"query": "tea"}, "id": "1", "type": "tool_call"}
    message = call(search, asked)
    assert message.artifact == memory.search(("memories", "ada"), query="tea")
    assert found(message.content)[0][1] == "tea"


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_without_a_store_it_is_that_of_the_graph(memory, is_async):
    manage = create_manage_memory_tool(namespace=("memories", "{user_id}"))
    search = create_search_memory_tool(namespace="memories")
    answers = []

    def node(state, config):
        manage.invoke({"content": "tea"}, config)
        answers.append(search.invoke({"query": "tea"}, config))

    async def anode(state, config):
        await manage.ainvoke({"content": "tea"}, config)
        answers.append(await search.ainvoke({"query": "tea"}, config))

    graph = StateGraph(MessagesState)
    graph.add_node("node", anode if is_async else node)
    graph.add_edge(START, "node")
    app, config = graph.compile(store=memory), {"configurable": {"user_id": "ada"}}
    given = {"messages": []}
    asyncio.run(app.ainvoke(given, config)) if is_async else app.invoke(given, config)
    assert [one.namespace for one in memory.search(())] == [("memories", "ada")]
    assert found(answers[0])[0][1] == "tea"


def test_the_arguments_of_langmem_are_taken(memory):
    made: list[BaseTool] = [
        create_manage_memory_tool(
            namespace=("memories", "{user_id}"),
            instructions="Keep it short.",
            schema=Profile,
            actions_permitted=("create", "update"),
            store=memory,
            name="keep",
        ),
        create_search_memory_tool(
            ("memories", "{user_id}"), instructions="Look.", store=memory, name="look"
        ),
    ]
    assert [one.name for one in made] == ["keep", "look"]
    assert [one.description for one in made] == ["Keep it short.", "Look."]


REFUSED = {
    "no store and no namespace": {},
    "a namespace that is empty": {"namespace": ()},
    "a namespace of numbers": {"namespace": (1,)},
    "a user beside a namespace": {"namespace": LABELS, "user_id": "ada"},
    "a place beside a namespace": {"namespace": LABELS, "store": "memory"},
}


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("make", [create_manage_memory_tool, create_search_memory_tool])
def test_arguments_that_do_not_go_together_are_refused(make, given):
    with pytest.raises(InvalidRequestError):
        make(**given)


def test_a_store_that_is_given_twice_or_with_what_needs_a_namespace_is_refused(store):
    for make, given in (
        (create_manage_memory_tool, {"store": store}),
        (create_manage_memory_tool, {"schema": Profile}),
        (create_manage_memory_tool, {"actions_permitted": ()}),
        (create_manage_memory_tool, {"actions_permitted": ("forget",)}),
        (create_manage_memory_tool, {"namespace": LABELS}),
        (create_search_memory_tool, {"response_format": "content_and_artifact"}),
    ):
        with pytest.raises(InvalidRequestError):
            make(store, **given)
