"""The storage of agentscope's app, in the store."""

import asyncio
import json
from datetime import datetime, timedelta

import httpx
import pytest
from adapters.agentscope.agentscope2_doubles import texts
from agentscope.app import create_app
from agentscope.app.message_bus import InMemoryMessageBus
from agentscope.app.storage import (
    AgentData,
    AgentRecord,
    ChannelOrigin,
    ChannelRecord,
    ChatModelConfig,
    EmbeddingModelConfig,
    KnowledgeBaseData,
    KnowledgeBaseRecord,
    KnowledgeDocumentData,
    KnowledgeDocumentRecord,
    MCPRecord,
    ScheduleData,
    ScheduleOrigin,
    ScheduleRecord,
    SessionConfig,
    SkillRecord,
    TeamData,
    TeamMember,
    TeamRecord,
)
from agentscope.app.workspace_manager import LocalWorkspaceManager
from agentscope.credential import DashScopeCredential
from agentscope.mcp import HttpMCPConfig, MCPClient
from agentscope.message import AssistantMsg, TextBlock, UserMsg
from agentscope.state import AgentState
from agentscope_lance_context import LanceContextStorage
from pydantic import SecretStr

from lance_context_core import (
    AsyncContextStore,
    AsyncKeyValues,
    ContextStore,
    InvalidRequestError,
    NotFoundError,
)


@pytest.fixture
def storage(tmp_path):
    with ContextStore.open(tmp_path) as store:
        yield LanceContextStorage(store)


@pytest.fixture
def overlapping(monkeypatch):
    """Have all who begin at the same moment read before any of them writes."""
    read = AsyncKeyValues.get

    async def get(*asked, **options):
        found = await read(*asked, **options)
        for _ in range(50):
            await asyncio.sleep(0)
        return found

    monkeypatch.setattr(AsyncKeyValues, "get", get)


def agent(name="cook", user="ada", source="user", **more):
    return AgentRecord(user_id=user, source=source, data=AgentData(name=name), **more)


def config(name="s"):
    return SessionConfig(workspace_id="w", name=name)


def schedule(agent_id, user="ada"):
    model = ChatModelConfig(type="x", credential_id="c", model="m", parameters={})
    data = ScheduleData(name="daily", cron_expression="0 9 * * *", chat_model_config=model)
    return ScheduleRecord(user_id=user, agent_id=agent_id, data=data)


def mcp(name):
    http = HttpMCPConfig(url="https://example.org/mcp")
    return MCPRecord(user_id="ada", client=MCPClient(name=name, is_stateful=False, mcp_config=http))


def knowledge_base(user="ada"):
    model = EmbeddingModelConfig(type="x", credential_id="c", model="m", dimensions=8)
    data = KnowledgeBaseData(name="kb", embedding_model_config=model, collection_name="kb_1")
    return KnowledgeBaseRecord(user_id=user, data=data)


def document(base, user="ada"):
    data = KnowledgeDocumentData(filename="a.txt", size=1, blob_uri="local://a")
    return KnowledgeDocumentRecord(user_id=user, knowledge_base_id=base.id, data=data)


def channel(user="ada"):
    return ChannelRecord.model_validate(
        {
            "channel_type": "feishu",
            "user_id": user,
            "routing": {"bindings": [{"agent_id": "a"}]},
            "session": {"chat_model_config": {}},
        }
    )


async def test_the_app_goes_on_after_a_restart_where_it_was(tmp_path):
    async def asked(verb, path, **more):
        async with LanceContextStorage(tmp_path / "store") as storage:
            workspaces = LocalWorkspaceManager(str(tmp_path / "work"))
            app = create_app(storage, InMemoryMessageBus(), workspaces)
            transport = httpx.ASGITransport(app)
            head = {"X-User-ID": "ada"}
            async with (
                app.router.lifespan_context(app),
                httpx.AsyncClient(transport=transport, base_url="http://app", headers=head) as web,
            ):
                answer = await web.request(verb, path, **more)
                return answer.raise_for_status().json()

    made = await asked("POST", "/agent/", json={"name": "cook"})
    found = await asked("GET", "/agent/")
    assert made["agent_id"] in str(found)
    assert "cook" in str(found)


