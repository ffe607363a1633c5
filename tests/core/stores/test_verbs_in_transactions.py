"""Each verb of a store leaves the same whether it is called in a transaction or without one."""

# ruff: noqa: PT012 - which line of the block raises is what these are about

import shutil
from datetime import UTC, datetime

import pytest
from core.conformance.doubles import WordVectors

from lance_context_core import ContextStore, Document, InvalidRequestError, Item, Message
from lance_context_core.graph import Entity, Relation

KEY = (("n",), "k")
LATER = datetime(2130, 1, 1, tzinfo=UTC)
VERBS = {
    "history.append_many": lambda s: s.history.append_many(
        "a", [Message.user("x", id="7"), Message.user("y")], session_id="1"
    ),
    "history.pop": lambda s: s.history.pop("a", session_id="1"),
    "history.replace": lambda s: s.history.replace(
        "a", [Message.user("x", id="1"), Message.user("y")], session_id="1"
    ),
    "history.replace some": lambda s: s.history.replace(
        "a", [Message.user("x", id="1")], session_id="1", filter={"id": "1"}
    ),
    "history.replace_tail": lambda s: s.history.replace_tail(
        "a", [Message.user("x")], session_id="1", after="1"
    ),
    "history.rewrite": lambda s: s.history.rewrite("a", Message.user("x", id="1"), session_id="1"),
    "history.annotate": lambda s: s.history.annotate("a", {"p": 1}, session_id="1"),
    "history.clear": lambda s: s.history.clear("a", session_id="1"),
    "history.touch": lambda s: s.history.touch("a", session_id="1", expires_at=LATER),
    "memory.add": lambda s: s.memory.add([Message.user("x")], user_id="ada"),
    "memory.clear": lambda s: s.memory.clear(),
    "sessions.create": lambda s: s.sessions.create("9", title="t"),
    "sessions.update": lambda s: s.sessions.update("1", title="u", expires_at=LATER),
    "sessions.delete": lambda s: s.sessions.delete("1"),
    "kv.put": lambda s: s.kv().put([item("k", n=9)]),
    "kv.add": lambda s: s.kv().add([item("k", n=9), item("z", n=9)]),
    "kv.append": lambda s: s.kv().append([item("q", n=9)]),
    "kv.delete": lambda s: s.kv().delete([KEY]),
    "kv.write": lambda s: s.kv().write(puts=[item("z")], deletes=[KEY]),
    "kv.delete_under": lambda s: s.kv().delete_under(("n",)),
    "kv.touch": lambda s: s.kv().touch([KEY], expires_at=LATER),
    "vectors.add": lambda s: s.vectors().add([Document(id="e", text="t e")]),
    "vectors.upsert": lambda s: s.vectors().upsert([Document(id="d", text="other")]),
    "vectors.delete": lambda s: s.vectors().delete(["d"]),
    "context.add": lambda s: s.context().add_many([{"role": "user", "content": "c"}]),
    "context.upsert": lambda s: s.context().upsert_many(
        [{"role": "user", "content": "c", "external_id": "x"}]
    ),
    "context.update": lambda s: s.context().update(id="1", metadata={"z": 1}),
    "context.delete": lambda s: s.context().delete(id="1"),
    "graph.add_entities": lambda s: s.graph.add_entities([Entity(name="A"), Entity(name="B")]),
    "graph.add_relations": lambda s: s.graph.add_relations(
        [Relation(source_id=id_of(s), target_id=id_of(s))]
    ),
    "graph.delete_entity": lambda s: s.graph.delete_entity(id_of(s)),
    "tasks.add_many": lambda s: s.tasks.board().add_many(["p", "q"]),
    "tasks.complete": lambda s: s.tasks.board().complete_many(
        s.tasks.board().claim_many("w", limit=1)
    ),
    "tasks.delete_board": lambda s: s.tasks.delete_board("default"),
    "state.patch": lambda s: s.state.patch("1", {"b": 1}),
    "checkpoints.save": lambda s: s.checkpoints.save("w", {"a": 1}),
    "templates.save": lambda s: s.templates.save("t", "hi {x}"),
    "plans.add": lambda s: s.plans.add("do it"),
}


