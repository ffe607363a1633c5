"""What a statement asks for: that it only reads, of which views, and as of when."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from lance_context_core._util.checks import check_text, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.storage.lance.versions import Ref

DIFF = "diff"
"""What a statement calls the difference of two moments."""

FUNCTIONS = frozenset(
    ("generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest", DIFF)
)
"""What may stand where rows come from, beside the views: nothing that looks outside."""

_SHOWN_TABLES = ('"tables"', "__show_tables_expanded")
"""What a tree has for SHOW TABLES, SHOW ALL TABLES, and DESCRIBE alone."""


_EXPLAIN = re.compile(r"EXPLAIN(\s+ANALYZE)?\s+(?=\w|\()", re.IGNORECASE)
_PIVOT = re.compile(r"\bPIVOT\b", re.IGNORECASE)


@frozen_by_name
class Source:
    """Where rows of a statement come from: a view, as of now or of then."""

    view: str
    moments: tuple[Ref, ...] = ()
    """As of when; of a difference both ends."""


@frozen_by_name
class Statement:
    """A statement that only reads."""

    text: str
    sources: Mapping[str, Source]
    """By the name that stands in the text."""
    columns: frozenset[str]
    """The columns that it names, of whatever view."""


def read(query: str, ask: Callable[[str, str], str], views: frozenset[str]) -> Statement:
    """What the statement asks for; `ask` answers a query that has one parameter.

    Raises InvalidRequestError for what is not one statement that only reads.
    """
    query = check_text(query, "query").strip()
    explain = _EXPLAIN.match(query)
    before = "" if explain is None else explain[0]
    query = query.removeprefix(before)
    tree = json.loads(ask("SELECT json_serialize_sql(?)", query))
    if tree["error"]:
        raise _refused(query, tree)
    if len(tree["statements"]) != 1:
        raise InvalidRequestError(
            f"query={shown(query)} has {len(tree['statements'])} statements: give one at a time"
        )
    sources: dict[str, Source] = {}
    columns: set[str] = set()
    is_changed = False
    own = {node["key"].lower() for node in _nodes(tree["statements"]) if _is_named_query(node)}
    for node in _nodes(tree["statements"]):
        match node.get("type"):
            case "BASE_TABLE":
                is_changed |= _note_table(node, sources, views, own)
            case "SHOW_REF" if node["query"] is None:
                _show(node, ask, views)
                is_changed = True
            case "TABLE_FUNCTION":
                is_changed |= _note_function(node, sources)
            case "COLUMN_REF":
                columns.add(node["column_names"][-1].lower())
    if is_changed:
        query = ask("SELECT json_deserialize_sql(?::JSON)", json.dumps(tree))
    return Statement(text=before + query, sources=sources, columns=frozenset(columns))


def _refused(query: str, tree: Mapping[str, Any]) -> InvalidRequestError:
    """The error for a text that is no SELECT to DuckDB: another statement, or none at all."""
    if tree["error_type"] != "not implemented":
        return InvalidRequestError(f"query={shown(query)}: {tree['error_message']}")
    if _PIVOT.search(query):
        return InvalidRequestError(
            f"query={shown(query)}: PIVOT needs the values that become columns. Name them: "
            "PIVOT messages ON role IN ('user', 'assistant') USING count(*)"
        )
    return InvalidRequestError(
        f"query={shown(query)} is not a statement that only reads. Use SELECT, WITH, VALUES, PIVOT, "
        "DESCRIBE, SUMMARIZE, SHOW TABLES or EXPLAIN; change data by the store's own calls"
    )


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All that a statement consists of; what is changed of one is seen after it was handed out."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            yield node
            waiting += node.values()


def _is_named_query(node: Mapping[str, Any]) -> bool:
    """Whether it is a query that the statement gives a name, by WITH."""
    value = node.get("value")
    return isinstance(value, dict) and "query_node" in value and isinstance(node.get("key"), str)


def _show(node: dict[str, Any], ask: Callable[[str, str], str], views: frozenset[str]) -> None:
    """Have SHOW TABLES answered with the views' names. Raises InvalidRequestError for another SHOW."""
    if node["table_name"] not in _SHOWN_TABLES:
        name = node["table_name"].strip('"')
        way = f"DESCRIBE {name} has its columns" if name in views else "SHOW TABLES lists the views"
        raise InvalidRequestError(f"SHOW {shown(name)} is not supported: {way}")
    names = ", ".join(f"'{name}'" for name in sorted(views))
    asked = f"SELECT * FROM (SELECT unnest([{names}]) AS name) AS views"
    tree = json.loads(ask("SELECT json_serialize_sql(?)", asked))
    node.clear()
    node |= tree["statements"][0]["node"]["from_table"]


