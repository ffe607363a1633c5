"""Storage for agentscope's app: users, agents, sessions, messages."""

import warnings
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context._places import APP
from agentscope_lance_context.agentscope2._app_framework import (
    AgentRecord,
    ChannelRecord,
    CredentialRecord,
    MCPRecord,
    ScheduleRecord,
    SessionConfig,
    SessionRecord,
    SkillRecord,
    SOPRecord,
    SOPRunRecord,
    TeamMember,
    TeamRecord,
)
from agentscope_lance_context.agentscope2._app_knowledge import KnowledgeStorage
from agentscope_lance_context.agentscope2._app_records import (
    Change,
    changed,
    with_secrets,
)
from agentscope_lance_context.agentscope2._app_sessions import Sessions, newest, origin_of
from agentscope_lance_context.agentscope2._app_states import Contexts, rewritten
from agentscope_lance_context.agentscope2._framework import AgentState, Msg
from agentscope_lance_context.agentscope2._messages import from_canonical, to_canonical
from lance_context_core import (
    AsyncHistory,
    Field,
    Item,
    Message,
    NotFoundError,
)
from lance_context_core.adapting import StoreLike
from lance_context_core.arguments import ItemKey
from lance_context_core.errors import AlreadyExistsError


class NoSuchRecordError(NotFoundError, KeyError):
    """The record does not exist: a KeyError, as AgentScope's storages raise."""

    __str__ = Exception.__str__