async def test_a_session_and_its_messages_are_there_after_a_restart(tmp_path):
    state = AgentState(summary="so far", context=[UserMsg("Ada", "tea?")])
    async with LanceContextStorage(tmp_path) as storage:
        made = await storage.upsert_session("ada", "cook", config(), state=state)
        await storage.upsert_message("ada", made.id, state.context[0])
    async with LanceContextStorage(tmp_path) as storage:
        assert await storage.get_session("ada", "cook", made.id) == made
        assert await storage.list_sessions("ada", "cook") == [made]
        (message,), has_more = await storage.list_messages("ada", made.id)
        assert (message, has_more) == (state.context[0], False)


async def test_others_read_the_messages_of_a_session(tmp_path):
    async with LanceContextStorage(tmp_path) as storage:
        await storage.upsert_message("ada", "s", UserMsg("Ada", "Is there tea?"))
        await storage.upsert_message("ada", "s", AssistantMsg("Cook", "Sencha."))
    with ContextStore.open(tmp_path) as store:
        ada = store.scope(user_id="ada")
        said = ada.history.get_messages("", session_id="s")
        assert [(one.role, one.text) for one in said] == [
            ("user", "Is there tea?"),
            ("assistant", "Sencha."),
        ]
        ada.erase(sole_writer=True)
    async with LanceContextStorage(tmp_path) as storage:
        assert await storage.list_messages("ada", "s") == ([], False)


async def test_a_session_keeps_what_a_call_does_not_give(storage):
    made = await storage.upsert_session("ada", "cook", config("a"), session_id="s")
    assert made.id == "s"
    await storage.update_session_state("ada", "cook", "s", AgentState(summary="one"))
    await storage.set_session_team_id("ada", "s", "t")
    again = await storage.upsert_session("ada", "cook", config("b"), session_id="s")
    assert (again.config.name, again.state.summary, again.team_id) == ("b", "one", "t")
    assert again.created_at == made.created_at
    found = await storage.get_session("ada", "", "s")
    assert found == again
    assert found.updated_at > made.updated_at
    with pytest.raises(KeyError, match="upsert_session"):
        await storage.update_session_state("ada", "cook", "unknown", AgentState())
    assert await storage.set_session_team_id("ada", "unknown", "t") is None
    assert await storage.get_session("ada", "cook", "unknown") is None


async def test_sessions_are_listed_by_what_began_them_the_newest_first(storage):
    origins = [None, ScheduleOrigin(schedule_id="d"), ChannelOrigin(channel_id="c", chat_id="1")]
    made = [
        await storage.upsert_session("ada", "cook", config(), origin=origin)
        for origin in origins
        for _ in range(2)
    ]
    ids = [one.id for one in made]
    assert [one.id for one in await storage.list_sessions("ada", "cook")] == ids[::-1]
    of_schedule = await storage.list_sessions_by_schedule("ada", "d")
    of_channel = await storage.list_sessions_by_channel("ada", "c")
    assert [one.id for one in of_schedule] == [ids[3], ids[2]]
    assert [one.id for one in of_channel] == [ids[5], ids[4]]
    assert await storage.list_sessions("bob", "cook") == []
    assert await storage.delete_session("ada", "cook", ids[3])
    assert not await storage.delete_session("ada", "cook", ids[3])
    assert [one.id for one in await storage.list_sessions_by_schedule("ada", "d")] == [ids[2]]


async def test_how_a_session_began_is_told_in_the_words_of_earlier_releases_too(storage):
    with pytest.warns(DeprecationWarning, match="source_schedule_id"):
        made = await storage.upsert_session(
            "ada", "cook", config(), source="schedule", source_schedule_id="d"
        )
    assert made.origin == ScheduleOrigin(schedule_id="d")
    with pytest.raises(InvalidRequestError, match="sauce"):
        await storage.upsert_session("ada", "cook", config(), sauce="schedule")


async def test_a_message_is_replaced_at_its_place(storage):
    said = [UserMsg("Ada", f"m{number}") for number in range(3)]
    for one in said:
        await storage.upsert_message("ada", "s", one)
    said[1].content.append(TextBlock(text="and more"))
    said[2].metadata["seen"] = True
    for one in said:
        await storage.upsert_message("ada", "s", one)
    assert await storage.list_messages("ada", "s") == (said, False)
    assert await storage.get_message("ada", "s", said[1].id) == said[1]
    assert await storage.delete_message("ada", "s", said[1].id)
    assert not await storage.delete_message("ada", "s", said[1].id)
    assert await storage.get_message("ada", "s", said[1].id) is None
    assert await storage.get_message("bob", "s", said[0].id) is None
    assert texts((await storage.list_messages("ada", "s"))[0]) == ["m0", "m2"]


