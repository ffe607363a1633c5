"""Metadata filters, in every mode and through both faces, against plain Python."""

import asyncio

import pytest
from adapters.llama_index.filter_cases import CASES, NODES, every, leaf, none, some
from adapters.llama_index.filter_oracle import matches, visible
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    FilterOperator,
    MetadataFilter,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index_lance_context import LanceContextVectorStore

from lance_context_core import FilterError

MODES = [
    VectorStoreQueryMode.DEFAULT,
    VectorStoreQueryMode.TEXT_SEARCH,
    VectorStoreQueryMode.SPARSE,
    VectorStoreQueryMode.HYBRID,
    VectorStoreQueryMode.MMR,
]

TEXTS = [
    *("apple", "pineapple", "APPLE", "", "a_ple", "%", "_", "'", '"', "zzz' OR '1'='1", "\\"),
    *("1", "true", "null", "[]", "ΑΣ", "ΑΣΑ", "straße", "STRASSE", "日本語", "😀", "a\nb", "$.a"),
]
NUMBERS = [0, 1, -1, 2, 1.0, 0.5, -0.0, 2**53 + 1, -(2**63), 2**63 - 1, 1e300, 1e-7, 123456.75]
KEYS = [
    *("a", "b", "a.b", "file name", "x-y", "a'b", 'q"q', "", "id", "text", "metadata", "0", "$"),
    *("doc_id", "ref_doc_id", "_node_type", "_node_content", "schön", "never"),
]

texts = st.sampled_from(TEXTS)
numbers = st.sampled_from(NUMBERS)
scalars = st.none() | st.booleans() | numbers | texts
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(texts, scalars, max_size=2)
metadatas = st.dictionaries(st.sampled_from(KEYS), values, max_size=6)

ORDERS = [FilterOperator(sign) for sign in (">", "<", ">=", "<=")]
MANY = [FilterOperator(name) for name in ("in", "nin", "any", "all")]


def _leaves(operators, operands):
    return st.builds(
        MetadataFilter,
        key=st.sampled_from(KEYS),
        operator=st.sampled_from(operators),
        value=operands,
    )


lists = st.lists(texts, max_size=3) | st.lists(numbers, max_size=3)
leaves = st.one_of(
    _leaves([FilterOperator.EQ, FilterOperator.NE], st.none() | numbers | texts | lists),
    _leaves(ORDERS, numbers | texts),
    _leaves(MANY, lists),
    _leaves([FilterOperator.CONTAINS], st.none() | numbers | texts),
    _leaves([FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE], texts),
    _leaves([FilterOperator.IS_EMPTY], st.none() | texts),
)
filters = st.recursive(
    st.lists(leaves, max_size=3).map(lambda parts: every(*parts)),
    lambda inner: st.one_of(
        st.lists(leaves | inner, max_size=3).map(lambda parts: some(*parts)),
        st.lists(leaves | inner, max_size=3).map(lambda parts: none(*parts)),
        st.lists(leaves | inner, max_size=3).map(lambda parts: every(*parts)),
    ),
    max_leaves=4,
)


def asked(filters, mode, *, limit=100):
    return VectorStoreQuery(
        query_embedding=NODES[0].embedding,
        query_str="common",
        similarity_top_k=limit,
        mode=mode,
        filters=filters,
    )


def expected(nodes, filters):
    return {one.node_id for one in nodes if matches(filters, visible(one))}


@pytest.fixture(scope="module")
def ten(tmp_path_factory):
    with LanceContextVectorStore(tmp_path_factory.mktemp("ten") / "store") as made:
        made.add(NODES)
        yield made


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_a_filter_finds_what_plain_python_finds(ten, case, mode):
    query = asked(CASES[case], mode)
    found = ten.query(query)
    assert len(found.ids) == len(set(found.ids))
    assert set(found.ids) == expected(NODES, CASES[case])
    assert asyncio.run(ten.aquery(query)) == found


@pytest.mark.parametrize("case", CASES)
def test_what_a_filter_finds_is_what_it_gets(ten, case):
    found = ten.get_nodes(filters=CASES[case])
    assert {one.node_id for one in found} == expected(NODES, CASES[case])
    assert asyncio.run(ten.aget_nodes(filters=CASES[case])) == found


def _sample():
    """Nodes whose metadata have been drawn from the same few keys and values as the filters."""
    metadata = metadatas.map(lambda one: TextNode(text="common", metadata=one))
    return st.lists(metadata, min_size=12, max_size=12)


@settings(max_examples=20)
@given(nodes=_sample(), filters=st.lists(filters, min_size=2, max_size=2), data=st.data())
def test_drawn_filters_find_what_plain_python_finds_among_drawn_nodes(
    drawn_store, nodes, filters, data
):
    for i, one in enumerate(nodes):
        one.embedding = [1.0, i / 10]
    drawn_store.clear()
    drawn_store.add(nodes)
    for one in filters:
        wanted = expected(nodes, one)
        for mode in MODES:
            query = asked(one, mode)
            query.query_embedding = [1.0, 0.2]
            face = data.draw(st.sampled_from(["sync", "async"]))
            found = (
                drawn_store.query(query)
                if face == "sync"
                else asyncio.run(drawn_store.aquery(query))
            )
            assert set(found.ids) == wanted, mode


@pytest.fixture(scope="module")
def drawn_store():
    with LanceContextVectorStore("memory://") as made:
        yield made


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_as_many_are_found_as_match_however_near_the_others_are(ten, mode):
    """Filtered before the best are taken, not after."""
    found = ten.query(asked(every(leaf("n", ">=", 9)), mode, limit=2))
    assert set(found.ids) == {"n8", "n9"}


@pytest.mark.parametrize(
    ("operator", "value"),
    [
        *((">", None), (">", [1]), ("<", ["a"]), (">=", None), ("<=", [1.5])),
        *(("in", "apple"), ("in", 1), ("in", None), ("nin", "apple"), ("any", "a"), ("all", 1)),
        *(("text_match", 1), ("text_match", None), ("text_match_insensitive", ["a"])),
        *(("contains", ["a"]), ("==", float("nan")), ("==", 2**64)),
    ],
)
def test_an_operand_that_an_operator_cannot_take_is_refused(ten, operator, value):
    filters = every(leaf("n", operator, value))
    with pytest.raises(FilterError):
        ten.query(asked(filters, VectorStoreQueryMode.DEFAULT))
    with pytest.raises(FilterError):
        asyncio.run(ten.aquery(asked(filters, VectorStoreQueryMode.DEFAULT)))


def test_the_refusal_names_the_operator_the_key_and_the_operand(ten):
    with pytest.raises(FilterError, match="'in' on 'fruit' takes a list, not 'apple'"):
        ten.get_nodes(filters=every(leaf("fruit", "in", "apple")))


def test_a_key_that_no_text_can_be_is_refused(ten):
    with pytest.raises(FilterError, match="surrogate"):
        ten.get_nodes(filters=every(leaf("\ud800", "==", 1)))
