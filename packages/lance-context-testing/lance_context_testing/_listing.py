"""Conformance tests of `KeyValueStore` for lists and searches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lance_context_core import Item, ItemVector
from lance_context_core.protocols import ItemOrder, KeyValueStore
from lance_context_testing._contract import Contract, needs
from lance_context_testing._items import AXES, along, item, key, paths


class ItemListingTests(Contract):
    """The part of `KeyValueStoreTests` for lists and searches."""

    # Listing

    async def test_conditions_on_namespaces_are_on_whole_segments(self, kv: KeyValueStore) -> None:
        there = ["user/1/a", "user/1/x/b", "user/10/c", "user/d", "e", "x/user/1/f", "use/r/1/g"]
        await kv.put(list(map(item, there)))

        async def found(**which: Sequence[str | None]) -> set[str]:
            listed = paths(await kv.list(**which))  # type: ignore[arg-type]  # each is a namespace
            assert await kv.count(**which) == len(listed)  # type: ignore[arg-type]  # as above
            assert paths(await kv.keys(**which)) == listed  # type: ignore[arg-type]  # as above
            return set(listed)

        every = set(there)
        assert await found() == every
        assert await found(prefix=("user",)) == {"user/1/a", "user/1/x/b", "user/10/c", "user/d"}
        assert await found(prefix=("user", "1")) == {"user/1/a", "user/1/x/b"}
        assert await found(prefix=("u",)) == set()
        assert await found(suffix=("1",)) == {"user/1/a", "x/user/1/f", "use/r/1/g"}
        assert await found(suffix=("user", "1")) == {"user/1/a", "x/user/1/f"}
        assert await found(suffix=("ser", "1")) == set()
        assert await found(prefix=(None,)) == every - {"e"}
        assert await found(prefix=(None, "1")) == {"user/1/a", "user/1/x/b"}
        assert await found(prefix=("user", None)) == {"user/1/a", "user/1/x/b", "user/10/c"}
        assert await found(suffix=("user", None)) == {"user/1/a", "user/10/c", "x/user/1/f"}
        assert await found(suffix=(None, None, None)) == {"user/1/x/b", "x/user/1/f", "use/r/1/g"}
        assert await found(namespace=()) == {"e"}
        assert await found(namespace=("user",)) == {"user/d"}
        assert await found(namespace=(None,)) == {"user/d"}
        assert await found(namespace=(None, None)) == {"user/1/a", "user/10/c"}
        assert await found(namespace=("user", None, "x")) == {"user/1/x/b"}
        assert await found(prefix=("user",), suffix=("x",)) == {"user/1/x/b"}

    async def test_keys_are_bounded_by_prefix_and_by_what_they_come_after_and_before(
        self, kv: KeyValueStore
    ) -> None:
        await kv.put([Item(key=name) for name in ("a", "a%", "ab", "b", "B", "ä", "🐶", "")])

        async def found(**which: Any) -> list[str]:
            return [one.key for one in await kv.list(**which)]

        assert await found() == ["", "B", "a", "a%", "ab", "b", "ä", "🐶"]
        assert await found(key_prefix="a") == ["a", "a%", "ab"]
        assert await found(key_prefix="a%") == ["a%"]
        assert await found(after="a") == ["a%", "ab", "b", "ä", "🐶"]
        assert await found(before="ab") == ["", "B", "a", "a%"]
        assert await found(after="a", before="b", reverse=True) == ["ab", "a%"]
        assert await found(before="z", reverse=True, limit=1) == ["b"]

    async def test_items_come_in_the_order_that_is_asked_for(
        self, kv: KeyValueStore, later: Callable[[], None]
    ) -> None:
        for path in ("b/1", "a/2", "a/1", "c"):
            await kv.put([item(path)])
            later()
        await kv.put([item("a/2")])
        orders: dict[ItemOrder, list[str]] = {
            "key": ["c", "a/1", "a/2", "b/1"],
            "created": ["b/1", "a/2", "a/1", "c"],
            "updated": ["b/1", "a/1", "c", "a/2"],
        }
        for order, whole in orders.items():
            for reverse in (False, True):
                ordered = whole[::-1] if reverse else whole
                for offset in range(5):
                    for limit in (None, 0, 1, 2, 9):
                        page = await kv.list(order=order, reverse=reverse, limit=limit, offset=offset)  # fmt: skip
                        assert paths(page) == ordered[offset:][:limit], (order, offset, limit)
                found = await kv.keys(order=order, reverse=reverse, limit=2, offset=1)
                assert paths(found) == ordered[1:3]

    async def test_items_can_be_listed_without_their_data(self, kv: KeyValueStore) -> None:
        await kv.put([item("k", value={"n": 1}, data=b"1")])
        assert [one.data for one in await kv.list()] == [b"1"]
        assert [one.data for one in await kv.list(include_data=False)] == [None]

    @needs("supports_filters")
    async def test_filters_are_on_the_value(self, kv: KeyValueStore) -> None:
        values = [{"n": 1, "deep": {"er": "x"}}, {"n": 2.5}, {"other": True}]
        await kv.put([item(f"{n}", value=value) for n, value in enumerate(values)])
        cases: list[tuple[Mapping[str, Any], list[str]]] = [
            ({}, ["0", "1", "2"]),
            ({"n": 1}, ["0"]),
            ({"n": {"$gt": 1}}, ["1"]),
            ({"n": {"$gte": 1, "$lt": 3}}, ["0", "1"]),
            ({"n": {"$in": [1, 7]}}, ["0"]),
            ({"other": True}, ["2"]),
            ({"deep": {"er": "x"}}, ["0"]),
            ({"$or": [{"n": 1}, {"other": True}]}, ["0", "2"]),
            ({"n": 1, "other": True}, []),
        ]
        for filter, expected in cases:
            assert paths(await kv.list(filter=filter)) == expected, filter
            assert paths(await kv.keys(filter=filter)) == expected, filter
            assert await kv.count(filter=filter) == len(expected), filter

    async def test_namespaces_are_listed_once_in_order_and_cut(self, kv: KeyValueStore) -> None:
        await kv.put([item(f"{path}/{n}") for n in "12" for path in ("b/x", "a/x/y", "a/x", "a/z")])
        await kv.put([item("k")])
        every = [(), ("a", "x"), ("a", "x", "y"), ("a", "z"), ("b", "x")]
        assert await kv.namespaces() == every
        assert await kv.namespaces(prefix=("a",)) == every[1:4]
        assert await kv.namespaces(suffix=("x",)) == [("a", "x"), ("b", "x")]
        assert await kv.namespaces(prefix=("a", None)) == every[1:4]
        assert await kv.namespaces(max_depth=1) == [(), ("a",), ("b",)]
        assert await kv.namespaces(max_depth=2) == [(), ("a", "x"), ("a", "z"), ("b", "x")]
        assert await kv.namespaces(max_depth=1, limit=1, offset=1) == [("a",)]

    async def test_all_under_a_namespace_is_deleted(self, kv: KeyValueStore) -> None:
        await kv.put(list(map(item, ["a/1/k", "a/1/x/k", "a/10/k", "a/k", "k"])))
        assert await kv.delete_under(("a", "1")) == 2
        assert paths(await kv.list()) == ["k", "a/k", "a/10/k"]
        assert await kv.delete_under(("a", "1")) == 0
        assert await kv.delete_under(()) == 3
        assert await kv.count() == 0

    async def test_the_names_of_stores_are_in_order(self, kv: KeyValueStore) -> None:
        await kv.put([item("k")])
        names = await kv.names()
        assert names
        assert names == sorted(set(names))

    # Searching

    @needs("supports_search")
    async def test_an_item_is_as_near_as_the_nearest_of_its_vectors(
        self, kv: KeyValueStore
    ) -> None:
        tilted = ItemVector(vector=[0.6, 0.8, 0.0, 0.0])
        await kv.put(
            [
                item("a", value={"n": 1}, vectors=along(1, 0)),
                item("b", value={"n": 2}, vectors=[*along(2), tilted]),
                item("c", value={"n": 3}, vectors=along(2, 3)),
                item("none"),
            ]
        )
        hits = await kv.search(AXES[0])
        assert paths(hits) == ["a", "b", "c"]
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        for offset in range(4):
            page = await kv.search(AXES[0], limit=2, offset=offset)
            assert paths(page) == ["a", "b", "c"][offset:][:2]
        assert await kv.search(AXES[0], limit=0) == []

    @needs("supports_search")
    async def test_as_many_are_found_as_match_however_many_are_nearer(
        self, kv: KeyValueStore
    ) -> None:
        near = [item(f"near/{n}", vectors=along(0)) for n in range(20)]
        far = [item(f"far/{n}", vectors=along(n % 4)) for n in range(12)]
        await kv.put([*near, *far])
        assert len(await kv.search(AXES[0], limit=32)) == 32
        assert len(await kv.search(AXES[0], limit=30, offset=30)) == 2
        found = paths(await kv.search(AXES[0], prefix=("far",), limit=20))
        assert set(found) == set(paths(far))
        assert set(found[:3]) == {"far/0", "far/4", "far/8"}
        await kv.put([item("far/0"), item("far/4", vectors=along(1))])
        assert paths(await kv.search(AXES[0], namespace=("far",), limit=1)) == ["far/8"]

    @needs("embeds_texts")
    async def test_items_are_found_by_the_texts_of_their_vectors(self, kv: KeyValueStore) -> None:
        def said(*texts: str) -> list[ItemVector]:
            return [ItemVector(path=text, text=text) for text in texts]

        await kv.put([item("a", vectors=said("green tea", "black coffee"))])
        await kv.put([item("b", vectors=said("old wine"))])
        assert paths(await kv.search("coffee")) == ["a", "b"]
        await kv.delete([key("a")])
        assert paths(await kv.search("coffee")) == ["b"]
