"""Graph documents go into the store's graph with where they are from, and come out again."""

from types import SimpleNamespace

import pytest
from langchain_core.documents import Document
from langchain_lance_context import LanceContextGraphStore

from lance_context_core.errors import InvalidRequestError


def node(id, type="Person", **properties):
    return SimpleNamespace(id=id, type=type, properties=properties)


def edge(source, type, target, **properties):
    return SimpleNamespace(source=source, type=type, target=target, properties=properties)


def found_in(id, nodes, edges, text="a text"):
    return SimpleNamespace(
        nodes=nodes, relationships=edges, source=Document(id=id, page_content=text)
    )


def told(document):
    """What a graph document says, whatever its class."""
    return (
        {(one.type, one.id, str(sorted(one.properties.items()))) for one in document.nodes},
        {
            (one.source.id, one.type, one.target.id, str(sorted(one.properties.items())))
            for one in document.relationships
        },
        document.source.id,
    )


ADA, BOB, OSLO = node("Ada", born=1815, tags=("a", "b")), node("Bob"), node("Oslo", "City")
FIRST = found_in("first", [ADA, OSLO], [edge(ADA, "LIVES_IN", OSLO, since=1840)])
SECOND = found_in("second", [ADA, BOB], [edge(BOB, "KNOWS", ADA)])


def test_what_was_found_in_a_document_comes_out_as_it_went_in(store):
    graph = LanceContextGraphStore(store)
    assert graph.add_graph_documents([FIRST, SECOND]) == ["first", "second"]
    for one in (FIRST, SECOND):
        assert told(graph.get_graph_document(one.source.id)) == told(one)
    assert graph.get_graph_document("third") is None


async def test_it_is_awaited_and_said_twice_is_the_same(store):
    graph = LanceContextGraphStore(store.aio)
    for _ in range(2):
        await graph.aadd_graph_documents([FIRST, SECOND])
    assert await store.aio.graph.count() == {
        "entities": 3,
        "relations": 2,
        "mentions": 4,
        "statements": 0,
    }
    assert told(await graph.aget_graph_document("second")) == told(SECOND)


def test_the_store_walks_from_one_document_to_another(store):
    LanceContextGraphStore(store).add_graph_documents([FIRST, SECOND])
    (bob,) = store.graph.find("bob")
    near = store.graph.neighbours(bob.id, depth=2)
    assert [one.name for one in near.entities] == ["Bob", "Ada", "Oslo"]
    assert {one.type: one.source_ids for one in near.relations} == {
        "KNOWS": ("second",),
        "LIVES_IN": ("first",),
    }
    assert set(store.graph.find("ada")[0].source_ids) == {"first", "second"}


def test_with_a_document_goes_what_only_it_said(store):
    graph = LanceContextGraphStore(store)
    graph.add_graph_documents([FIRST, SECOND])
    store.graph.forget(["second"])
    assert [one.name for one in store.graph.entities()] == ["Ada", "Oslo"]
    assert graph.get_graph_document("second") is None
    assert told(graph.get_graph_document("first")) == told(FIRST)


def test_what_two_documents_say_of_one_thing_is_known_from_both(store):
    said = found_in("other", [], [edge(node("ADA", "person"), "LIVES_IN", node("oslo", "City"))])
    LanceContextGraphStore(store).add_graph_documents([FIRST, said])
    (relation,) = store.graph.relations()
    assert relation.source_ids == ("first", "other")
    assert relation.properties == {"since": 1840}
    assert {one.source_ids for one in store.graph.entities()} == {("first", "other")}
    assert len(store.graph.entities()) == 2  # an end that is no node of its own is one, too


def test_a_document_does_not_say_what_another_one_says_of_its_nodes(store):
    graph = LanceContextGraphStore(store)
    graph.add_graph_documents([FIRST, found_in("list", [ADA, OSLO], [])])
    assert graph.get_graph_document("list").relationships == []


def test_a_document_without_an_id_is_known_by_its_text(store):
    graph = LanceContextGraphStore(store)
    ids = graph.add_graph_documents(
        [found_in(None, [node(7)], [], text=text) for text in ("one", "two", "one")]
    )
    assert ids[0] == ids[2] != ids[1]
    assert [one.id for one in graph.get_graph_document(ids[1]).nodes] == ["7"]


@pytest.mark.parametrize(
    "wrong",
    [
        Document(page_content="no graph"),
        found_in("x", [node(" ")], []),
        found_in("x", [node("Eve", file=object())], []),
        found_in("x", [ADA, OSLO], [edge(ADA, "", OSLO)]),
    ],
)
def test_what_cannot_be_kept_is_refused(store, wrong):
    with pytest.raises(InvalidRequestError):
        LanceContextGraphStore(store).add_graph_documents([FIRST, wrong])
    assert store.graph.count()["relations"] == 0
    assert store.graph.count()["entities"] == 0
