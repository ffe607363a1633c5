"""The rules of the filter language, each on a real table."""

import asyncio
import functools
import operator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from core.filters.filtering import DAY, filled_table, found_by_scan, matching, places, where

from lance_context_core.errors import FilterError, InvalidRequestError
from lance_context_core.filters import DOCUMENT_FIELDS, RECORD_FIELDS, Field, parse
from lance_context_core.storage import sql


def test_nothing_given_restricts_nothing():
    assert parse(None, columns=RECORD_FIELDS) is None
    assert parse({}, columns=RECORD_FIELDS) is None
    assert places([{}, {}], {"$and": []}, {"$or": []}, {"$not": []}) == [[0, 1], [], [0, 1]]


def test_all_entries_of_a_dict_must_hold():
    records = [{"role": "user", "metadata": {"k": k}} for k in (1, 5, 9)] + [{"metadata": {"k": 5}}]
    assert places(records, {"role": "user", "k": {"$gt": 1, "$lt": 9}}) == [[1]]


def test_none_matches_what_is_absent_or_null():
    values = [None, "", 0, False, []]
    found = matching(
        values, None, {"$eq": None}, {"$exists": False}, {"$exists": True}, {"$ne": None}
    )
    assert found == [[None, "absent"]] * 3 + [["", 0, False, []]] * 2


def test_negations_match_absent_values():
    negations = [{"$ne": "x"}, {"$nin": ["x", 1]}, {"$not": {"$gt": "a"}}, {"$not": "x"}]
    assert matching(["x", None], *negations) == [[None, "absent"]] * 4
    records = [{"role": "x"}, {}]
    assert places(records, *({"role": one} for one in negations)) == [[1]] * 4


def test_of_no_values_nothing_is_one():
    assert matching([1, None], {"$in": []}, {"$nin": []}) == [[], [1, None, "absent"]]
    assert places([{"role": "x"}, {}], {"role": {"$in": []}}, {"role": {"$nin": []}}) == [
        [],
        [0, 1],
    ]


def test_true_is_not_one_and_booleans_have_no_order():
    values = [True, 1, 1.0, "true", False, 0]
    found = matching(values, True, 1, {"$gte": False}, {"$in": [True, 0]})
    assert found == [[True], [1, 1.0], [], [True, 0]]
    assert [type(one) for one in found[1]] == [int, float]


def test_values_of_other_types_do_not_match_and_do_not_raise():
    values = ["5", 5, 5.5, None, [5], {"a": 5}, True]
    found = matching(values, {"$gt": 4}, {"$gt": "4"}, {"$text": "5"}, {"$contains": 5})
    assert found == [[5, 5.5], ["5"], ["5"], [[5]]]
    assert places(
        [{"role": "5"}, {}], {"role": 5}, {"role": {"$gt": 1}}, {"role": {"$in": [5, "5"]}}
    ) == [
        [],
        [],
        [0],
    ]


def test_texts_are_ordered_by_code_points():
    values = ["a", "a!", "a b", 'a"', "a\n", "Z", "é", "\uffff", "😀", "ab", ""]
    for asked in values:
        above, not_above = matching(values, {"$gt": asked}, {"$lte": asked})
        assert above == [one for one in values if one > asked]
        assert not_above == [one for one in values if one <= asked]


def test_contains_is_an_element_of_a_list_or_a_part_of_a_text():
    values = ["xay", "XAY", ["a"], ["xay"], [["a"]], {"a": 1}, ["A"], [1], ["1"]]
    found = matching(
        values, {"$contains": "a"}, {"contains": "a"}, {"$contains": 1}, {"$contains": "1"}
    )
    assert found == [["xay", ["a"]], ["xay", ["a"]], [[1]], [["1"]]]


def test_a_key_called_contains_is_reached_by_dots_and_by_operators():
    records = [{"metadata": {"k": {"contains": "a"}}}, {"metadata": {"k": ["a"]}}]
    asked = [{"k": {"contains": "a"}}, {"k.contains": "a"}, {"k": {"contains": {"$eq": "a"}}}]
    assert places(records, *asked) == [[1], [0], [0]]


def test_only_lists_contain_any_or_all():
    values = ["ab", ["a"], ["a", "b"], ["c"], [], None]
    found = matching(
        values,
        {"$contains_any": ["a", "b"]},
        {"$contains_all": ["a", "b"]},
        {"$contains_any": []},
        {"$contains_all": []},
    )
    assert found == [[["a"], ["a", "b"]], [["a", "b"]], [], [["a"], ["a", "b"], ["c"], []]]


