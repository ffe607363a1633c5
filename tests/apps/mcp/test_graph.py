"""The graph where the reference server's own tests do not look: several writers, doubles, meaning, scopes."""

import json
from types import SimpleNamespace

import anyio
import pytest
from click import ClickException
from lance_context_mcp import command
from lance_context_mcp.graph import Graph, lines_of
from lance_context_mcp.tools import graphing

from lance_context_core import AsyncContextStore

pytestmark = pytest.mark.anyio


def person(name, *observations):
    return {"name": name, "entityType": "person", "observations": [*observations]}


def known(*observations, name="Ada"):
    return {"entityName": name, "contents": [*observations]}


@pytest.mark.process
async def test_two_processes_create_at_the_same_time_and_nothing_is_lost(started, tmp_path):
    place = tmp_path / "memory"
    options = ("--uri", place, "--tools", "graph")
    async with started(*options) as one, started(*options) as two:
        await one("create_entities", entities=[person("Ada")])
        async with anyio.create_task_group() as group:
            for number in range(20):
                for name, call in (("one", one), ("two", two)):
                    group.start_soon(create, call, f"{name} {number}")
                    group.start_soon(observe, call, f"{name} {number}")
        graph = await one("read_graph")
    created = {f"{name} {number}" for name in ("one", "two") for number in range(20)}
    assert {one["name"] for one in graph["entities"]} == {*created, "Ada"}
    (ada,) = [one for one in graph["entities"] if one["name"] == "Ada"]
    assert sorted(ada["observations"]) == sorted([*created, "both"])


async def create(call, name):
    await call("create_entities", entities=[person(name)])


async def observe(call, text):
    await call("add_observations", observations=[known(text, "both")])


async def test_doubles_within_a_call_are_there_once(call):
    answer = await call("create_entities", entities=[person("Ada", "x", "x"), person("Ada", "y")])
    assert answer["entities"] == [person("Ada", "x")]
    told = await call("add_observations", observations=[known("z", "z"), known("z", "x", "w")])
    assert [one["addedObservations"] for one in told["results"]] == [["z"], ["w"]]
    relation = {"from": "Ada", "to": "nobody", "relationType": "knows"}
    assert (await call("create_relations", relations=[relation] * 3))["relations"] == [relation]
    assert await call("read_graph") == {
        "entities": [person("Ada", "x", "z", "w")],
        "relations": [relation],
    }


async def test_of_a_batch_with_one_unknown_entity_nothing_is_written(call):
    await call("create_entities", entities=[person("Ada")])
    batch = [known("x"), known("y", name="nobody")]
    assert "nobody not found" in await call.error("add_observations", observations=batch)
    assert (await call("read_graph"))["entities"] == [person("Ada")]


async def test_what_is_in_no_text_is_found_by_what_it_means_where_there_is_an_embedder(
    serving, tmp_path, embedder
):
    store = AsyncContextStore.open(tmp_path / "meaning", embedder=embedder)
    async with store, serving(store, has_meaning=True) as call:
        crowd = [person(f"p{number}", "the cat sat on the mat") for number in range(30)]
        await call("create_entities", entities=[*crowd, person("Ada", "feline friend")])
        assert (await call("search_nodes", query="feline"))["entities"] == [
            person("Ada", "feline friend")
        ]
        found = (await call("search_nodes", query="cat mat feline friend"))["entities"]
        assert len(found) == 10
        described = {tool.name: tool.description for tool in (await call.client.list_tools()).tools}
        assert "10 nearest" in described["search_nodes"]


async def test_each_scope_has_a_graph_of_its_own(serving, store):
    async with (
        serving(store.scope(user_id="ada")) as ada,
        serving(store.scope(user_id="bob")) as bob,
    ):
        await ada("create_entities", entities=[person("Oslo", "of Ada")])
        await bob("create_entities", entities=[person("Oslo", "of Bob")])
        await bob("delete_entities", entityNames=["Oslo"])
        assert (await ada("read_graph"))["entities"] == [person("Oslo", "of Ada")]
        assert (await bob("read_graph"))["entities"] == []


async def test_an_entity_that_is_made_again_has_nothing_of_the_former_one(call):
    await call("create_entities", entities=[person("Ada", "old")])
    await call("delete_entities", entityNames=["Ada"])
    await call("create_entities", entities=[person("Ada", "new")])
    assert (await call("read_graph"))["entities"] == [person("Ada", "new")]


