"""Where each conformance test is run: in which place, through which API.

A directory, through both APIs, and the memory of the process see everything that is about our own code:
conditions, orders, refusals, round trips. What those two have no part in is run on S3 as well, where a case
takes seconds. It is what an object store can break:

- commits that are conditional writes: of several at once one wins, the others are made again or refused
- what is listed: tables that come and go, one that another store made, a place where nothing is yet
- writes and reads of the table's files by ranges, also of those that are uploaded in several parts
- what a retry finds after a write that only seemed to fail

A filter, an order or a refusal is decided before or after the object store is asked: none is run there.
"""

import pytest

PLACES = [("local", "async"), ("local", "sync"), ("memory", "async")]
PLACES_IN_CHECK = [("local", "sync")]
"""The blocking API goes through the asynchronous one; memory, where each write is a commit, costs twice as
much, and is run by those that say `anywhere`."""
S3 = ("s3", "async")
LOG = ("log", "async")
"""A directory with a log that is not SQLite's: nothing above the log may know which one it has."""
POSTGRES = ("directory+postgres", "async")
"""A directory whose log is in PostgreSQL: `make test` has what runs at the same time, proofs the rest."""
S3_POSTGRES = ("s3+postgres", "async")
"""An object store with such a log, which is run where either is."""
FEWER_PLACES = {
    "anywhere": [("local", "async"), ("memory", "sync")],
    "local": [("local", "async")],
    "s3": [*PLACES, S3],
}
"""By the marks of the tests that are content with them."""

SHIPPED_ON_S3 = {
    # conditional writes
    "test_appends_at_the_same_time_lose_nothing_and_keep_batches_together",
    "test_additions_at_the_same_time_lose_nothing",
    "test_creating_at_the_same_time_makes_one_session",
    "test_of_many_writes_that_add_one_key_one_is_written_whole",
    "test_of_many_who_move_one_item_at_once_one_does",
    "test_a_counter_that_many_raise_at_once_comes_to_the_exact_sum",
    "test_puts_at_the_same_time_lose_nothing",
    "test_a_batch_with_some_known_ids_adds_the_others_at_the_end",
    # listing
    "test_collections_of_different_dimensions_stand_side_by_side",
    "test_deleting_a_collection_leaves_the_others",
    "test_a_deleted_collection_may_come_back_with_another_dimension",
    "test_an_unknown_session_has_no_messages",
    # files that are written, read and deleted in parts
    "test_messages_come_back_in_the_order_of_their_appends",
    "test_deleting_forgets_the_session_and_its_messages_and_nothing_else",
    "test_all_under_a_namespace_is_deleted",
}
"""Those of the shipped contracts that are run on S3, where the marks of ours do not stand."""


def places_of(test, effort):
    """In which places, and through which APIs, a test is run."""
    marks = (name for name in FEWER_PLACES if test.get_closest_marker(name))
    usual = PLACES_IN_CHECK if effort == "check" else PLACES
    places = FEWER_PLACES.get(next(marks, ""), usual)
    if effort == "proofs":
        places = [*places, LOG, POSTGRES, S3_POSTGRES]
    if test.originalname not in SHIPPED_ON_S3:
        return places
    if effort == "check":
        return [*places, S3]
    return [*dict.fromkeys([*places, LOG, POSTGRES, S3, S3_POSTGRES])]


class InEachPlace:
    """A contract's time is that of the clock which the store reads."""

    @pytest.fixture
    def later(self, clock):
        return lambda: clock.advance(minutes=1)