def test_text_ignores_case_and_knows_no_wildcards():
    values = ["An Apple", "apple_pie", "appleXpie", "100%", "É"]
    found = matching(values, {"$text": "APPLE"}, {"$text": "e_p"}, {"$text": "%"}, {"$text": "é"})
    assert found == [["An Apple", "apple_pie", "appleXpie"], ["apple_pie"], ["100%"], ["É"]]


def test_lists_and_objects_are_equal_if_their_json_is():
    values = [[1, "a"], [1.0, "a"], ["a", 1], {"x": 1, "y": [2]}, {"y": [2.0], "x": 1.0}, {"x": 1}]
    found = matching(values, [1, "a"], {"$eq": {"y": [2], "x": 1}}, {"$in": [{"x": 1}, ["a", 1]]})
    assert found == [values[:2], values[3:5], [["a", 1], {"x": 1}]]
    texts = {"b": "x", "a": {"d": [], "c": None}}
    assert matching([texts, {"b": "x"}], {"$eq": texts}) == [[texts]]


def test_a_dict_is_a_path_and_so_is_a_key_with_dots():
    records = [
        {"metadata": {"a": {"b": {"c": 1}}}},
        {"metadata": {"a.b.c": 1}},
        {"metadata": {"a": {"b.c": 1}}},
        {"metadata": {"a.b.c": 2, "a": {"b": {"c": 1}}}},
        {"metadata": {"a.b.c": None, "a": {"b": {"c": 1}}}},
    ]
    assert places(
        records, {"a.b.c": 1}, {"a": {"b.c": 1}}, {"a": {"b": {"c": 1}}}, {"metadata": {"a.b.c": 1}}
    ) == [[0, 1], [0, 2, 3, 4], [0, 3, 4], [0, 1]]


def test_a_key_with_dots_hides_the_path_that_it_spells():
    records = [{"metadata": {"a.b": 5, "a": {"b": "text"}}}, {"metadata": {"a": {"b": "text"}}}]
    asked = [
        {"$text": "TEXT"},
        {"$contains": "e"},
        {"$gt": "a"},
        {"$eq": "text"},
        {"$exists": True},
    ]
    assert places(records, *({"a.b": one} for one in asked)) == [[1]] * 4 + [[0, 1]]


def test_a_field_names_literal_keys_and_never_a_position():
    records = [{"metadata": {"a": {"0": "x"}, "a.0": "y"}}, {"metadata": {"a": ["x"]}}]
    literal, deep = Field("metadata", "a.0"), Field("metadata", "a", "0")
    assert places(records, literal.eq("y"), deep.eq("x"), deep.exists()) == [[0], [0], [0]]
    assert places(records, deep.otherwise("a").eq(["x"])) == [[1]]


def test_a_column_hides_the_metadata_key_of_its_name():
    records = [{"role": "user", "metadata": {"role": "admin"}}]
    assert places(records, {"role": "admin"}, {"metadata.role": "admin"}) == [[], [0]]
    assert places(records, {"metadata": {"role": "admin"}}) == [[0]]


def test_what_is_no_column_of_documents_is_metadata_there():
    documents = [{"id": "d", "metadata": {"role": "user", "created_at": "2024"}}]

    async def main():
        table = await filled_table(documents)
        clause = where({"id": "d", "role": "user", "created_at": {"$gt": "2023"}}, DOCUMENT_FIELDS)
        assert await found_by_scan(table, clause) == [0]

    asyncio.run(main())


def test_bot_id_is_another_name_of_agent_id():
    records = [{"agent_id": "bot"}, {"metadata": {"bot_id": "bot"}}]
    assert places(records, {"bot_id": "bot"}, {"agent_id": "bot"}) == [[0], [0]]


def test_times_are_compared_with_datetimes_and_iso_texts():
    records = [{"created_at": DAY + timedelta(microseconds=n)} for n in (-1, 0, 1)]
    elsewhere = DAY.astimezone(timezone(timedelta(hours=9)))
    for moment in (DAY, elsewhere, DAY.isoformat(), "2024-01-01T00:00:00Z", elsewhere.isoformat()):
        found = places(
            records,
            {"created_at": moment},
            {"created_at": {"gte": moment}},
            {"created_after": moment},
            {"created_before": moment},
            {"created_at": {"$in": [moment]}},
        )
        assert found == [[1], [1, 2], [1, 2], [0, 1], [1]]
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert places(records, {"created_after": first, "created_before": last}) == [[0, 1, 2]]


def test_relationships_contain_the_ids_that_they_point_at():
    records = [{"edges": ["doc-1", '["cites","doc-1"]']}, {"edges": []}]
    found = places(records, {"relationships": {"$contains": "doc-1"}}, {"relationships": None})
    assert found == [[0], [1]]


def test_operands_that_a_column_cannot_hold_match_nothing():
    records = [{"tags": ["a"], "payload_size": 5}, {}]
    assert places(
        records,
        {"payload_size": {"$in": [2**63, 5.0, 1.5, True, "5", None]}},
        {"payload_size": {"$nin": [2**63, 1.5]}},
        {"tags": {"$contains_all": ["a", 1]}},
        {"tags": {"$contains_any": [1, None]}},
        {"tags": {"$in": ["a", ["a", 1]]}},
    ) == [[0, 1], [0, 1], [], [], []]


def test_a_column_without_elements_is_absent():
    records = [{"tags": None}, {"tags": []}, {"tags": ["a"]}]
    found = places(
        records, {"tags": None}, {"tags": []}, {"tags": {"$exists": True}}, {"tags": ["a"]}
    )
    assert found == [[0, 1], [0, 1], [2], [2]]


def test_filters_combine_with_python_operators():
    records = [{"role": role, "text": text} for role in ("a", "b") for text in ("x", "y")]
    a, x = Field("role").eq("a"), Field("text").eq("x")
    found = places(records, a & x, a | x, ~a, ~(a | x), ~~a, a & x & ~a)
    assert found == [[0], [0, 1, 2], [2, 3], [3], [0, 1], []]
    assert len(functools.reduce(operator.and_, [a] * 100).filters) == 100


def test_filters_may_stand_in_dicts():
    records = [{"role": role} for role in ("a", "b", "c")]
    a = Field("role").eq("a")
    found = places(records, {"$or": [a, {"role": "b"}]}, {"$not": a}, {"$not": [a, {"role": "b"}]})
    assert found == [[0, 1], [1, 2], [2]]


@pytest.mark.parametrize("text", ["zzz' OR '1'='1", "' OR true --", "x'); DROP TABLE records; --"])
def test_sql_in_values_and_keys_is_only_text(text):
    records = [
        {"role": "x", "metadata": {"k": "x"}},
        {"role": text, "metadata": {"k": text, text: 1}},
    ]
    asked = [{"role": text}, {"k": text}, {"k": {"$text": text}}, {text: 1}, {"k": {"$in": [text]}}]
    assert places(records, *asked, Field("metadata", text).eq(1)) == [[1]] * 6


@pytest.mark.slow
def test_filters_at_the_limits_still_run():
    field = Field("metadata", *["0", "a.b"] * 8)
    filter = field.otherwise(*["k"] * 16).contains("needle") | field.gt(2**60)
    for _ in range(7):
        filter = (filter & Field("role").eq("user")) | field.text("haystack")
    wide = {"$or": [{"k": {"$contains": n}} for n in range(500)], "role": {"$in": ["x"] * 5_000}}
    assert places([{}], filter, ~filter, wide) == [[], [0], []]


def test_the_largest_lists_that_are_compared_still_run():
    numbers = [n + 0.5 for n in range(400)]
    assert matching([numbers, numbers[:-1]], numbers) == [[numbers]]
    with pytest.raises(FilterError, match="fewer numbers"):
        where({"k": [0.5] * 10_000})


# What is not understood


