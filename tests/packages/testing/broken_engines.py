"""Search engines in memory, each broken in one way; see broken.py."""

import pytest
from lance_context_testing import SearchEngineTests

from lance_context_core.engines import MemoryEngine


class Engine(SearchEngineTests):
    broken = MemoryEngine

    @pytest.fixture
    def engine(self):
        return self.broken()

    @pytest.fixture
    def lose(self, engine):
        return lambda table, key: engine._indexes[table].rows.pop(key)


class BlindToScopes(MemoryEngine):
    def match(self, table, words, *, where, limit):
        return super().match(table, words, where={}, limit=limit)


class TestBlindToScopes(Engine):
    caught_by = "test_conditions_are_met_by_equal_and_by_absent_fields"
    broken = BlindToScopes


class ForgetsItsPosition(MemoryEngine):
    def write(self, table, *, puts=(), removes=(), position=None):
        super().write(table, puts=puts, removes=removes, position=position or "")


class TestForgetsItsPosition(Engine):
    caught_by = "test_a_position_stays_until_another_one_is_written"
    broken = ForgetsItsPosition


class KeepsRemoved(MemoryEngine):
    def write(self, table, *, puts=(), removes=(), position=None):
        super().write(table, puts=puts, position=position)


class TestKeepsRemoved(Engine):
    caught_by = "test_removed_rows_are_not_found_and_unknown_keys_are_ignored"
    broken = KeepsRemoved


class FiltersAfterTheBest(MemoryEngine):
    def nearest(self, table, vector, *, where, limit):
        found = super().nearest(table, vector, where={}, limit=limit)
        there = {*super().nearest(table, vector, where=where, limit=10_000).keys}
        kept = [pair for pair in zip(found.keys, found.scores, strict=True) if pair[0] in there]
        found.keys[:], found.scores[:] = [key for key, _ in kept], [one for _, one in kept]
        return found


class TestFiltersAfterTheBest(Engine):
    caught_by = "test_all_conditions_hold_and_few_matches_are_found_among_many"
    broken = FiltersAfterTheBest