async def test_the_file_of_the_reference_server_is_taken_over_and_twice_is_once(
    store, tmp_path, capsys
):
    file = tmp_path / "memory.jsonl"
    told = [
        {"type": "entity", **person("Ada", "likes tea", "likes tea")},
        {"type": "relation", "from": "Ada", "to": "Bob", "relationType": "knows"},
        {"type": "entity", "name": "no observations", "entityType": "x"},
        {"type": "entity", **person("Bob", 7)},
        ["no object"],
    ]
    file.write_text("\n".join([*map(json.dumps, told), "no json", ""]), encoding="utf-8")
    assert [kind for kind, _ in lines_of(file.read_text(encoding="utf-8").splitlines())] == [
        "entity",
        "relation",
    ]
    for _ in range(2):
        await command._import(SimpleNamespace(store=store, has_meaning=False), file)
    assert capsys.readouterr().err.splitlines() == [
        "1 of 1 entities and 1 of 1 relations are new",
        "0 of 1 entities and 0 of 1 relations are new",
    ]
    graph = await Graph(store).read()
    assert graph["entities"] == [person("Ada", "likes tea")]


REFERENCE = {
    "create_entities": ("entities", ["name", "entityType", "observations"], (False, False, False)),
    "create_relations": ("relations", ["from", "to", "relationType"], (False, False, False)),
    "add_observations": ("observations", ["entityName", "contents"], (False, False, False)),
    "delete_entities": ("entityNames", None, (False, True, True)),
    "delete_observations": ("deletions", ["entityName", "observations"], (False, True, True)),
    "delete_relations": ("relations", ["from", "to", "relationType"], (False, True, True)),
    "read_graph": (None, None, (True, False, True)),
    "search_nodes": ("query", None, (True, False, True)),
    "open_nodes": ("names", None, (True, False, True)),
}
"""By tool: its argument, what each of it has, and whether it reads only, destroys, is idempotent."""


async def test_the_tools_take_what_those_of_the_reference_take(call):
    tools = {tool.name: tool for tool in (await call.client.list_tools()).tools}
    assert REFERENCE.keys() <= tools.keys()
    for name, (argument, parts, hints) in REFERENCE.items():
        schema = tools[name].input_schema
        assert [*schema["properties"]] == ([argument] if argument else [])
        assert schema.get("required", []) == ([argument] if argument else [])
        if argument is not None:
            given = schema["properties"][argument]
            assert given["type"] == ("string" if argument == "query" else "array")
            if parts is not None:
                assert [*given["items"]["properties"]] == given["items"]["required"] == parts
        told = tools[name].annotations
        assert (told.read_only_hint, told.destructive_hint, told.idempotent_hint) == hints


async def test_the_text_of_an_answer_is_that_of_the_reference(call):
    async def text(name, **arguments):
        (block,) = (await call.client.call_tool(name, arguments)).content
        return block.text

    ada = person("Ada", "x")
    assert json.loads(await text("create_entities", entities=[ada])) == [ada]
    assert json.loads(await text("read_graph")) == {"entities": [ada], "relations": []}
    assert await text("delete_entities", entityNames=["Ada"]) == "Entities deleted successfully"


@pytest.mark.parametrize(
    "tool", [tool for tool in graphing.TOOLS if tool.required], ids=lambda one: one.name
)
async def test_an_argument_that_is_missing_or_of_a_wrong_type_is_named(call, tool):
    (argument,) = tool.required
    assert f"'{argument}' is a required property" in await call.error(tool.name)
    for wrong in (None, 7, {}, [7], [[]]):
        assert argument in await call.error(tool.name, **{argument: wrong})
    assert await call("read_graph") == {"entities": [], "relations": []}


async def test_a_file_in_another_encoding_is_refused_by_its_byte(store, tmp_path):
    (tmp_path / "memory.jsonl").write_bytes(b'{"type": "entity", "name": "Ren\xe9"}\n')
    with pytest.raises(ClickException, match=r"memory\.jsonl is not UTF-8, from byte 31 on"):
        await command._import(
            SimpleNamespace(store=store, has_meaning=False), tmp_path / "memory.jsonl"
        )
