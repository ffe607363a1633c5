"""Cypher needs an engine that only some have installed; tests/cypher asks it."""

import builtins

import pytest

from lance_context_core.errors import InvalidRequestError, MissingExtraError


async def test_without_its_engine_cypher_names_the_command_that_installs_it(graph, monkeypatch):
    imported = builtins.__import__

    def without(name, *rest):
        if name == "lance_graph":
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'lance-context-core\[graph\]'"):
        await graph.cypher("MATCH (a:Entity) RETURN a.name")


async def test_a_query_that_writes_is_refused_wherever_it_is_asked(graph):
    with pytest.raises(InvalidRequestError, match="CREATE: it may only read"):
        await graph.cypher("MATCH (a:Entity) CREATE (b:Entity)")
