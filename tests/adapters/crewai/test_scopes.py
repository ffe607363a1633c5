"""Scopes are paths: a prefix is whole names, whatever characters these have."""

import pytest
from adapters.crewai.samples import contents, found_in, on, record
from crewai_lance_context import LanceMemoryStorage
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core import ContextStore

ALIKE = ("/team", "/teams", "/team/a", "/te_m", "/te%m", "/te\\m", "/TEAM", "/te'am")


def test_scopes_that_look_alike_are_apart(storage):
    storage.save([record(f"in {one}", scope=one) for one in ALIKE])
    for one in ALIKE:
        inside = {f"in {other}" for other in ALIKE if other == one or other.startswith(f"{one}/")}
        assert set(contents(storage.list_records(one))) == inside
        assert set(found_in(storage, "in", scope_prefix=one)) == inside
        assert storage.count(one) == len(inside)
        assert storage.get_scope_info(one).record_count == len(inside)
    assert storage.list_scopes() == sorted(set(ALIKE) - {"/team/a"})
    assert storage.list_scopes("/team") == ["/team/a"]
    storage.reset("/te_m")
    assert storage.delete("/te%m/") == 1
    assert {one.scope for one in storage.list_records()} == set(ALIKE) - {"/te_m", "/te%m"}


def test_deleting_a_scope_leaves_the_root(storage):
    storage.save([record("root"), record("a", scope="/a"), record("b", scope="/a/b")])
    assert storage.delete("/a") == 2
    assert contents(storage.list_records()) == ["root"]
    assert storage.delete("/") == 1


def test_a_scope_has_its_counts_times_categories_and_children(storage):
    storage.save(
        [
            record("1", scope="/a", categories=["x"], created_at=on(1)),
            record("2", scope="/a/b", categories=["x", "y"], created_at=on(3)),
            record("3", scope="/a/b/c", created_at=on(2)),
            record("4", scope="/d", categories=["z"], created_at=on(9)),
        ]
    )
    info = storage.get_scope_info("/a/")
    assert (info.path, info.record_count, info.categories) == ("/a", 3, ["x", "y"])
    assert (info.oldest_record, info.newest_record) == (on(1), on(3))
    assert info.child_scopes == ["/a/b"]
    assert storage.get_scope_info("/").child_scopes == ["/a", "/d"]
    assert storage.list_categories() == {"x": 2, "y": 1, "z": 1}
    assert storage.list_categories("/a/b") == {"x": 1, "y": 1}
    empty = storage.get_scope_info("/nothing")
    assert (empty.record_count, empty.oldest_record, empty.child_scopes) == (0, None, [])


def test_a_storage_below_a_path_has_only_what_is_there(store):
    whole = LanceMemoryStorage(store)
    team = LanceMemoryStorage(store, scope="/team/research")
    whole.save([record("outside", scope="/team"), record("deep", scope="/team/research/x")])
    team.save([record("mine"), record("sub", scope="/sub")])
    assert {one.content: one.scope for one in team.list_records()} == {
        "deep": "/x",
        "mine": "/",
        "sub": "/sub",
    }
    assert {one.content: one.scope for one in whole.list_records()} == {
        "outside": "/team",
        "deep": "/team/research/x",
        "mine": "/team/research",
        "sub": "/team/research/sub",
    }
    assert team.list_scopes() == ["/sub", "/x"]
    assert team.get_scope_info("/").child_scopes == ["/sub", "/x"]
    (outside,) = (one for one in whole.list_records() if one.content == "outside")
    assert team.get_record(outside.id) is None
    assert team.delete() == 3
    assert contents(whole.list_records()) == ["outside"]


NAMES = st.sampled_from(["a", "aa", "b", "_", "%"])
PATHS = st.lists(NAMES, max_size=3).map(lambda names: "/" + "/".join(names))


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory):
    with ContextStore.open(tmp_path_factory.mktemp("scopes")) as opened:
        yield opened


@settings(max_examples=max(5, settings.default.max_examples // 4), deadline=None)
@given(saved=st.lists(PATHS, min_size=1, max_size=8), asked=PATHS)
def test_a_prefix_means_the_same_in_every_method(shared_store, saved, asked):
    storage = LanceMemoryStorage(shared_store)
    storage.reset()
    storage.save([record(f"{n}", scope=one, categories=["c"]) for n, one in enumerate(saved)])

    def names(path):
        return [one for one in path.split("/") if one]

    def is_inside(path):
        return names(path)[: len(names(asked))] == names(asked)

    inside = [one for one in saved if is_inside(one)]
    deeper = {
        tuple(names(one)[: len(names(asked)) + 1]) for one in inside if names(one) != names(asked)
    }
    assert storage.count(asked) == len(inside)
    assert storage.get_scope_info(asked).record_count == len(inside)
    assert sorted(one.scope for one in storage.list_records(asked)) == sorted(inside)
    assert storage.list_categories(asked) == ({"c": len(inside)} if inside else {})
    assert storage.list_scopes(asked) == sorted("/" + "/".join(one) for one in deeper)
    assert storage.delete(asked) == len(inside)
    assert storage.count() == len(saved) - len(inside)
