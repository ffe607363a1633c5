"""Conversations and memories in dicts and lists, by somebody who knows nothing of our store."""

import copy
import uuid
from dataclasses import replace
from datetime import UTC, datetime

from lance_context_core.errors import AlreadyExistsError, NotFoundError
from lance_context_core.types import ContextRecord, Page, SearchHit, Session


def now():
    return datetime.now(UTC)


def new_id():
    return uuid.uuid4().hex


def part(values, limit, offset):
    return values[offset:] if limit is None else values[offset:][:limit]


class DictHistory:
    """Messages in lists, by agent and session."""

    def __init__(self):
        self.sessions = {}
        self.active = {}

    def of(self, agent_id, session_id):
        return self.sessions.setdefault((agent_id, session_id), [])

    async def append(self, agent_id, message, *, session_id, run_id=""):
        (id,) = await self.append_many(agent_id, [message], session_id=session_id, run_id=run_id)
        return id

    async def append_many(self, agent_id, messages, *, session_id, run_id=""):
        log = self.of(agent_id, session_id)
        known = {message.id: message for message, _ in log}
        kept = [self.kept(message) for message in messages]
        for message in kept:
            if message.id in known and not self.says_the_same(message, known[message.id]):
                raise AlreadyExistsError(f"{message.id!r} is taken")
        log += [(message, run_id) for message in kept if message.id not in known]
        if kept:
            self.active[session_id] = now()
        return [message.id for message in kept]

    def kept(self, message):
        id, created_at = message.id or new_id(), message.created_at or now()
        return copy.deepcopy(replace(message, id=id, created_at=created_at))

    def says_the_same(self, one, other):
        return (one.role, one.name, one.parts) == (other.role, other.name, other.parts)

    async def get_messages(self, agent_id, *, session_id, limit=None, offset=0, last=None):
        messages = [message for message, _ in self.of(agent_id, session_id)]
        if last is None:
            found = part(messages, limit, offset)
        else:
            found = part(messages[::-1], last, offset)[::-1]
        return copy.deepcopy(found)

    async def clear(self, agent_id, *, session_id):
        return len(self.sessions.pop((agent_id, session_id), []))

    async def clear_run(self, agent_id, *, session_id, run_id):
        log = self.of(agent_id, session_id)
        left = [one for one in log if one[1] != run_id]
        n_gone = len(log) - len(left)
        log[:] = left
        return n_gone

    async def count(self, agent_id, *, session_id):
        return len(self.of(agent_id, session_id))


class DictSessions:
    """What is told of sessions, beside the history that has their messages."""

    def __init__(self, history):
        self.history = history
        self.told = {}

    def found(self, session_id):
        logs = {a: log for (a, s), log in self.history.sessions.items() if s == session_id and log}
        messages = [message for log in logs.values() for message, _ in log]
        told = self.told.get(session_id)
        if not messages:
            return copy.deepcopy(told)
        first = min(message.created_at for message in messages)
        active = self.history.active[session_id]
        agent = next(iter(logs)) if len(logs) == 1 else None
        told = told or Session(id=session_id, created_at=first, updated_at=active)
        return replace(
            copy.deepcopy(told),
            created_at=min(told.created_at, first),
            updated_at=max(told.updated_at, active),
            agent_id=agent,
            n_messages=len(messages),
        )

    async def create(self, session_id=None, *, title=None, metadata=None):
        session_id = session_id or new_id()
        if session_id not in self.told:
            moment = now()
            self.told[session_id] = Session(
                id=session_id,
                created_at=moment,
                updated_at=moment,
                title=title,
                metadata=copy.deepcopy(dict(metadata or {})),
            )
        return self.found(session_id)

    async def get(self, session_id):
        return self.found(session_id)

    async def update(self, session_id, *, title=None, status=None, metadata=None, ended_at=None):
        if (old := self.found(session_id)) is None:
            raise NotFoundError(f"no session {session_id!r}")
        given = {"title": title, "status": status, "metadata": metadata, "ended_at": ended_at}
        changes = {name: value for name, value in given.items() if value is not None}
        self.told[session_id] = replace(old, **copy.deepcopy(changes), updated_at=now())
        return self.found(session_id)

    async def list(self, *, limit=None, offset=0):
        ids = {*self.told, *(session for _, session in self.history.sessions)}
        found = [session for id in ids if (session := self.found(id))]
        return part(sorted(found, key=lambda one: one.updated_at, reverse=True), limit, offset)

    async def delete(self, session_id):
        is_there = self.found(session_id) is not None
        self.told.pop(session_id, None)
        for agent, session in list(self.history.sessions):
            if session == session_id:
                await self.history.clear(agent, session_id=session)
        return is_there


