"""The protocols over plain dicts and lists, as somebody would write them who knows nothing of our store."""

import copy
import uuid
from dataclasses import replace
from datetime import UTC, datetime

from lance_context_core.errors import AlreadyExistsError, NotFoundError
from lance_context_core.records import (
    ContextRecord,
    ItemsAppended,
    ItemsWritten,
    Page,
    SearchHit,
    Session,
)


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
            raise NotFoundError(f"there is no session {session_id!r}")
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


class DictVectors:
    """Documents in dicts by collection, searched by going over all of them."""

    def __init__(self, collections, name):
        self.collections, self.name = collections, name

    @property
    def documents(self):
        return self.collections.get(self.name, {})

    async def add(self, documents):
        for one in documents:
            known = self.documents.get(one.id)
            if known and known.text != one.text:
                raise AlreadyExistsError(f"{one.id!r} is taken")
        return self.write(documents, keep=set(self.documents))

    async def upsert(self, documents):
        return self.write(documents, keep=set())

    def write(self, documents, keep):
        dimensions = {len(one.embedding) for one in [*self.documents.values(), *documents]}
        if len(dimensions) > 1:
            raise ValueError(f"vectors of {sorted(dimensions)} numbers")
        named = [copy.deepcopy(replace(one, id=one.id or new_id())) for one in documents]
        if named:
            held = self.collections.setdefault(self.name, {})
            held |= {one.id: one for one in named if one.id not in keep}
        return [one.id for one in named]

    async def search(self, query=None, *, vector=None, mode=None, filter=None, limit=10):
        asked = query if vector is None else vector
        found = [one for one in self.documents.values() if matches(filter, one.metadata)]
        hits = [
            SearchHit(record=copy.deepcopy(one), score=(1 + cosine(asked, one.embedding)) / 2)
            for one in found
        ]
        return sorted(hits, key=lambda hit: hit.score, reverse=True)[:limit]

    async def get(self, ids):
        return [copy.deepcopy(self.documents[id]) for id in ids if id in self.documents]

    async def delete(self, ids=None, *, filter=None):
        gone = [
            id
            for id, one in self.documents.items()
            if (ids is None or id in ids) and matches(filter, one.metadata)
        ]
        for id in gone:
            del self.documents[id]
        return len(gone)

    async def count(self, *, filter=None):
        return sum(matches(filter, one.metadata) for one in self.documents.values())

    async def list_collections(self):
        return sorted(self.collections)

    async def delete_collection(self):
        return len(self.collections.pop(self.name, {}))


def cosine(one, other):
    if len(one) != len(other):
        raise ValueError(f"vectors of {len(one)} and {len(other)} numbers")
    lengths = (sum(x * x for x in one) * sum(x * x for x in other)) ** 0.5
    return sum(x * y for x, y in zip(one, other, strict=True)) / lengths


