"""What filter dicts mean, said again in Python, without SQL and without the parser."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

ABSENT = object()
TEXTS = {"id", "role", "agent_id", "bot_id", "text"}
TIMES = {"created_at", "expires_at"}
LISTS = {"tags", "relationships"}
COLUMNS = TEXTS | TIMES | LISTS | {"payload_size"}


def holds(filter: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    return all(_entry_holds(key, value, record) for key, value in filter.items())


def _entry_holds(key, value, record):
    if key == "$and":
        return all(holds(one, record) for one in value)
    if key == "$or":
        return any(holds(one, record) for one in value)
    if key == "$not":
        return not any(
            holds(one, record) for one in (value if isinstance(value, list) else [value])
        )
    if key == "created_after":
        return record["created_at"] >= value
    if key == "created_before":
        return record["created_at"] <= value
    if key in COLUMNS:
        stored = {"bot_id": "agent_id", "relationships": "edges"}.get(key, key)
        found = record.get(stored)
        if key in LISTS:
            found = found or None
        return satisfies(found, value, is_time=key in TIMES, is_list=key in LISTS)
    key = key.removeprefix("metadata.")
    return _below(_readings(key), value, record["metadata"])


def _readings(key):
    return [[key], key.split(".")] if "." in key else [[key]]


def _below(paths, value, metadata):
    if isinstance(value, dict) and not any(key.startswith("$") for key in value):
        if list(value) == ["contains"] and not isinstance(value["contains"], dict):
            return satisfies(_dig(paths, metadata), {"$contains": value["contains"]})
        return all(
            _below([path + more for path in paths for more in _readings(key)], below, metadata)
            for key, below in value.items()
        )
    return satisfies(_dig(paths, metadata), value)


def _dig(paths, metadata):
    for path in paths:
        found = metadata
        for key in path:
            found = found.get(key, ABSENT) if isinstance(found, dict) else ABSENT
        if found is not ABSENT:
            return found
    return None


def satisfies(found, asked, *, is_time=False, is_list=False):
    def moment(value):
        return datetime.fromisoformat(value) if is_time and isinstance(value, str) else value

    def equal(value):
        if is_list and found is None:
            return value is None or value == []
        return _same(found, moment(value))

    def ordered(compare):
        def comparison(value):
            value = moment(value)
            return _kind(found) == _kind(value) in {"text", "number", "time"} and compare(value)

        return comparison

    def among(value):
        return isinstance(found, list) and any(_same(one, value) for one in found)

    if not isinstance(asked, dict):
        return equal(asked)
    meaning = {
        "$eq": equal,
        "$ne": lambda value: not equal(value),
        "$gt": ordered(lambda value: found > value),
        "$gte": ordered(lambda value: found >= value),
        "$lt": ordered(lambda value: found < value),
        "$lte": ordered(lambda value: found <= value),
        "$in": lambda values: any(equal(value) for value in values),
        "$nin": lambda values: not any(equal(value) for value in values),
        "$exists": lambda wanted: (found is not None) is wanted,
        "$contains": lambda value: (
            among(value) or (isinstance(found, str) and isinstance(value, str) and value in found)
        ),
        "$contains_any": lambda values: any(among(value) for value in values),
        "$contains_all": lambda values: (
            (isinstance(found, list) or is_list) and all(among(value) for value in values)
        ),
        "$text": lambda part: isinstance(found, str) and part.lower() in found.lower(),
        "$not": lambda below: not satisfies(found, below, is_time=is_time, is_list=is_list),
    }
    return all(meaning[name](operand) for name, operand in asked.items())


def _kind(value):
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case datetime():
            return "time"
    return {str: "text", list: "list", dict: "object"}.get(type(value))


def _same(one, other):
    if _kind(one) != _kind(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return one == other
