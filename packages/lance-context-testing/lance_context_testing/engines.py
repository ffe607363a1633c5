"""Conformance tests of `SearchEngine`."""

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import ClassVar

import pytest

from lance_context_core.engines import FIELDS, EngineHits, EngineRow, SearchEngine
from lance_context_testing._contract import Contract, assert_has_the_methods
from lance_context_testing.samples import NAMES

TABLE = "records"
DIMENSION = 4


def row(
    key: str,
    text: str = "",
    vector: Sequence[float] | None = None,
    *,
    revision: int = 1,
    **fields: str | None,
) -> EngineRow:
    """A row with these words, and the given fields; the others are absent."""
    known = dict.fromkeys(FIELDS) | fields
    return EngineRow(key=key, revision=revision, words=text.split(), vector=vector, fields=known)


class SearchEngineTests(Contract):
    """Give the fixtures `engine`, an empty `SearchEngine` with both channels, and `lose`.

    `lose(table, key)` removes a row from the engine's storage, without the engine.
    """

    hooks: ClassVar = {
        "engine": "an empty SearchEngine with both channels",
        "lose": "a function of a table and a key that removes the row behind the engine's back",
    }

    @pytest.fixture
    def index(self, engine: SearchEngine) -> SearchEngine:
        """The engine with an empty index of `TABLE`."""
        engine.clear(TABLE, dimension=DIMENSION)
        return engine

    def test_it_has_the_methods_of_the_protocol(self, engine: SearchEngine) -> None:
        assert_has_the_methods(engine, SearchEngine)
        assert isinstance(engine, SearchEngine)
        assert {*engine.channels} == {"text", "vector"}
        assert engine.max_words_bytes >= 10_000

    # Indexes

    def test_a_table_without_an_index_has_no_state_and_cannot_be_searched(
        self, engine: SearchEngine
    ) -> None:
        assert engine.state(TABLE) is None
        assert [*engine.tables()] == []
        engine.drop(TABLE)
        with pytest.raises(LookupError):
            engine.match(TABLE, ["cat"], where={}, limit=3)
        with pytest.raises(LookupError):
            engine.nearest(TABLE, [1.0, 0, 0, 0], where={}, limit=3)

    def test_an_empty_index_finds_nothing_and_has_no_position(self, index: SearchEngine) -> None:
        state = index.state(TABLE)
        assert state is not None
        assert (state.position, state.n_rows, state.n_lost) == ("", 0, 0)
        assert index.revisions(TABLE) == {}
        assert [*index.match(TABLE, ["cat"], where={}, limit=3).keys] == []
        assert [*index.nearest(TABLE, [1.0, 0, 0, 0], where={}, limit=3).keys] == []

    def test_clear_empties_an_index_and_takes_vectors_of_another_length(
        self, index: SearchEngine
    ) -> None:
        index.write(TABLE, puts=[row("a", "cat", [1, 0, 0, 0])], position="1")
        index.clear(TABLE, dimension=3)
        state = index.state(TABLE)
        assert state is not None
        assert (state.position, state.n_rows) == ("", 0)
        index.write(TABLE, puts=[row("b", "dog", [0, 1, 0])])
        assert keys(index.nearest(TABLE, [0.0, 1, 0], where={}, limit=3)) == ["b"]
        assert keys(index.match(TABLE, ["cat", "dog"], where={}, limit=3)) == ["b"]

    def test_an_index_without_vectors_is_searched_by_words(self, engine: SearchEngine) -> None:
        engine.clear(TABLE, dimension=None)
        engine.write(TABLE, puts=[row("a", "cat")], position="1")
        assert keys(engine.match(TABLE, ["cat"], where={}, limit=3)) == ["a"]

    def test_indexes_of_several_tables_are_apart_whatever_their_names(
        self, engine: SearchEngine
    ) -> None:
        names = ["a", "A", "a b", "a-b", "ä", "日本", "x" * 200]
        for name in names:
            engine.clear(name, dimension=DIMENSION)
            engine.write(name, puts=[row(f"in {name[:9]}", "cat")], position=name)
        assert sorted(engine.tables()) == sorted(names)
        for name in names:
            assert keys(engine.match(name, ["cat"], where={}, limit=9)) == [f"in {name[:9]}"]
            state = engine.state(name)
            assert state is not None
            assert (state.position, state.n_rows) == (name, 1)
        engine.drop("a")
        assert sorted(engine.tables()) == sorted(names[1:])
        assert engine.state("a") is None

    # Writing

    def test_a_position_stays_until_another_one_is_written(self, index: SearchEngine) -> None:
        told = '{"at": [1, 2], "é": "日本 \'quoted\'"}' + "x" * 1_000
        index.write(TABLE, puts=[row("a", "cat")], position=told)
        index.write(TABLE, puts=[row("b", "dog")])
        state = index.state(TABLE)
        assert state is not None
        assert (state.position, state.n_rows, state.n_lost) == (told, 2, 0)
        index.write(TABLE, position="2")
        state = index.state(TABLE)
        assert state is not None
        assert (state.position, state.n_rows, state.n_lost) == ("2", 2, 0)

    def test_a_row_is_replaced_as_a_whole(self, index: SearchEngine) -> None:
        index.write(TABLE, puts=[row("a", "cat", [1, 0, 0, 0], tenant="t")])
        index.write(TABLE, puts=[row("a", "dog", revision=2)])
        assert index.revisions(TABLE) == {"a": 2}
        assert keys(index.match(TABLE, ["cat"], where={}, limit=9)) == []
        assert keys(index.match(TABLE, ["dog"], where={"tenant": None}, limit=9)) == ["a"]
        assert keys(index.nearest(TABLE, [1.0, 0, 0, 0], where={}, limit=9)) == []

    def test_removed_rows_are_not_found_and_unknown_keys_are_ignored(
        self, index: SearchEngine
    ) -> None:
        index.write(TABLE, puts=[row("a", "cat", [1, 0, 0, 0]), row("b", "cat", [1, 1, 0, 0])])
        index.write(TABLE, puts=[row("c", "cat", [0, 1, 0, 0])], removes=["a", "nothing"])
        assert {*index.revisions(TABLE)} == {"b", "c"}
        assert {*keys(index.match(TABLE, ["cat"], where={}, limit=9))} == {"b", "c"}
        assert keys(index.nearest(TABLE, [1.0, 0, 0, 0], where={}, limit=9)) == ["b", "c"]
        state = index.state(TABLE)
        assert state is not None
        assert (state.n_rows, state.n_lost) == (2, 0)

    def test_a_repeated_write_changes_nothing(self, index: SearchEngine) -> None:
        index.write(TABLE, puts=[row("b", "cat")])
        for _ in range(2):
            index.write(TABLE, puts=[row("a", "cat dog")], removes=["b"], position="7")
            state = index.state(TABLE)
            assert state is not None
            assert (state.position, state.n_rows, state.n_lost) == ("7", 1, 0)
            assert keys(index.match(TABLE, ["cat"], where={}, limit=9)) == ["a"]

    def test_revisions_have_63_bits(self, index: SearchEngine) -> None:
        wanted = {"zero": 0, "large": 2**62 + 12_345, "largest": 2**63 - 1}
        index.write(TABLE, puts=[row(key, revision=one) for key, one in wanted.items()])
        assert index.revisions(TABLE) == wanted

    def test_many_rows_are_listed(self, index: SearchEngine) -> None:
        wanted = {f"k{number}": number for number in range(1_203)}
        some = [row(key, "cat", revision=one) for key, one in wanted.items()]
        for start in range(0, len(some), 500):
            index.write(TABLE, puts=some[start : start + 500])
        assert index.revisions(TABLE) == wanted
        assert len(keys(index.match(TABLE, ["cat"], where={}, limit=1_100))) == 1_100

    def test_lost_rows_are_counted(
        self, index: SearchEngine, lose: Callable[[str, str], None]
    ) -> None:
        index.write(TABLE, puts=[row("a", "cat"), row("b", "cat")], position="1")
        lose(TABLE, "a")
        state = index.state(TABLE)
        assert state is not None
        assert (state.n_rows, state.n_lost) == (1, 1)
        assert index.match(TABLE, ["cat"], where={}, limit=9).state.n_lost == 1
        index.write(TABLE, puts=[row("a", "cat")])
        state = index.state(TABLE)
        assert state is not None
        assert (state.n_rows, state.n_lost) == (2, 0)

    # Words

    def test_rows_with_any_of_the_words_are_found(self, index: SearchEngine) -> None:
        texts = {"a": "cat dog", "b": "dog bird", "c": "tree", "d": ""}
        index.write(TABLE, puts=[row(key, text) for key, text in texts.items()])
        for asked in (["cat"], ["dog"], ["cat", "bird"], ["tree", "cat", "fish"], ["fish"]):
            wanted = {key for key, text in texts.items() if {*asked} & {*text.split()}}
            found = index.match(TABLE, asked, where={}, limit=9)
            assert {*found.keys} == wanted
            assert all(score > 0 for score in found.scores)
            assert [*found.scores] == sorted(found.scores, reverse=True)
        assert keys(index.match(TABLE, [], where={}, limit=9)) == []

    def test_rare_and_repeated_words_and_short_texts_come_first(self, index: SearchEngine) -> None:
        texts = {
            "rare": "fish tree",
            "twice": "cat cat",
            "once": "cat tree",
            "long": "cat " + "tree " * 8,
        }
        fill = {f"more {number}": "cat tree" for number in range(5)}
        index.write(TABLE, puts=[row(key, text) for key, text in {**texts, **fill}.items()])
        found = keys(index.match(TABLE, ["cat", "fish"], where={}, limit=20))
        assert found[:2] == ["rare", "twice"]
        assert found[-1] == "long"
        assert keys(index.match(TABLE, ["cat", "fish"], where={}, limit=1)) == ["rare"]

    def test_words_of_any_script_and_length_are_told_apart(self, index: SearchEngine) -> None:
        words = [
            "日本",
            "日",
            "本",
            "東京",
            "кот",
            "коты",
            "é",
            "e",
            "42",
            "2024",
            "a1b2",
            "ß",
            "한국어",
        ]
        words += ["x" * 255, "x" * 254, "ж" * 127, "the", "and", "not", "or"]
        index.write(TABLE, puts=[row(f"k{n}", word) for n, word in enumerate(words)])
        for n, word in enumerate(words):
            assert keys(index.match(TABLE, [word], where={}, limit=20)) == [f"k{n}"], word

    def test_a_long_text_is_found_by_its_first_and_last_word(self, index: SearchEngine) -> None:
        words = ["first", *(f"w{n}" for n in range(1_500)), "last"]
        index.write(TABLE, puts=[row("a", " ".join(words))])
        for word in ("first", "w700", "last"):
            assert keys(index.match(TABLE, [word], where={}, limit=9)) == ["a"]

    # Vectors

    def test_the_nearest_rows_are_found_with_their_cosines(self, index: SearchEngine) -> None:
        random = Random(5)
        vectors = {f"k{n}": [random.gauss(0, 1) for _ in range(DIMENSION)] for n in range(30)}
        index.write(TABLE, puts=[row(key, vector=one) for key, one in vectors.items()])
        asked = [random.gauss(0, 1) for _ in range(DIMENSION)]
        wanted = sorted(vectors, key=lambda key: -cosine(asked, vectors[key]))
        found = index.nearest(TABLE, asked, where={}, limit=7)
        assert keys(found) == wanted[:7]
        assert found.scores == pytest.approx(
            [cosine(asked, vectors[key]) for key in wanted[:7]], abs=1e-5
        )
        assert {*keys(index.nearest(TABLE, asked, where={}, limit=99))} == {*vectors}

    def test_rows_without_a_vector_are_never_near(self, index: SearchEngine) -> None:
        index.write(TABLE, puts=[row("a", "cat"), row("b", "cat", [-1, 0, 0, 0])])
        assert keys(index.nearest(TABLE, [1.0, 0, 0, 0], where={}, limit=9)) == ["b"]

    # Conditions

    def test_conditions_are_met_by_equal_and_by_absent_fields(self, index: SearchEngine) -> None:
        names = [*NAMES, None]
        near = [1.0, 0, 0, 0]
        index.write(
            TABLE, puts=[row(f"k{n}", "cat", near, user_id=one) for n, one in enumerate(names)]
        )
        for n, name in enumerate(names):
            where: dict[str, str | None] = {"user_id": name}
            assert keys(index.match(TABLE, ["cat"], where=where, limit=9)) == [f"k{n}"]
            assert keys(index.nearest(TABLE, near, where=where, limit=9)) == [f"k{n}"]

    def test_all_conditions_hold_and_few_matches_are_found_among_many(
        self, index: SearchEngine
    ) -> None:
        random = Random(3)
        rows = [
            row(f"k{n}", "cat", [random.gauss(0, 1) for _ in range(DIMENSION)],
                tenant=f"t{n % 3}", session_id=f"s{n % 50}")
            for n in range(400)
        ]  # fmt: skip
        index.write(TABLE, puts=rows)
        where: dict[str, str | None] = {"tenant": "t1", "session_id": "s7"}
        wanted = {one.key for one in rows if where.items() <= one.fields.items()}
        assert 0 < len(wanted) < 9
        assert {*keys(index.match(TABLE, ["cat"], where=where, limit=9))} == wanted
        assert {*keys(index.nearest(TABLE, [1.0, 0, 0, 0], where=where, limit=9))} == wanted

    # Together

    def test_it_finds_what_a_table_in_memory_finds_after_any_writes(
        self, index: SearchEngine
    ) -> None:
        random, model = Random(11), dict[str, EngineRow]()
        for number in range(12):
            some = {f"k{random.randrange(30)}" for _ in range(8)}
            gone = {key for key in some if random.random() < 0.3}
            puts = [any_row(random, key, number) for key in sorted(some - gone)]
            index.write(TABLE, puts=puts, removes=sorted(gone), position=str(number))
            model = {key: one for key, one in model.items() if key not in gone}
            model |= {one.key: one for one in puts}
            state = index.state(TABLE)
            assert state is not None
            assert (state.position, state.n_rows, state.n_lost) == (str(number), len(model), 0)
            any_where: list[dict[str, str | None]] = [{}, {"tenant": "t1"}, {"tenant": None}]
            where = random.choice(any_where)
            there = [one for one in model.values() if where.items() <= one.fields.items()]
            asked = random.sample(WORDS, 2)
            found = index.match(TABLE, asked, where=where, limit=99)
            assert {*found.keys} == {one.key for one in there if {*asked} & {*one.words}}
            near = index.nearest(TABLE, [1.0, 1, 0, 0], where=where, limit=99)
            assert {*near.keys} == {one.key for one in there if one.vector is not None}
        assert index.revisions(TABLE) == {key: one.revision for key, one in model.items()}

    def test_threads_may_search_while_another_writes(self, index: SearchEngine) -> None:
        index.write(TABLE, puts=[row("a", "cat", [1, 0, 0, 0])])

        def search(_: int) -> list[str]:
            return keys(index.match(TABLE, ["cat"], where={"tenant": None}, limit=1))

        with ThreadPoolExecutor(4) as pool:
            found = pool.map(search, range(12))
            for number in range(3):
                index.write(TABLE, puts=[row(f"other {number}", "dog")])
        assert [*found] == [["a"]] * 12

    def test_it_goes_on_after_it_was_closed(self, index: SearchEngine) -> None:
        index.write(TABLE, puts=[row("a", "cat")], position="1")
        index.close()
        assert keys(index.match(TABLE, ["cat"], where={}, limit=1)) == ["a"]
        index.close()
        index.close()


WORDS = ["cat", "dog", "bird", "tree", "日本"]


def any_row(random: Random, key: str, revision: int) -> EngineRow:
    """A row of few words, which many others have, too."""
    vector = [random.uniform(0.1, 1) for _ in range(DIMENSION)] if random.random() < 0.8 else None
    text = " ".join(random.choices(WORDS, k=random.randrange(5)))
    tenant = random.choice(["t1", "t2", None])
    return row(key, text, vector, revision=revision, tenant=tenant)


def keys(hits: EngineHits) -> list[str]:
    """The keys of the hits, each with one score."""
    assert len(hits.keys) == len(hits.scores)
    return [*hits.keys]


def cosine(one: Iterable[float], other: Iterable[float]) -> float:
    """The cosine of the angle between two vectors."""
    one, other = [*one], [*other]
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths
