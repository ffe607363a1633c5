"""What a filter by a text asks of metadata in memory, before it parses any."""

import json

import pytest

from lance_context_core.filters import DOCUMENT_FIELDS, parse
from lance_context_core.storage import sql
from lance_context_core.storage.sql import json as json_sql

VALUES = ["t7", "t", "", "ü", "it's", 'a "b"', "a\\b", "tab\t", "\u2028", "{", "\x7f", "k"]


def held(filter, texts):
    clause = sql.compile(parse(filter, columns=DOCUMENT_FIELDS), columns=DOCUMENT_FIELDS)
    return [clause.holds({"metadata": one}) for one in texts]


@pytest.mark.parametrize("is_ascii", [True, False], ids=["escaped", "as it is"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["dense", "spaced"])
def test_a_text_is_found_however_its_json_is_written(is_ascii, separators):
    documents = [{"k": one} for one in VALUES] + [{one: "x"} for one in VALUES] + [{}]
    documents += [{"k": {"k": one}} for one in VALUES] + [{"k": [one]} for one in VALUES]
    texts = [json.dumps(one, ensure_ascii=is_ascii, separators=separators) for one in documents] + [
        None
    ]
    for value in VALUES:
        own = [one.get("k") == value for one in documents] + [False]
        inner = [isinstance(one.get("k"), dict) and one["k"]["k"] == value for one in documents] + [
            False
        ]
        assert held({"k": value}, texts) == own
        assert held({"k": {"k": value}}, texts) == inner
        assert held({"k": {"$ne": value}}, texts) == [not one for one in own]
        assert held({"k": {"$in": [value, "none"]}}, texts) == own


def test_an_escape_that_nobody_needs_hides_no_text():
    assert held({"k": "t7"}, [r'{"k":"\u0074\u0037"}', r'{"k":"t8\/"}']) == [True, False]


@pytest.mark.parametrize(
    "filter",
    [{"k": "t7"}, {"k": {"$in": ["t7", "t8"]}}],
    ids=["equal to a text", "equal to one of two"],
)
def test_only_what_has_the_text_is_parsed(monkeypatch, filter):
    parsed, made = [], json_sql._parsed

    class Noting:
        def __getitem__(self, text):
            parsed.append(text)
            return made[text]

    monkeypatch.setattr(json_sql, "_parsed", Noting())
    texts = [json.dumps({"k": f"t{n}"}) for n in range(1_000)]
    assert held(filter, texts).count(True) == len(parsed) <= 2


def test_the_metadata_of_ten_thousand_documents_is_parsed_once(monkeypatch):
    parsed = []

    def noting(text):
        parsed.append(text)
        return json.loads(text)

    monkeypatch.setattr(json_sql._parsed, "_make", noting)
    texts = [json.dumps({"topic": f"subject {n % 50}", "number": n}) for n in range(10_000)]
    for bound in (100, 101):
        assert held({"number": {"$lt": bound}}, texts).count(True) == bound
    assert len(parsed) == len(texts)
