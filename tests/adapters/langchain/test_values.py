"""Documents that tools return beside their answer read back equal, among values of any other type."""

import json
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_lance_context._values import decode, encode

from lance_context_core import InvalidRequestError, Message

# About our own code, whatever the release of the framework.
pytestmark = pytest.mark.one_release

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(
    ["lance_context:type", "value", "document"]
)
values = st.recursive(
    st.none() | st.integers() | st.binary(max_size=5) | st.dates() | texts,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(texts, inner, max_size=3),
        st.builds(
            Document,
            texts,
            id=st.none() | texts,
            metadata=st.dictionaries(texts, inner, max_size=2),
        ),
    ),
    max_leaves=8,
)


def typed(value):
    """The value with its types, which equality alone does not tell apart."""
    if isinstance(value, dict):
        return {key: typed(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [typed(one) for one in value]
    if isinstance(value, Document):
        return Document, value.id, value.page_content, typed(value.metadata)
    return type(value), value


@settings(max_examples=50)
@given(values)
def test_any_value_reads_back_equal_after_a_store_had_it(value):
    kept = Message.user("", native={"framework": "x", "value": encode(value, "value")}).to_json()
    assert typed(decode(json.loads(kept)["native"]["value"])) == typed(value)


@pytest.mark.parametrize("value", [object(), {1: [object()]}, Document("a", metadata={"f": print})])
def test_what_cannot_be_kept_is_refused(value):
    with pytest.raises(InvalidRequestError, match=r"^it.* cannot be stored"):
        encode(value, "it")


def test_a_document_has_a_form_that_stays():
    """What was written by this release is read by the next one."""
    form = {
        "lance_context:type": "document",
        "value": {
            "id": "d",
            "metadata": {
                "on": {
                    "lance_context:type": "date",
                    "value": "2026-01-02",
                    "lance_context:date": "2026-01-02",
                }
            },
            "page_content": "tea",
        },
    }
    value = Document("tea", id="d", metadata={"on": date(2026, 1, 2)})
    assert decode(form) == value
    assert encode(value, "value") == form
