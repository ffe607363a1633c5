"""The graph is kept like all else: in scopes, in versions, on branches, until it is erased."""

import asyncio
import dataclasses

import pytest
from lance_context_testing.samples import NO_NAMES

from lance_context_core import Message
from lance_context_core.errors import InvalidRequestError, NotFoundError, ReadOnlyError
from lance_context_core.graph import Entity, Mention, Relation
from lance_context_core.storage.database import GRAPH_TABLE
from lance_context_core.storage.lance import reads
from lance_context_core.storage.lance.schema import GRAPH

MARKER = "zq77vx"


def files(store):
    from pathlib import Path

    return [one for one in Path(store.uri).rglob("*") if one.is_file()]


def holding(store, text):
    return [one.name for one in files(store) if text.encode() in one.read_bytes()]


# Scopes


async def test_a_scope_neither_sees_nor_changes_the_graph_of_another(store):
    handles = {name: store.scope(tenant=name).graph for name in ("x", "y")}
    for name, graph in handles.items():
        await graph.add_entities([Entity(name="Ada", id="ada"), Entity(name=name, id="other")])
        await graph.add_relations([Relation(source_id="ada", target_id="other", id="r")])
    for name, graph in handles.items():
        (found,) = await graph.find("ada")
        assert found.tenant == name
        assert [one.name for one in (await graph.neighbours("ada", depth=9)).entities] == [
            "Ada",
            name,
        ]
    assert await handles["x"].delete_entity("ada") is True
    assert await handles["x"].get_relation("r") is None
    assert await handles["y"].get_relation("r") is not None
    assert (await handles["y"].count())["entities"] == 2


async def test_who_sees_several_scopes_walks_in_each_of_them_and_never_across(store):
    for name in ("x", "y"):
        graph = store.scope(tenant=name).graph
        await graph.add_entities([Entity(name="Ada", id="ada"), Entity(name=name, id=name)])
        await graph.add_relations([Relation(source_id="ada", target_id=name)])
    found = await store.graph.neighbours("ada")
    assert [one.name for one in found.entities] == ["Ada", "Ada", "x", "y"]
    assert await store.graph.path("x", "y") is None
    with pytest.raises(NotFoundError):  # an end in another scope is none
        await store.graph.add_relations([Relation(source_id="x", target_id="y")])


async def test_nobody_writes_what_belongs_to_others(store):
    with pytest.raises(InvalidRequestError, match="tenant"):
        await store.scope(tenant="x").graph.add_entities([Entity(name="Ada", tenant="y")])


# Versions and branches


async def test_the_graph_is_as_it_was_at_a_tag(store):
    await store.history.append("a", Message.user("0"), session_id="s")
    await store.graph.add_entities([Entity(name="Ada", id="ada")])
    await store.tag("before")
    await store.graph.add_entities([Entity(name="Bob", id="bob")])
    await store.graph.delete_entity("ada")
    past = await store.checkout("before")
    assert [one.id for one in await past.graph.entities()] == ["ada"]
    with pytest.raises(ReadOnlyError):
        await past.graph.add_entities([Entity(name="Cy")])
    await store.restore("before")
    assert [one.id for one in await store.graph.entities()] == ["ada"]


async def test_a_branch_brings_its_graph_when_it_is_merged(store):
    await store.history.append("a", Message.user("0"), session_id="s")
    await store.graph.add_entities([Entity(name=one, id=one) for one in "ab"])
    branch = await store.create_branch("b")
    await branch.graph.add_relations([Relation(source_id="a", target_id="b", id="r")])
    await branch.graph.delete_entity("b")
    await branch.graph.add_entities([Entity(name="c", id="c")])
    assert [one.id for one in await store.graph.entities()] == ["a", "b"]
    report = await store.merge("b")
    assert (report.tables["graph"].added, report.tables["graph"].deleted) == (1, 1)
    assert {one.id for one in await store.graph.entities()} == {"a", "c"}


