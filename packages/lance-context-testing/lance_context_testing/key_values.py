"""Conformance tests of `KeyValueStore`."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, ClassVar

import pytest

from lance_context_core import Item
from lance_context_core.errors import AlreadyExistsError, ConflictError
from lance_context_core.protocols import ItemKey, KeyValueStore
from lance_context_testing._contract import assert_has_the_methods, needs
from lance_context_testing._items import AXES, FUTURE, PAST, along, item, key, paths
from lance_context_testing._listing import ItemListingTests
from lance_context_testing.samples import METADATA, NAMES


class KeyValueStoreTests(ItemListingTests):
    """Give the fixture `kv`: an empty `KeyValueStore`, another one for each test."""

    hooks: ClassVar = {"kv": "an empty KeyValueStore"}

    supports_filters: ClassVar[bool] = True
    """Whether `list`, `keys`, `count` and `search` take a `filter`."""
    supports_search: ClassVar[bool] = True
    """Whether items are searched by their given vectors."""
    embeds_texts: ClassVar[bool] = True
    """Whether the store embeds the texts of items and queries.

    Texts that share words must be nearer to each other than to those that do not.
    """

    def test_it_has_the_methods_of_the_protocol(self, kv: KeyValueStore) -> None:
        assert_has_the_methods(kv, KeyValueStore)

    # Putting and getting

    async def test_items_come_back_as_they_were_given_and_in_the_order_asked_for(
        self, kv: KeyValueStore
    ) -> None:
        value = {"n": 1, "list": [1.5, None]}
        await kv.put(
            [
                item("a/b/k", value=value, data=b"\0\xff", data_type="msgpack", expires_at=FUTURE),
                item("k"),
            ]
        )
        bare, unknown, found = await kv.get([key("k"), key("b/k"), key("a/b/k")])
        assert unknown is None
        assert bare is not None
        assert found is not None
        assert (bare.namespace, bare.key, bare.value, bare.data) == ((), "k", None, None)
        assert (found.namespace, found.key) == (("a", "b"), "k")
        assert (found.value, found.data, found.data_type) == (value, b"\0\xff", "msgpack")
        assert found.expires_at == FUTURE
        assert found.created_at is not None
        assert found.created_at == found.updated_at
        assert await kv.get([]) == []
        (light,) = await kv.get([key("a/b/k")], include_data=False)
        assert light is not None
        assert (light.value, light.data) == (value, None)

    async def test_any_text_names_an_item_of_its_own(self, kv: KeyValueStore) -> None:
        names = ["", *NAMES]
        items = [Item(key=name, value={"n": n}) for n, name in enumerate(names)]
        items += [Item(namespace=(name,), key="k", value={"n": -n}) for n, name in enumerate(names)]
        items.append(Item(namespace=("", "a"), key="k", value={"n": 0}))
        await kv.put(items)
        assert await kv.count() == len(items)
        found = await kv.get([(one.namespace, one.key) for one in items])
        assert [one and one.value for one in found] == [one.value for one in items]
        for n, name in enumerate(names[:12]):
            assert [one.value for one in await kv.list(namespace=(name,))] == [{"n": -n}]
            assert await kv.count(prefix=(name,)) == 1 + (name == "")
        assert await kv.delete([((), name) for name in names]) == [True] * len(names)
        assert await kv.count(namespace=()) == 0

    async def test_any_json_object_and_any_bytes_come_back_equal(self, kv: KeyValueStore) -> None:
        data = bytes(range(256)) * 4_000
        await kv.put([item(f"{n}", value=value, data=data[:n]) for n, value in enumerate(METADATA)])
        await kv.put([item("large", data=data)])
        found = await kv.get([key(f"{n}") for n in range(len(METADATA))])
        for n, (one, value) in enumerate(zip(found, METADATA, strict=True)):
            assert one is not None
            # As in JSON: 1 is neither 1.0 nor true.
            assert json.dumps(one.value, sort_keys=True) == json.dumps(value, sort_keys=True)
            assert one.data == data[:n]
        assert [one.data for one in await kv.list(namespace=(), key_prefix="large")] == [data]

    async def test_putting_again_replaces_all_but_the_moment_of_creation(
        self, kv: KeyValueStore, later: Callable[[], None]
    ) -> None:
        await kv.put([item("k", value={"a": 1}, data=b"1", data_type="t", expires_at=FUTURE)])
        (first,) = await kv.list()
        later()
        await kv.put([item("k", value={"b": 2})])
        (second,) = await kv.list()
        assert (second.value, second.data, second.data_type) == ({"b": 2}, None, None)
        assert second.expires_at is None
        assert second.created_at == first.created_at == first.updated_at
        assert first.updated_at is not None
        assert second.updated_at is not None
        assert second.updated_at > first.updated_at

    async def test_of_two_puts_with_one_key_the_last_counts(self, kv: KeyValueStore) -> None:
        await kv.put([item("k", value={"n": n}) for n in range(3)])
        assert [one.value for one in await kv.list()] == [{"n": 2}]

    async def test_adding_gives_way_to_what_is_there(self, kv: KeyValueStore) -> None:
        first, second = item("a", value={"n": 1}), item("a", value={"n": 2})
        assert await kv.add([first, second, item("b")]) == [True, False, True]
        assert await kv.add([second, item("c")]) == [False, True]
        assert [one.value for one in await kv.list(key_prefix="a")] == [{"n": 1}]
        assert await kv.count() == 3

    async def test_appended_items_are_there(self, kv: KeyValueStore) -> None:
        for step in range(3):
            appended = await kv.append([item(f"{step}{n}", data=b"x") for n in range(2)])
            assert appended.version == await kv.version()
            assert appended.n_items in {2, None}
            assert appended.grows_since <= appended.version
        assert paths(await kv.list()) == ["00", "01", "10", "11", "20", "21"]

    async def test_deleting_says_what_was_there(self, kv: KeyValueStore) -> None:
        await kv.put([item("a/k"), item("b/k"), item("k")])
        assert await kv.delete([key("a/k"), key("c/k"), key("k")]) == [True, False, True]
        assert await kv.delete([key("a/k")]) == [False]
        assert paths(await kv.list()) == ["b/k"]
        assert await kv.add([item("a/k")]) == [True]

    async def test_changing_what_was_given_or_found_changes_nothing_that_is_kept(
        self, kv: KeyValueStore
    ) -> None:
        value: dict[str, Any] = {"list": [1]}
        await kv.put([item("k", value=value)])
        value["list"].append(2)
        (found,) = await kv.list()
        assert found.value == {"list": [1]}
        found.value["list"].append(3)
        (again,) = await kv.get([key("k")])
        assert again is not None
        assert again.value == {"list": [1]}

    # Many changes at once

    async def test_puts_additions_and_deletions_are_written_together(
        self, kv: KeyValueStore
    ) -> None:
        await kv.put([item(name, value={"n": 0}) for name in "abcd"])
        new = {"n": 1}
        written = await kv.write(
            puts=[item("a", value=new), item("e", value=new)],
            adds=[item("f", value=new)],
            deletes=[key("c"), key("g")],
        )
        assert written.deleted == [True, False]
        assert written.version == await kv.version()
        found = {one.key: (one.value or {})["n"] for one in await kv.list()}
        assert found == {"a": 1, "b": 0, "d": 0, "e": 1, "f": 1}

    async def test_nothing_is_written_beside_an_addition_whose_key_is_taken(
        self, kv: KeyValueStore
    ) -> None:
        await kv.put([item(name, value={"n": 0}) for name in "abc"])
        before, version = await kv.list(), await kv.version()
        for adds in (["b"], ["f", "b"], ["b", "f"]):
            with pytest.raises(AlreadyExistsError):
                await kv.write(
                    puts=[item("a", value={"n": 1}), item("e")],
                    adds=[item(name, value={"n": 1}) for name in adds],
                    deletes=[key("c")],
                )
        assert await kv.list() == before
        assert await kv.version() == version

    async def test_of_many_writes_that_add_one_key_one_is_written_whole(
        self, kv: KeyValueStore
    ) -> None:
        async def write(n: int) -> None:
            puts = [item("shared", value={"by": n}), item(f"put/{n}")]
            await kv.write(puts=puts, adds=[item("claim", value={"by": n}), item(f"add/{n}")])

        outcomes = await asyncio.gather(*map(write, range(8)), return_exceptions=True)
        (winner,) = [n for n, outcome in enumerate(outcomes) if outcome is None]
        assert [type(one) for one in outcomes if one] == [AlreadyExistsError] * 7
        expected = {"claim", "shared", f"put/{winner}", f"add/{winner}"}
        assert set(paths(await kv.list())) == expected
        found = await kv.get([key("claim"), key("shared")])
        assert [one and one.value for one in found] == [{"by": winner}] * 2

    async def test_a_key_may_be_deleted_added_and_put_by_one_call_in_this_order(
        self, kv: KeyValueStore, later: Callable[[], None]
    ) -> None:
        await kv.put([item(name, value={"n": 0}) for name in "abc"])
        first = {one.created_at for one in await kv.list()}
        later()
        written = await kv.write(
            puts=[item("b", value={"n": 2}), item("c", value={"n": 2}), item("d", value={"n": 2})],
            adds=[item("a", value={"n": 1}), item("b", value={"n": 1}), item("d", value={"n": 1})],
            deletes=[key("a"), key("b"), key("x")],
        )
        assert written.deleted == [True, True, False]
        found = {one.key: one for one in await kv.list()}
        values = {name: (one.value or {})["n"] for name, one in found.items()}
        assert values == {"a": 1, "b": 2, "c": 2, "d": 2}
        # A deleted item is created again.
        assert [name for name, one in found.items() if one.created_at in first] == ["c"]
        with pytest.raises(AlreadyExistsError):
            await kv.write(adds=[item("c")], puts=[item("c", value={"n": 3}), item("e")])
        assert paths(await kv.list()) == ["a", "b", "c", "d"]

    # Expected revisions

    async def test_all_is_written_if_everything_is_as_expected_and_else_nothing(
        self, kv: KeyValueStore
    ) -> None:
        await kv.put([item(name, value={"n": 0}) for name in "abc"])
        there = {key(one.key): one.revision for one in await kv.list()}
        changes: dict[str, Any] = {
            "puts": [item("a", value={"n": 1})],
            "adds": [item("e", value={"n": 1})],
            "deletes": [key("c")],
        }
        wrong: list[dict[ItemKey, int | None]] = [
            {key("a"): there[key("b")]},
            {key("a"): None},
            {**there, key("b"): there[key("a")]},
            {**there, key("b"): None},
            {key("c"): there[key("a")]},
            {key("e"): there[key("a")]},
            {**there, key("x"): there[key("a")]},
        ]
        before = await kv.list()
        for expected in wrong:
            with pytest.raises(ConflictError):
                await kv.write(**changes, expected=expected)
            assert await kv.list() == before
        await kv.write(**changes, expected={**there, key("e"): None, key("x"): None})
        after = {one.key: one for one in await kv.list()}
        assert {name: (one.value or {})["n"] for name, one in after.items()} == {"a": 1, "b": 0, "e": 1}  # fmt: skip
        assert after["b"].revision == there[key("b")]
        assert after["a"].revision != there[key("a")]
        with pytest.raises(ConflictError):
            await kv.write(puts=[item("a")], expected={key("a"): there[key("a")]})

    async def test_a_counter_that_many_raise_at_once_comes_to_the_exact_sum(
        self, kv: KeyValueStore
    ) -> None:
        async def raise_it() -> None:
            for _ in range(8):  # At each try, one of those who are still at it gets on.
                (there,) = await kv.get([key("n")])
                n = (there.value or {})["n"] if there else 0
                revision = there.revision if there else None
                new = item("n", value={"n": n + 1})
                with suppress(ConflictError):
                    await kv.write(puts=[new], expected={key("n"): revision})
                    return

        for _ in range(2):
            await asyncio.gather(*(raise_it() for _ in range(8)))
        (there,) = await kv.get([key("n")])
        assert there is not None
        assert there.value == {"n": 16}

    async def test_of_many_who_move_one_item_at_once_one_does(self, kv: KeyValueStore) -> None:
        await kv.put([item("todo/1"), item("other")])
        (there,) = await kv.get([key("todo/1")])
        assert there is not None

        async def take(n: int) -> None:
            expected = {key("todo/1"): there.revision}
            await kv.write(puts=[item(f"mine/{n}")], deletes=[key("todo/1")], expected=expected)

        outcomes = await asyncio.gather(*map(take, range(8)), return_exceptions=True)
        (winner,) = [n for n, outcome in enumerate(outcomes) if outcome is None]
        assert {type(one) for one in outcomes if one} == {ConflictError}
        assert paths(await kv.list()) == ["other", f"mine/{winner}"]

    async def test_puts_at_the_same_time_lose_nothing(self, kv: KeyValueStore) -> None:
        await asyncio.gather(
            *(kv.put([item(f"own/{n}"), item("shared", value={"by": n})]) for n in range(8))
        )
        assert await kv.count(prefix=("own",)) == 8
        assert await kv.count() == 9

    async def test_the_version_changes_with_the_items_and_with_nothing_else(
        self, kv: KeyValueStore
    ) -> None:
        seen = [await kv.version()]
        for change in (
            lambda: kv.put([item("a/k")]),
            lambda: kv.touch([key("a/k")], expires_at=FUTURE),
            lambda: kv.delete([key("a/k")]),
        ):
            await change()
            seen.append(await kv.version())
            await kv.list()
            await kv.delete([key("b/k")])
            await kv.add([])
            assert await kv.version() == seen[-1]
        assert len(set(seen)) == 4

    # Expiring

    async def test_what_has_expired_is_not_there(self, kv: KeyValueStore) -> None:
        await kv.put([item("a/k", expires_at=PAST), item("b/k", expires_at=FUTURE)])
        assert await kv.get([key("a/k")]) == [None]
        assert paths(await kv.list()) == paths(await kv.keys()) == ["b/k"]
        assert await kv.count() == 1
        assert await kv.namespaces() == [("b",)]
        assert await kv.touch([key("a/k")], expires_at=None) == 0
        assert await kv.delete([key("a/k")]) == [False]

    @needs("supports_search")
    async def test_what_has_expired_is_not_found(self, kv: KeyValueStore) -> None:
        await kv.put([item("a", vectors=along(0), expires_at=PAST), item("b", vectors=along(0))])
        assert paths(await kv.search(AXES[0])) == ["b"]

    async def test_what_has_expired_gives_way_to_something_new(self, kv: KeyValueStore) -> None:
        await kv.put([item(name, value={"n": 0}, expires_at=PAST) for name in "abc"])
        assert await kv.add([item("a", value={"n": 1})]) == [True]
        await kv.put([item("b", value={"n": 1})])
        assert [one.value for one in await kv.list()] == [{"n": 1}] * 2
        assert await kv.sweep() == 1
        assert await kv.sweep() == 0
        assert await kv.count() == 2

    async def test_touching_moves_the_expiry_and_nothing_else(
        self, kv: KeyValueStore, later: Callable[[], None]
    ) -> None:
        await kv.put([item("a", value={"n": 1}, data=b"1", expires_at=FUTURE), item("b")])
        (before,) = await kv.list(key_prefix="a")
        later()
        assert await kv.touch([key("a"), key("x")], expires_at=None) == 1
        (after,) = await kv.list(key_prefix="a")
        for name in ("key", "value", "data", "created_at", "updated_at"):
            assert getattr(after, name) == getattr(before, name)
        assert after.expires_at is None
        assert await kv.touch([key("a")], expires_at=PAST) == 1
        assert paths(await kv.list()) == ["b"]

    # State machine

    @pytest.mark.parametrize("seed", range(3), ids="seed {}".format)
    async def test_any_sequence_of_calls_leaves_what_a_dict_would_hold(
        self, kv: KeyValueStore, seed: int
    ) -> None:
        random = Random(seed)
        held: dict[str, int] = {}
        names = ["a/k", "a/K", "a/b/k", "ab/k", "k"]
        for n in range(40):
            some = random.sample(names, random.randrange(1, 4))
            match random.choice(["put", "add", "delete", "delete_under"]):
                case "put":
                    await kv.put([item(name, value={"n": n}) for name in some])
                    held |= dict.fromkeys(some, n)
                case "add":
                    added = await kv.add([item(name, value={"n": n}) for name in some])
                    assert added == [name not in held for name in some]
                    held |= {name: n for name in some if name not in held}
                case "delete":
                    deleted = await kv.delete(list(map(key, some)))
                    assert deleted == [held.pop(name, None) is not None for name in some]
                case "delete_under":
                    gone = [name for name in held if name.startswith("a/b/")]
                    assert await kv.delete_under(("a", "b")) == len(gone)
                    for name in gone:
                        del held[name]
            found = {paths([one])[0]: (one.value or {})["n"] for one in await kv.list()}
            assert found == held
