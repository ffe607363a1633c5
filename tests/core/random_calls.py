"""Random calls of the whole store, and what each has to answer, as lists and dicts know it.

A `Call` is drawn by a number's generator, so that a seed says all: its name, its arguments as plain
values (another process can make it, too), and what is wanted. A write changes the lists, too, when
it is drawn. Each moment is another one, so that nothing is ever written at the same time.
"""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

AGENTS = {"s": "a", "t": "a", "u": "b"}
"""By session."""
USERS = ("ann", "bob")
PLACES = ("home", "work")
NAMESPACES = (("x",), ("x", "y"), ("z",))
KEYS = ("k0", "k1", "k2", "k3")
ENTITIES = ("e0", "e1", "e2", "e3", "e4")
TYPES = ("city", "person")
WORDS = ("zebra", "lisbon", "violin", "dinner", "winter", "harbour", "pepper", "castle")
ALIKE = object()
"""Wanted of a call of which the lists know nothing: that all stores answer alike."""


class Call(NamedTuple):
    """What is asked, with what, and what it has to answer."""

    name: str
    arguments: dict[str, Any]
    wanted: Any = None


@dataclass
class Said:
    """A message or a memory."""

    id: str
    place: tuple[str, str]
    """Agent or user, and session."""
    role: str
    text: str
    n: int
    at: datetime
    expires_at: datetime | None = None

    @property
    def shown(self) -> tuple[str, str, int]:
        return (self.id, self.text, self.n)


@dataclass
class Kept:
    """An item of a key-value store, or a document of a collection."""

    n: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    angle: float = 0.0
    text: str = ""


@dataclass
class Lists:
    """All that a store knows."""

    history: list[Said] = field(default_factory=list)
    memory: list[Said] = field(default_factory=list)
    described: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    items: dict[tuple[tuple[str, ...], str], Kept] = field(default_factory=dict)
    vectors: dict[str, Kept] = field(default_factory=dict)
    entities: dict[str, str] = field(default_factory=dict)
    relations: dict[str, tuple[str, str]] = field(default_factory=dict)
    documents: dict[str, str] = field(default_factory=dict)


