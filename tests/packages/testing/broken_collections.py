"""Documents and items in dicts, each broken in one way; `caught_by` is a test that must fail.

Run by test_contracts.py in a process of its own: pytest does not collect this file by its name.
"""

import asyncio
import copy
from dataclasses import replace

import pytest
from lance_context_testing import KeyValueStoreTests, VectorStoreTests
from packages.testing.dict_collections import DictItems, DictVectors

from lance_context_core.errors import AlreadyExistsError

ALIASED = "test_changing_what_was_given_or_found_changes_nothing_that_is_kept"

# Vectors


class BrokenVectors(VectorStoreTests):
    embeds_texts = False
    search_modes = ("vector",)
    kind: type

    @pytest.fixture
    def collection(self):
        place = {}
        return lambda name: self.kind(place, name)


class Replacing(DictVectors):
    async def add(self, documents):
        return await self.upsert(documents)


class TestReplacing(BrokenVectors):
    caught_by = "test_an_id_that_another_text_has_is_refused_and_nothing_is_written"
    kind = Replacing


class WorstFirst(DictVectors):
    async def search(self, query=None, *, limit=10, **rest):
        return (await super().search(query, limit=None, **rest))[::-1][:limit]


class TestWorstFirst(BrokenVectors):
    caught_by = "test_a_search_by_vector_finds_the_nearest_best_first"
    kind = WorstFirst


class OneMore(DictVectors):
    async def search(self, query=None, *, limit=10, **rest):
        return await super().search(query, limit=limit + 1, **rest)


class TestOneMore(BrokenVectors):
    caught_by = "test_a_search_by_vector_finds_the_nearest_best_first"
    kind = OneMore


class FilteringHits(DictVectors):
    async def search(self, query=None, *, filter=None, **rest):
        found = await super().search(query, **rest)
        kept = {hit.record.id for hit in await super().search(query, filter=filter, limit=None)}
        return [hit for hit in found if hit.record.id in kept]


class TestFilteringHits(BrokenVectors):
    caught_by = "test_a_filtered_search_finds_as_many_as_match"
    kind = FilteringHits


class InOrderOfAdding(DictVectors):
    async def get(self, ids):
        return [copy.deepcopy(one) for id, one in self.documents.items() if id in ids]


class TestInOrderOfAdding(BrokenVectors):
    caught_by = "test_documents_come_back_in_the_order_in_which_they_are_asked_for"
    kind = InOrderOfAdding


class AliasedDocuments(DictVectors):
    async def get(self, ids):
        return [self.documents[id] for id in ids if id in self.documents]


class TestAliasedDocuments(BrokenVectors):
    caught_by = ALIASED
    kind = AliasedDocuments


class InOneCollection(DictVectors):
    def __init__(self, collections, name):
        super().__init__(collections, "all")


class TestInOneCollection(BrokenVectors):
    caught_by = "test_deleting_a_collection_leaves_the_others"
    kind = InOneCollection


# Key-value items


class BrokenItems(KeyValueStoreTests):
    embeds_texts = False
    kind: type

    @pytest.fixture
    def kv(self):
        return self.kind()


class Undying(DictItems):
    def alive(self):
        return dict(self.items)


class TestUndying(BrokenItems):
    caught_by = "test_what_has_expired_is_not_there"
    kind = Undying


class JoinedNamespaces(DictItems):
    async def delete_under(self, prefix):
        start = "/".join(prefix)
        gone = [name for name in self.items if "/".join(name[0]).startswith(start)]
        self.changed(dict.fromkeys(gone))
        return len(gone)


class TestJoinedNamespaces(BrokenItems):
    caught_by = "test_all_under_a_namespace_is_deleted"
    kind = JoinedNamespaces


class AliasedItems(DictItems):
    def kept(self, item):
        return replace(super().kept(item), value=item.value)


class TestAliasedItems(BrokenItems):
    caught_by = ALIASED
    kind = AliasedItems


class AddingOver(DictItems):
    async def add(self, items):
        told = [(one.namespace, one.key) not in self.alive() for one in items]
        await self.put(items)
        return told


class TestAddingOver(BrokenItems):
    caught_by = "test_adding_gives_way_to_what_is_there"
    kind = AddingOver


