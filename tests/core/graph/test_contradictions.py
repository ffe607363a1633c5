"""Statements: both sides of a contradiction are kept, and what supersedes what is told with its reason."""

from datetime import UTC, datetime

import pytest

from lance_context_core import Field, Message
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.graph import Entity, Statement


def at(month):
    return datetime(2026, month, 1, tzinfo=UTC)


@pytest.fixture
def say(graph):
    """Says what the deadline is; returns the id of that."""

    async def say(object, **values):
        await graph.add_entities([Entity(name="Apollo", id="apollo")])
        (made,) = await graph.statements.add(
            [Statement(subject_id="apollo", predicate="deadline", object=object, **values)]
        )
        return made.id

    return say


async def told(graph, **arguments):
    return [one.object for one in await graph.statements.list("apollo", **arguments)]


async def test_what_holds_from_later_on_supersedes_and_both_are_kept(graph, say):
    june = await say("June", valid_from=at(1), source_ids=("r1",))
    may = await say("May", valid_from=at(3), source_ids=("r2",))
    (one,) = await graph.statements.contradictions("apollo")
    assert (one.earlier.id, one.later.id, one.stays) == (june, may, may)
    assert one.reason.startswith("valid from later: 2026-03-01")
    assert await told(graph) == ["May"]
    assert await told(graph, at=at(2)) == ["June"]
    assert await told(graph, include_superseded=True) == ["June", "May"]
    (old,) = [
        one for one in await graph.statements.list(include_superseded=True) if one.superseded_by
    ]
    assert (old.id, old.superseded_by) == (june, may)


async def test_where_nothing_tells_which_came_later_both_hold_and_it_is_open(graph, say):
    for words in ("June", "May"):
        await say(words)
    (one,) = await graph.statements.contradictions()
    assert (one.stays, one.is_settled, one.subject.id) == (None, False, "apollo")
    assert await told(graph) == ["June", "May"]


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(({"object": "June"}, {"object": " JUNE "}), id="the same in other letters"),
        pytest.param(({"object": "a", "one_of_many": True}, {"object": "b"}), id="one of several"),
        pytest.param(
            ({"object": "a", "valid_to": at(2)}, {"object": "b", "valid_from": at(2)}),
            id="one after the other",
        ),
        pytest.param(({"object": "a"}, {"object": "b", "predicate": "budget"}), id="of two things"),
    ],
)
async def test_what_can_both_hold_is_no_contradiction(graph, pair):
    await graph.add_entities([Entity(name="Apollo", id="apollo")])
    about = {"subject_id": "apollo", "predicate": "deadline"}
    await graph.statements.add([Statement(**{**about, **one}) for one in pair])
    assert await graph.statements.contradictions() == []


async def test_the_same_predicate_in_other_letters_is_the_same(graph, say):
    await say("June")
    await graph.statements.add(
        [Statement(subject_id="apollo", predicate=" DeadLine", object="May")]
    )
    assert len(await graph.statements.contradictions()) == 1
    assert len(await graph.statements.list(predicate="DEADLINE")) == 2


async def test_what_is_said_again_by_another_source_is_one_statement(graph, say):
    assert await say("June", source_ids=("r1",)) == await say("June", source_ids=("r2",))
    (one,) = await graph.statements.list()
    assert one.source_ids == ("r1", "r2")


# Deciding


async def test_a_policy_decides_what_is_open_and_says_why(graph, say, clock):
    june = await say("June", source_ids=("r1", "r2"))
    clock.advance(days=1)
    may = await say("May", source_ids=("r3",))
    (decided,) = await graph.statements.resolve("most_sources", reason="two against one")
    assert decided.stays is None  # as it was
    (one,) = await graph.statements.contradictions()
    assert (one.stays, one.reason) == (june, "two against one")
    assert await told(graph) == ["June"]
    assert await graph.statements.resolve("recorded_later") == []  # nothing is open
    assert await graph.statements.undecide(may) is True
    assert await graph.statements.undecide(may) is False
    await graph.statements.resolve("recorded_later")
    assert await told(graph) == ["May"]


async def test_a_function_decides_or_leaves_it_open(graph, say):
    june = await say("June")
    await say("May")
    assert await graph.statements.resolve(lambda _: None) == []

    async def first(contradiction):
        return contradiction.earlier.id

    await graph.statements.resolve(first)
    (one,) = await graph.statements.contradictions()
    assert (one.stays, one.reason) == (june, "policy: first")


async def test_a_decision_goes_before_the_dates(graph, say):
    june = await say("June", valid_from=at(1))
    may = await say("May", valid_from=at(3))
    await graph.statements.decide(june, over=may, reason="a slip of the pen")
    assert await told(graph) == ["June"]
    (one,) = await graph.statements.contradictions()
    assert (one.stays, one.reason) == (june, "a slip of the pen")


async def test_what_decided_it_is_gone_and_the_other_holds_again(graph, say):
    june, may = await say("June", valid_from=at(1)), await say("May", valid_from=at(3))
    assert await told(graph) == ["May"]
    assert await graph.statements.delete(may) is True
    assert await graph.statements.delete(may) is False
    assert await told(graph) == ["June"]
    with pytest.raises(NotFoundError):
        await graph.statements.decide(june, over=may)


async def test_an_erased_source_takes_its_statement_and_what_that_superseded_holds_again(
    store, graph, say
):
    first, second = [
        await store.history.append("a", Message.user(f"{n}"), session_id="s") for n in "12"
    ]
    await say("June", valid_from=at(1), source_ids=(first,))
    await say("May", valid_from=at(3), source_ids=(second,))
    await store.erase(ids=[second])
    assert await told(graph) == ["June"]
    assert await graph.statements.contradictions() == []


async def test_a_search_can_leave_out_what_only_says_what_is_superseded(store, graph, say):
    told_ = ["The deadline is June", "The deadline is May"]
    ids = [await store.history.append("a", Message.user(one), session_id="s") for one in told_]
    await say("June", valid_from=at(1), source_ids=(ids[0],))
    await say("May", valid_from=at(3), source_ids=(ids[1],))
    outdated = await graph.statements.outdated_sources()
    assert outdated == [ids[0]]
    hits = await store.search("deadline", filter=~Field("id").is_in(outdated))
    assert [hit.record.id for hit in hits] == [ids[1]]


# Refusals


async def test_what_is_said_of_nobody_is_refused(graph):
    with pytest.raises(NotFoundError, match="subject_id"):
        await graph.statements.add([Statement(subject_id="x", predicate="p", object="o")])
    with pytest.raises(NotFoundError):
        await graph.statements.list("x")


async def test_what_no_policy_can_be_is_refused(graph, say):
    await say("June")
    await say("May")
    with pytest.raises(InvalidRequestError, match="policy="):
        await graph.statements.resolve("oldest")
    with pytest.raises(InvalidRequestError, match="the policy returned"):
        await graph.statements.resolve(lambda _: "another")
    with pytest.raises(InvalidRequestError, match="not about the same"):
        await graph.statements.decide(await say("July"), over=await _other_thing(graph))


async def _other_thing(graph):
    (made,) = await graph.statements.add(
        [Statement(subject_id="apollo", predicate="budget", object="1")]
    )
    return made.id


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan"), "1"])
async def test_a_confidence_is_a_share(graph, say, confidence):
    with pytest.raises(InvalidRequestError, match="confidence"):
        await say("June", confidence=confidence)