def item(key, **value):
    return Item(namespace=("n",), key=key, value=value)


def id_of(store):
    return store.graph.find("A")[0].id


def fill(store):
    turns = [Message.user("one", id="1"), Message.user("two", id="2")]
    store.history.append_many("a", turns, session_id="1")
    store.memory.add([Message.user("tea")], user_id="ada")
    store.kv().put([item("k", n=1)])
    store.vectors().add([Document(id="d", text="d text")])
    store.graph.add_entities([Entity(name="A")])
    store.tasks.board().add("job")
    store.state.set("1", {"s": 0})


def shown(store):
    """All that a user sees, without generated ids and times."""
    return {
        "history": [
            (one.text, one.metadata) for one in store.history.get_messages("a", session_id="1")
        ],
        "records": [one["text"] for one in store.context().list()],
        "sessions": [(one.id, one.title, one.expires_at) for one in store.sessions.list()],
        "kv": [(one.key, one.value, one.expires_at) for one in store.kv().list()],
        "vectors": [(one.id, one.text) for one in store.vectors().list()],
        "entities": [one.name for one in store.graph.entities()],
        "relations": store.graph.count()["relations"],
        "tasks": [(one.title, str(one.status)) for one in store.tasks.board().list()],
        "state": store.state.get("1"),
        "checkpoints": len(store.checkpoints.list("w")),
        "templates": [one.name for one in store.templates.list()],
        "plans": len(store.plans.list()),
    }


def opened(place):
    return ContextStore.open(place, embedder=WordVectors(dimension=8))


@pytest.fixture(scope="module", params=["log", "flushed"])
def filled(request, tmp_path_factory):
    """The directory of a store that is filled once, and copied for each test."""
    place = tmp_path_factory.mktemp(request.param) / "store"
    with opened(place) as store:
        fill(store)
        if request.param == "flushed":
            store.flush()
    return place


@pytest.fixture
def stores(filled, tmp_path):
    places = [shutil.copytree(filled, tmp_path / name) for name in ("one", "two")]
    with opened(places[0]) as one, opened(places[1]) as two:
        yield one, two


@pytest.mark.parametrize("verb", [*VERBS])
def test_a_verb_leaves_the_same_inside_and_outside_and_nothing_if_the_block_fails(stores, verb):
    outside, inside = stores
    before = shown(inside)
    with pytest.raises(KeyError, match="mine"), inside.transaction() as tx:
        VERBS[verb](tx)
        raise KeyError("mine")
    assert shown(inside) == before
    VERBS[verb](outside)
    with inside.transaction() as tx:
        VERBS[verb](tx)
    assert shown(inside) == shown(outside)
    inside.flush()
    assert shown(inside) == shown(outside)


def test_all_verbs_that_take_part_may_be_in_one_transaction(stores):
    outside, inside = stores
    chosen = [one for one in VERBS if "delete" not in one and "clear" not in one]
    for verb in chosen:
        VERBS[verb](outside)
    with inside.transaction() as tx:
        for verb in chosen:
            VERBS[verb](tx)
    assert shown(inside) == shown(outside)


@pytest.mark.parametrize(
    "use",
    [
        lambda tx: tx.vectors().delete_collection(),
        lambda tx: tx.vectors().erase(["d"]),
    ],
    ids=["vectors.delete_collection", "vectors.erase"],
)
def test_a_verb_that_cannot_take_part_is_refused_and_so_is_the_rest(stores, use):
    _, store = stores
    before = shown(store)
    with pytest.raises(InvalidRequestError, match="failed"), store.transaction() as tx:
        tx.kv().put([item("k", n=2)])
        with pytest.raises(InvalidRequestError, match="cannot be part of a transaction"):
            use(tx)
    assert shown(store) == before
