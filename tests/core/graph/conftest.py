"""What tests of the graph have in common: a graph of named things, and what it finds by name."""

import pytest

from lance_context_core.graph import Entity, Relation


@pytest.fixture
def graph(store):
    return store.graph


@pytest.fixture
def lay(graph):
    """Lays a graph whose entities are called by their ids: `(source, target[, type[, weight]])`."""

    async def lay(*pairs, **values):
        names = dict.fromkeys(name for pair in pairs for name in pair[:2])
        await graph.add_entities([Entity(name=name, id=name) for name in names])
        fields = ("source_id", "target_id", "type", "weight")
        return await graph.add_relations(
            [Relation(**dict(zip(fields, pair, strict=False)), **values) for pair in pairs]
        )

    return lay