class LanceContextStorage(StoreOwner, KnowledgeStorage):
    """Storage of the app's records, each in the scope of its user.

    The messages of a session are in the store's history, where other frameworks read and search
    them. Records are key-value items. Concurrent changes of one record are both kept, and each call
    is one commit, except deletions of a record with dependents. Keys of models are stored unmasked,
    as AgentScope's own storages do: restrict access to the store.
    """

    _handle: UserHandle

    def __init__(self, store: StoreLike, *, embedder: Any = None, name: str = APP.name) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `aclose` closes again.

        - `embedder`: for a store at a URI; see `AsyncContextStore.open`.
        - `name`: of the records, which are `store.kv(name)`.
        """
        self._handle = UserHandle(store, embedder=embedder)
        self._name = name

    async def aclose(self) -> None:
        """As `close`."""
        await self.close()

    # Credentials

    async def upsert_credential(self, user_id: str, credential_data: Any) -> str:
        """Writes a credential, named after its kind by default. Returns its id."""
        records = self._records(user_id, CredentialRecord, "credentials")
        if not credential_data.name:
            others = await records.list()
            credential_data.name = _name_of(credential_data, others)
        data = with_secrets(credential_data)
        fresh = CredentialRecord(
            user_id=user_id, data=data, **({"id": credential_data.id} if credential_data.id else {})
        )

        def decide(known: CredentialRecord | None) -> Change[str]:
            record = known or fresh
            if known is not None:
                known.data, known.updated_at = data, _now()
            return Change(outcome=record.id, puts=[records.item(record)])

        return await records.change(fresh.id, decide)

    async def list_credentials(self, user_id: str) -> list[CredentialRecord]:
        """The credentials of a user."""
        return await self._records(user_id, CredentialRecord, "credentials").list()

    async def get_credential(self, user_id: str, credential_id: str) -> CredentialRecord | None:
        """A credential; None if it does not exist."""
        return await self._records(user_id, CredentialRecord, "credentials").get(credential_id)

    async def delete_credential(self, user_id: str, credential_id: str) -> bool:
        """Deletes a credential; returns whether it existed."""
        return await self._records(user_id, CredentialRecord, "credentials").delete(credential_id)

    # Installed MCP servers and skills

    async def upsert_mcp(self, user_id: str, mcp_record: MCPRecord) -> str:
        """Writes a server's record; returns its id. Raises ValueError if the name is taken."""
        mcp_record.user_id = user_id
        records = self._records(user_id, MCPRecord, "mcps")
        await records.put_named(mcp_record, mcp_record.client.name, name_of=_name_of_mcp)
        return mcp_record.id

    async def list_mcps(self, user_id: str) -> list[MCPRecord]:
        """The servers that a user installed."""
        return await self._records(user_id, MCPRecord, "mcps").list()

    async def get_mcp(self, user_id: str, mcp_id: str) -> MCPRecord | None:
        """A server's record; None if it does not exist."""
        return await self._records(user_id, MCPRecord, "mcps").get(mcp_id)

    async def get_mcp_by_name(self, user_id: str, name: str) -> MCPRecord | None:
        """The record of the server of that name; None if it does not exist."""
        return await self._records(user_id, MCPRecord, "mcps").get_named(name)

    async def delete_mcp(self, user_id: str, mcp_id: str) -> bool:
        """Deletes a server's record; returns whether it existed."""
        records = self._records(user_id, MCPRecord, "mcps")
        return await records.delete_named(mcp_id, name_of=_name_of_mcp)

    async def upsert_skill(self, user_id: str, skill_record: SkillRecord) -> str:
        """Writes a skill's record; returns its id. Raises ValueError if the name is taken."""
        skill_record.user_id = user_id
        records = self._records(user_id, SkillRecord, "skills")
        await records.put_named(skill_record, skill_record.name, name_of=_name_of_skill)
        return skill_record.id

    async def list_skills(self, user_id: str) -> list[SkillRecord]:
        """The skills that a user installed."""
        return await self._records(user_id, SkillRecord, "skills").list()

    async def get_skill(self, user_id: str, skill_id: str) -> SkillRecord | None:
        """A skill's record; None if it does not exist."""
        return await self._records(user_id, SkillRecord, "skills").get(skill_id)

    async def get_skill_by_name(self, user_id: str, name: str) -> SkillRecord | None:
        """The record of the skill of that name; None if it does not exist."""
        return await self._records(user_id, SkillRecord, "skills").get_named(name)

    async def delete_skill(self, user_id: str, skill_id: str) -> bool:
        """Deletes a skill's record; returns whether it existed."""
        records = self._records(user_id, SkillRecord, "skills")
        return await records.delete_named(skill_id, name_of=_name_of_skill)

    # Agents

    async def upsert_agent(self, user_id: str, agent_record: AgentRecord) -> str:
        """Write an agent's record; returns its id."""
        await self._records(user_id, AgentRecord, "agents").put(agent_record)
        return agent_record.id

    async def list_agents(self, user_id: str) -> list[AgentRecord]:
        """The agents that a user created, without those of teams."""
        records = await self._records(user_id, AgentRecord, "agents").list()
        return [one for one in records if one.source == "user"]

    async def get_agent(self, user_id: str, agent_id: str) -> AgentRecord | None:
        """An agent's record; None if it does not exist."""
        return await self._records(user_id, AgentRecord, "agents").get(agent_id)

    async def delete_agent(self, user_id: str, agent_id: str) -> bool:
        """Deletes an agent with its sessions, schedules and memberships.

        Returns whether it existed.
        """
        for session in await self.list_sessions(user_id, agent_id):
            await self.delete_session(user_id, agent_id, session.id)
        for schedule in await self.list_schedules(user_id):
            if schedule.agent_id == agent_id:
                await self.delete_schedule(user_id, schedule.id)
        for team in await self.list_teams(user_id):
            await self._leave(user_id, team, agent_id)
        return await self._records(user_id, AgentRecord, "agents").delete(agent_id)

    async def _leave(self, user_id: str, team: TeamRecord, agent_id: str) -> None:
        data = team.data
        ids = [one for one in _member_ids(team) if one != agent_id]
        members = [one for one in data.members if one.agent_id != agent_id]
        if (len(ids), len(members)) != (len(_member_ids(team)), len(data.members)):
            data.member_ids, data.members = ids, members
            await self.upsert_team(user_id, team)

    # Sessions

    async def upsert_session(
        self,
        user_id: str,
        agent_id: str,
        config: SessionConfig,
        state: AgentState | None = None,
        session_id: str | None = None,
        origin: Any = None,
        **legacy: str | None,
    ) -> SessionRecord:
        """Creates a session, or updates an existing one's configuration and, if given, state.

        `legacy` are the fields that replaced `origin` in earlier releases.
        """
        fresh = SessionRecord(
            user_id=user_id,
            agent_id=agent_id,
            config=config,
            **origin_of(origin, legacy),
            **({"id": session_id} if session_id else {}),
        )
        sessions, contexts = self._sessions(user_id), self._contexts(user_id)
        place, place_of_state = sessions.keys(fresh.id)
        data = None
        if state is not None:
            (before,) = await sessions.items.get([place_of_state])
            data = await contexts.save(fresh.id, state, None if before is None else before.data)

        def decide(
            found: Mapping[ItemKey, Item | None],
        ) -> Change[tuple[SessionRecord, Item | None]]:
            record = sessions.dated(found)
            if record is not None:
                record.config, record.updated_at = config, _now()
            else:
                record = fresh
            puts = [sessions.item(record)]
            kept = found[place_of_state]
            if data is not None or record is fresh:
                new = fresh.state.model_dump_json().encode() if data is None else data
                puts.append(sessions.item_of_state(record.id, new, record.updated_at))
            return Change(outcome=(record, kept), puts=puts)

        record, kept = await changed(sessions.items, [place, place_of_state], decide)
        if state is not None:
            record.state = state
        elif record is not fresh and kept is not None and kept.data is not None:
            record.state = await contexts.load(record.id, kept.data)
        return record

    async def set_session_team_id(self, user_id: str, session_id: str, team_id: str | None) -> None:
        """Sets or clears the team of a session; a missing session is ignored."""
        sessions = self._sessions(user_id)

        def decide(record: SessionRecord | None) -> Change[None]:
            if record is None or record.team_id == team_id:
                return Change(outcome=None)
            record.team_id, record.updated_at = team_id, _now()
            return Change(outcome=None, puts=[sessions.item(record)])

        await sessions.change(session_id, decide)

    async def update_session_state(
        self, user_id: str, agent_id: str, session_id: str, state: AgentState
    ) -> None:
        """Writes the state of a session. Raises NotFoundError, a KeyError, for a missing one."""
        sessions = self._sessions(user_id)
        known, before = await sessions.items.get(sessions.keys(session_id))
        if known is None:
            raise NoSuchRecordError(
                f"session_id={session_id!r:.80}: user {user_id!r:.80} has no such session, of agent "
                f"{agent_id!r:.80} or another one. Begin it with upsert_session()"
            )
        data = await self._contexts(user_id).save(
            session_id, state, None if before is None else before.data
        )
        await sessions.items.put([sessions.item_of_state(session_id, data, _now())])

    async def list_sessions(self, user_id: str, agent_id: str) -> list[SessionRecord]:
        """The sessions of an agent of a user, the newest first."""
        return await self._newest(user_id, {"agent_id": agent_id})

    async def get_session(
        self,
        user_id: str,
        agent_id: str,  # noqa: ARG002 - as AgentScope calls it
        session_id: str,
    ) -> SessionRecord | None:
        """A session of a user, of any agent; None if it does not exist."""
        sessions = self._sessions(user_id)
        keys = sessions.keys(session_id)
        found = dict(zip(keys, await sessions.items.get(keys), strict=True))
        return await sessions.joined(found, self._contexts(user_id))

    async def delete_session(
        self,
        user_id: str,
        agent_id: str,  # noqa: ARG002 - as AgentScope calls it
        session_id: str,
    ) -> bool:
        """Deletes a session with its messages and its team; returns whether it existed."""
        sessions = self._sessions(user_id)
        if (record := await sessions.get(session_id)) is None:
            return False
        if record.team_id:
            team = await self.get_team(user_id, record.team_id)
            if team is not None and team.session_id == session_id:
                await self.delete_team(user_id, record.team_id)
        # The record goes last, so that an interrupted call can be repeated.
        await self._history(user_id).clear("", session_id=session_id)
        await self._contexts(user_id).clear(session_id)
        existed, _ = await sessions.items.delete(sessions.keys(session_id))
        return existed

    async def list_sessions_by_schedule(
        self, user_id: str, schedule_id: str
    ) -> list[SessionRecord]:
        """The sessions of a schedule, the newest first."""
        return await self._newest(user_id, {"schedule_id": schedule_id})

    async def list_sessions_by_channel(self, user_id: str, channel_id: str) -> list[SessionRecord]:
        """The sessions of a channel, the newest first."""
        return await self._newest(user_id, {"channel_id": channel_id})

    # Messages

    async def upsert_message(self, user_id: str, session_id: str, msg: Msg) -> None:
        """Appends a message, or replaces the one with its id in place."""
        message = to_canonical(msg.model_dump(mode="json"))
        history = self._history(user_id)
        known = await _message(history, session_id, msg.id)
        if known is None:
            try:
                await history.append("", message, session_id=session_id)
            except AlreadyExistsError:
                pass  # Another process has written it meanwhile.
            else:
                return
        if known is None or rewritten(known, message):
            await history.rewrite("", message, session_id=session_id)

    async def delete_message(self, user_id: str, session_id: str, message_id: str) -> bool:
        """Deletes a message; returns whether it existed."""
        named = Field("id").is_in([message_id])
        return bool(await self._history(user_id).clear("", session_id=session_id, filter=named))

    async def get_message(self, user_id: str, session_id: str, message_id: str) -> Msg | None:
        """A message of a session; None if it does not exist."""
        found = await _message(self._history(user_id), session_id, message_id)
        return None if found is None else from_canonical(found)

    async def list_messages(
        self,
        user_id: str,
        session_id: str,
        limit: int = 50,
        before: str | None = None,
        **kwargs: Any,
    ) -> tuple[list[Msg], bool]:
        """The last messages, or those before one, and whether earlier ones exist.

        In order. Before an unknown message the list is empty.
        """
        if "offset" in kwargs:
            warnings.warn("offset is ignored: use before", DeprecationWarning, stacklevel=2)
        limit = max(limit, 0)
        n = limit + 1 if before is None else 4 * (limit + 1)
        while True:
            talk = await self._history(user_id).get_messages("", session_id=session_id, last=n)
            ids = [one.id for one in talk]
            end = len(ids) if before is None else ids.index(before) if before in ids else -1
            if end > limit or len(talk) < n:
                break
            n *= 4
        start = max(end - limit, 0)
        return [from_canonical(one) for one in talk[start : max(end, 0)]], start > 0

    # Schedules

    async def upsert_schedule(self, user_id: str, record: ScheduleRecord) -> str:
        """Write a schedule; returns its id."""
        await self._records(user_id, ScheduleRecord, "schedules").put(record)
        return record.id

    async def get_schedule(self, user_id: str, schedule_id: str) -> ScheduleRecord | None:
        """A schedule; None if it does not exist."""
        return await self._records(user_id, ScheduleRecord, "schedules").get(schedule_id)

    async def list_schedules(self, user_id: str) -> list[ScheduleRecord]:
        """The schedules of a user."""
        return await self._records(user_id, ScheduleRecord, "schedules").list()

    async def delete_schedule(self, user_id: str, schedule_id: str) -> bool:
        """Deletes a schedule with its sessions; returns whether it existed."""
        records = self._records(user_id, ScheduleRecord, "schedules")
        if await records.get(schedule_id) is None:
            return False
        for session in await self.list_sessions_by_schedule(user_id, schedule_id):
            await self.delete_session(user_id, session.agent_id, session.id)
        return await records.delete(schedule_id)

    async def list_all_schedules(self) -> list[ScheduleRecord]:
        """The schedules of all users."""
        return await self._of_all(ScheduleRecord, "schedules").list()

    # Channels

    async def upsert_channel(self, record: ChannelRecord, platform_bot_id: str) -> str:
        """Writes a channel and assigns it to its bot; returns its id."""
        records = self._records(record.user_id, ChannelRecord, "channels")
        await records.put(record, {"bot_id": platform_bot_id})
        return record.id

    async def get_channel(self, channel_id: str) -> ChannelRecord | None:
        """A channel of any user; None if it does not exist."""
        found = await self._of_all(ChannelRecord, "channels").list({"key": channel_id})
        return found[0] if found else None

    async def list_channels(self, user_id: str) -> list[ChannelRecord]:
        """The channels of a user."""
        return await self._records(user_id, ChannelRecord, "channels").list()

    async def list_all_channels(self) -> list[ChannelRecord]:
        """The channels of all users."""
        return await self._of_all(ChannelRecord, "channels").list()

    async def delete_channel(
        self,
        channel_id: str,
        platform_bot_id: str,  # noqa: ARG002 - as AgentScope calls it
    ) -> bool:
        """Deletes a channel; returns whether it existed."""
        if (record := await self.get_channel(channel_id)) is None:
            return False
        return await self._records(record.user_id, ChannelRecord, "channels").delete(channel_id)

    async def get_channel_id_by_platform_bot_id(self, platform_bot_id: str) -> str | None:
        """The channel of a bot; None without one."""
        found = await self._of_all(ChannelRecord, "channels").list({"bot_id": platform_bot_id})
        return found[-1].id if found else None

    # Procedures

    async def upsert_sop(self, user_id: str, record: SOPRecord) -> SOPRecord:
        """Write a procedure."""
        record.updated_at = _now()
        await self._records(user_id, SOPRecord, "sops").put(record)
        return record

    async def get_sop(self, user_id: str, sop_id: str) -> SOPRecord | None:
        """A procedure; None if it does not exist."""
        return await self._records(user_id, SOPRecord, "sops").get(sop_id)

    async def list_sops(self, user_id: str) -> list[SOPRecord]:
        """The procedures of a user."""
        return await self._records(user_id, SOPRecord, "sops").list()

    async def delete_sop(self, user_id: str, sop_id: str) -> bool:
        """Deletes a procedure with its runs and their sessions; returns whether it existed."""
        for run in await self.list_sop_runs(user_id, sop_id=sop_id):
            await self.delete_sop_run(user_id, run.id)
        return await self._records(user_id, SOPRecord, "sops").delete(sop_id)

    async def upsert_sop_run(self, user_id: str, record: SOPRunRecord) -> SOPRunRecord:
        """Write a run of a procedure."""
        record.updated_at = _now()
        await self._records(user_id, SOPRunRecord, "sop runs").put(record, _about_run(record))
        return record

    async def get_sop_run(self, user_id: str, sop_run_id: str) -> SOPRunRecord | None:
        """A run; None if it does not exist."""
        return await self._records(user_id, SOPRunRecord, "sop runs").get(sop_run_id)

    async def list_sop_runs(
        self, user_id: str, sop_id: str | None = None, phase: Any = None
    ) -> list[SOPRunRecord]:
        """The runs of a user, the newest first; of one procedure and phase if given."""
        of_sop = None if sop_id is None else {"sop_id": sop_id}
        found = await self._records(user_id, SOPRunRecord, "sop runs").list(of_sop)
        return newest(one for one in found if phase is None or one.state.phase == phase)

    async def update_sop_run(
        self,
        user_id: str,
        sop_run_id: str,
        state: Any,
        sessions: dict[str, str] | None = None,
    ) -> None:
        """Writes the state of a run, and its sessions.

        Raises NotFoundError, a KeyError, if missing.
        """
        records = self._records(user_id, SOPRunRecord, "sop runs")

        def decide(record: SOPRunRecord | None) -> Change[None]:
            if record is None:
                raise NoSuchRecordError(
                    f"sop_run_id={sop_run_id!r:.80}: user {user_id!r:.80} has no such run. Begin it "
                    "with upsert_sop_run()"
                )
            record.state, record.updated_at = state, _now()
            record.sessions = record.sessions if sessions is None else sessions
            return Change(outcome=None, puts=[records.item(record, _about_run(record))])

        await records.change(sop_run_id, decide)

    async def delete_sop_run(self, user_id: str, sop_run_id: str) -> bool:
        """Deletes a run with its sessions; returns whether it existed."""
        records = self._records(user_id, SOPRunRecord, "sop runs")
        if (run := await records.get(sop_run_id)) is None:
            return False
        for session_id in run.sessions.values():
            await self.delete_session(user_id, "", session_id)
        return await records.delete(sop_run_id)

    # Teams

    async def upsert_team(self, user_id: str, record: TeamRecord) -> TeamRecord:
        """Write a team."""
        record.updated_at = _now()
        await self._records(user_id, TeamRecord, "teams").put(record)
        return record

    async def get_team(self, user_id: str, team_id: str) -> TeamRecord | None:
        """A team; None if it does not exist."""
        return await self._records(user_id, TeamRecord, "teams").get(team_id)

    async def list_teams(self, user_id: str) -> list[TeamRecord]:
        """The teams of a user."""
        return await self._records(user_id, TeamRecord, "teams").list()

    async def delete_team(self, user_id: str, team_id: str) -> bool:
        """Deletes a team, the agents that it created, and the sessions of invited ones."""
        if (team := await self.get_team(user_id, team_id)) is None:
            return False
        for member in await self._members(user_id, team):
            if member.role == "created":
                await self.delete_agent(member.owner_id, member.agent_id)
            else:
                await self.delete_session(user_id, member.agent_id, member.session_id)
        await self.set_session_team_id(user_id, team.session_id, None)
        return await self._records(user_id, TeamRecord, "teams").delete(team_id)

    async def _members(self, user_id: str, team: TeamRecord) -> list[TeamMember]:
        """The members of a team; earlier releases have only ids, with sessions."""
        if team.data.members:
            return [*team.data.members]
        sessions = [(id, await self._newest(user_id, {"agent_id": id})) for id in _member_ids(team)]
        return [
            TeamMember(owner_id=user_id, agent_id=id, session_id=found[0].id, role="created")
            for id, found in sessions
            if found
        ]

    # Helpers

    def _sessions(self, user_id: str) -> Sessions:
        items = self._handle.of(user_id).kv(self._name)
        return Sessions(items, SessionRecord, "sessions")

    async def _newest(self, user_id: str, filter: Mapping[str, str]) -> list[SessionRecord]:
        return await self._sessions(user_id).newest(filter, self._contexts(user_id))

    def _contexts(self, user_id: str) -> Contexts:
        return Contexts(self._history(user_id))

    def _history(self, user_id: str) -> AsyncHistory:
        return self._handle.of(user_id).history


