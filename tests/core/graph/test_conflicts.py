"""Relations that contradict each other, and entities that may be one, are found and left alone."""

from datetime import UTC, datetime
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import ContextStore
from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph import Entity, Mention, Relation

YEARS = st.none() | st.integers(2020, 2024)


def moment(year):
    return None if year is None else datetime(year, 1, 1, tzinfo=UTC)


def holds(relation, year):
    since, until = relation.valid_from, relation.valid_to
    return (since is None or since <= moment(year)) and (until is None or until > moment(year))


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), YEARS, YEARS).filter(
            lambda one: one[2] is None or one[3] is None or one[2] < one[3]
        ),
        max_size=5,
    )
)
def test_conflicts_are_the_relations_that_hold_in_one_year_and_differ(told):
    with ContextStore.open("memory://") as store:
        store.graph.add_entities([Entity(id=one, name=one) for one in "abxyz"])
        store.graph.add_relations(
            [
                Relation(
                    source_id=source,
                    target_id=target,
                    type="born_in",
                    valid_from=moment(since),
                    valid_to=moment(until),
                )
                for source, target, since, until in told
            ]
        )
        relations = store.graph.relations()
        for one, (shared, other) in {
            "target": ("source_id", "target_id"),
            "source": ("target_id", "source_id"),
        }.items():
            expected = {
                frozenset((a.id, b.id))
                for a, b in combinations(relations, 2)
                if getattr(a, shared) == getattr(b, shared)
                and getattr(a, other) != getattr(b, other)
                and any(holds(a, year) and holds(b, year) for year in range(2019, 2026))
            }
            found = store.graph.conflicts("born_in", one=one)
            assert {frozenset((pair.earlier.id, pair.later.id)) for pair in found} == expected
            assert all(pair.entity.id == getattr(pair.later, shared) for pair in found)
        assert store.graph.conflicts("likes") == []
        assert store.graph.relations() == relations


def test_relations_of_two_tenants_do_not_contradict_each_other():
    with ContextStore.open("memory://") as store:
        for tenant, target in (("t", "x"), ("u", "y")):
            graph = store.scope(tenant=tenant).graph
            graph.add_entities([Entity(id=one, name=one) for one in ("a", target)])
            graph.add_relations([Relation(source_id="a", target_id=target, type="born_in")])
        assert store.graph.conflicts("born_in") == []


@pytest.mark.parametrize(
    ("values", "told"),
    [({"one": "both"}, "one='both'"), ({"types": None}, "types=None"), ({"limit": 0}, "limit=0")],
    ids=["another end", "no types", "no limit"],
)
def test_bad_arguments_of_conflicts_are_named(values, told):
    with ContextStore.open("memory://") as store, pytest.raises(InvalidRequestError, match=told):
        store.graph.conflicts(**{"types": "born_in", **values})


def proposed(store, **values):
    return {
        (one.entity.name, one.other.name): one.reason
        for one in store.graph.propose_aliases(**values)
    }


def test_aliases_are_proposed_by_name_and_nothing_is_merged():
    names = ["Ada Lovelace", "Lovelace, Ada", "A. Lovelace", "Jon Smith", "John Smith", "Oslo"]
    names += ["International Business Machines", "IBM", "Room 12", "Room 13"]
    with ContextStore.open("memory://") as store:
        store.graph.add_entities([Entity(name=one) for one in names])
        before = store.graph.entities()
        assert proposed(store) == {
            ("Ada Lovelace", "Lovelace, Ada"): "the same words",
            ("Ada Lovelace", "A. Lovelace"): "initials",
            ("International Business Machines", "IBM"): "initials",
            ("Jon Smith", "John Smith"): "similar spelling",
        }
        assert proposed(store, min_score=0.99) == {
            ("Ada Lovelace", "Lovelace, Ada"): "the same words"
        }
        assert len(store.graph.propose_aliases(limit=2)) == 2
        assert store.graph.entities() == before
        assert store.graph.mergers() == []


def test_entities_that_sources_call_alike_are_proposed_until_they_are_merged():
    with ContextStore.open("memory://") as store:
        store.graph.add_entities([Entity(id="1", name="Ada"), Entity(id="2", name="The boss")])
        store.graph.add_mentions(
            [Mention(entity_id=one, source_id=f"s{one}", text="my  Boss") for one in ("1", "2")]
        )
        assert proposed(store) == {("Ada", "The boss"): "mentioned by the same words"}
        store.graph.merge("2", into="1")
        assert proposed(store) == {}


class Meanings:
    """Gives names of one meaning the same vector."""

    model = "meanings"

    def embed_documents(self, texts):
        return np.array([[1.0, 0.1] if one in ("car", "auto") else [0.0, 1.0] for one in texts])

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def test_aliases_are_proposed_by_meaning_with_an_embedder():
    with ContextStore.open("memory://", embedder=Meanings()) as store:
        store.graph.add_entities([Entity(name=one) for one in ("car", "auto", "tree")])
        assert proposed(store) == {("car", "auto"): "names of similar meaning"}


def test_aliases_of_two_tenants_are_not_proposed():
    with ContextStore.open("memory://") as store:
        for tenant, name in (("t", "Ada Lovelace"), ("u", "Lovelace Ada")):
            store.scope(tenant=tenant).graph.add_entities([Entity(name=name)])
        assert proposed(store) == {}


@pytest.mark.parametrize("score", [-0.1, 1.5, "high", True])
def test_a_bad_score_of_aliases_is_named(score):
    with (
        ContextStore.open("memory://") as store,
        pytest.raises(InvalidRequestError, match="min_score"),
    ):
        store.graph.propose_aliases(min_score=score)
