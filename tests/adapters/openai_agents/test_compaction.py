"""Compaction by the SDK leaves every item that others have added meanwhile."""

from types import SimpleNamespace

import pytest
from adapters.openai_agents.samples import assistant, call, output, user
from agents import Agent, Runner
from agents.extensions.memory import EncryptedSession
from agents.memory import OpenAIResponsesCompactionSession
from agents.testing import ScriptedModel, assistant_message
from openai_agents_lance_context import LanceContextSession

from lance_context_core import ConflictError, ContextStore, Message, ToolCallPart

SUMMARY = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAC"}


class Client:
    """OpenAI, whose answer is one item; `meanwhile` is done before it."""

    def __init__(self, meanwhile=None):
        self._meanwhile = meanwhile
        self.sent = []
        self.responses = self

    async def compact(self, **asked):
        self.sent.append(asked["input"])
        if self._meanwhile:
            await self._meanwhile()
        return SimpleNamespace(output=[dict(SUMMARY)], usage=None)


def compacting(session, meanwhile=None):
    return OpenAIResponsesCompactionSession(
        session.session_id,
        session,
        client=Client(meanwhile),
        compaction_mode="input",
        should_trigger_compaction=lambda _: True,
    )


def elsewhere(tmp_path, *texts):
    """Another writer of the session, with a handle of its own."""

    async def add():
        with ContextStore.open(tmp_path / "memory") as store:
            said = [Message.user(one) for one in texts]
            await store.aio.history.append_many("", said, session_id="monday")

    return add


def agent():
    return Agent(name="tutor", model=ScriptedModel([[assistant_message("Yes.")]]))


async def test_a_run_compacts_what_the_model_has_read(session):
    await session.add_items([user("old"), assistant("Yes.")])
    whole = compacting(session)
    await Runner.run(agent(), "new", session=whole)
    assert len(whole.client.sent[0]) == 4
    assert await session.get_items() == [SUMMARY]


async def test_a_run_leaves_the_session_if_others_have_added_to_it(session, tmp_path):
    await session.add_items([user("old"), assistant("Yes.")])
    whole = compacting(session, elsewhere(tmp_path, "of another"))
    await Runner.run(agent(), "new", session=whole)
    said = [str(one.get("content")) for one in await session.get_items()]
    assert len(said) == 5
    assert said[-1] == "of another"


async def test_a_run_compacts_the_end_that_the_model_has_read_and_leaves_what_is_before(store):
    session = LanceContextSession("monday", store, session_settings={"limit": 2})
    await session.add_items([user("first"), assistant("One."), user("second"), assistant("Two.")])
    await Runner.run(agent(), "third", session=compacting(session))
    assert await session.get_items(-1) == [user("first"), assistant("One."), SUMMARY]


async def test_compaction_by_hand_leaves_what_others_have_added(session, tmp_path):
    await session.add_items([user("old"), assistant("Yes.")])
    whole = compacting(session, elsewhere(tmp_path, "of another", "and more"))
    await whole.run_compaction({"force": True})
    assert await session.get_items() == [SUMMARY, user("of another"), user("and more")]


async def test_compaction_by_hand_says_if_others_have_removed_what_it_read(session):
    await session.add_items([user("old"), assistant("Yes.")])
    whole = compacting(session, session.pop_item)
    with pytest.raises(ConflictError, match="Compact again"):
        await whole.run_compaction({"force": True})
    assert await session.get_items() == [user("old")]


async def test_compaction_by_hand_of_a_part_leaves_the_rest(store):
    session = LanceContextSession("monday", store, session_settings={"limit": 2})
    await session.add_items([user("first"), user("second"), assistant("Two.")])
    await compacting(session).run_compaction({"force": True})
    assert await session.get_items(-1) == [user("first"), SUMMARY]


async def test_a_call_that_waits_for_its_output_is_not_compacted(session):
    await session.add_items([user("The weather?"), call(), output(), call("open")])
    before = await session.get_items()
    await Runner.run(agent(), "Well?", session=compacting(session))
    assert (await session.get_items())[:4] == before


async def test_a_message_of_another_framework_is_split_where_the_replaced_end_begins(
    session, store
):
    calls = Message.assistant(["I look.", ToolCallPart(call_id="c", name="atlas")])
    await store.history.append_many("", [Message.user("Hm."), calls], session_id="monday")
    snapshot = await session._get_compaction_snapshot(10)
    assert snapshot.complete
    assert len(snapshot.items) == 3
    assert await snapshot.replace_suffix(2, [SUMMARY])
    assert await session.get_items() == [
        user("Hm."),
        {"role": "assistant", "content": "I look."},
        SUMMARY,
    ]
    # The end is another one by now.
    assert not await snapshot.replace_suffix(2, [])
    assert not await snapshot.replace_suffix(9, [])


@pytest.mark.parametrize(
    ("limit", "n_items", "complete"),
    [(1, 1, False), (2, 2, False), (3, 3, True), (4, 3, True)],
    ids=["one", "two", "all", "more"],
)
async def test_a_snapshot_has_the_last_items(session, limit, n_items, complete):
    await session.add_items([user("a"), user("b"), user("c")])
    snapshot = await session._get_compaction_snapshot(limit)
    assert (len(snapshot.items), snapshot.complete) == (n_items, complete)
    assert await snapshot.replace_suffix(0, [])
    assert len(await session.get_items()) == 3 - n_items


async def test_an_encrypted_session_keeps_its_items_here(store):
    session = LanceContextSession("monday", store)
    secret = EncryptedSession("monday", session, encryption_key="a key")
    await secret.add_items([user("My PIN is 1234")])
    assert await secret.get_items() == [user("My PIN is 1234")]
    assert "1234" not in str(await session.get_items())
    assert await session.search("PIN") == []
    assert await secret.pop_item() == user("My PIN is 1234")
