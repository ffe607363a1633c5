"""Blobs and graphs of a store, each broken in one way; see broken.py."""

import time

import pytest
from lance_context_testing import BlobStoreTests, GraphStoreTests

from lance_context_core import AsyncContextStore
from lance_context_core.errors import NotFoundError


class Behind:
    """Does what the one behind it does, but for what a class of its own does otherwise."""

    def __init__(self, behind):
        self.behind = behind

    def __getattr__(self, name):
        return getattr(self.behind, name)


# Blobs


class Blobs(BlobStoreTests):
    broken = Behind

    @pytest.fixture
    def blobs(self):
        return self.broken(AsyncContextStore.open("memory://").blobs)

    @pytest.fixture
    def later(self):
        return lambda: time.sleep(0.01)


class ByteTooMany(Behind):
    async def read(self, ref, *, start=0, length=None):
        return await self.behind.read(ref, start=start, length=length and length + 1)


class TestByteTooMany(Blobs):
    caught_by = "test_any_part_of_it_is_what_a_slice_is"
    broken = ByteTooMany


class EmptyForAbsent(Behind):
    async def get(self, ref):
        try:
            return await self.behind.get(ref)
        except NotFoundError:
            return b""


class TestEmptyForAbsent(Blobs):
    caught_by = "test_what_is_not_there_is_not_found"
    broken = EmptyForAbsent


class NeverSwept(Behind):
    async def sweep(self):
        return 0


class TestNeverSwept(Blobs):
    caught_by = "test_what_has_expired_is_not_there_and_is_swept"
    broken = NeverSwept


class NeverPinned(Behind):
    async def put(self, source, *, pinned=False, **options):
        return await self.behind.put(source, **options)


class TestNeverPinned(Blobs):
    caught_by = "test_what_is_pinned_outlives_its_time_and_is_not_deleted"
    broken = NeverPinned


# Graphs


class Graphs(GraphStoreTests):
    broken = Behind

    @pytest.fixture
    def graph(self):
        return self.broken(AsyncContextStore.open("memory://").graph)


class NearOnly(Behind):
    async def neighbours(self, entity_id, **options):
        return await self.behind.neighbours(entity_id, **{**options, "depth": 1})


class TestNearOnly(Graphs):
    caught_by = "test_neighbours_are_what_a_walk_over_all_relations_finds"
    broken = NearOnly


class HalfRelated(Behind):
    async def add_relations(self, relations):
        return [one for each in relations for one in await self.behind.add_relations([each])]


class TestHalfRelated(Graphs):
    caught_by = "test_a_relation_to_what_is_not_there_is_refused_and_nothing_is_written"
    broken = HalfRelated


class TakesEnds(Behind):
    async def delete_relation(self, relation_id):
        relation = await self.behind.get_relation(relation_id)
        done = await self.behind.delete_relation(relation_id)
        if relation is not None:
            await self.behind.delete_entity(relation.target_id)
        return done


class TestTakesEnds(Graphs):
    caught_by = "test_a_deleted_relation_leaves_its_ends"
    broken = TakesEnds


class RaisesForAbsent(Behind):
    async def get(self, entity_id):
        if (found := await self.behind.get(entity_id)) is None:
            raise NotFoundError(entity_id)
        return found


class TestRaisesForAbsent(Graphs):
    caught_by = "test_what_is_not_there_is_absent"
    broken = RaisesForAbsent
