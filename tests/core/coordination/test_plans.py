"""Plans: how they are found, written out, and what is refused."""

import pytest

from lance_context_core.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    StorageError,
)


@pytest.fixture
def plans(store):
    return store.plans


async def test_plans_are_listed_by_what_they_are_and_found_by_their_words(plans, clock):
    for id, text, session in (
        ("b", "# Release\nShip the wheels", "s"),
        ("a", "# Garden\nWater the roses", "s"),
        ("c", "# Notes\nThings about a release", None),
    ):
        await plans.add(text, id=id, session_id=session)
        clock.advance(seconds=1)
    await plans.set_status("b", "active")

    def ids(found):
        return [one.id for one in found]

    assert ids(await plans.list()) == ["b", "a", "c"]
    assert ids(await plans.list(session_id="s", status="draft")) == ["a"]
    assert ids(await plans.search("releases")) == ["b", "c"]
    assert ids(await plans.search("water a rose")) == ["a"]
    assert await plans.search("submarine") == []


async def test_a_plan_is_written_out_with_its_tasks(plans, tmp_path):
    await plans.add("# Ship it\n\nSoon.\n", id="a/b", session_id='"s"')
    board = plans.tasks("a/b")
    await board.add("Test", id="test")
    await board.add("Unit", id="unit", parent_id="test")
    await board.add("Drop", id="drop")
    await board.skip("drop")
    path = await plans.export("a/b", tmp_path / "new")
    assert path == tmp_path / "new" / "a%2Fb.md"
    assert path.read_text(encoding="utf-8") == await plans.markdown("a/b")
    assert path.read_text(encoding="utf-8") == (
        '---\nid: "a/b"\ntitle: "Ship it"\nstatus: "draft"\nversion: 1\nsession_id: "\\"s\\""\n---\n\n'
        "# Ship it\n\nSoon.\n\n## Tasks\n\n- [ ] Test\n  - [ ] Unit\n- [-] Drop\n"
    )
    assert [one.name for one in path.parent.iterdir()] == [path.name]


async def test_a_title_is_the_first_line_that_says_something(plans):
    assert (await plans.add("\n##  \n# What to do \nmore")).title == "What to do"
    assert (await plans.add("x" * 60)).title == "x" * 50
    plan = await plans.add("text", title=" Named ")
    assert plan.title == "Named"
    assert (await plans.edit(plan.id, "other")).title == "other"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"text": " \n# "}, "text is blank"),
        ({"text": None}, "text must be a str"),
        ({"id": ""}, "id is empty"),
        ({"id": "a\0"}, "NUL"),
        ({"title": " "}, "is blank"),
        ({"status": "done"}, "status='done': there are draft, active, paused"),
        ({"session_id": ""}, "session_id is empty"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
async def test_a_wrong_plan_is_refused_and_nothing_is_written(plans, request_, message):
    there = await plans.add("text", id="there")
    with pytest.raises(InvalidRequestError, match=message):
        await plans.add(**{"text": "t", **request_})
    assert await plans.list() == [there]


async def test_an_id_that_is_taken_is_refused(plans):
    there = await plans.add("text", id="there")
    with pytest.raises(AlreadyExistsError, match="a plan 'there' already: choose another id"):
        await plans.add("other", id="there")
    assert await plans.versions("there") == [there]


async def test_what_belongs_to_no_plan_is_refused(plans, tmp_path):
    for call in (
        plans.add("t", parent_id="nobody"),
        plans.edit("nobody", "t"),
        plans.branch("nobody", "b"),
        plans.merge("nobody"),
        plans.export("nobody", tmp_path),
    ):
        with pytest.raises(NotFoundError, match="no plan 'nobody'"):
            await call
    assert await plans.list() == []
    await plans.add("t", id="t")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        await plans.export("t", tmp_path / "file")
