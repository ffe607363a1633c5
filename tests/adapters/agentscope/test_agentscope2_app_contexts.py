"""The state of an app's session names its messages: they are in the history alone."""

import json
import subprocess

import pytest
from adapters.agentscope.agentscope2_doubles import conversation, dumps, texts
from agentscope.app.storage import SessionConfig
from agentscope.message import AssistantMsg, HintBlock, TextBlock, UserMsg
from agentscope.state import AgentState
from agentscope_lance_context import LanceContextStorage

from lance_context_core import ContextStore, Item

WORD = "zqvx"
SESSION = ("ada", "cook", "s")


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path) as store:
        yield store


@pytest.fixture
def storage(store):
    return LanceContextStorage(store)


def holding(place):
    """The files with the word."""
    told = subprocess.run(
        ["grep", "-rlaF", WORD, place], capture_output=True, text=True, check=False
    )
    return told.stdout.splitlines()


async def begun(storage, *context, upserted=()):
    """A session with messages, whose state has these."""
    config = SessionConfig(workspace_id="w", name="n")
    await storage.upsert_session("ada", "cook", config, session_id="s")
    for one in upserted:
        await storage.upsert_message("ada", "s", one)
    await saved(storage, *context)


async def saved(storage, *context, **more):
    await storage.update_session_state(*SESSION, AgentState(context=[*context], **more))


async def context_of(storage):
    return (await storage.get_session(*SESSION)).state.context


def erase(store, id):
    store.scope(user_id="ada").erase(ids=[id], filter={"session_id": "s"}, sole_writer=True)


def reply(*said):
    """A reply as the app stores it, and as its agent has it: with other ids of the blocks."""
    stored, kept = [
        AssistantMsg("Cook", [TextBlock(text=one) for one in said], id="reply") for _ in range(2)
    ]
    assert stored.model_dump() != kept.model_dump()
    return stored, kept


@pytest.mark.parametrize("verb", ["upsert_session", "update_session_state"])
async def test_the_words_of_an_erased_message_are_in_no_file(tmp_path, store, storage, verb):
    said = [UserMsg("Ada", "tea?"), UserMsg("Ada", WORD), UserMsg("Ada", "now")]
    await begun(storage, upserted=said)
    state = AgentState(context=said, summary="so far")
    if verb == "upsert_session":
        config = SessionConfig(workspace_id="w", name="n")
        await storage.upsert_session("ada", "cook", config, state=state, session_id="s")
    else:
        await storage.update_session_state(*SESSION, state)
    assert await context_of(storage) == said
    assert holding(tmp_path)
    erase(store, said[1].id)
    assert holding(tmp_path) == []
    async with LanceContextStorage(tmp_path) as another:
        found = await another.get_session(*SESSION)
        assert found.state == state.model_copy(update={"context": [said[0], said[2]]})
        assert await another.list_sessions("ada", "cook") == [found]


@pytest.mark.parametrize("is_upserted", [True, False])
async def test_a_reply_that_the_state_has_in_another_form_is_erased_in_both(
    tmp_path, store, storage, is_upserted
):
    stored, kept = reply("tea", WORD)
    await begun(storage, kept, upserted=[stored] if is_upserted else ())
    assert await context_of(storage) == [kept]
    assert (await storage.list_messages("ada", "s"))[0] == ([stored] if is_upserted else [])
    erase(store, "reply")
    assert holding(tmp_path) == []
    assert await context_of(storage) == []


async def test_an_agent_in_memory_does_not_bring_an_erased_message_back(tmp_path, store, storage):
    stored, kept = reply(WORD)
    alone = UserMsg("Ada", WORD, id="alone")
    await begun(storage, kept, alone, upserted=[stored])
    for id in ("reply", "alone"):
        erase(store, id)
    for number in range(2):
        await saved(storage, kept, alone, UserMsg("Ada", f"go on {number}", id="next"))
        assert texts(await context_of(storage)) == [f"go on {number}"]
    assert holding(tmp_path) == []


async def test_all_that_a_context_has_reads_back(storage):
    said = [*conversation(), AssistantMsg("Cook", [])]
    await begun(storage, *said, upserted=said[:1])
    assert dumps(await context_of(storage)) == dumps(said)
    assert texts((await storage.list_messages("ada", "s"))[0]) == ["Is there tea?"]
    said[3].content.append(TextBlock(text="and more"))
    await saved(storage, *said[::-1])
    assert dumps(await context_of(storage)) == dumps(said[::-1])


async def test_a_reply_that_is_in_the_context_twice_stays_so(storage):
    stored, kept = reply("tea")
    hint = AssistantMsg("Cook", [HintBlock(hint="Be quick")], id="reply")
    for upserted in ((), (stored,)):
        await begun(storage, kept, UserMsg("Ada", "?"), hint, upserted=upserted)
        found = await context_of(storage)
        assert [found[0], found[2]] == [kept, hint]


async def test_a_message_that_leaves_the_context_stays_in_the_history_if_it_was_there(
    store, storage
):
    listed, alone = UserMsg("Ada", "tea?"), UserMsg("Ada", WORD)
    await begun(storage, listed, alone, upserted=[listed])
    await saved(storage)
    assert await context_of(storage) == []
    assert (await storage.list_messages("ada", "s"))[0] == [listed]
    found = store.scope(user_id="ada").search(WORD, mode="text")
    assert found == []


async def test_a_message_is_found_once(store, storage):
    stored, kept = reply("Sencha")
    await begun(storage, kept, upserted=[stored])
    found = store.scope(user_id="ada").search("Sencha", mode="text")
    assert [one.record.id for one in found] == ["reply"]


async def test_a_message_that_is_rewritten_is_so_in_the_state(storage):
    stored, kept = reply(WORD)
    await begun(storage, kept, upserted=[stored])
    await storage.upsert_message("ada", "s", stored)
    assert await context_of(storage) == [kept]
    stored.content[0].text = "redacted"
    await storage.upsert_message("ada", "s", stored)
    assert await context_of(storage) == [stored]
    assert await storage.delete_message("ada", "s", "reply")
    assert await context_of(storage) == []


async def test_a_state_of_an_earlier_release_loads_and_is_renewed(store, storage):
    said = [UserMsg("Ada", "tea?"), UserMsg("Ada", WORD)]
    await begun(storage, upserted=said)
    items = store.scope(user_id="ada").kv("agentscope_app")
    (item,) = [one for one in items.list() if one.namespace == ("app", "states")]
    old = AgentState(context=said, summary="so far")
    items.put(
        [
            Item(
                namespace=item.namespace,
                key=item.key,
                value=item.value,
                data=old.model_dump_json().encode(),
                data_type="application/json",
            )
        ]
    )
    assert (await storage.get_session(*SESSION)).state == old
    await storage.update_session_state(*SESSION, old)
    erase(store, said[1].id)
    (item,) = items.get([(item.namespace, item.key)])
    assert [name[0] for name in json.loads(item.data)["context"]] == [one.id for one in said]
    assert await context_of(storage) == said[:1]


async def test_a_deleted_session_and_an_erased_user_leave_no_message(tmp_path, store, storage):
    for verb in ("delete", "erase"):
        stored, kept = reply(WORD)
        await begun(storage, kept, UserMsg("Ada", WORD), upserted=[stored])
        ada = store.scope(user_id="ada")
        if verb == "delete":
            assert await storage.delete_session(*SESSION)
            assert ada.search(WORD, mode="text") == []
        else:
            ada.erase(sole_writer=True)
            assert holding(tmp_path) == []
        assert await storage.get_session(*SESSION) is None
