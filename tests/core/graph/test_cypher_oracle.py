"""Cypher answers as one who tries every way does: random queries about random small graphs."""

import itertools
import random
from collections import Counter

import pytest

from lance_context_core import AsyncContextStore
from lance_context_core.graph import Entity, Relation

LABELS, TYPES = ("person", "thing"), ("knows", "leads")


async def laid(graph, draw):
    n = draw.randint(1, 3)
    entities = [
        Entity(
            id=f"e{k}",
            name=f"n{k % 2}",
            type=draw.choice(LABELS),
            properties=draw.choice([{}, {"x": 1}, {"x": 2.0}, {"x": True}, {"x": "1"}]),
        )
        for k in range(n)
    ]
    relations = [
        Relation(
            id=f"r{k}",
            source_id=f"e{draw.randrange(n)}",
            target_id=f"e{draw.randrange(n)}",
            type=draw.choice(TYPES),
            weight=draw.choice([None, 0.5, 2]),
        )
        for k in range(draw.randint(2, 6))
    ]
    await graph.add(entities, relations)
    return entities, relations


def drawn_chain(draw, names):
    nodes = [(draw.choice(names), draw.choice([None, *LABELS, "Entity", "person|thing"]))]
    related = []
    for _ in range(draw.randint(0, 2)):
        least = draw.choice([0, 1, 1, 2])
        length = draw.choice([None, None, None, (least, draw.randint(least, 2))])
        related.append((draw.choice(["out", "in", "both"]), draw.choice([None, *TYPES]), length))
        nodes.append((draw.choice(names), draw.choice([None, None, *LABELS])))
    return nodes, related


def written_chain(nodes, related):
    def node(name, label):
        return f"({name}{'' if label is None else ':' + label})"

    text = node(*nodes[0])
    for (direction, type, length), following in zip(related, nodes[1:], strict=True):
        inside = f"{'' if type is None else ':' + type}{'' if length is None else f'*{length[0]}..{length[1]}'}"
        text += {"out": "-[%s]->", "in": "<-[%s]-", "both": "-[%s]-"}[direction] % inside
        text += node(*following)
    return text


def drawn_condition(draw, names, depth=2):
    """An expression, and what it is worth for a binding: 1, 0, or 1/2 where that is unknown."""
    if depth and draw.random() < 0.6:
        one, other = (drawn_condition(draw, names, depth - 1) for _ in range(2))
        match draw.choice(["AND", "OR", "NOT", "XOR"]):
            case "AND":
                return f"({one[0]} AND {other[0]})", lambda b: min(one[1](b), other[1](b))
            case "OR":
                return f"({one[0]} OR {other[0]})", lambda b: max(one[1](b), other[1](b))
            case "NOT":
                return f"NOT {one[0]}", lambda b: 1 - one[1](b)
            case "XOR":
                return f"({one[0]} XOR {other[0]})", lambda b: max(
                    min(one[1](b), 1 - other[1](b)), min(1 - one[1](b), other[1](b))
                )
    name = draw.choice(names)
    value, literal = draw.choice([(1, "1"), (2, "2"), (True, "true"), ("1", "'1'"), (None, "null")])
    sign = draw.choice(["=", "<>", "<", ">=", "IS NULL", "IN"])

    def worth(b, sign=sign):
        x = b[name].properties.get("x")
        if sign == "IS NULL":
            return x is None
        if sign == "IN":
            return max(same(x, value), same(x, 2))
        if sign in ("=", "<>"):
            return same(x, value) if sign == "=" else 1 - same(x, value)
        if x is None or value is None or kind(x) != kind(value):
            return 0.5
        return x < value if sign == "<" else x >= value

    told = {"IS NULL": "IS NULL", "IN": f"IN [{literal}, 2]"}.get(sign, f"{sign} {literal}")
    return f"{name}.x {told}", worth


def kind(value):
    return bool if isinstance(value, bool) else str if isinstance(value, str) else float


def same(x, value):
    return 0.5 if x is None or value is None else kind(x) == kind(value) and x == value


def trails(relations, start, end, direction, type, length):
    """Every order of different relations that leads from the one to the other."""
    least, most = length or (1, 1)
    found = []
    for n in range(least, most + 1):
        for some in itertools.permutations(relations, n):
            at = {start}
            for one in some:
                ways = []
                if direction != "in":
                    ways.append((one.source_id, one.target_id))
                if direction != "out":
                    ways.append((one.target_id, one.source_id))
                at = {to for source, to in ways if source in at and type in (None, one.type)}
            if end in at:
                found.append(frozenset(one.id for one in some))
    return found


def answers(entities, relations, chains, worth):
    names = sorted({name for nodes, _ in chains for name, _ in nodes})
    found = Counter()
    for chosen in itertools.product(entities, repeat=len(names)):
        bound = dict(zip(names, chosen, strict=True))
        if not all(
            label in (None, "Entity") or bound[name].type in label.split("|")
            for nodes, _ in chains
            for name, label in nodes
        ):
            continue
        if worth(bound) != 1:
            continue
        ways = [
            trails(relations, bound[nodes[k][0]].id, bound[nodes[k + 1][0]].id, *related[k])
            for nodes, related in chains
            for k in range(len(related))
        ]
        n = sum(
            sum(map(len, some)) == len(frozenset().union(*some))
            for some in itertools.product(*ways)
        )
        found[tuple(one.id for one in chosen)] += n
    return +found, names


@pytest.mark.parametrize("seed", range(6))
async def test_a_random_query_finds_what_trying_every_way_finds(seed):
    draw = random.Random(seed)
    n_found = 0
    for _ in range(4):
        async with await AsyncContextStore.open("memory://") as store:
            entities, relations = await laid(store.graph, draw)
            for _ in range(12):
                chains = [drawn_chain(draw, ["a", "b", "c"]) for _ in range(draw.choice([1, 1, 2]))]
                used = sorted({name for nodes, _ in chains for name, _ in nodes})
                text, worth = "true", lambda _: 1
                if draw.random() < 0.5:
                    text, worth = drawn_condition(draw, used)
                expected, names = answers(entities, relations, chains, worth)
                patterns = ", ".join(written_chain(*one) for one in chains)
                ids = ", ".join(f"{name}.id" for name in names)
                query = f"MATCH {patterns} WHERE {text} RETURN {ids}"
                got = await store.graph.cypher(query)
                assert Counter(tuple(row.values()) for row in got) == expected, query
                grouped = await store.graph.cypher(
                    f"MATCH {patterns} WHERE {text} RETURN {ids}, count(*) AS n"
                )
                assert {tuple(row.values())[:-1]: row["n"] for row in grouped} == expected, query
                n_found += len(got)
    assert n_found > 10