def _unknown(node: Mapping[str, Any], views: frozenset[str]) -> InvalidRequestError:
    """The error for a table that is no view, with the view that it was perhaps to be."""
    named = ".".join(filter(None, (node.get("schema_name"), node["table_name"])))
    close = get_close_matches(node["table_name"].lower(), sorted(views), n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    return InvalidRequestError(
        f"view {shown(named)} does not exist: {meant}SHOW TABLES lists the views, and DESCRIBE "
        "messages the columns of one"
    )


def _note_table(
    node: dict[str, Any], sources: dict[str, Source], views: frozenset[str], own: AbstractSet[str]
) -> bool:
    """Note a table, if it is a view of ours; returns whether its name had to be changed.

    Raises InvalidRequestError if it is neither a view nor one of the statement's `own` queries.
    """
    name = node["table_name"].lower()
    moment = node.get("at_clause")
    if node.get("schema_name", "") not in ("", "main"):
        raise _unknown(node, views)
    if name not in views:
        if moment is not None:
            raise InvalidRequestError(
                f"{shown(node['table_name'])} has no versions: use one of {', '.join(sorted(views))}"
            )
        if name not in own:
            raise _unknown(node, views)
        return False
    if moment is None:
        sources[name] = Source(view=name)
        return False
    _rename(node, Source(view=name, moments=(_moment(moment["expr"]),)), sources)
    node["at_clause"] = None
    return True


def _note_function(node: dict[str, Any], sources: dict[str, Source]) -> bool:
    """Refuse what looks outside; returns whether a difference was asked for, which becomes a table."""
    name = node["function"]["function_name"].lower()
    if name not in FUNCTIONS:
        raise InvalidRequestError(
            f"{shown(name)} is not a source of rows here: there are the views, "
            f"and {', '.join(sorted(FUNCTIONS))}"
        )
    if name != DIFF:
        return False
    moments = tuple(_moment(one) for one in _arguments(node["function"]))
    if not 0 < len(moments) < 3:
        raise InvalidRequestError(
            "wrong number of arguments of diff: pass diff('before') or diff('before', 'after')"
        )
    kept: dict[str, Any] = {
        key: node[key] for key in ("alias", "sample", "query_location") if key in node
    }
    names = node.get("column_name_alias", [])
    node.clear()
    node |= {"type": "BASE_TABLE", "schema_name": "", "catalog_name": "", "at_clause": None}
    node |= {"table_name": DIFF, "column_name_alias": names, "qualified_name": {}, **kept}
    _rename(node, Source(view=DIFF, moments=moments), sources)
    return True


def _arguments(function: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one["expression"] for one in function["arguments"]]


def _rename(node: dict[str, Any], source: Source, sources: dict[str, Source]) -> None:
    """Give a table the name of a source, so that the rest of the statement still says its own."""
    name = f"{source.view}@{len(sources)}"
    sources[name] = source
    node["alias"] = node["alias"] or node["table_name"]
    node["table_name"] = name
    node["qualified_name"] = {"path": [name]}


def _moment(node: Mapping[str, Any]) -> Ref:
    """A constant of a statement, as a version, a tag, a branch or a time."""
    while node.get("class") == "CAST":
        node = node["child"]
    literal = node.get("literal")
    if node.get("class") != "CONSTANT" or literal is None:
        raise InvalidRequestError(
            "the moment of a view is a number or a text: messages AT (VERSION => 'before-lunch')"
        )
    return ref(str(literal["text"]))


def ref(text: str) -> Ref:
    """A version's number, a moment in ISO 8601, or else a name."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    if moment.tzinfo is None:
        raise InvalidRequestError(f"{text!r} has no time zone: write {text}Z")
    return moment
