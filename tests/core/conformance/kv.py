"""What the store's key-value items must do beyond the contract of `KeyValueStore`."""

import asyncio
import math
from collections import Counter
from datetime import datetime, timedelta

import numpy as np
import pytest
from lance_context_testing import KeyValueStoreTests
from lance_context_testing._items import along, item, key, paths
from lance_context_testing.samples import NO_NAMES, nested

from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    DimensionMismatchError,
    FilterError,
    InvalidRequestError,
)
from lance_context_core.types import Item, ItemVector

AXES = np.eye(4)


class StoredItemTests(KeyValueStoreTests):
    """Needs the fixtures `clock` and `back_door`, too; `kv` is of the table `kv.default`, the store
    embeds into 64 dimensions."""

    # Putting and getting

    async def test_an_item_has_the_time_of_the_store_s_clock(self, kv, clock):
        whole = item(
            "a/b/k",
            value={"n": 1, "list": [1.5, None]},
            data=b"\0\xff",
            data_type="msgpack",
            expires_at=clock.now() + timedelta(hours=1),
        )
        await kv.put([whole, item("k")])
        bare, unknown, found = await kv.get([key("k"), key("b/k"), key("a/b/k")])
        assert unknown is None
        assert (bare.namespace, bare.key, bare.value, bare.data) == ((), "k", None, None)
        for name in ("namespace", "key", "value", "data", "data_type", "expires_at"):
            assert getattr(found, name) == getattr(whole, name)
        assert found.created_at == found.updated_at == clock.now()
        assert await kv.get([]) == []
        (light,) = await kv.get([key("a/b/k")], include_data=False)
        assert (light.value, light.data) == (whole.value, None)

    @pytest.mark.anywhere
    @pytest.mark.parametrize("n_bytes", [0, 1, 3_000_000])
    async def test_data_is_kept_to_the_byte(self, kv, n_bytes):
        data = bytes(range(256)) * (n_bytes // 256 + 1)
        await kv.put([Item(key="k", data=data[:n_bytes])])
        (found,) = await kv.get([((), "k")])
        assert found.data == data[:n_bytes]

    @pytest.mark.anywhere
    async def test_what_cannot_be_kept_is_refused_and_nothing_is_written(self, kv, back_door):
        wrong = [
            *(Item(key=name) for name in NO_NAMES),
            *(Item(key="k", namespace=(name,)) for name in NO_NAMES),
            Item(key=1),
            Item(key="k", namespace="ab"),
            Item(key="k", namespace=(None,)),
            Item(key="k", value=[1]),
            Item(key="k", value={"n": math.nan}),
            Item(key="k", value={"n": 2**64}),
            Item(key="k", value=nested(101)),
            Item(key="k", data="text"),
            Item(key="k", expires_at=datetime(2026, 1, 1)),  # noqa: DTZ001 - what is refused
            Item(key="k", vectors=[[1.0]]),
            Item(key="k", vectors=[ItemVector()]),
            Item(key="k", vectors=[ItemVector(text="a", vector=[1.0])]),
            Item(key="k", vectors=[ItemVector(vector=[math.nan])]),
            Item(key="k", vectors=[ItemVector(vector=[])]),
            "k",
            {"key": "k"},
        ]
        for one in wrong:
            for verb in (kv.put, kv.add, kv.append):
                with pytest.raises(InvalidRequestError):
                    await verb([Item(key="good"), one])
        for keys in ("k", [((), "k", "k")], ["ab"], [(("a",), None)], [((), "a\0")]):
            for verb in (kv.get, kv.delete):
                with pytest.raises(InvalidRequestError):
                    await verb(keys)
        assert await back_door.rows("kv.default") == []

    async def test_putting_again_replaces_the_vectors_and_makes_another_revision(self, kv, clock):
        await kv.put([Item(key="k", value={"a": 1}, data=b"1", data_type="t", vectors=along(0))])
        (first,) = await kv.get([((), "k")])
        clock.advance(seconds=1)
        await kv.put([Item(key="k", value={"b": 2})])
        (second,) = await kv.get([((), "k")], include_vectors=True)
        assert (second.value, second.data, second.data_type) == ({"b": 2}, None, None)
        assert second.vectors == ()
        assert second.created_at == first.created_at
        assert second.updated_at == clock.now()
        assert second.revision != first.revision
        assert await kv.count() == 1

    async def test_appended_items_can_be_put_again(self, kv):
        for step in range(3):
            await kv.append([Item(key=f"{step}{n}", data=b"x") for n in range(2)])
        assert paths(await kv.list()) == ["00", "01", "10", "11", "20", "21"]
        with pytest.raises(InvalidRequestError):
            await kv.append([Item(key="n"), Item(key="n")])
        await kv.put([Item(key="00", data=b"y")])
        assert [one.data for one in await kv.get([((), "00"), ((), "01")])] == [b"y", b"x"]
        assert await kv.count() == 6

    async def test_appending_tells_the_version_that_holds_the_items_and_how_many_it_added(self, kv):
        before = (await kv.append([Item(key="a")])).version
        alone = await kv.append([Item(key="b"), Item(key="c")])
        assert (alone.version, alone.n_items) == (before + 1, 2)
        assert await kv.version() == alone.version
        told = await asyncio.gather(*(kv.append([Item(key=f"n{n}")]) for n in range(20)))
        by_version = Counter(one.version for one in told)
        assert {one.version: one.n_items for one in told} == by_version
        assert await kv.version() == max(by_version) == before + 1 + len(by_version)
        nothing = await kv.append([])
        assert (nothing.version, nothing.n_items) == (max(by_version), None)

    async def test_appending_tells_since_when_nothing_can_have_gone(self, kv):
        first = await kv.append([Item(key="a")])
        told = await asyncio.gather(*(kv.append([Item(key=f"n{n}")]) for n in range(20)))
        assert all(one.grows_since <= first.version <= one.version for one in told)
        for change in (
            lambda: kv.delete([key("a")]),
            lambda: kv.put([Item(key="n1", data=b"x")]),
            lambda: kv.delete_under(()),
        ):
            await change()
            changed = await kv.version()
            later = [await kv.append([Item(key=f"{changed} {n}")]) for n in range(2)]
            assert [one.grows_since >= changed for one in later] == [True, True]
            assert later[1].grows_since <= later[0].version

    async def test_the_version_grows_from_0(self, kv):
        assert await kv.version() == 0
        assert (await kv.write(deletes=[key("a/k")])).version == 0
        seen = [0]
        for write in (
            lambda: kv.put([item("a/k")]),
            lambda: kv.touch([key("a/k")], expires_at=None),
            lambda: kv.delete([key("a/k")]),
        ):
            await write()
            seen.append(await kv.version())
            await kv.list()
            await kv.delete([key("b/k")])
            await kv.add([])
            assert await kv.version() == seen[-1]
        assert seen == sorted(set(seen))
        written = await kv.write(puts=[item("a/k")])
        assert written.version == await kv.version() > seen[-1]

    async def test_deleting_a_key_twice_in_one_call_finds_it_twice(self, kv):
        await kv.put([item("a/k"), item("b/k"), item("k")])
        assert await kv.delete([key("a/k"), key("c/k"), key("k"), key("k")]) == [
            *(True, False, True, True)
        ]
        assert await kv.delete([key("a/k")]) == [False]
        assert paths(await kv.list()) == ["b/k"]
        assert await kv.add([item("a/k")]) == [True]

    # Many changes in one commit

    async def test_puts_additions_and_deletions_are_one_commit(self, kv, back_door):
        await kv.put([Item(key=name, value={"n": 0}) for name in "abcd"])
        before = await back_door.n_commits("kv.default")
        new = {"value": {"n": 1}}
        written = await kv.write(
            puts=[Item(key="a", **new), Item(key="e", **new)],
            adds=[Item(key="f", **new)],
            deletes=[((), "c"), ((), "g")],
        )
        assert written.deleted == [True, False]
        found = {one.key: one.value["n"] for one in await kv.list()}
        assert found == {"a": 1, "b": 0, "d": 0, "e": 1, "f": 1}
        assert await back_door.n_commits("kv.default") == before + 1

    @pytest.mark.s3
    async def test_a_key_that_is_taken_is_named_and_makes_no_commit(self, kv, back_door):
        await kv.put([Item(key=name, value={"n": 0}) for name in "abc"])
        before, n_commits = await kv.list(), await back_door.n_commits("kv.default")
        new = {"value": {"n": 1}}
        for puts, deletes in (([], []), (["a"], []), ([], ["c"]), (["a", "e"], ["c", "g"])):
            for adds in (["b"], ["f", "b"], ["b", "f"]):
                with pytest.raises(AlreadyExistsError, match="'b'"):
                    await kv.write(
                        puts=[Item(key=name, **new) for name in puts],
                        adds=[Item(key=name, **new) for name in adds],
                        deletes=[((), name) for name in deletes],
                    )
        assert await kv.list() == before
        assert await back_door.n_commits("kv.default") == n_commits

    async def test_what_changes_nothing_makes_no_commit(self, kv, back_door):
        await kv.write()
        await kv.put([])
        assert await kv.delete([((), "k")]) == [False]
        assert await kv.touch([((), "k")], expires_at=None) == 0
        assert (await kv.delete_under(()), await kv.sweep()) == (0, 0)
        assert await back_door.n_commits("kv.default") == 0
        await kv.put([Item(key="k")])
        before = await back_door.n_commits("kv.default")
        assert await kv.delete([((), "x")]) == [False]
        assert (await kv.delete_under(("x",)), await kv.sweep()) == (0, 0)
        assert await kv.touch([], expires_at=None) == 0
        assert await back_door.n_commits("kv.default") == before

    async def test_what_is_expected_is_refused_or_written_in_one_commit(self, kv, back_door):
        await kv.put([item("a"), item("b"), item("c")])
        there = {one.key: one.revision for one in await kv.list()}
        before = await back_door.n_commits("kv.default")
        await kv.write(expected={key("a"): there["a"], key("x"): None})
        with pytest.raises(
            ConflictError, match=rf"'b'.*{there['a']}.*{there['b']}.*[Gg]et it again"
        ):
            await kv.write(deletes=[key("c")], expected={key("b"): there["a"]})
        assert await back_door.n_commits("kv.default") == before
        new = Item(key="a", value={"n": 1})
        await kv.write(puts=[new], deletes=[key("c")], expected={key("a"): there["a"], key("b"): there["b"], key("c"): there["c"], key("x"): None})  # fmt: skip
        assert await back_door.n_commits("kv.default") == before + 1
        assert paths(await kv.list()) == ["a", "b"]

    @pytest.mark.anywhere
    async def test_expectations_that_make_no_sense_are_refused_and_nothing_is_written(
        self, kv, back_door
    ):
        one = [item("a")]
        for wrong in ([key("a")], "a", {"a": 1}, {key("a"): "1"}, {key("a"): True}, {key("a"): 1.0}, {((), "a\0"): None}, {(("x",), 1): None}):  # fmt: skip
            with pytest.raises(InvalidRequestError, match="expected"):
                await kv.write(puts=one, expected=wrong)
        with pytest.raises(InvalidRequestError, match=r"'a'.*twice"):
            await kv.write(adds=one * 2)
        with pytest.raises(ConflictError, match=r"'a'.*5.*not there"):
            await kv.write(deletes=[key("b")], expected={key("a"): 5})
        assert await back_door.rows("kv.default") == []

    async def test_what_is_expected_holds_in_a_scope_of_its_own(self, store):
        ada, bob = (store.scope(user_id=name).kv() for name in ("ada", "bob"))
        await ada.put([item("k")])
        (there,) = await ada.get([key("k")])
        await bob.write(puts=[item("k")], expected={key("k"): None})
        with pytest.raises(ConflictError):
            await bob.write(puts=[item("k")], expected={key("k"): there.revision})
        await ada.write(deletes=[key("k")], expected={key("k"): there.revision})
        assert await store.kv().count() == 1

    async def test_what_expires_is_expected_to_be_absent(self, kv, clock):
        await kv.put([item("k", expires_at=clock.now() + timedelta(minutes=1)), item("other")])
        (there,) = await kv.get([key("k")])
        clock.advance(minutes=2)
        with pytest.raises(ConflictError, match="not there"):
            await kv.write(puts=[item("k")], expected={key("k"): there.revision})
        await kv.write(puts=[item("k", value={"n": 2})], expected={key("k"): None})
        (again,) = await kv.get([key("k")])
        assert (again.value, again.created_at) == ({"n": 2}, clock.now())

    async def test_a_put_is_one_commit_whether_its_items_are_new_or_not(self, kv, back_door):
        await kv.put([Item(key="a")])
        for given in ("ab", "ab", "c", "abcd"):
            before = await back_door.n_commits("kv.default")
            await kv.put([Item(key=name, vectors=()) for name in given])
            assert await back_door.n_commits("kv.default") == before + 1

    # Listing

    async def test_filters_are_on_the_value_and_on_what_is_known_of_the_item(self, kv, clock):
        await kv.put([item("a", value={"n": 1, "key": "x", "deep": {"er": [1]}}), item("b")])
        moment = clock.advance(seconds=1)
        await kv.put([item("c", value={"n": 2.5}, data_type="t")])

        async def found(filter):
            listed = [one.key for one in await kv.list(filter=filter)]
            assert await kv.count(filter=filter) == len(listed)
            return listed

        assert await found({"n": 1}) == ["a"]
        assert await found({"n": {"$gt": 1}}) == ["c"]
        assert await found({"n": {"$ne": 1}}) == ["b", "c"]
        assert await found({"deep": {"er": {"$contains": 1}}}) == ["a"]
        assert await found({"key": "a"}) == ["a"]
        assert await found({"value.key": "x"}) == ["a"]
        assert await found({"updated_at": {"$gte": moment}}) == ["c"]
        assert await found({"data_type": "t", "n": {"$exists": True}}) == ["c"]
        assert await found({"$or": [{"n": 1}, {"key": "b"}]}) == ["a", "b"]
        for wrong in ({"n": {"$like": 1}}, {"data": 1}, {"namespace": "a"}, {"$n": 1}):
            with pytest.raises(FilterError):
                await kv.list(filter=wrong)

    @pytest.mark.anywhere
    async def test_a_list_that_makes_no_sense_is_refused(self, kv):
        await kv.put([item("a")])
        for wrong in (
            {"limit": -1},
            {"offset": -1},
            {"limit": 1.5},
            {"order": "newest"},
            {"prefix": "ab"},
            {"prefix": (1,)},
            {"namespace": ("a\0",)},
            {"after": 1},
        ):
            for verb in (kv.list, kv.keys):
                with pytest.raises(InvalidRequestError):
                    await verb(**wrong)
        for wrong in ({"max_depth": 0}, {"max_depth": True}, {"limit": -1}, {"suffix": "a"}):
            with pytest.raises(InvalidRequestError):
                await kv.namespaces(**wrong)

    # Searching

    async def test_a_search_scores_by_cosine(self, kv):
        tilted = ItemVector(vector=[3.0, 4.0, 0.0, 0.0])
        await kv.put(
            [
                item("a", vectors=along(1, 0)),
                item("b", vectors=[*along(2), tilted]),
                item("c", vectors=along(2, 3)),
                item("none"),
            ]
        )
        hits = await kv.search(list(AXES[0]))
        assert paths(hits) == ["a", "b", "c"]
        assert [hit.channels["vector"].raw for hit in hits] == pytest.approx([1, 0.6, 0], abs=1e-6)
        assert [hit.score for hit in hits] == pytest.approx([1, 0.8, 0.5], abs=1e-6)
        for offset in range(4):
            page = await kv.search(list(AXES[0]), limit=2, offset=offset)
            assert paths(page) == ["a", "b", "c"][offset:][:2]
        assert await kv.search(list(AXES[0]), limit=0) == []

    async def test_as_many_are_found_as_match_however_many_vectors_are_nearer(self, kv):
        near = [item(f"near/{n}", vectors=[ItemVector(vector=AXES[0] + 0.01)] * 20) for n in range(20)]  # fmt: skip
        far = [item(f"far/{n}", value={"n": n}, vectors=along(n % 4)) for n in range(12)]
        await kv.put([*near, *far])
        query = list(AXES[0])
        assert len(await kv.search(query, limit=32)) == 32
        assert len(await kv.search(query, limit=30, offset=30)) == 2
        assert set(paths(await kv.search(query, prefix=("far",), limit=20))) == set(paths(far))
        found = await kv.search(query, prefix=("far",), filter={"n": {"$gte": 4}}, limit=3)
        assert set(paths(found[:2])) == {"far/4", "far/8"}
        assert len(found) == 3

    async def test_texts_are_embedded_and_stale_vectors_are_gone(self, kv):
        def told(*texts):
            return [ItemVector(path=text, text=text) for text in texts]

        await kv.put([item("a", vectors=told("green tea", "black coffee")), item("b", vectors=told("old wine"))])  # fmt: skip
        best = (await kv.search("coffee"))[0]
        assert paths([best]) == ["a"]
        assert best.channels["vector"].raw > 0.5
        (found,) = await kv.get([key("a")], include_vectors=True)
        assert [one.path for one in found.vectors] == ["green tea", "black coffee"]
        await kv.put([item("a", vectors=told("green tea"))])
        hits = {paths([hit])[0]: hit.channels["vector"].raw for hit in await kv.search("coffee")}
        assert hits.keys() == {"a", "b"}
        assert hits["a"] < 0.5
        await kv.delete([key("a")])
        assert paths(await kv.search("tea")) == ["b"]

    async def test_what_has_no_direction_is_not_found_and_hides_nothing(self, kv):
        zeros = ItemVector(vector=[0.0] * 4)
        await kv.put([item("a", vectors=[zeros, *along(0)]), item("b", vectors=[zeros])])
        assert paths(await kv.search(list(AXES[0]))) == ["a"]

    async def test_vectors_of_another_length_are_refused_and_nothing_is_written(self, kv):
        await kv.put([item("a", vectors=along(0))])
        for wrong in ([ItemVector(vector=[1.0] * 3)], [*along(0), ItemVector(vector=[1.0])], [ItemVector(text="tea")]):  # fmt: skip
            with pytest.raises(DimensionMismatchError):
                await kv.put([item("b"), item("c", vectors=wrong)])
        with pytest.raises(DimensionMismatchError):
            await kv.search([1.0] * 3)
        assert await kv.count() == 1

    # Expiring

    async def test_what_expires_is_there_until_then(self, kv, clock):
        soon = clock.now() + timedelta(seconds=10)
        await kv.put([item("a/k", expires_at=soon, vectors=along(0)), item("b/k", vectors=along(0))])  # fmt: skip
        assert await kv.count() == 2
        clock.advance(seconds=10)
        assert await kv.get([key("a/k")]) == [None]
        assert paths(await kv.list()) == paths(await kv.keys()) == ["b/k"]
        assert await kv.count() == 1
        assert await kv.namespaces() == [("b",)]
        assert paths(await kv.search(list(AXES[0]))) == ["b/k"]
        assert await kv.touch([key("a/k")], expires_at=None) == 0
        assert await kv.delete([key("a/k")]) == [False]

    async def test_what_has_expired_may_come_back_as_something_new(self, kv, clock):
        soon = clock.now() + timedelta(seconds=10)
        await kv.put([item(name, value={"n": 0}, expires_at=soon) for name in "abc"])
        clock.advance(seconds=10)
        assert await kv.add([item("a", value={"n": 1})]) == [True]
        await kv.put([item("b", value={"n": 1})])
        for one in await kv.list():
            assert (one.value, one.created_at, one.expires_at) == ({"n": 1}, clock.now(), None)
        assert await kv.count() == 2
        assert await kv.sweep() == 1

    async def test_touching_keeps_the_vectors_and_the_revision(self, kv, clock):
        first = clock.now() + timedelta(seconds=10)
        await kv.put([item("a", value={"n": 1}, data=b"1", expires_at=first, vectors=along(0))])
        await kv.put([item("b", expires_at=first)])
        before = await kv.get([key("a")])
        clock.advance(seconds=5)
        assert await kv.touch([key("a"), key("x")], expires_at=first + timedelta(seconds=10)) == 1
        clock.advance(seconds=5)
        (after,) = await kv.list(include_vectors=True)
        for name in ("key", "value", "data", "created_at", "updated_at", "revision"):
            assert getattr(after, name) == getattr(before[0], name)
        assert after.expires_at == first + timedelta(seconds=10)
        assert [one.path for one in after.vectors] == ["0"]
        assert await kv.touch([key("a")], expires_at=None) == 1
        clock.advance(days=9_999)
        assert paths(await kv.list()) == ["a"]

    async def test_sweeping_removes_what_has_expired_in_one_commit(self, kv, clock, back_door):
        for n in range(6):
            expires_at = clock.now() + timedelta(seconds=n) if n % 2 else None
            await kv.put([item(f"{n}", expires_at=expires_at)])
        clock.advance(seconds=3)
        before = await back_door.n_commits("kv.default")
        assert await kv.sweep() == 2
        assert await back_door.n_commits("kv.default") == before + 1
        assert {row["id"] for row in await back_door.rows("kv.default")} == {"0", "2", "4", "5"}
        assert await kv.sweep() == 0

    # At once

    async def test_many_writers_at_once_lose_nothing_and_share_commits(self, kv, back_door):
        await kv.put([item("shared")])
        before = await back_door.n_versions("kv.default")
        await asyncio.gather(
            *(
                kv.put([item(f"own/{n}"), item("shared", value={"n": n})])
                if n % 2
                else kv.put([item(f"own/{n}")])
                for n in range(100)
            )
        )
        assert await kv.count() == 101
        assert await back_door.n_versions("kv.default") - before <= 80

    async def test_of_many_that_add_one_key_at_once_one_wins(self, kv):
        adds = await asyncio.gather(
            *(kv.add([item("k", value={"n": n}), item(f"own/{n}")]) for n in range(30))
        )
        winners = [n for n, (won, own) in enumerate(adds) if won]
        assert all(own for _, own in adds)
        assert len(winners) == 1
        (found,) = await kv.get([key("k")])
        assert found.value == {"n": winners[0]}
        assert await kv.count() == 31