class Drawn:
    """Draws calls by a generator, and knows what is wanted of them."""

    def __init__(self, rng: Random, now: Callable[[], datetime]) -> None:
        self.rng = rng
        self.now = now
        self.lists = Lists()
        self._n = 0

    def write(self) -> Call:
        """A write, of messages more often than of all else."""
        return self.rng.choice(WRITES)(self)

    def read(self, lists: Lists | None = None) -> Call:
        """A read, of the store as it is, or as it was at a pin."""
        return self.rng.choice(READS)(self, lists or self.lists)

    def pin(self) -> Lists:
        """What a store has to go on answering that is held as it is now."""
        return deepcopy(self.lists)

    # What is drawn

    def _next(self) -> int:
        self._n += 1
        return self._n

    def _text(self) -> str:
        return " ".join(self.rng.sample(WORDS, 3))

    def _said(self, place: tuple[str, str], kind: str, expires_at: datetime | None) -> Said:
        n = self._next()
        role = self.rng.choice(["user", "assistant"])
        return Said(f"{kind}{n}", place, role, self._text(), n % 3, self.now(), expires_at)

    def _expiry(self) -> datetime | None:
        return self.now() + timedelta(minutes=9) if self.rng.random() < 0.15 else None

    def _span(self) -> dict[str, int | None]:
        return {"offset": self.rng.randrange(7), "limit": self.rng.choice([None, 0, 1, 2, 5])}

    def _n_or_all(self) -> int | None:
        return self.rng.choice([None, 0, 1, 2])

    def shown(self, rows: list[Said]) -> list[Said]:
        """Those that have not expired."""
        return [one for one in rows if one.expires_at is None or one.expires_at > self.now()]

    def session(self, lists: Lists, session: str, n: int | None = None) -> list[Said]:
        """The messages that a session shows."""
        return [
            one
            for one in self.shown(lists.history)
            if one.place[1] == session and n in (None, one.n)
        ]

    # Writing

    def append(self) -> Call:
        session = self.rng.choice([*AGENTS, "s", "s"])
        expires_at = self._expiry()
        place = (AGENTS[session], session)
        said = [self._said(place, "m", expires_at) for _ in range(self.rng.choice([1, 1, 1, 2, 4]))]
        self.lists.history += said
        rows = [(one.id, one.role, one.text, one.n) for one in said]
        return Call("append", {"session": session, "rows": rows, "expires_at": expires_at})

    def pop(self) -> Call:
        session = self.rng.choice([*AGENTS])
        last = self.session(self.lists, session)[-1:]
        self._remove("history", [one.id for one in last])
        return Call("pop", {"session": session}, [one.id for one in last])

    def clear(self) -> Call:
        session, n = self.rng.choice([*AGENTS]), self.rng.choice([None, 0, 1, 2, 2])
        gone = self.session(self.lists, session, n)
        hidden = [
            one
            for one in self.lists.history
            if one.place[1] == session and n in (None, one.n) and one not in gone
        ]
        self._remove("history", [one.id for one in gone + hidden])
        return Call("clear", {"session": session, "n": n})

    def replace_tail(self) -> Call:
        session = self.rng.choice([*AGENTS])
        rows = self.session(self.lists, session)
        keep = self.rng.randrange(len(rows) + 1)
        place = (AGENTS[session], session)
        said = [self._said(place, "m", None) for _ in range(self.rng.randrange(3))]
        after = rows[keep - 1].id if keep else None
        places = [one.id for one in self.lists.history]
        begin = places.index(after) + 1 if after else 0
        gone = [one.id for one in self.lists.history[begin:] if one.place[1] == session]
        self._remove("history", gone)
        self.lists.history += said
        new = [(one.id, one.role, one.text, one.n) for one in said]
        return Call("replace_tail", {"session": session, "after": after, "rows": new})

    def replace(self) -> Call:
        session, n = self.rng.choice([*AGENTS]), self.rng.choice([None, 0, 1, 2])
        there = [one for one in self.lists.history if one.place[1] == session]
        self._remove("history", [one.id for one in there if n in (None, one.n)])
        place = (AGENTS[session], session)
        said = [self._said(place, "m", None) for _ in range(self.rng.randrange(3))]
        self.lists.history += said
        rows = [(one.id, one.role, one.text, one.n) for one in said]
        return Call("replace", {"session": session, "n": n, "rows": rows})

    def rewrite(self) -> Call:
        session = self.rng.choice([*AGENTS])
        rows = self.session(self.lists, session)
        if not rows:
            return self.append()
        one = self.rng.choice(rows)
        one.text, one.n = self._text(), self.rng.randrange(3)
        row = (one.id, one.role, one.text, one.n)
        return Call("rewrite", {"session": session, "row": row})

    def touch(self) -> Call:
        session, expires_at = self.rng.choice([*AGENTS]), self._expiry()
        rows = self.session(self.lists, session)
        for one in rows:
            one.expires_at = expires_at
        return Call("touch", {"session": session, "expires_at": expires_at}, len(rows))

    def annotate(self) -> Call:
        session, (n, to) = self.rng.choice([*AGENTS]), self.rng.sample(range(3), 2)
        found = self.session(self.lists, session, n)
        for one in found:
            one.n = to
        return Call("annotate", {"session": session, "n": n, "to": to}, [one.id for one in found])

    def update(self) -> Call:
        rows = self.shown([*self.lists.history, *self.lists.memory])
        if not rows:
            return self.append()
        one, to = self.rng.choice(rows), self.rng.randrange(3)
        one.n = to
        return Call("update", {"id": one.id, "to": to})

    def forget(self) -> Call:
        rows = self.shown(self.lists.history)
        ids = [one.id for one in self.rng.sample(rows, min(len(rows), 1))]
        self._remove("history", ids)
        return Call("forget", {"ids": ids}, [True] * len(ids))

    def describe(self) -> Call:
        session = self.rng.choice([*AGENTS, "w"])
        title = self._text()
        self.lists.described[session] = (title, self.now())
        return Call("describe", {"session": session, "title": title})

    def remember(self) -> Call:
        place = (self.rng.choice(USERS), self.rng.choice(PLACES))
        expires_at = self._expiry()
        said = [self._said(place, "f", expires_at) for _ in range(self.rng.choice([1, 1, 3]))]
        self.lists.memory += said
        rows = [(one.id, one.role, one.text, one.n) for one in said]
        return Call("remember", {"place": place, "rows": rows, "expires_at": expires_at})

    def unlearn(self) -> Call:
        rows = self.shown(self.lists.memory)
        gone = self.rng.sample(rows, min(len(rows), 2))
        user = gone[0].place[0] if gone else "ann"
        ids = [one.id for one in gone if one.place[0] == user]
        self._remove("memory", ids)
        return Call("unlearn", {"user": user, "ids": ids}, len(ids))

    def put(self) -> Call:
        expires_at = self._expiry()
        n = self._next()
        keys = [self._key() for _ in range(self.rng.choice([1, 1, 3]))]
        for key in keys:
            there = self._item(self.lists, key)
            created_at = there.created_at if there else self.now()
            self.lists.items[key] = Kept(n % 3, created_at, self.now(), expires_at)
        return Call("put", {"keys": keys, "n": n % 3, "expires_at": expires_at})

    def add_items(self) -> Call:
        keys, n = [self._key()], self._next()
        is_new = [self._item(self.lists, key) is None for key in keys]
        if is_new[0]:
            self.lists.items[keys[0]] = Kept(n % 3, self.now(), self.now())
        return Call("add_items", {"keys": keys, "n": n % 3}, is_new)

    def delete_items(self) -> Call:
        keys = sorted({self._key() for _ in range(2)})
        there = [self._item(self.lists, key) is not None for key in keys]
        for key in keys:
            self.lists.items.pop(key, None)
        return Call("delete_items", {"keys": keys}, there)

    def upsert_vectors(self) -> Call:
        rows = []
        for id in self.rng.sample([f"d{n}" for n in range(6)], self.rng.choice([1, 2, 3])):
            n = self._next()
            angle, text = (n * 0.618) % 1 * 2 * math.pi, self._text()
            if id in self.lists.vectors:
                there = self.lists.vectors[id]
                there.n, there.angle, there.text = n % 3, angle, text
            else:
                self.lists.vectors[id] = Kept(n % 3, self.now(), self.now(), None, angle, text)
            rows.append((id, text, angle, n % 3))
        return Call("upsert_vectors", {"rows": rows})

    def delete_vectors(self) -> Call:
        ids = [f"d{self.rng.randrange(6)}"]
        there = [id for id in ids if self.lists.vectors.pop(id, None)]
        return Call("delete_vectors", {"ids": ids}, len(there))

    def add_entities(self) -> Call:
        entities = [(id, self.rng.choice(TYPES)) for id in self.rng.sample(ENTITIES, 2)]
        known = {*self.lists.entities, *(id for id, _ in entities)}
        ends = tuple(self.rng.sample(sorted(known), 2))
        for id, type in entities:
            self.lists.entities[id] = type
        self.lists.relations["-".join(ends)] = ends
        return Call("add_entities", {"entities": entities, "ends": ends})

    def delete_entity(self) -> Call:
        id = self.rng.choice(ENTITIES)
        there = self.lists.entities.pop(id, None) is not None
        relations = self.lists.relations
        self.lists.relations = {key: ends for key, ends in relations.items() if id not in ends}
        return Call("delete_entity", {"id": id}, there)

    def add_document(self) -> Call:
        name, text = f"page{self._next()}.txt", self._text()
        self.lists.documents[name] = text
        return Call("add_document", {"name": name, "text": text})

    def delete_document(self) -> Call:
        if not self.lists.documents:
            return self.add_document()
        name = self.rng.choice(sorted(self.lists.documents))
        del self.lists.documents[name]
        return Call("delete_document", {"name": name}, True)

    def _remove(self, where: str, ids: list[str]) -> None:
        rows = getattr(self.lists, where)
        setattr(self.lists, where, [one for one in rows if one.id not in ids])

    def _key(self) -> tuple[tuple[str, ...], str]:
        return self.rng.choice(NAMESPACES), self.rng.choice(KEYS)

    def _item(self, lists: Lists, key: tuple[tuple[str, ...], str]) -> Kept | None:
        there = lists.items.get(key)
        is_shown = there and (there.expires_at is None or there.expires_at > self.now())
        return there if is_shown else None

    # Reading

    def page(self, lists: Lists) -> Call:
        session, n, span = self.rng.choice([*AGENTS]), self._n_or_all(), self._span()
        rows = self.session(lists, session, n)
        arguments = {"session": session, "n": n, **span}
        return Call("page", arguments, [one.shown for one in _cut(rows, **span)])

    def page_backwards(self, lists: Lists) -> Call:
        session, n = self.rng.choice([*AGENTS]), self._n_or_all()
        offset, last = self.rng.randrange(9), self.rng.choice([0, 1, 2, 3, 5])
        rows = self.session(lists, session, n)
        end = max(len(rows) - offset, 0)
        wanted = [one.shown for one in rows[max(end - last, 0) : end]]
        arguments = {"session": session, "n": n, "offset": offset, "last": last}
        return Call("page_backwards", arguments, wanted)

    def count(self, lists: Lists) -> Call:
        session, n = self.rng.choice([*AGENTS]), self._n_or_all()
        return Call("count", {"session": session, "n": n}, len(self.session(lists, session, n)))

    def session_ids(self, lists: Lists) -> Call:
        agent = self.rng.choice(["a", "b"])
        shown = [one.place for one in self.shown(lists.history)]
        ids = list(dict.fromkeys(session for who, session in shown if who == agent))
        return Call("session_ids", {"agent": agent}, ids)

    def sessions(self, lists: Lists) -> Call:
        span = self._span()
        active: dict[str, datetime] = {}
        for one in self.shown(lists.history):
            active[one.place[1]] = one.at
        n_messages = {session: len(self.session(lists, session)) for session in active}
        for session, (_, at) in lists.described.items():
            active[session] = max(at, active.get(session, at))
        rows = sorted(active, key=lambda session: active[session], reverse=True)
        titles = {session: title for session, (title, _) in lists.described.items()}
        wanted = [(one, titles.get(one), n_messages.get(one, 0)) for one in _cut(rows, **span)]
        return Call("sessions", span, wanted)

    def records(self, lists: Lists) -> Call:
        span, newest_first = self._span(), self.rng.random() < 0.5
        kind = self.rng.choice([("history", "message"), ("memory", "memory")])
        rows = self.shown(getattr(lists, kind[0]))
        rows = rows[::-1] if newest_first else rows
        arguments = {"kind": kind[1], "newest_first": newest_first, **span}
        return Call("records", arguments, [one.shown for one in _cut(rows, **span)])

    def by_ids(self, lists: Lists) -> Call:
        known = [one.id for one in (*self.lists.history, *self.lists.memory)]
        ids = [*self.rng.sample(known, min(2, len(known))), f"m{self.rng.randrange(1, 40)}"]
        rows = {one.id: one.shown for one in self.shown([*lists.history, *lists.memory])}
        return Call("by_ids", {"ids": ids}, [rows.get(id) for id in ids])

    def words(self, lists: Lists) -> Call:
        word = self.rng.choice(WORDS)
        found = [one for one in self.shown([*lists.history, *lists.memory]) if word in one.text]
        return Call("words", {"word": word}, sorted(one.id for one in found))

    def words_of_a_session(self, lists: Lists) -> Call:
        word, session, n = self.rng.choice(WORDS), self.rng.choice([*AGENTS]), self._n_or_all()
        found = [one for one in self.session(lists, session, n) if word in one.text]
        arguments = {"word": word, "session": session, "n": n}
        return Call("words_of_a_session", arguments, sorted(one.id for one in found))

    def words_of_a_user(self, lists: Lists) -> Call:
        word, user = self.rng.choice(WORDS), self.rng.choice(USERS)
        rows = [one for one in self.shown(lists.memory) if one.place[0] == user]
        found = sorted(one.id for one in rows if word in one.text)
        return Call("words_of_a_user", {"word": word, "user": user}, found)

    def memories(self, lists: Lists) -> Call:
        user, session = self.rng.choice(USERS), self.rng.choice([None, *PLACES])
        page, size = self.rng.randrange(1, 4), self.rng.choice([1, 2, 5])
        rows = [
            one
            for one in self.shown(lists.memory)
            if one.place[0] == user and session in (None, one.place[1])
        ]
        rows.sort(key=lambda one: one.place[1])
        cut = [one.shown for one in rows[(page - 1) * size : page * size]]
        arguments = {"user": user, "session": session, "page": page, "size": size}
        return Call("memories", arguments, (len(rows), cut))

    def latest(self, lists: Lists) -> Call:
        user, n = self.rng.choice(USERS), self._n_or_all()
        offset, limit = self.rng.randrange(4), self.rng.choice([1, 2, 5])
        rows = [one for one in self.shown(lists.memory) if one.place[0] == user]
        rows = [one for one in rows[::-1] if n in (None, one.n)]
        arguments = {"user": user, "n": n, "offset": offset, "limit": limit}
        return Call("latest", arguments, [one.shown for one in _cut(rows, offset, limit)])

    def items(self, lists: Lists) -> Call:
        prefix, n = self.rng.choice([(), ("x",), ("x", "y"), ("q",)]), self._n_or_all()
        order, reverse = self.rng.choice(["key", "created", "updated"]), self.rng.random() < 0.5
        span = self._span()
        found = {
            key: self._item(lists, key) for key in lists.items if key[0][: len(prefix)] == prefix
        }
        rows = [(key, one) for key, one in found.items() if one and n in (None, one.n)]
        rows.sort(key=lambda row: row[0])
        if order != "key":
            rows.sort(key=lambda row: getattr(row[1], f"{order}_at"))
        rows = rows[::-1] if reverse else rows
        wanted = [(*key, one.n) for key, one in _cut(rows, **span)]
        arguments = {"prefix": prefix, "n": n, "order": order, "reverse": reverse, **span}
        return Call("items", arguments, (len(rows), wanted))

    def keys_between(self, lists: Lists) -> Call:
        after, before = self.rng.choice([None, *KEYS]), self.rng.choice([None, *KEYS])
        reverse, span = self.rng.random() < 0.5, self._span()
        rows = [
            key
            for key in sorted(lists.items)
            if self._item(lists, key)
            and key[0] == ("x",)
            and (after is None or key[1] > after)
            and (before is None or key[1] < before)
        ]
        rows = rows[::-1] if reverse else rows
        arguments = {"after": after, "before": before, "reverse": reverse, **span}
        return Call("keys_between", arguments, _cut(rows, **span))

    def get_items(self, lists: Lists) -> Call:
        keys = [self._key() for _ in range(3)]
        found = [self._item(lists, key) for key in keys]
        wanted = [one and (one.n, one.created_at, one.updated_at) for one in found]
        return Call("get_items", {"keys": keys}, wanted)

    def namespaces(self, lists: Lists) -> Call:
        depth = self.rng.choice([None, 1])
        found = {key[0][:depth] for key in lists.items if self._item(lists, key)}
        return Call("namespaces", {"depth": depth}, sorted(found))

    def documents_of_vectors(self, lists: Lists) -> Call:
        span, n = self._span(), self._n_or_all()
        rows = [(id, one) for id, one in lists.vectors.items() if n in (None, one.n)]
        wanted = [(id, one.text, one.n) for id, one in _cut(rows, **span)]
        return Call("documents_of_vectors", {"n": n, **span}, (len(rows), wanted))

    def get_vectors(self, lists: Lists) -> Call:
        ids = self.rng.sample([f"d{n}" for n in range(6)], 3)
        found = [(id, lists.vectors[id].text) for id in ids if id in lists.vectors]
        return Call("get_vectors", {"ids": ids}, found)

    def nearest(self, lists: Lists) -> Call:
        angle, limit, n = (
            self.rng.random() * 2 * math.pi,
            self.rng.choice([1, 3, 9]),
            self._n_or_all(),
        )
        rows = [(id, one) for id, one in lists.vectors.items() if n in (None, one.n)]
        rows.sort(key=lambda row: -math.cos(row[1].angle - angle))
        return Call(
            "nearest", {"angle": angle, "limit": limit, "n": n}, [id for id, _ in rows[:limit]]
        )

    def entities(self, lists: Lists) -> Call:
        type, span = self.rng.choice([None, *TYPES]), self._span()
        rows = [id for id, one in lists.entities.items() if type in (None, one)]
        return Call("entities", {"type": type, **span}, _cut(rows, **span))

    def neighbours(self, lists: Lists) -> Call:
        id, depth = self.rng.choice(ENTITIES), self.rng.choice([1, 2])
        direction = self.rng.choice(["out", "in", "both"])
        arguments = {"id": id, "depth": depth, "direction": direction}
        if id not in lists.entities:
            return Call("neighbours", arguments, "NotFoundError")
        seen = {id}
        for _ in range(depth):
            ends = list(lists.relations.values())
            seen |= {to for one, to in ends if one in seen and direction != "in"} | {
                one for one, to in ends if to in seen and direction != "out"
            }
        return Call("neighbours", arguments, sorted(seen))

    def relations(self, lists: Lists) -> Call:
        span = self._span()
        wanted = _cut(list(lists.relations.values()), **span)
        return Call("relations", span, (len(lists.relations), wanted))

    def pages(self, lists: Lists) -> Call:
        word = self.rng.choice(WORDS)
        found = sorted(name for name, text in lists.documents.items() if word in text)
        return Call("pages", {"word": word}, (dict(lists.documents), found))

    def ranked(self, lists: Lists) -> Call:
        """Scores are made of the turns around a turn, too; `lists` have no way to know them."""
        options = self.rng.choice(
            [{}, {"neighbours": 0.5}, {"preceding": 0.5}, {"surroundings": True}]
        )
        limit, session = self.rng.choice([3, 30]), self.rng.choice([None, *AGENTS])
        arguments = {"query": self._text(), "limit": limit, "session": session, "options": options}
        return Call("ranked", arguments, ALIKE)