def matches(filter, value):
    """As much of the filter language as the contracts use."""
    compare = {
        "$gt": lambda a, b: a is not None and a > b,
        "$gte": lambda a, b: a is not None and a >= b,
        "$lt": lambda a, b: a is not None and a < b,
        "$in": lambda a, b: a in b,
    }

    def holds(name, wanted):
        if name == "$or":
            return any(matches(one, value) for one in wanted)
        found = (value or {}).get(name)
        if not isinstance(wanted, dict):
            return found == wanted
        if any(key in compare for key in wanted):
            return all(compare[key](found, operand) for key, operand in wanted.items())
        return matches(wanted, found)

    return all(holds(name, wanted) for name, wanted in (filter or {}).items())


class WordMemory:
    """Memories in a list, found by the words that they share with the query."""

    def __init__(self):
        self.records = []

    async def add(self, memories, *, user_id="", session_id="", metadata=None):
        added = []
        for memory in memories:
            told = {"text": memory} if isinstance(memory, str) else self.of_message(memory)
            merged = {**told.pop("metadata", {}), **(metadata or {})}
            record = ContextRecord(
                **{"id": new_id(), "kind": "memory", "content_type": "text/plain", **told},
                created_at=now(),
                updated_at=now(),
                user_id=user_id,
                session_id=session_id,
                metadata=copy.deepcopy(merged),
            )
            added.append(record)
        known = {one.id: one for one in self.chosen(user_id, session_id)}
        for one in added:
            if one.id in known and one.text != known[one.id].text:
                raise AlreadyExistsError(f"{one.id!r} is taken")
        self.records += [one for one in added if one.id not in known]
        return [one.id for one in added]

    def of_message(self, message):
        fields = ("text", "parts", "role", "name", "metadata")
        told = {name: getattr(message, name) for name in fields}
        return {**told, "id": message.id or new_id()}

    def chosen(self, user_id, session_id=None, ids=None):
        return [
            one
            for one in self.records
            if one.user_id == user_id
            and (session_id is None or one.session_id == session_id)
            and (ids is None or one.id in ids)
        ]

    async def search(self, query, *, user_id="", session_id=None, mode=None, filter=None, limit=10):
        asked = set(query.split())
        hits = [
            SearchHit(record=copy.deepcopy(one), score=len(asked & words) / len(asked))
            for one in self.chosen(user_id, session_id)
            if asked & (words := set(one.text.split())) and matches(filter, one.metadata)
        ]
        return sorted(hits, key=lambda hit: hit.score, reverse=True)[:limit]

    async def list(self, *, user_id="", session_id=None, page=1, page_size=10):
        found = sorted(self.chosen(user_id, session_id), key=lambda one: one.session_id)
        items = copy.deepcopy(part(found, page_size, (page - 1) * page_size))
        return Page(items=items, page=page, page_size=page_size, total=len(found))

    async def delete(self, *, user_id="", session_id=None, ids=None):
        gone = self.chosen(user_id, session_id, ids)
        self.records = [one for one in self.records if not any(one is other for other in gone)]
        return len(gone)