@pytest.mark.parametrize(
    ("filter", "fragments"),
    [
        ({"$nor": []}, "'$nor' ... knows $and, $or, $not ... 'metadata.$nor'"),
        ({"price": {"$regex": "x"}}, "'$regex' on 'metadata.price' ... $eq ... $text"),
        ({"role": {"like": "x"}}, "'$like' on 'role'"),
        ({"price": {"$gt": 1, "b": 2}}, "'metadata.price' has operators and keys side by side"),
        ({"price": {}}, "'metadata.price' is {}"),
        ({"vector": [1.0]}, "'vector' cannot be filtered ... role ... 'metadata.vector'"),
        ({"price": {"$in": "abc"}}, "$in on 'metadata.price' takes a list, not 'abc'"),
        ({"price": {"$exists": 1}}, "$exists on 'metadata.price' takes True or False, not 1"),
        (
            {"price": {"$gt": None}},
            "$gt on 'metadata.price' takes a text, a number, a time or a UUID",
        ),
        ({"price": {"$gt": [1]}}, "$gt on 'metadata.price' takes"),
        ({"price": {"$text": 5}}, "$text on 'metadata.price' takes a text, not 5"),
        ({"price": {"$contains": [1]}}, "$contains on 'metadata.price' takes texts, numbers"),
        ({"price": object()}, "$eq on 'metadata.price' is <object"),
        ({"price": "\ud800"}, "$eq on 'metadata.price' ... lone surrogate"),
        ({"\ud800": 1}, "lone surrogate"),
        ({"created_at": "yesterday"}, "'created_at' takes a datetime ... 'yesterday'"),
        ({"created_at": "2024-01-01T00:00:00"}, "'created_at' takes ... time zone"),
        (
            {"created_at": {"$gt": DAY.replace(tzinfo=None)}},
            "'created_at' is ... without a time zone",
        ),
        ({"created_after": 5}, "'created_at' takes a datetime"),
        ({"created_at": {"$text": "2024"}}, "$text cannot be asked of 'created_at'"),
        ({"role": ["user", "tool"]}, "'role' takes a text; one of several is $in"),
        ({"role": DAY}, "'role' takes a text"),
        ({"role": UUID(int=1)}, "'role' takes a text"),
        ({"price": {"$in": [[1], {1}]}}, "$in on 'metadata.price' is {1} (set)"),
        ({"price": [Decimal(1)]}, "[0] is Decimal('1')"),
        ({"payload_size": {"$lt": DAY}}, "'payload_size' takes a number"),
        ({"created_at": date(2024, 1, 1)}, "'created_at' takes a datetime"),
        ({"tags": UUID(int=1)}, "'tags' takes a list of texts"),
        ({"role": {"$contains_any": ["x"]}}, "$contains_any cannot be asked of 'role'"),
        ({"tags": {"$gt": "a"}}, "$gt cannot be asked of 'tags'"),
        ({"payload_size": {"$contains": "1"}}, "$contains cannot be asked of 'payload_size'"),
        ({"relationships": "doc-1"}, "$eq cannot be asked of 'relationships'"),
        ({"$and": {"role": "user"}}, "$and takes a list of filters"),
        ({"$or": [5]}, "a filter is a dict, a condition in SQL or a Filter, not 5"),
        ({"$or": ["role"]}, "'role' ... an operator such as ="),
        ({5: "x"}, "the keys of a filter are texts, not 5"),
        ({"a.b": {"c.d": {"e.f": {"g.h": 1}}}}, "can be read in more than 8 ways"),
        (Field("key").eq("x"), "'key' is not a column"),
        (Field("role", "x").eq("x"), "'role.x' ... 'role' has none"),
    ],
)
def test_what_is_not_understood_is_named(filter, fragments):
    with pytest.raises(FilterError) as raised:
        where(filter)
    for fragment in fragments.split(" ... "):
        assert fragment in str(raised.value)


def test_fields_are_named_by_a_few_texts():
    with pytest.raises(FilterError, match="at most 16 keys, not 17"):
        Field("metadata", *"abcdefghijklmnopq")
    with pytest.raises(FilterError, match="name of a field must be a str, not 5"):
        Field("metadata", 5)


def test_endless_nesting_is_refused_before_it_overflows():
    endless: dict[str, Any] = {"k": 1}
    for _ in range(5_000):
        endless = {"$not": endless}
    with pytest.raises(FilterError, match="more than 16 deep"):
        where(endless)
    filter = Field("role").eq("x")
    for _ in range(5_000):
        filter = Field("role").eq("y") & (filter | filter)
    with pytest.raises(FilterError, match="more than 16 deep"):
        where(filter)


# The clauses that stores are written in


def test_clauses_say_what_they_are_called():
    records = [{"role": "a", "text": "x"}, {"role": "b'"}, {}]
    clauses = [
        sql.equals("role", "b'"),
        sql.equals("role", None),
        sql.in_list("role", ["a", "b'"]),
        sql.in_list("role", []),
        sql.all_of([sql.equals("text", "x"), "", "role = 'a' OR true"]),
        sql.any_of([sql.equals("text", "x"), sql.equals("role", None)]),
        sql.any_of([]),
        sql.all_of([sql.equals("payload_size", 5), f"created_at = {sql.timestamp(DAY)}"]),
    ]

    async def main():
        table = await filled_table([*records, {"payload_size": 5, "created_at": DAY, "role": "c"}])
        return [await found_by_scan(table, clause) for clause in clauses]

    assert asyncio.run(main()) == [[1], [2], [0, 1], [], [0], [0, 2], [], [3]]
    assert not sql.all_of([])


def test_clauses_refuse_what_cannot_be_quoted():
    for name in ("", "a.b", "a`b"):
        with pytest.raises(InvalidRequestError, match="name of a column"):
            sql.quote_identifier(name)
    with pytest.raises(InvalidRequestError, match="lone surrogate"):
        sql.quote_string("\ud800")
    with pytest.raises(InvalidRequestError, match="without a time zone"):
        sql.timestamp(DAY.replace(tzinfo=None))
    with pytest.raises(InvalidRequestError, match="cannot be compared with a column"):
        sql.equals("role", 1.5)
    with pytest.raises(InvalidRequestError, match="cannot be compared with a column"):
        sql.in_list("payload_size", [1, True])