def _cut(rows: list, offset: int, limit: int | None) -> list:
    return rows[offset:] if limit is None else rows[offset : offset + limit]


WRITES = [
    *[Drawn.append] * 7,
    *(Drawn.pop, Drawn.clear, Drawn.replace_tail, Drawn.annotate, Drawn.update, Drawn.forget),
    *(Drawn.replace, Drawn.rewrite, Drawn.touch),
    *(Drawn.describe, Drawn.remember, Drawn.remember, Drawn.unlearn),
    *(Drawn.put, Drawn.put, Drawn.add_items, Drawn.delete_items),
    *(Drawn.upsert_vectors, Drawn.upsert_vectors, Drawn.delete_vectors),
    *(Drawn.add_entities, Drawn.add_entities, Drawn.delete_entity),
    *(Drawn.add_document, Drawn.delete_document),
]
READS = [
    *[Drawn.page, Drawn.page_backwards] * 3,
    *(Drawn.count, Drawn.session_ids, Drawn.sessions, Drawn.records, Drawn.by_ids),
    *(Drawn.words, Drawn.words_of_a_session, Drawn.words_of_a_user, Drawn.memories, Drawn.latest),
    *(Drawn.items, Drawn.keys_between, Drawn.get_items, Drawn.namespaces),
    *(Drawn.documents_of_vectors, Drawn.get_vectors, Drawn.nearest),
    *(Drawn.entities, Drawn.neighbours, Drawn.relations, Drawn.pages),
    *(Drawn.ranked, Drawn.ranked),
]
