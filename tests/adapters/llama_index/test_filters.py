"""Metadata filters, in every mode and with both kinds of methods, against plain Python."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from adapters.llama_index.doubles import Backwards
from adapters.llama_index.filter_cases import CASES, REFUSED, every, leaf, none, some
from adapters.llama_index.filter_oracle import matches, visible
from adapters.llama_index.matrix import (
    KINDS,
    MODES,
    WAYS,
    Outcomes,
    asked,
    filled,
    found,
    outcome,
    section,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter
from llama_index_lance_context import LanceContextVectorStore

from adapters.llama_index import matrix
from lance_context_core.errors import FilterError

# About our own code, whatever the release of the framework.
pytestmark = pytest.mark.one_release

DOCS = Path(__file__).parents[3] / "docs"

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
ORDERS = [FilterOperator(sign) for sign in (">", "<", ">=", "<=")]
MANY = [FilterOperator(name) for name in ("in", "nin", "any", "all")]


def _leaves(operators, operands):
    return st.builds(
        MetadataFilter,
        key=st.sampled_from(KEYS),
        operator=st.sampled_from(operators),
        value=operands,
    )


# What JSON cannot hold; in lists of operands there are none, and no list equals them.
beyond = st.sampled_from([math.inf, -math.inf, math.nan, 2**70, -(2**64)])
others = beyond | st.sampled_from([Decimal("1.1"), Decimal(2), datetime(2024, 1, 2, tzinfo=UTC)])
metadatas = st.dictionaries(st.sampled_from(KEYS), values | others, max_size=6)
lists = st.lists(texts, max_size=3) | st.lists(numbers, max_size=3)
leaves = st.one_of(
    _leaves([FilterOperator.EQ, FilterOperator.NE], st.none() | numbers | beyond | texts | lists),
    _leaves(ORDERS, numbers | beyond | texts),
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


@pytest.fixture(scope="module")
def ten(tmp_path_factory):
    """Ten nodes in a directory."""
    with filled(tmp_path_factory.mktemp("ten") / "store") as made:
        yield made


@pytest.fixture(scope="module")
def outcomes(ten):
    return Outcomes(ten)


@pytest.mark.defect(15, 16)
@pytest.mark.parametrize("case", CASES)
def test_a_filter_finds_what_plain_python_finds_in_every_mode(outcomes, case):
    assert outcomes.of(case) == {(way, kind): "ok" for way in WAYS for kind in KINDS}


def test_the_blocking_and_the_asynchronous_methods_give_the_same_nodes_in_the_same_order(ten):
    for case in ("no filters", "and of or", "'fruit' != 'apple'"):
        for way in WAYS:
            assert found(ten, CASES[case], way, "sync") == found(ten, CASES[case], way, "async")


def test_the_page_of_the_documentation_is_what_is_found(outcomes):
    committed = (DOCS / "llama_index.md").read_text(encoding="utf-8")
    assert section(outcomes) in committed


def test_a_wrong_answer_and_an_error_stand_in_the_table(ten, monkeypatch):
    """What the table says is not always ok."""
    apples = every(leaf("fruit", "==", "apple"))
    assert outcome(ten, apples, "default", "sync") == "ok"
    monkeypatch.setattr(matrix, "found", lambda *_: ["n0", "n1"])
    assert outcome(ten, apples, "default", "sync") == "finds n0 n1"
    monkeypatch.setattr(matrix, "found", lambda *_: 1 / 0)
    assert outcome(ten, apples, "default", "sync") == "ZeroDivisionError: division by zero"


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
        expected = {each.node_id for each in nodes if matches(one, visible(each))}
        for way in data.draw(st.lists(st.sampled_from(WAYS), min_size=3, max_size=3)):
            kind = data.draw(st.sampled_from(KINDS))
            assert set(found(drawn_store, one, way, kind, vector=[1.0, 0.2])) == expected, way


@pytest.fixture(scope="module")
def drawn_store():
    with LanceContextVectorStore("memory://", reranker=Backwards()) as made:
        yield made


@pytest.mark.parametrize("mode", MODES)
def test_as_many_are_found_as_match_however_near_the_others_are(ten, mode):
    """Filtered before the best are taken, not after."""
    found = ten.query(asked(every(leaf("n", ">=", 9)), mode, limit=2))
    assert set(found.ids) == {"n8", "n9"}


@pytest.mark.parametrize("case", REFUSED)
def test_an_operand_that_an_operator_cannot_take_is_refused(ten, case):
    for way in WAYS:
        for kind in KINDS:
            with pytest.raises(FilterError):
                found(ten, REFUSED[case], way, kind)


def test_the_refusal_names_the_operator_the_key_and_the_operand(ten):
    with pytest.raises(FilterError, match="'in' on 'fruit' takes a list, not 'apple'"):
        ten.get_nodes(filters=every(leaf("fruit", "in", "apple")))


def test_a_key_that_no_text_can_be_is_refused(ten):
    with pytest.raises(FilterError, match="surrogate"):
        ten.get_nodes(filters=every(leaf("\ud800", "==", 1)))


def test_a_flag_is_asked_for_by_number_because_filters_take_no_booleans(ten):
    """LlamaIndex refuses them; where it lets one become a number, that finds the same."""
    for wrong in (True, [True]):
        with pytest.raises(ValueError, match="MetadataFilter"):
            leaf("flag", "==", wrong)
    for operator, operand in (("==", 1), ("==", 1.0), ("in", [1]), (">", 0)):
        flagged = ten.get_nodes(filters=every(leaf("flag", operator, operand)))
        assert [one.node_id for one in flagged] == ["n1"]
