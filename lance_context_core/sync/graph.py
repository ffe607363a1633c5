"""The graph, from synchronous code."""

from lance_context_core.graph.contradictions import AsyncStatements
from lance_context_core.graph.graph import AsyncGraph
from lance_context_core.sync._blocking import Blocking, blocking, showing


class Statements(Blocking[AsyncStatements]):
    """What sources say of the entities of a graph; `AsyncStatements` is the asynchronous one."""

    add = blocking(AsyncStatements.add)
    list = blocking(AsyncStatements.list)
    contradictions = blocking(AsyncStatements.contradictions)
    resolve = blocking(AsyncStatements.resolve)
    decide = blocking(AsyncStatements.decide)
    undecide = blocking(AsyncStatements.undecide)
    delete = blocking(AsyncStatements.delete)
    outdated_sources = blocking(AsyncStatements.outdated_sources)


class Graph(Blocking[AsyncGraph]):
    """Entities and the relations between them; `AsyncGraph` is the asynchronous one."""

    statements = showing(AsyncGraph.statements, Statements)

    add = blocking(AsyncGraph.add)
    add_entities = blocking(AsyncGraph.add_entities)
    add_relations = blocking(AsyncGraph.add_relations)
    add_mentions = blocking(AsyncGraph.add_mentions)
    delete_entity = blocking(AsyncGraph.delete_entity)
    delete_relation = blocking(AsyncGraph.delete_relation)
    forget = blocking(AsyncGraph.forget)
    merge = blocking(AsyncGraph.merge)
    unmerge = blocking(AsyncGraph.unmerge)
    mergers = blocking(AsyncGraph.mergers)
    extract = blocking(AsyncGraph.extract)
    get = blocking(AsyncGraph.get)
    get_relation = blocking(AsyncGraph.get_relation)
    find = blocking(AsyncGraph.find)
    entities = blocking(AsyncGraph.entities)
    relations = blocking(AsyncGraph.relations)
    mentions = blocking(AsyncGraph.mentions)
    aliases = blocking(AsyncGraph.aliases)
    count = blocking(AsyncGraph.count)
    cypher = blocking(AsyncGraph.cypher)
    neighbours = blocking(AsyncGraph.neighbours)
    path = blocking(AsyncGraph.path)
    impact = blocking(AsyncGraph.impact)
    subgraph = blocking(AsyncGraph.subgraph)
    central = blocking(AsyncGraph.central)
    communities = blocking(AsyncGraph.communities)
