"""Entities, relations between them, mentions and statements.

This package is for code that creates entities and relations, or follows the result of a walk; the
graph itself is in `ContextStore.graph`.
"""

from lance_context_core.codecs.graph import entity_id
from lance_context_core.graph.conflicts import End
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
    AliasProposal,
    Contradiction,
    Entity,
    Impact,
    Mention,
    Merger,
    Path,
    Ranked,
    Relation,
    RelationConflict,
    Statement,
    SubGraph,
)

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # The parts of a graph
    "Entity",
    "Relation",
    "Mention",
    "Statement",
    "entity_id",
    # Results
    "SubGraph",
    "Path",
    "Impact",
    "Ranked",
    "Merger",
    "AliasProposal",
    "Contradiction",
    "RelationConflict",
    "draw",
    # Extractors
    "EntityExtractor",
    "RuleEntityExtractor",
    "ModelEntityExtractor",
    "SourceText",
    "Extracted",
    "FoundEntity",
    "FoundRelation",
    "FoundStatement",
    "GraphExtraction",
    # Arguments
    "Types",
    "Direction",
    "End",
    "Centrality",
    "Grouping",
    "Policy",
    "Parameter",
]
