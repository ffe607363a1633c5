"""Plans: how they are found, written out, and what is refused."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import AsyncContextStore
from lance_context_core.coordination.plan_markdown import parsed
from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
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
        ({"status": "done"}, "status='done': use one of draft, active, paused"),
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
    with pytest.raises(AlreadyExistsError, match="plan 'there' already exists: choose another id"):
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


# Reading a plan from its file


def boxes(tasks, parent_id=None):
    """What a board says of its tasks, as nested lists."""
    return [
        (one.title, str(one.status), boxes(tasks, one.id))
        for one in tasks
        if one.parent_id == parent_id
    ]


async def test_what_was_written_out_is_read_back_into_another_store(plans, tmp_path):
    await plans.add("# Ship it\n\nSoon.\n", id="a/b", session_id='"s"', title="Named")
    await plans.set_status("a/b", "active")
    board = plans.tasks("a/b")
    await board.add("Test", id="test")
    await board.add("Unit", id="unit", parent_id="test")
    await board.add("Unit", parent_id="test")
    await board.add("Drop", id="drop")
    await board.skip("drop")
    task = await board.claim("ada")
    await board.complete(task.id)
    path = await plans.export("a/b", tmp_path)

    async with await AsyncContextStore.open(tmp_path / "other") as other:
        read = await other.plans.load(path)
        assert (read.id, read.title, str(read.status)) == ("a/b", "Named", "active")
        assert (read.session_id, read.text) == ('"s"', "# Ship it\n\nSoon.")
        tasks = await other.plans.tasks("a/b").list()
        assert boxes(tasks) == boxes(await board.list())
        # What is read again changes nothing.
        assert await other.plans.load(path) == read
        assert await other.plans.tasks("a/b").list() == tasks
    assert (await plans.load(path)).version == 2


async def test_what_a_person_changes_in_the_file_is_changed_in_the_plan(plans, tmp_path):
    await plans.add("# Ship it", id="p")
    board = plans.tasks("p")
    await board.add("Test", id="test")
    await board.add("Unit", id="unit", parent_id="test")
    await board.add("Wait", id="wait", depends_on=["test"])
    text = await plans.markdown("p")
    text = text.replace("# Ship it", "# Ship it now").replace("  - [ ] Unit", "  - [X] Unit")
    text = text.replace("- [ ] Wait", "* [x] Wait\n    - [-] Look\n- [ ] More")
    changed = await plans.load(text.replace("\n", "\r\n"))
    assert (changed.text, changed.version, changed.title) == ("# Ship it now", 2, "Ship it now")
    assert boxes(await board.list()) == [
        ("Test", "completed", [("Unit", "completed", [])]),
        ("Wait", "completed", [("Look", "skipped", [])]),
        ("More", "pending", []),
    ]


async def test_an_old_file_does_not_overwrite_what_others_wrote(plans):
    await plans.add("one", id="p")
    text = await plans.markdown("p")
    await plans.edit("p", "two")
    await plans.tasks("p").add("Test")
    with pytest.raises(ConflictError, match="plan 'p' has version 2, not 1: nothing was written"):
        await plans.load(text.replace("one", "three") + "\n## Tasks\n\n- [x] Test\n")
    assert (await plans.get("p")).text == "two"
    assert [str(one.status) for one in await plans.tasks("p").list()] == ["pending"]


async def test_a_file_without_a_head_is_a_new_plan(plans):
    plan = await plans.load("# Garden\n\n## Tasks\n\n- [ ] Dig\n  - [x] Buy a spade\n", id="g")
    assert (plan.id, plan.title, plan.text) == ("g", "Garden", "# Garden")
    assert boxes(await plans.tasks("g").list()) == [
        ("Dig", "completed", [("Buy a spade", "completed", [])])
    ]
    # A list of something else, or with a text below it, is no checklist.
    other = await plans.load("# Tasks\n\n- [ ] one\n\nand more")
    assert (other.text, await plans.tasks(other.id).list()) == (
        "# Tasks\n\n- [ ] one\n\nand more",
        [],
    )


@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        pytest.param('---\nid: ["a"\n---\nx', InvalidRequestError, "give id as JSON", id="no JSON"),
        pytest.param('---\nstatus: "late"\n---\nx', InvalidRequestError, "'late'", id="status"),
        pytest.param("---\nid: 7\n---\nx", InvalidRequestError, "id must be a str", id="number"),
        pytest.param('---\nbranch: "b"\n---\nx', InvalidRequestError, "with branch()", id="branch"),
        pytest.param(
            "## Tasks\n\n- [ ] one", InvalidRequestError, "text is blank", id="tasks alone"
        ),
        pytest.param("", InvalidRequestError, "text is blank", id="nothing"),
        pytest.param(b"text", InvalidRequestError, "source", id="bytes"),
        pytest.param(Path("no.md"), NotFoundError, "there is no file 'no.md'", id="no file"),
    ],
)
async def test_a_file_that_is_no_plan_is_refused_and_nothing_is_written(plans, source, error, said):
    with pytest.raises(error, match=re.escape(said)):
        await plans.load(source)
    assert await plans.list() == []


TITLES = st.sampled_from(["Dig", "Plant", "Water it", "a - [x] b"])
TREES = st.recursive(
    st.just([]), lambda below: st.lists(st.tuples(TITLES, below), max_size=3), max_leaves=8
)


@given(TREES, st.data())
def test_any_checklist_is_read_as_it_was_written(tree, data):
    def written(nodes, depth):
        for title, below in nodes:
            mark = data.draw(st.sampled_from(" x-"))
            yield "  " * depth, mark, title
            yield from written(below, depth + 1)

    lines = list(written(tree, 0))
    text = "text\n\n## Tasks\n\n" + "".join(f"{i}- [{m}] {t}\n" for i, m, t in lines)
    read = parsed(text)
    assert read.text == "text"
    assert [(len(one.path) - 1, one.path[-1][0]) for one in read.boxes] == [
        (len(indent) // 2, title) for indent, _, title in lines
    ]
    assert len({one.path for one in read.boxes}) == len(lines)
