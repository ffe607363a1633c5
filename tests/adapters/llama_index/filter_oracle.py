"""What LlamaIndex's filters mean, in plain Python over the metadata of one node."""

import operator
from decimal import InvalidOperation

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilters


def visible(node):
    """What filters see of a node: its metadata, and what LlamaIndex's stores add to it."""
    source = node.ref_doc_id
    added = {"doc_id": source, "document_id": source, "ref_doc_id": source}
    return {**node.metadata, **added, "_node_type": node.class_name()}


def matches(filters, metadata):
    """Whether a node with that metadata matches `MetadataFilters`."""
    if not filters.filters:
        return True
    found = [
        matches(one, metadata) if isinstance(one, MetadataFilters) else _holds(one, metadata)
        for one in filters.filters
    ]
    if filters.condition is FilterCondition.OR:
        return any(found)
    if filters.condition is FilterCondition.NOT:
        return not any(found)
    return all(found)


def _holds(filter, metadata):
    value = metadata.get(filter.key)
    if filter.operator is FilterOperator.IS_EMPTY:
        return value is None or value in ("", [])
    if value is None:
        return filter.operator in (FilterOperator.NE, FilterOperator.NIN)
    try:
        return _OPERATORS[filter.operator](value, filter.value)
    except (TypeError, InvalidOperation):
        # Things of different types are not comparable, nor is a decimal with what is no number.
        return False


def _equal(value, operand):
    """As in Python, save that a list with booleans in it is no list of numbers."""
    if isinstance(value, list) and isinstance(operand, list):
        as_json = [[(type(one) is bool, one) for one in many] for many in (value, operand)]
        return as_json[0] == as_json[1]
    return value == operand


def _contains(value, operand):
    if isinstance(value, dict):
        raise TypeError
    return operand in value


def _text_match(value, operand):
    if not isinstance(value, str):
        raise TypeError
    return operand in value


_OPERATORS = {
    FilterOperator.EQ: _equal,
    FilterOperator.NE: lambda value, operand: not _equal(value, operand),
    FilterOperator.GT: operator.gt,
    FilterOperator.GTE: operator.ge,
    FilterOperator.LT: operator.lt,
    FilterOperator.LTE: operator.le,
    FilterOperator.IN: lambda value, operand: any(_equal(value, one) for one in operand),
    FilterOperator.NIN: lambda value, operand: not any(_equal(value, one) for one in operand),
    FilterOperator.ANY: lambda value, operand: any(_contains(value, one) for one in operand),
    FilterOperator.ALL: lambda value, operand: all(_contains(value, one) for one in operand),
    FilterOperator.CONTAINS: _contains,
    FilterOperator.TEXT_MATCH: _text_match,
    FilterOperator.TEXT_MATCH_INSENSITIVE: lambda value, operand: _text_match(
        value.lower() if isinstance(value, str) else value, operand.lower()
    ),
}
