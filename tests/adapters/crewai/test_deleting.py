"""A deletion honours all of its conditions together, and nothing else goes."""

from datetime import UTC, timedelta

import pytest
from adapters.crewai.samples import contents, on, record
from crewai_lance_context import LanceMemoryStorage
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core import ContextStore

SCOPES = ("/", "/a", "/a/b", "/ab")
CATEGORIES = ("x", "y")


def sample(n):
    return record(
        f"record {n}",
        id=f"r{n}",
        scope=SCOPES[n % 4],
        categories=[CATEGORIES[n % 2]],
        metadata={"n": n % 3},
        created_at=on(1 + n % 5),
    )


def test_age_and_scope_and_ids_hold_together(storage):
    storage.save([sample(n) for n in range(20)])
    # The shipped storage deletes all of these ids, whatever their scope and age.
    assert storage.delete("/a", record_ids=["r0", "r1", "r5", "r9"], older_than=on(5)) == 2
    # And whatever else has the category.
    assert storage.delete(record_ids=["r0", "r3"], categories=["x"]) == 1
    assert {one.id for one in storage.list_records()} == {f"r{n}" for n in range(20)} - {
        *("r0", "r1", "r5"),
    }


def test_an_empty_list_of_ids_names_no_record(storage):
    storage.save([sample(0)])
    assert storage.delete(record_ids=[]) == 0
    assert storage.count() == 1
    assert storage.delete(categories=[], metadata_filter={}) == 1


def test_an_age_may_have_a_zone(storage):
    storage.save([sample(0), sample(1)])
    assert storage.delete(older_than=(on(2) - timedelta(hours=1)).replace(tzinfo=UTC)) == 1
    assert contents(storage.list_records()) == ["record 1"]


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory):
    with ContextStore.open(tmp_path_factory.mktemp("deleting")) as opened:
        yield opened


MAYBE = st.none()


@settings(max_examples=max(5, settings.default.max_examples // 4), deadline=None)
@given(
    scope=MAYBE | st.sampled_from(SCOPES),
    categories=MAYBE | st.lists(st.sampled_from(CATEGORIES), max_size=2),
    ids=MAYBE | st.lists(st.integers(0, 11), max_size=6),
    day=MAYBE | st.integers(1, 6),
    n=MAYBE | st.integers(0, 3),
)
def test_it_deletes_what_a_loop_in_python_would(shared_store, scope, categories, ids, day, n):
    storage = LanceMemoryStorage(shared_store)
    storage.reset()
    saved = [sample(number) for number in range(10)]
    storage.save(saved)

    def goes(one):
        return (
            (scope is None or scope in ("/", one.scope) or one.scope.startswith(scope + "/"))
            and (not categories or bool(set(categories) & set(one.categories)))
            and (ids is None or one.id in {f"r{number}" for number in ids})
            and (day is None or one.created_at < on(day))
            and (n is None or one.metadata["n"] == n)
        )

    removed = storage.delete(
        scope,
        categories,
        None if ids is None else [f"r{number}" for number in ids],
        None if day is None else on(day),
        None if n is None else {"n": n},
    )
    assert removed == sum(map(goes, saved))
    left = {one.id for one in saved if not goes(one)}
    assert {one.id for one in storage.list_records()} == left
    assert {one.id for one in shared_store.memory.list(page_size=20).items} == left
