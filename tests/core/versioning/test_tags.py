"""Tags name versions of the whole store."""

import pytest
from core.versioning.samples import dump, write, written
from lance_context_testing.samples import NAMES, NO_NAMES

from lance_context_core.errors import AlreadyExistsError, InvalidRequestError, NotFoundError
from lance_context_core.types import Document


async def test_a_taken_tag_is_refused_and_a_deleted_one_can_be_moved(store):
    await write(store, 0)
    first = await store.tag("a")
    assert await store.tag("a") == first == await store.version()
    await write(store, 1)
    with pytest.raises(AlreadyExistsError, match="'a'"):
        await store.tag("a")
    assert await store.tags() == {"a": first}
    assert await store.delete_tag("a") is True
    assert await store.delete_tag("a") is False
    assert await store.tags() == {}
    with pytest.raises(NotFoundError, match="'a'"):
        await store.checkout("a")
    second = await store.tag("a")
    assert await store.tags() == {"a": second}
    assert await dump(await store.checkout("a")) == await dump(store)


@pytest.mark.slow
async def test_an_earlier_version_can_be_named(store):
    seen = await written(store, 4)
    moments = {version.number: version.created_at for version in await store.versions()}
    for version, expected in seen.items():
        assert await store.tag(f"n{version}", version=version) == version
        assert await store.tag(f"t{version}", version=f"n{version}") == version
        assert await store.tag(f"m{version}", version=moments[version]) == version
        for tag in (f"n{version}", f"t{version}", f"m{version}"):
            assert await dump(await store.checkout(tag)) == expected
    named = {version.number: version.tags for version in await store.versions() if version.tags}
    assert named == {number: (f"m{number}", f"n{number}", f"t{number}") for number in seen}


async def test_a_store_can_be_named_before_its_first_record(store):
    await store.vectors("c").add([Document(id="a", text="tea")])
    number = await store.tag("start")
    assert await store.tags() == {"start": number}
    await write(store, 0)
    view = await store.checkout("start")
    assert await view.vectors("c").count() == 1
    assert await view.context().entries() == 0


async def test_any_name_is_a_tag_or_is_refused_for_what_it_is(store):
    await write(store, 0)
    version = await store.version()
    taken = {}
    for name in [*NAMES, *NO_NAMES, "", "a/b/c", "a..b", ".hidden", "a.", "a.lock", "x" * 200]:
        try:
            taken[name] = await store.tag(name)
        except InvalidRequestError as refusal:
            assert "name" in str(refusal)  # noqa: PT017 - it may as well be taken
    assert {"a", "A", "a.b", "0", "-1", "_", "x" * 200} <= taken.keys()
    assert taken == dict.fromkeys(taken, version)
    assert await store.tags() == taken
    for name in taken:
        assert await (await store.checkout(name)).version() == version
        assert await store.delete_tag(name) is True
    assert await store.tags() == {}


async def test_tags_survive_maintenance_and_reopening(open_store):
    store = open_store()
    seen = await written(store, 2)
    for version in seen:
        await store.tag(f"v{version}", version=version)
    await store.maintain()
    await store.close()
    again = open_store()
    for version, expected in seen.items():
        assert await dump(await again.checkout(f"v{version}")) == expected
