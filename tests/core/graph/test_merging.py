"""Entities that are one: merged with the reason, and apart again as if nothing had been."""

import pytest

from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.graph import Entity, Mention, Relation, Statement, writing


async def everything(graph):
    """All that the graph shows, save when it was written."""
    return {
        "entities": {one.id: one for one in await graph.entities()},
        "relations": {one.id: one for one in await graph.relations()},
        "mentions": {one.id: one for one in await graph.mentions()},
        "statements": {one.id: one for one in await graph.statements.list()},
    }


async def lay(graph):
    await graph.add_entities([Entity(name=one, id=one) for one in ("ada", "countess", "bob", "al")])
    await graph.add_relations(
        [
            Relation(source_id="countess", target_id="bob", type="knows"),
            Relation(source_id="bob", target_id="ada", type="knows"),
            Relation(source_id="countess", target_id="countess", type="likes"),
        ]
    )
    await graph.add_mentions([Mention(entity_id="countess", source_id="r", text="The Countess")])
    await graph.statements.add([Statement(subject_id="countess", predicate="born", object="1815")])


async def test_what_led_to_one_leads_to_the_other_and_is_apart_again(graph):
    await lay(graph)
    before = await everything(graph)
    merger = await graph.merge("countess", "ada", reason="the same letters", source_ids=["r9"])
    assert (merger.entity.id, merger.into, merger.source_ids) == ("countess", "ada", ("r9",))
    assert {one.id for one in await graph.entities()} == {"ada", "bob", "al"}
    ends = {(one.source_id, one.target_id) for one in await graph.relations()}
    assert ends == {("ada", "bob"), ("bob", "ada"), ("ada", "ada")}
    assert (await graph.get("countess")).id == "ada"
    assert [one.id for one in await graph.find("the countess")] == ["ada"]
    assert await graph.aliases("ada") == {"ada": 0, "The Countess": 1}
    assert [one.object for one in await graph.statements.list("ada")] == ["1815"]
    assert [one.reason for one in await graph.mergers()] == ["the same letters"]
    assert (await graph.unmerge(merger.id)).id == "countess"
    assert await everything(graph) == before
    assert await graph.mergers() == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first first", "last first"])
async def test_mergers_of_mergers_are_taken_back_in_any_order(graph, order):
    await lay(graph)
    before = await everything(graph)
    made = [await graph.merge("countess", "ada"), await graph.merge("ada", "al")]
    assert (await graph.get("countess")).id == "al"
    for one in order:
        await graph.unmerge(made[one].id)
    assert await everything(graph) == before


async def test_what_is_written_of_a_merged_entity_is_of_the_other_one(graph):
    await lay(graph)
    merger = await graph.merge("countess", "ada")
    await graph.add_relations([Relation(source_id="countess", target_id="al", type="owes")])
    assert [one.target_id for one in (await graph.neighbours("ada", types="owes")).relations] == [
        "al"
    ]
    await graph.add_entities([Entity(name="Countess", id="countess")])  # stays merged
    assert (await graph.get("countess")).id == "ada"
    await graph.unmerge(merger.id)
    assert [
        one.target_id for one in (await graph.neighbours("countess", types="owes")).relations
    ] == ["al"]


async def test_what_is_one_already_or_nobody_cannot_be_merged(store, graph):
    await lay(graph)
    await graph.merge("countess", "ada")
    for pair in (("ada", "ada"), ("countess", "ada")):
        with pytest.raises(InvalidRequestError, match="the same entity"):
            await graph.merge(*pair)
    with pytest.raises(NotFoundError):
        await graph.merge("nobody", "ada")
    with pytest.raises(NotFoundError):
        await graph.unmerge("nothing")
    await store.scope(tenant="x").graph.add_entities([Entity(name="Eve", id="eve")])
    with pytest.raises(InvalidRequestError, match="another scope"):
        await graph.merge("eve", "ada")


async def test_a_merged_entity_is_apart_again_where_the_other_one_was_deleted(graph):
    await lay(graph)
    merger = await graph.merge("countess", "ada")
    await graph.delete_entity("ada")
    assert await graph.get("countess") is None
    assert (await graph.unmerge(merger.id)).id == "countess"
    assert (await graph.get("countess")).id == "countess"


@pytest.mark.parametrize("are_folded", [False, True], ids=["in the journal", "in the table"])
async def test_a_call_of_very_many_things_finds_what_is_there_already(
    store, graph, monkeypatch, are_folded
):
    await lay(graph)
    await graph.merge("countess", "ada", reason="the same")
    if are_folded:
        await store.flush()
    monkeypatch.setattr(writing, "_MANY_KEYS", 1)
    with pytest.raises(NotFoundError, match="nobody"):
        await graph.add([], [Relation(source_id="bob", target_id=one) for one in ("al", "nobody")])
    await graph.add(
        [Entity(name=one, id=one, source_ids=("r1",)) for one in ("bob", "new", "al")],
        [Relation(source_id=one, target_id="countess", type="meets") for one in ("bob", "new")],
    )
    await graph.add_entities([Entity(name=one, id=one, source_ids=("r2",)) for one in ("bob", "x")])
    sources = {one.id: one.source_ids for one in await graph.entities()}
    assert sources == {"ada": (), "bob": ("r1", "r2"), "new": ("r1",), "al": ("r1",), "x": ("r2",)}
    met = {(one.source_id, one.target_id) for one in await graph.relations(type="meets")}
    assert met == {("bob", "ada"), ("new", "ada")}