def _now() -> datetime:
    return datetime.now()  # noqa: DTZ005 - as AgentScope's records have it


async def _message(history: AsyncHistory, session_id: str, id: str) -> Message | None:
    named = Field("id").is_in([id])
    found = await history.get_messages("", session_id=session_id, filter=named, last=1)
    return found[0] if found else None


def _member_ids(team: TeamRecord) -> list[str]:
    """The predecessor of members in earlier releases; reading it from the model warns."""
    ids: list[str] = vars(team.data)["member_ids"]
    return ids


def _name_of_mcp(record: MCPRecord) -> str:
    return str(record.client.name)


def _name_of_skill(record: SkillRecord) -> str:
    return record.name


def _about_run(record: SOPRunRecord) -> dict[str, str]:
    return {"sop_id": record.sop_id}


def _name_of(credential: Any, others: list[CredentialRecord]) -> str:
    """The default name of a credential: its kind, with a number if taken."""
    kind = credential.type
    name = kind.removesuffix("_credential").replace("_", " ").title() or "Credential"
    taken = {
        one.data.get("name")
        for one in others
        if one.data.get("type") == kind and one.id != credential.id
    }
    number = 1
    while (numbered := name if number == 1 else f"{name} ({number})") in taken:
        number += 1
    return numbered