async def test_messages_are_read_backwards_page_by_page(storage):
    said = [UserMsg("Ada", f"m{number}") for number in range(25)]
    for one in said:
        await storage.upsert_message("ada", "s", one)
    found, before = [], None
    while True:
        page, has_more = await storage.list_messages("ada", "s", limit=4, before=before)
        assert has_more is (len(found) + len(page) < len(said))
        found, before = page + found, page[0].id
        if not has_more:
            break
    assert found == said
    assert await storage.list_messages("ada", "s", limit=25) == (said, False)
    assert await storage.list_messages("ada", "s", before=said[0].id) == ([], False)
    assert await storage.list_messages("ada", "s", before="unknown") == ([], False)
    with pytest.warns(DeprecationWarning, match="before"):
        await storage.list_messages("ada", "s", offset=3)


async def test_credentials_are_a_users_own_and_named_after_their_kind(storage):
    first, second = (DashScopeCredential(api_key=SecretStr(key)) for key in ("k1", "k2"))
    one, two = [await storage.upsert_credential("ada", each) for each in (first, second)]
    found = await storage.list_credentials("ada")
    assert [(each.data["name"], each.data["api_key"]) for each in found] == [
        ("Dashscope", "k1"),
        ("Dashscope (2)", "k2"),
    ]
    changed = DashScopeCredential(id=one, name="mine", api_key=SecretStr("k3"))
    assert await storage.upsert_credential("ada", changed) == one
    after = await storage.get_credential("ada", one)
    assert (after.data["name"], after.data["api_key"]) == ("mine", "k3")
    assert after.created_at == found[0].created_at
    # Who presents the id of another's credential has one of that id, and the other's stays.
    theirs = DashScopeCredential(id=one, name="theirs", api_key=SecretStr("k4"))
    await storage.upsert_credential("bob", theirs)
    assert await storage.get_credential("ada", one) == after
    assert await storage.delete_credential("ada", two)
    assert not await storage.delete_credential("ada", two)
    assert await storage.get_credential("ada", two) is None


@pytest.mark.parametrize("kind", ["mcp", "skill"])
@pytest.mark.usefixtures("overlapping")
async def test_the_name_of_what_is_installed_is_unique_for_its_user(storage, kind):
    def made(name):
        return mcp(name) if kind == "mcp" else SkillRecord(user_id="ada", name=name)

    def verb(name):
        return getattr(storage, name.format(kind))

    first, other = made("wiki"), made("wiki")
    assert await verb("upsert_{}")("ada", first) == first.id
    with pytest.raises(ValueError, match="wiki"):
        await verb("upsert_{}")("ada", other)
    await verb("upsert_{}")("bob", other)
    assert (await verb("get_{}_by_name")("ada", "wiki")).id == first.id
    if kind == "mcp":
        first.client.name = "pages"
    else:
        first.name = "pages"
    await verb("upsert_{}")("ada", first)
    assert await verb("get_{}_by_name")("ada", "wiki") is None
    assert (await verb("get_{}_by_name")("ada", "pages")).id == first.id
    # Of several who want a name at the same moment one has it.
    many = [made("fresh") for _ in range(8)]
    tries = [verb("upsert_{}")("ada", one) for one in many]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(one, ValueError) for one in outcomes) == 7
    assert len(await verb("list_{}s")("ada")) == 2
    assert await verb("delete_{}")("ada", first.id)
    assert not await verb("delete_{}")("ada", first.id)
    assert await verb("get_{}")("ada", first.id) is None
    await verb("upsert_{}")("ada", made("pages"))


async def test_an_agent_goes_with_what_belongs_to_it(storage):
    cook, worker = agent(), agent("help", source="team")
    for one in (cook, worker):
        assert await storage.upsert_agent("ada", one) == one.id
    assert [one.id for one in await storage.list_agents("ada")] == [cook.id]
    session = await storage.upsert_session("ada", cook.id, config())
    await storage.upsert_message("ada", session.id, UserMsg("Ada", "tea?"))
    daily = schedule(cook.id)
    await storage.upsert_schedule("ada", daily)
    data = TeamData.model_validate({"name": "t", "member_ids": [cook.id, worker.id]})
    team = TeamRecord(user_id="ada", session_id="elsewhere", data=data)
    await storage.upsert_team("ada", team)
    assert not await storage.delete_agent("bob", cook.id)
    assert await storage.delete_agent("ada", cook.id)
    assert await storage.get_agent("ada", cook.id) is None
    assert await storage.get_session("ada", cook.id, session.id) is None
    assert await storage.list_messages("ada", session.id) == ([], False)
    assert await storage.get_schedule("ada", daily.id) is None
    assert vars((await storage.get_team("ada", team.id)).data)["member_ids"] == [worker.id]


