"""Entities, what relates them, what is said of them, and where.

What is here is for who makes entities and relations, or reads on in what a walk answered; the graph
itself is in `ContextStore.graph`.
"""

from lance_context_core.codecs.graph import entity_id
from lance_context_core.graph.contradictions import Policy
from lance_context_core.graph.cypher import Parameter, Types
from lance_context_core.graph.drawing import draw
from lance_context_core.graph.extraction import RuleEntityExtractor
from lance_context_core.graph.model import (
    EntityExtractor,
    Extracted,
    FoundEntity,
    FoundRelation,
    FoundStatement,
    GraphExtraction,
    ModelEntityExtractor,
    SourceText,
)
from lance_context_core.graph.traversal import Direction
from lance_context_core.graph.whole import Centrality, Grouping
from lance_context_core.types.graph import (
    Contradiction,
    Entity,
    Impact,
    Mention,
    Merger,
    Path,
    Ranked,
    Relation,
    Statement,
    SubGraph,
)

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # What a graph is made of
    "Entity",
    "Relation",
    "Mention",
    "Statement",
    "entity_id",
    # What is read out of one
    "SubGraph",
    "Path",
    "Impact",
    "Ranked",
    "Merger",
    "Contradiction",
    "draw",
    # Who finds entities
    "EntityExtractor",
    "RuleEntityExtractor",
    "ModelEntityExtractor",
    "SourceText",
    "Extracted",
    "FoundEntity",
    "FoundRelation",
    "FoundStatement",
    "GraphExtraction",
    # What calls take
    "Types",
    "Direction",
    "Centrality",
    "Grouping",
    "Policy",
    "Parameter",
]