async def test_what_both_branches_changed_is_settled_by_a_policy(store, clock):
    await store.history.append("a", Message.user("0"), session_id="s")
    await store.graph.add_entities([Entity(name="Ada", id="a", properties={"n": 0})])
    branch = await store.create_branch("b")
    await store.graph.add_entities([Entity(name="Ada", id="a", properties={"n": 1})])
    clock.advance(minutes=1)
    await branch.graph.add_entities([Entity(name="Ada", id="a", properties={"n": 2})])
    report = await store.merge("b", policy=lambda conflict: conflict.theirs)
    (resolution,) = report.conflicts
    assert resolution.conflict.ours.properties == {"n": 1}
    assert (await store.graph.get("a")).properties == {"n": 2}


# Sources


async def test_what_is_written_again_is_known_from_both_sources(store):
    for source in ("r1", "r2", "r1"):
        await store.graph.add_entities([Entity(name="Ada", id="a", source_ids=(source,))])
    assert (await store.graph.get("a")).source_ids == ("r1", "r2")


async def test_sources_that_many_add_at_once_are_all_kept(store):
    await asyncio.gather(
        *(
            store.graph.add_entities([Entity(name="Ada", id="a", source_ids=(f"{n}",))])
            for n in range(8)
        )
    )
    assert sorted((await store.graph.get("a")).source_ids) == [f"{n}" for n in range(8)]


async def test_a_forgotten_source_takes_along_what_only_it_supported(store):
    await _told(store.graph, "r1", "r2")
    assert await store.graph.forget(["r1"]) == 4
    await _has_what_r2_says(store.graph)
    assert await store.graph.forget(["r1"]) == 0


# Erasure


async def test_an_erased_record_takes_along_what_only_it_supported_out_of_every_file(store):
    first = await store.history.append("a", Message.user(f"Zoe {MARKER}"), session_id="s")
    second = await store.history.append("a", Message.user("Ada and Bob"), session_id="s")
    await _told(store.graph, first, second)
    await store.tag("t")
    branch = await store.create_branch("b")
    await branch.graph.add_entities([Entity(name="Dan", id="dan")])
    await store.flush()
    assert holding(store, MARKER)
    planned = await store.erase(filter={"id": first}, dry_run=True)
    report = await store.erase(filter={"id": first})
    assert (planned.graph, report.graph) == (4, 4)
    assert holding(store, MARKER) == []
    assert holding(store, first) == []
    await _has_what_r2_says(store.graph, second)
    await _has_what_r2_says((await store.checkout("t")).graph, second)
    assert {one.id for one in await branch.graph.entities()} == {"ada", "bob", "dan"}


async def test_a_branch_on_which_nothing_else_supports_it_loses_it(store):
    first = await store.history.append("a", Message.user("1"), session_id="s")
    second = await store.history.append("a", Message.user("2"), session_id="s")
    await store.graph.add_entities([Entity(name="Ada", id="a", source_ids=(first,))])
    branch = await store.create_branch("b")
    await store.graph.add_entities([Entity(name="Ada", id="a", source_ids=(second,))])
    await store.erase(ids=[first])
    assert (await store.graph.get("a")).source_ids == (second,)
    assert await branch.graph.get("a") is None


async def test_an_erasure_that_leaves_what_was_derived_leaves_the_graph_without_the_source(store):
    first = await store.history.append("a", Message.user("1"), session_id="s")
    await store.graph.add_entities([Entity(name="Ada", id="a", source_ids=(first,))])
    report = await store.erase(ids=[first], derived=False)
    assert report.graph == 0
    assert (await store.graph.get("a")).source_ids == ()
    assert holding(store, first) == []


async def test_an_erased_document_takes_along_what_its_passages_supported(store):
    document = await store.documents.add(b"Ada is here.", name="a.txt")
    (chunk,) = await store.documents.chunks(document.id)
    await store.graph.add_entities(
        [Entity(name="Ada", source_ids=(chunk.id,)), Entity(name="Bob", source_ids=(document.id,))]
    )
    await store.documents.erase(document.id)
    assert await store.graph.entities() == []