async def test_a_team_goes_with_the_agents_it_made_and_not_with_those_it_invited(storage):
    leader, made, invited = agent("lead"), agent("made", source="team"), agent("guest")
    for one in (leader, made, invited):
        await storage.upsert_agent("ada", one)
    at = {one.id: await storage.upsert_session("ada", one.id, config()) for one in (leader, made)}
    borrowed, own = [await storage.upsert_session("ada", invited.id, config()) for _ in range(2)]
    roster = [(made.id, at[made.id].id, "created"), (invited.id, borrowed.id, "invited")]
    members = [
        TeamMember(owner_id="ada", agent_id=id, session_id=session, role=role)
        for id, session, role in roster
    ]
    lead = at[leader.id].id
    team = TeamRecord(user_id="ada", session_id=lead, data=TeamData(name="t", members=members))
    await storage.upsert_team("ada", team)
    await storage.set_session_team_id("ada", lead, team.id)
    assert await storage.delete_team("ada", team.id)
    assert not await storage.delete_team("ada", team.id)
    assert await storage.get_agent("ada", made.id) is None
    assert await storage.get_session("ada", made.id, at[made.id].id) is None
    assert await storage.get_agent("ada", invited.id) is not None
    assert [one.id for one in await storage.list_sessions("ada", invited.id)] == [own.id]
    assert (await storage.get_session("ada", leader.id, lead)).team_id is None
    # The session of the leader takes its team along; one of an earlier release has ids alone.
    helper = agent("help", source="team")
    await storage.upsert_agent("ada", helper)
    await storage.upsert_session("ada", helper.id, config())
    data = TeamData.model_validate({"name": "t", "member_ids": [helper.id]})
    await storage.upsert_team(
        "ada", TeamRecord(id="old", user_id="ada", session_id=lead, data=data)
    )
    await storage.set_session_team_id("ada", lead, "old")
    assert await storage.delete_session("ada", leader.id, lead)
    assert await storage.list_teams("ada") == []
    assert await storage.get_agent("ada", helper.id) is None


async def test_a_schedule_goes_with_the_sessions_it_began(storage):
    mine, theirs = schedule("cook"), schedule("cook", user="bob")
    for user, one in (("ada", mine), ("bob", theirs)):
        assert await storage.upsert_schedule(user, one) == one.id
    origin = ScheduleOrigin(schedule_id=mine.id)
    began = await storage.upsert_session("ada", "cook", config(), origin=origin)
    other = await storage.upsert_session("ada", "cook", config())
    everybodys = [one.id for one in await storage.list_all_schedules()]
    assert sorted(everybodys) == sorted([mine.id, theirs.id])
    assert [one.id for one in await storage.list_schedules("ada")] == [mine.id]
    assert await storage.delete_schedule("ada", mine.id)
    assert not await storage.delete_schedule("ada", mine.id)
    assert await storage.get_session("ada", "cook", began.id) is None
    assert await storage.get_session("ada", "cook", other.id) is not None


async def test_a_channel_is_found_without_its_user_and_by_its_bot(storage):
    mine, theirs = channel(), channel("bob")
    await storage.upsert_channel(mine, "bot 1")
    await storage.upsert_channel(theirs, "bot 2")
    assert (await storage.get_channel(theirs.id)).user_id == "bob"
    assert await storage.get_channel("unknown") is None
    assert [one.id for one in await storage.list_channels("ada")] == [mine.id]
    assert {one.id for one in await storage.list_all_channels()} == {mine.id, theirs.id}
    assert await storage.get_channel_id_by_platform_bot_id("bot 2") == theirs.id
    assert await storage.delete_channel(theirs.id, "bot 2")
    assert not await storage.delete_channel(theirs.id, "bot 2")
    assert await storage.get_channel_id_by_platform_bot_id("bot 2") is None