class HalfDone(DictItems):
    async def write(self, *, puts=(), adds=(), deletes=(), expected=None):
        await self.put(puts)
        return await super().write(adds=adds, deletes=deletes, expected=expected)


class TestHalfDone(BrokenItems):
    caught_by = "test_nothing_is_written_beside_an_addition_whose_key_is_taken"
    kind = HalfDone


class BothWin(DictItems):
    async def write(self, *, puts=(), adds=(), deletes=(), expected=None):
        if any((one.namespace, one.key) in self.alive() for one in adds):
            raise AlreadyExistsError("taken")
        await asyncio.sleep(0)
        await self.put(adds)
        return await super().write(puts=puts, deletes=deletes, expected=expected)


class TestBothWin(BrokenItems):
    caught_by = "test_of_many_writes_that_add_one_key_one_is_written_whole"
    kind = BothWin


class ExpectingOfWhatIsWritten(DictItems):
    async def write(self, *, puts=(), adds=(), deletes=(), expected=None):
        written = {*deletes, *((one.namespace, one.key) for one in [*puts, *adds])}
        mine = {name: revision for name, revision in (expected or {}).items() if name in written}
        return await super().write(puts=puts, adds=adds, deletes=deletes, expected=mine)


class TestExpectingOfWhatIsWritten(BrokenItems):
    caught_by = "test_all_is_written_if_everything_is_as_expected_and_else_nothing"
    kind = ExpectingOfWhatIsWritten


class ExpectingTooEarly(DictItems):
    async def write(self, *, expected=None, **changes):
        await super().write(expected=expected)
        await asyncio.sleep(0)
        return await super().write(**changes)


class TestExpectingTooEarly(BrokenItems):
    caught_by = "test_a_counter_that_many_raise_at_once_comes_to_the_exact_sum"
    kind = ExpectingTooEarly


class TestTakenTwice(BrokenItems):
    caught_by = "test_of_many_who_move_one_item_at_once_one_does"
    kind = ExpectingTooEarly


class DeletingLast(DictItems):
    async def write(self, *, puts=(), adds=(), deletes=(), expected=None):
        await super().write(puts=puts, adds=adds, expected=expected)
        return await super().write(deletes=deletes)


class TestDeletingLast(BrokenItems):
    caught_by = "test_a_key_may_be_deleted_added_and_put_by_one_call_in_this_order"
    kind = DeletingLast


class LostPut(DictItems):
    async def put(self, items):
        before = dict(self.items)
        await asyncio.sleep(0)
        self.items = before
        await super().put(items)


class TestLostPut(BrokenItems):
    caught_by = "test_puts_at_the_same_time_lose_nothing"
    kind = LostPut


class CreatedAgain(DictItems):
    def kept(self, item):
        kept = super().kept(item)
        return replace(kept, created_at=kept.updated_at)


class TestCreatedAgain(BrokenItems):
    caught_by = "test_putting_again_replaces_all_but_the_moment_of_creation"
    kind = CreatedAgain


class SkippingOne(DictItems):
    async def list(self, *, offset=0, **rest):
        return await super().list(offset=offset and offset + 1, **rest)


class TestSkippingOne(BrokenItems):
    caught_by = "test_items_come_in_the_order_that_is_asked_for"
    kind = SkippingOne


class TouchingTheTime(DictItems):
    async def touch(self, keys, *, expires_at):
        touched = [replace(one, expires_at=expires_at) for one in await self.get(keys) if one]
        await self.put(touched)
        return len(touched)


class TestTouchingTheTime(BrokenItems):
    caught_by = "test_touching_moves_the_expiry_and_nothing_else"
    kind = TouchingTheTime


class SilentTouch(DictItems):
    async def touch(self, keys, *, expires_at):
        n_touched = await super().touch(keys, expires_at=expires_at)
        self.n_changes -= 1
        return n_touched


class TestSilentTouch(BrokenItems):
    caught_by = "test_the_version_changes_with_the_items_and_with_nothing_else"
    kind = SilentTouch


class TestModest(BrokenItems):
    """Not broken: it declares what it does not have."""

    supports_search = supports_filters = False
    kind = DictItems