class DictItems:
    """Items in a dict, by namespace and key."""

    def __init__(self):
        self.items = {}
        self.n_changes = 0

    def alive(self):
        moment = now()
        return {
            name: one
            for name, one in self.items.items()
            if one.expires_at is None or one.expires_at > moment
        }

    def changed(self, changes):
        """The items that these are, which replace those of the same names; None takes one away."""
        self.n_changes += bool(changes)
        for name, one in changes.items():
            if one is None:
                del self.items[name]
            else:
                self.items[name] = one

    def kept(self, item):
        moment, old = now(), self.alive().get((item.namespace, item.key))
        created_at = old.created_at if old else moment
        return copy.deepcopy(replace(item, created_at=created_at, updated_at=moment))

    async def get(self, keys, *, include_data=True):
        alive = self.alive()
        return [shown(alive.get(name), include_data) for name in keys]

    def matching(self, *, prefix=(), suffix=(), namespace=None, key_prefix="", after=None, before=None, filter=None):  # fmt: skip
        return [
            one
            for name, one in sorted(self.alive().items())
            if fits(name[0][: len(prefix)], prefix)
            and fits(name[0][max(0, len(name[0]) - len(suffix)) :], suffix)
            and (namespace is None or fits(name[0], namespace))
            and name[1].startswith(key_prefix)
            and (after is None or name[1] > after)
            and (before is None or name[1] < before)
            and matches(filter, one.value)
        ]

    async def list(self, *, order="key", reverse=False, limit=None, offset=0, include_data=True, prefix=(), suffix=(), namespace=None, key_prefix="", after=None, before=None, filter=None):  # fmt: skip
        found = self.matching(prefix=prefix, suffix=suffix, namespace=namespace, key_prefix=key_prefix, after=after, before=before, filter=filter)  # fmt: skip
        if order != "key":
            found.sort(key=lambda one: getattr(one, f"{order}_at"))
        found = part(found[::-1] if reverse else found, limit, offset)
        return [shown(one, include_data) for one in found]

    async def keys(self, *, prefix=(), suffix=(), namespace=None, key_prefix="", after=None, before=None, filter=None, order="key", reverse=False, limit=None, offset=0):  # fmt: skip
        found = await self.list(prefix=prefix, suffix=suffix, namespace=namespace, key_prefix=key_prefix, after=after, before=before, filter=filter, order=order, reverse=reverse, limit=limit, offset=offset)  # fmt: skip
        return [(one.namespace, one.key) for one in found]

    async def count(self, *, prefix=(), suffix=(), namespace=None, filter=None):
        return len(self.matching(prefix=prefix, suffix=suffix, namespace=namespace, filter=filter))

    async def namespaces(self, *, prefix=(), suffix=(), max_depth=None, limit=None, offset=0):
        found = {one.namespace[:max_depth] for one in self.matching(prefix=prefix, suffix=suffix)}
        return part(sorted(found), limit, offset)

    async def search(self, query, *, prefix=(), suffix=(), namespace=None, filter=None, limit=10, offset=0):  # fmt: skip
        hits = [
            SearchHit(
                record=copy.deepcopy(one),
                score=(1 + max(cosine(query, v.vector) for v in one.vectors)) / 2,
            )
            for one in self.matching(
                prefix=prefix, suffix=suffix, namespace=namespace, filter=filter
            )
            if one.vectors
        ]
        return part(sorted(hits, key=lambda hit: hit.score, reverse=True), limit, offset)

    async def put(self, items):
        self.changed({(one.namespace, one.key): self.kept(one) for one in items})

    async def add(self, items):
        alive, added, told = self.alive(), {}, []
        for one in items:
            name = (one.namespace, one.key)
            told.append(name not in alive and name not in added)
            if told[-1]:
                added[name] = self.kept(one)
        self.changed(added)
        return told

    async def append(self, items):
        await self.put(items)
        return ItemsAppended(version=self.n_changes, n_items=len(items), grows_since=self.n_changes)

    async def delete(self, keys):
        alive = self.alive()
        self.changed({name: None for name in keys if name in alive})
        return [name in alive for name in keys]

    async def write(self, *, puts=(), adds=(), deletes=()):
        alive = self.alive()
        if taken := [one.key for one in adds if (one.namespace, one.key) in alive]:
            raise AlreadyExistsError(f"{taken} are taken")
        written = {(one.namespace, one.key): self.kept(one) for one in [*puts, *adds]}
        self.changed(written | {name: None for name in deletes if name in alive})
        return ItemsWritten(deleted=[name in alive for name in deletes], version=self.n_changes)

    async def delete_under(self, prefix):
        gone = [name for name in self.items if name[0][: len(prefix)] == tuple(prefix)]
        self.changed(dict.fromkeys(gone))
        return len(gone)

    async def touch(self, keys, *, expires_at):
        alive = self.alive()
        touched = {n: replace(alive[n], expires_at=expires_at) for n in keys if n in alive}
        self.changed(touched)
        return len(touched)

    async def sweep(self):
        gone = self.items.keys() - self.alive().keys()
        self.changed(dict.fromkeys(gone))
        return len(gone)

    async def version(self):
        return self.n_changes

    async def names(self):
        return ["mine"]


def shown(item, include_data):
    if item is None:
        return None
    return copy.deepcopy(item if include_data else replace(item, data=None))


def fits(segments, pattern):
    return len(segments) == len(pattern) and all(
        wanted in (None, one) for one, wanted in zip(segments, pattern, strict=True)
    )