@pytest.mark.usefixtures("overlapping")
async def test_one_worker_at_a_time_has_a_document(storage):
    base = knowledge_base()
    one = document(base)
    whose = ("ada", base.id, one.id)
    await storage.upsert_knowledge_base("ada", base)
    await storage.upsert_knowledge_document("ada", one)
    now, minute = datetime(2026, 1, 1, 12), timedelta(minutes=1)  # noqa: DTZ001 - as theirs are
    tries = [
        storage.acquire_knowledge_document_lease(*whose, f"n{n}", minute, now=now) for n in range(8)
    ]
    outcomes = await asyncio.gather(*tries)
    assert sum(outcomes) == 1
    holder = f"n{outcomes.index(True)}"
    assert not await storage.renew_knowledge_document_lease(*whose, "n9", minute, now=now)
    assert await storage.renew_knowledge_document_lease(*whose, holder, 2 * minute, now=now)
    later = now + 3 * minute
    assert await storage.list_knowledge_documents_with_expired_lease(now + minute) == []
    (expired,) = await storage.list_knowledge_documents_with_expired_lease(later)
    assert expired.id == one.id
    assert await storage.acquire_knowledge_document_lease(*whose, "n9", minute, now=later)
    await storage.release_knowledge_document_lease(*whose, holder)
    assert (await storage.get_knowledge_document(*whose)).processing_node == "n9"
    await storage.update_knowledge_document_status(*whose, "ready", chunk_count=3)
    await storage.release_knowledge_document_lease(*whose, "n9")
    found = await storage.get_knowledge_document(*whose)
    assert (found.status, found.data.chunk_count, found.processing_node) == ("ready", 3, None)
    assert await storage.list_knowledge_documents_with_expired_lease(later + minute) == []
    assert not await storage.acquire_knowledge_document_lease("ada", base.id, "x", "n", minute)


@pytest.mark.usefixtures("overlapping")
async def test_what_two_change_of_a_document_at_once_is_kept(storage):
    base = knowledge_base()
    one = document(base)
    whose = ("ada", base.id, one.id)
    await storage.upsert_knowledge_document("ada", one)
    await asyncio.gather(
        storage.update_knowledge_document_status(*whose, "error", error="why"),
        storage.acquire_knowledge_document_lease(*whose, "n1", timedelta(minutes=1)),
    )
    found = await storage.get_knowledge_document(*whose)
    assert (found.status, found.data.error, found.processing_node) == ("error", "why", "n1")


async def test_a_knowledge_base_goes_with_the_records_of_its_documents(storage):
    base, other = knowledge_base(), knowledge_base()
    for each in (base, other):
        await storage.upsert_knowledge_base("ada", each)
        await storage.upsert_knowledge_document("ada", document(each))
    begun = base.created_at
    base.created_at = datetime.now()  # noqa: DTZ005 - as theirs are
    assert (await storage.upsert_knowledge_base("ada", base)).created_at == begun
    waiting = await storage.list_knowledge_documents_pending_since(
        datetime.now() + timedelta(1)  # noqa: DTZ005
    )
    assert len(waiting) == 2
    assert await storage.list_knowledge_documents_pending_since(begun - timedelta(1)) == []
    assert await storage.delete_knowledge_base("ada", base.id)
    assert not await storage.delete_knowledge_base("ada", base.id)
    assert await storage.list_knowledge_documents("ada", base.id) == []
    assert len(await storage.list_knowledge_documents("ada", other.id)) == 1
    assert [one.id for one in await storage.list_knowledge_bases("ada")] == [other.id]
    for wrong in (knowledge_base("bob"), document(other, "bob")):
        verb = "knowledge_base" if isinstance(wrong, KnowledgeBaseRecord) else "knowledge_document"
        with pytest.raises(ValueError, match="bob"):
            await getattr(storage, f"upsert_{verb}")("ada", wrong)


async def test_a_store_that_is_handed_over_stays_open(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        async with LanceContextStorage(store, name="mine") as storage:
            await storage.upsert_agent("ada", agent())
        (item,) = await store.scope(user_id="ada").kv("mine").list()
        assert json.loads(item.data)["data"]["name"] == "cook"


def test_what_is_missing_is_named(tmp_path):
    async def missing():
        async with LanceContextStorage(tmp_path) as storage:
            await storage.update_session_state("ada", "cook", "s", AgentState())

    with pytest.raises(NotFoundError) as caught:
        asyncio.run(missing())
    assert str(caught.value).startswith("session_id='s': user 'ada' has no such session")