async def test_with_all_that_somebody_has_goes_the_graph(store):
    ada = store.scope(user_id="ada")
    await ada.graph.add_entities([Entity(name=MARKER)])
    await store.graph.add_entities([Entity(name="Bob")])
    await store.flush()
    assert (await ada.erase()).graph == 1
    assert holding(store, MARKER) == []
    assert [one.name for one in await store.graph.entities()] == ["Bob"]


# Bad input


@pytest.mark.parametrize("name", NO_NAMES, ids=["NUL inside", "NUL", "surrogate", "ends in one"])
async def test_what_cannot_name_anything_is_refused(store, name):
    for make in (
        lambda: store.graph.add_entities([Entity(name=name)]),
        lambda: store.graph.add_entities([Entity(name="a", id=name)]),
        lambda: store.graph.find(name),
        lambda: store.graph.neighbours(name),
    ):
        with pytest.raises(InvalidRequestError):
            await make()


async def test_what_is_no_entity_is_refused_by_its_place(store):
    with pytest.raises(InvalidRequestError, match=r"entities\[1\]"):
        await store.graph.add_entities([Entity(name="a"), "b"])
    with pytest.raises(InvalidRequestError, match="entities is"):
        await store.graph.add_entities("ab")


async def test_a_span_of_a_mention_has_both_ends(store):
    await store.graph.add_entities([Entity(name="a", id="a")])
    wrong = Mention(entity_id="a", source_id="r", text="a", start=3)
    for one in (
        wrong,
        dataclasses.replace(wrong, end=2),
        dataclasses.replace(wrong, start=None, end=1),
    ):
        with pytest.raises(InvalidRequestError, match="give both"):
            await store.graph.add_mentions([one])


# Helpers


async def _told(graph, first, second):
    """Zoe, and what she has to do with others, are known from `first` alone."""
    await graph.add(
        [
            Entity(name=f"Zoe {MARKER}", id="zoe", source_ids=(first,)),
            Entity(name="Ada", id="ada", source_ids=(first, second)),
            Entity(name="Bob", id="bob"),
        ],
        [
            Relation(source_id="zoe", target_id="ada", id="known", source_ids=(first,)),
            # With an end that goes, it goes, whoever says so.
            Relation(source_id="bob", target_id="zoe", id="led", source_ids=(second,)),
            Relation(source_id="ada", target_id="bob", id="stays", source_ids=(second, first)),
        ],
        mentions=[Mention(entity_id="ada", source_id=first, text=f"Ada {MARKER}")],
    )


async def _has_what_r2_says(graph, second="r2"):
    assert {one.id: one.source_ids for one in await graph.entities()} == {
        "ada": (second,),
        "bob": (),
    }
    assert {one.id: one.source_ids for one in await graph.relations()} == {"stays": (second,)}
    assert await graph.mentions() == []


@pytest.mark.parametrize("limit", [3, 5, 9], ids=["fewer", "all", "more"])
async def test_the_first_ones_are_listed_in_order_however_many_are_asked_for(
    store, graph, limit, monkeypatch
):
    monkeypatch.setattr(reads, "_MANY", 2)
    for name in "cabed":
        await graph.add_entities([Entity(name=name)])
    await store.flush()
    listed = await graph.entities(limit=limit)
    assert [one.name for one in listed] == list("cabed")[:limit]


async def test_of_the_last_rows_as_many_are_listed_as_are_asked_for(store, graph, monkeypatch):
    monkeypatch.setattr(reads, "_MANY", 2)
    await graph.add_entities([Entity(name=name) for name in "cabed"])
    await store.flush()
    table = store._resources.database.table(GRAPH_TABLE, GRAPH)
    every = (await table.slice(None, columns=["node"]))["node"].to_pylist()
    last = await table.slice(None, columns=["node"], limit=6, last=2)
    assert (len(every), last["node"].to_pylist()) == (5, every[-2:])
