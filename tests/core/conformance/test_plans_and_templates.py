"""Plans, templates and the state of sessions keep one contract in a directory, in memory and on S3."""

import asyncio
from datetime import timedelta

import pytest

from lance_context_core.coordination.plan_types import TRANSITIONS, PlanStatus
from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
)


@pytest.fixture(params=["local", "memory", "s3"])
def store(request, clock):
    opened = request.getfixturevalue(f"{request.param}_backend").open(clock=clock)
    yield opened
    asyncio.run(opened.close())


# Plans


async def test_each_change_of_a_plan_is_a_version_that_stays(store, clock):
    first = await store.plans.add("# Ship it\n\n1. Test\n", id="ship", session_id="s")
    assert (first.title, first.status, first.version) == ("Ship it", "draft", 1)
    clock.advance(minutes=1)
    second = await store.plans.edit("ship", "# Ship it soon\n")
    third = await store.plans.set_status("ship", "active")
    assert (third.title, third.status, third.version) == ("Ship it soon", "active", 3)
    assert third.created_at == first.created_at < third.updated_at
    assert await store.plans.get("ship") == third
    assert await store.plans.versions("ship") == [third, second, first]
    assert await store.plans.get("ship", version=1) == first
    assert await store.plans.edit("ship", third.text) == third
    for id, version in (("ship", 4), ("nothing", None)):
        with pytest.raises(NotFoundError, match=f"no plan '{id}'"):
            await store.plans.get(id, version=version)
    assert await store.plans.versions("nothing") == []


async def test_of_several_who_change_a_plan_at_once_none_undoes_what_another_did(store):
    await store.plans.add("one", id="p")
    await asyncio.gather(*(store.plans.edit("p", f"text {n}") for n in range(4)))
    kept = await store.plans.versions("p")
    assert [one.version for one in kept] == [5, 4, 3, 2, 1]
    assert {one.text for one in kept} == {"one", *(f"text {n}" for n in range(4))}
    with pytest.raises(ConflictError, match="has version 5, not 4"):
        await store.plans.edit("p", "late", of_version=4)
    assert await store.plans.versions("p") == kept


async def test_a_branch_of_a_plan_is_merged_into_it_once_and_never_over_other_changes(store):
    plans = store.plans
    await plans.add("cheap", id="p")
    fast, slow = await plans.branch("p", "fast"), await plans.branch("p", "slow", text="slow")
    assert (fast.text, fast.parent_id, fast.base_version) == ("cheap", "p", 1)
    assert [one.id for one in await plans.list(parent_id="p")] == [fast.id, slow.id]
    with pytest.raises(AlreadyExistsError, match="choose another branch"):
        await plans.branch("p", "fast")
    await plans.edit(fast.id, "fast")
    assert (await plans.merge(fast.id)).text == "fast"
    done = await plans.get(fast.id)
    assert (done.status, done.merged_at) == ("completed", done.updated_at)
    with pytest.raises(InvalidRequestError, match="merged already"):
        await plans.merge(fast.id)
    with pytest.raises(ConflictError, match="'p' was changed since 'p@slow'"):
        await plans.merge(slow.id)
    assert (await plans.get(slow.id)) == slow
    assert (await plans.merge(slow.id, text="fast, then slow")).text == "fast, then slow"
    assert [one.text for one in await plans.versions("p")] == ["fast, then slow", "fast", "cheap"]
    dropped = await plans.branch("p", "dropped")
    await plans.set_status(dropped.id, "abandoned")
    for id, why in ((dropped.id, "abandoned"), ("p", "not a branch")):
        with pytest.raises(InvalidRequestError, match=why):
            await plans.merge(id)


async def test_a_plan_tried_on_a_branch_of_the_store_comes_back_with_its_tasks_or_is_dropped(store):
    await store.plans.add("as it is", id="p")
    await store.plans.tasks("p").add("first", id="first")
    for name in ("good", "bad"):
        branch = await store.create_branch(name)
        await branch.plans.edit("p", name)
        board = branch.plans.tasks("p")
        await board.add("second", id="second", depends_on=["first"])
        task = await board.claim("ann")
        await board.complete(task.id, attempt=task.attempt)
    assert (await store.plans.get("p")).text == "as it is"
    assert await store.plans.tasks("p").tree() == "○ first"
    await store.merge("good")
    await store.delete_branch("bad")
    assert (await store.plans.get("p")).text == "good"
    board = store.plans.tasks("p")
    assert await board.tree() == "● first\n○ second"
    told = [(one.task_id, one.after) for one in await board.history()]
    assert told == [
        ("first", "pending"),
        ("second", "pending"),
        ("second", "blocked"),
        ("first", "in_progress"),
        ("first", "completed"),
        ("second", "pending"),
    ]
    task = await board.claim("ben")
    assert (await board.complete(task.id, attempt=task.attempt)).status == "completed"


async def test_what_both_branches_of_the_store_did_to_a_board_is_there_after_their_merge(store):
    await store.plans.add("p", id="p")
    ours = store.plans.tasks("p")
    await ours.add("both", id="both")
    theirs = (await store.create_branch("other")).plans.tasks("p")
    await ours.add("ours", id="ours")
    await theirs.add("theirs", id="theirs", depends_on=["both"])
    await store.merge("other")
    assert {one.id for one in await ours.list()} == {"both", "ours", "theirs"}
    added = [one.task_id for one in await ours.history() if one.before is None]
    assert sorted(added) == ["both", "ours", "theirs"]
    done = []
    while (task := await ours.claim("ann")) is not None:
        await ours.complete(task.id, attempt=task.attempt)
        done.append(task.id)
    assert sorted(done) == ["both", "ours", "theirs"]


