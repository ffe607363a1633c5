"""LangGraph's store beside a dict: any batches, in any order, over few keys."""

from hypothesis import given
from hypothesis import strategies as st
from langchain_lance_context import LanceContextStore
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from lance_context_core import ContextStore

LABELS = st.sampled_from(["a", "b", "ab", "*", "%", "a'"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
PATHS = st.lists(LABELS, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "K", "k'", "", "%"])
SCALARS = st.sampled_from([None, True, 0, 1, 1.0, 2.5, "", "x", "X", "1"])
VALUES = st.dictionaries(
    st.sampled_from(["n", "m", "a.b", "key", "it's"]),
    st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.fixed_dictionaries({"n": SCALARS})),
    max_size=3,
)
OPERANDS = st.sampled_from([0, 1, 2, "x"])
FILTERS = st.dictionaries(
    st.sampled_from(["n", "m", "a.b", "key"]),
    st.one_of(
        SCALARS,
        st.dictionaries(st.sampled_from(["$eq", "$ne"]), SCALARS, min_size=1),
        st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), OPERANDS, min_size=1),
        st.fixed_dictionaries({"n": SCALARS.filter(lambda one: one is not None)}),
    ),
    max_size=2,
)
CONDITIONS = st.tuples(st.sampled_from(["prefix", "suffix"]), PATHS)
OPERATIONS = st.one_of(
    st.tuples(NAMESPACES, KEYS, st.none() | VALUES).map(lambda given: PutOp(*given)),
    st.tuples(NAMESPACES, KEYS).map(lambda given: GetOp(*given)),
    st.tuples(PATHS, st.none() | FILTERS).map(lambda given: SearchOp(*given, limit=100)),
    st.tuples(
        st.lists(CONDITIONS, max_size=2).map(
            lambda some: tuple(MatchCondition(*one) for one in some)
        ),
        st.sampled_from([None, 1, 2]),
        st.integers(0, 5),
        st.integers(0, 3),
    ).map(lambda given: ListNamespacesOp(*given)),
)


@given(st.lists(st.lists(OPERATIONS, max_size=6), min_size=1, max_size=4))
def test_it_does_what_a_dict_would(batches):
    items = {}
    with ContextStore.open("memory://") as opened:
        memory = LanceContextStore(opened)
        for ops in batches:
            results = memory.batch(ops)
            for op, result in zip(ops, results, strict=True):
                assert shown(result) == expected(op, items), op
            for op in ops:
                if isinstance(op, PutOp):
                    items.pop((op.namespace, op.key), None)
                    if op.value is not None:
                        items[op.namespace, op.key] = op.value


def shown(result):
    """A result without times; items in an order of their own."""
    if result is None:
        return None
    if isinstance(result, Item):
        return result.namespace, result.key, result.value
    is_found = any(isinstance(one, Item) for one in result)
    return sorted(map(shown, result), key=repr) if is_found else result


def expected(op, items):
    match op:
        case PutOp():
            return None
        case GetOp():
            value = items.get((op.namespace, op.key))
            return None if value is None else (op.namespace, op.key, value)
        case SearchOp():
            found = [
                (namespace, key, value)
                for (namespace, key), value in items.items()
                if namespace[: len(op.namespace_prefix)] == op.namespace_prefix
                and all(
                    meets(value.get(name), wanted) for name, wanted in (op.filter or {}).items()
                )
            ]
            return sorted(found, key=repr)
    names = {one for one, _ in items if all(matches(one, how) for how in op.match_conditions)}
    cut = {one[: op.max_depth] for one in names}
    return sorted(cut)[op.offset :][: op.limit]


def matches(namespace, condition):
    n = len(condition.path)
    if n > len(namespace):
        return False
    part = namespace[:n] if condition.match_type == "prefix" else namespace[len(namespace) - n :]
    return all(label in {"*", one} for one, label in zip(part, condition.path, strict=True))


def meets(value, wanted):
    if not isinstance(wanted, dict):
        return same(value, wanted)
    if not any(key.startswith("$") for key in wanted):
        return isinstance(value, dict) and all(
            meets(value.get(key), one) for key, one in wanted.items()
        )
    return all(compare(value, operator, operand) for operator, operand in wanted.items())


def same(value, wanted):
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def compare(value, operator, operand):
    if operator in {"$eq", "$ne"}:
        return same(value, operand) is (operator == "$eq")
    kinds = (str,) if isinstance(operand, str) else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        return False
    return {
        "$gt": value > operand,
        "$gte": value >= operand,
        "$lt": value < operand,
        "$lte": value <= operand,
    }[operator]
