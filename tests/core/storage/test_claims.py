"""Keys that are claimed: of many writers one gets each, and who removes one gives it away."""

from dataclasses import replace

import pytest

from lance_context_core import AsyncContextStore, Item
from lance_context_core.storage.lance import writes


@pytest.mark.usefixtures("each_write_commits")
async def test_a_key_whose_owner_left_between_the_refusal_and_the_look_is_claimed_anew(
    tmp_path, monkeypatch
):
    uri = str(tmp_path / "shared")
    mine = Item(key="lease", namespace=("a",), value={"by": "me"})
    async with await AsyncContextStore.open(uri) as one, await AsyncContextStore.open(uri) as other:
        await one.kv().put([Item(key="first", namespace=("a",), value={})])
        await other.kv().write(adds=[replace(mine, value={"by": "other"})])
        merge = writes.merge
        refusals = []

        async def refused(*args, **kwargs):
            try:
                return await merge(*args, **kwargs)
            except RuntimeError:
                refusals.append(args)
                await other.kv().delete([(("a",), "lease")])
                raise

        monkeypatch.setattr(writes, "merge", refused)
        await one.kv().write(adds=[mine])
        assert len(refusals) == 1
        found = await one.kv().get([(("a",), "lease")])
        assert [item.value for item in found] == [{"by": "me"}]