async def test_a_plan_is_removed_with_its_parts_and_their_tasks(store):
    for id, parent in (("p", None), ("part", "p"), ("part of it", "part"), ("q", None)):
        await store.plans.add(id, id=id, parent_id=parent)
        await store.plans.tasks(id).add("t", id="t")
    assert await store.plans.delete("p") == ["p", "part", "part of it"]
    assert await store.plans.delete("p") == []
    assert [one.id for one in await store.plans.list()] == ["q"]
    assert await store.tasks.boards() == ["plan:q"]
    assert await store.plans.versions("part") == []


@pytest.mark.parametrize("before", PlanStatus)
async def test_a_plan_becomes_only_what_it_may(open_store, before):
    plans = open_store().plans
    for after in PlanStatus:
        plan = await plans.add("p", status=before)
        if after in TRANSITIONS[before]:
            assert (await plans.set_status(plan.id, after)).status is after
        else:
            with pytest.raises(InvalidRequestError, match=f"is {before} and cannot become {after}"):
                await plans.set_status(plan.id, after)
            assert await plans.get(plan.id) == plan


# Templates


async def test_a_template_is_filled_in_and_knows_how_often_it_was(store, clock):
    saved = await store.templates.save(
        "greet", "Hello {{name}}, {{ n }} mails", tags=["mail"], category="talk"
    )
    assert (saved.variables, saved.version, saved.n_uses) == (("n", "name"), 1, 0)
    texts = await asyncio.gather(
        *(store.templates.render("greet", {"name": "{{n}}", "n": n}) for n in range(4))
    )
    assert texts == [f"Hello {{{{n}}}}, {n} mails" for n in range(4)]
    used = await store.templates.get("greet")
    assert (used.n_uses, used.last_used_at) == (4, clock.now())
    with pytest.raises(InvalidRequestError, match="'greet' lacks values for n, name"):
        await store.templates.render("greet", {})
    assert (await store.templates.get("greet")).n_uses == 4


async def test_every_version_of_a_template_stays_and_the_same_one_is_no_other(store):
    first = await store.templates.save("t", "one {{a}}")
    assert await store.templates.save("t", "one {{a}}") == first
    second = await store.templates.save("t", "two {{a}}")
    assert (second.version, second.created_at) == (2, first.created_at)
    assert await store.templates.render("t", {"a": 1}, version=1) == "one 1"
    assert [one.text for one in await store.templates.versions("t")] == ["two {{a}}", "one {{a}}"]
    with pytest.raises(NotFoundError, match="'t' of version 3"):
        await store.templates.get("t", version=3)
    assert await store.templates.delete("t")
    assert not await store.templates.delete("t")
    assert await store.templates.versions("t") == []
    assert (await store.templates.save("t", "new")).version == 1


async def test_templates_are_listed_by_use_and_found_by_their_words(store):
    save = store.templates.save
    await save("review", "Look at {{code}}", tags=["code"], description="Reviews a change")
    await save("release", "Ship {{version}}", category="work", description="Makes a release")
    await save("notes", "Notes of the release {{version}}", category="work", tags=["code"])
    await store.templates.render("notes", {"version": 1})

    def names(found):
        return [one.name for one in found]

    assert names(await store.templates.list()) == ["notes", "release", "review"]
    assert names(await store.templates.list(category="work")) == ["notes", "release"]
    assert names(await store.templates.list(tag="code", category="work")) == ["notes"]
    assert names(await store.templates.search("releases")) == ["release", "notes"]
    assert names(await store.templates.search("review changes", limit=1)) == ["review"]
    assert await store.templates.search("nothing like it") == []


# State


async def test_those_who_patch_one_session_at_once_undo_nothing_of_each_other(store):
    assert await store.state.get("s") == {}
    await store.state.set("s", {"todo": {"a": 1}, "old": True})
    patches = [{"todo": {f"k{n}": n}} for n in range(4)] + [{"old": None, "list": [1]}]
    await asyncio.gather(*(store.state.patch("s", one) for one in patches))
    kept = {"todo": {"a": 1, **{f"k{n}": n for n in range(4)}}, "list": [1]}
    assert await store.state.get("s") == kept
    assert await store.state.patch("s", {"todo": "all"}) == {"todo": "all", "list": [1]}
    assert await store.state.get("other") == {}
    assert await store.state.clear("s")
    assert not await store.state.clear("s")
    assert await store.state.get("s") == {}


async def test_the_state_of_a_session_is_gone_after_its_lifetime(store, clock):
    await store.state.set("s", {"a": 1}, lifetime=timedelta(minutes=1))
    await store.state.patch("s", {"b": 2}, lifetime=timedelta(minutes=1))
    clock.advance(seconds=59)
    assert await store.state.get("s") == {"a": 1, "b": 2}
    clock.advance(seconds=1)
    assert await store.state.get("s") == {}
    assert await store.state.patch("s", {"c": 3}) == {"c": 3}
