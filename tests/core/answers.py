"""What a store answers to the calls of `random_calls`, as plain values, by public names alone."""

import math
from collections.abc import Callable
from typing import Any

from core.random_calls import Call

from lance_context_core import ContextStore, Document, Item, Message, NotFoundError
from lance_context_core.graph import Entity, Relation
from lance_context_core.settings import SearchOptions

AGENTS = {"s": "a", "t": "a", "u": "b"}
SAID = {"kind": {"$in": ["message", "memory"]}}


def answer(store: ContextStore, call: Call) -> Any:
    """What the store answers to the call."""
    return CALLS[call.name](store, **call.arguments)


def _messages(rows):
    return [Message.of(role, text, id=id, metadata={"n": n}) for id, role, text, n in rows]


def _shown(messages):
    return [(one.id, one.text, one.metadata["n"]) for one in messages]


def _filter(n):
    return None if n is None else {"n": n}


def _of_items(n):
    return None if n is None else {"value.n": n}


# Writing


def append(store, session, rows, expires_at):
    messages = _messages(rows)
    options = {"session_id": session, "expires_at": expires_at}
    if len(messages) == 1:
        store.history.append(AGENTS[session], messages[0], **options)
    else:
        store.history.append_many(AGENTS[session], messages, **options)


def pop(store, session):
    gone = store.history.pop(AGENTS[session], session_id=session)
    return [gone.id] if gone else []


def clear(store, session, n):
    store.history.clear(AGENTS[session], session_id=session, filter=_filter(n))


def replace_tail(store, session, after, rows):
    agent, messages = AGENTS[session], _messages(rows)
    store.history.replace_tail(agent, messages, session_id=session, after=after)


def replace(store, session, n, rows):
    agent, messages = AGENTS[session], _messages(rows)
    store.history.replace(agent, messages, session_id=session, filter=_filter(n))


def rewrite(store, session, row):
    store.history.rewrite(AGENTS[session], *_messages([row]), session_id=session)


def touch(store, session, expires_at):
    return store.history.touch(AGENTS[session], session_id=session, expires_at=expires_at)


def annotate(store, session, n, to):
    return store.history.annotate(AGENTS[session], {"n": to}, session_id=session, filter={"n": n})


def update(store, id, to):
    store.context().update(id=id, metadata={"n": to})


def forget(store, ids):
    return [store.context().delete(id=id) for id in ids]


def describe(store, session, title):
    store.sessions.create(session)
    store.sessions.update(session, title=title)


def remember(store, place, rows, expires_at):
    user, session = place
    store.memory.add(_messages(rows), user_id=user, session_id=session, expires_at=expires_at)


def unlearn(store, user, ids):
    return store.memory.delete(user_id=user, ids=ids) if ids else 0


def put(store, keys, n, expires_at):
    store.kv("items").put([_item(key, n, expires_at) for key in keys])


def add_items(store, keys, n):
    return store.kv("items").add([_item(key, n) for key in keys])


def _item(key, n, expires_at=None):
    return Item(namespace=key[0], key=key[1], value={"n": n}, expires_at=expires_at)


def delete_items(store, keys):
    return store.kv("items").delete(keys)


def upsert_vectors(store, rows):
    store.vectors("docs").upsert(
        [
            Document(id=id, text=text, embedding=_direction(angle), metadata={"n": n})
            for id, text, angle, n in rows
        ]
    )


def _direction(angle):
    return [math.cos(angle), math.sin(angle)]


def delete_vectors(store, ids):
    return store.vectors("docs").delete(ids)


def add_entities(store, entities, ends):
    relation = Relation(id="-".join(ends), source_id=ends[0], target_id=ends[1])
    store.graph.add([Entity(id=id, name=id, type=type) for id, type in entities], [relation])


def delete_entity(store, id):
    return store.graph.delete_entity(id)


def add_document(store, name, text):
    store.documents.add(text.encode(), name=name)


def delete_document(store, name):
    (id,) = [one.id for one in store.documents.list() if one.name == name]
    return store.documents.delete(id)


# Reading


def page(store, session, n, offset, limit):
    span = {"offset": offset, "limit": limit, "filter": _filter(n)}
    return _shown(store.history.get_messages(AGENTS[session], session_id=session, **span))


def page_backwards(store, session, n, offset, last):
    span = {"offset": offset, "last": last, "filter": _filter(n)}
    return _shown(store.history.get_messages(AGENTS[session], session_id=session, **span))


def count(store, session, n):
    return store.history.count(AGENTS[session], session_id=session, filter=_filter(n))


def session_ids(store, agent):
    return store.history.session_ids(agent)


def sessions(store, offset, limit):
    found = store.sessions.list(offset=offset, limit=limit)
    for one in found:
        assert store.sessions.get(one.id).n_messages == one.n_messages
    return [(one.id, one.title, one.n_messages) for one in found]


def records(store, kind, newest_first, offset, limit):
    found = store.context().records(
        limit, offset, filters={"kind": kind}, newest_first=newest_first
    )
    return _shown(found)


def by_ids(store, ids):
    found = [store.context().get(id=id) for id in ids]
    return [one and (one["id"], one["text"], one["metadata"]["n"]) for one in found]


def words(store, word):
    return _ids(store.search(word, mode="text", limit=100, filter=SAID))


def words_of_a_session(store, word, session, n):
    options = {"mode": "text", "limit": 100, "filter": _filter(n)}
    return _ids(store.history.search(word, session_id=session, **options))


def words_of_a_user(store, word, user):
    return _ids(store.memory.search(word, user_id=user, mode="text", limit=100))


def _ids(hits):
    return sorted(hit.record.id for hit in hits)


def memories(store, user, session, page, size):
    found = store.memory.list(user_id=user, session_id=session, page=page, page_size=size)
    return found.total, _shown(found.items)


def latest(store, user, n, offset, limit):
    options = {"offset": offset, "limit": limit, "filter": _filter(n)}
    return _shown(store.memory.latest(user_id=user, **options))


def items(store, prefix, n, order, reverse, offset, limit):
    kv, which = store.kv("items"), {"prefix": prefix, "filter": _of_items(n)}
    found = kv.list(**which, order=order, reverse=reverse, offset=offset, limit=limit)
    return kv.count(**which), [(one.namespace, one.key, one.value["n"]) for one in found]


def keys_between(store, after, before, reverse, offset, limit):
    span = {"after": after, "before": before, "offset": offset, "limit": limit}
    return store.kv("items").keys(namespace=("x",), reverse=reverse, **span)


def get_items(store, keys):
    found = store.kv("items").get(keys)
    return [one and (one.value["n"], one.created_at, one.updated_at) for one in found]


def namespaces(store, depth):
    return store.kv("items").namespaces(max_depth=depth)


def documents_of_vectors(store, n, offset, limit):
    docs = store.vectors("docs")
    found = docs.list(filter=_filter(n), offset=offset, limit=limit)
    return docs.count(filter=_filter(n)), [(one.id, one.text, one.metadata["n"]) for one in found]


def get_vectors(store, ids):
    return [(one.id, one.text) for one in store.vectors("docs").get(ids)]


def nearest(store, angle, limit, n):
    hits = store.vectors("docs").search(
        vector=_direction(angle), mode="vector", limit=limit, filter=_filter(n)
    )
    return [hit.record.id for hit in hits]


def entities(store, type, offset, limit):
    return [one.id for one in store.graph.entities(type=type, offset=offset, limit=limit)]


def neighbours(store, id, depth, direction):
    try:
        found = store.graph.neighbours(id, depth=depth, direction=direction)
    except NotFoundError:
        return "NotFoundError"
    return sorted(one.id for one in found.entities)


def relations(store, offset, limit):
    found = store.graph.relations(offset=offset, limit=limit)
    return store.graph.count()["relations"], [(one.source_id, one.target_id) for one in found]


def pages(store, word):
    listed = store.documents.list()
    assert store.documents.count() == len(listed)
    names = {one.id: one.name for one in listed}
    hits = store.documents.search(word, mode="text", limit=100)
    texts = {one.name: store.documents.text(one.id) for one in listed}
    return texts, sorted({names[hit.record.document_id] for hit in hits})


def ranked(store, query, limit, session, options):
    which = {"limit": limit, "options": SearchOptions(**options)}
    if session is None:
        hits = store.search(query, filter=SAID, **which)
    else:
        hits = store.history.search(query, session_id=session, **which)
    return [(hit.record.id, round(hit.score, 4)) for hit in hits]


CALLS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        *(append, pop, clear, replace_tail, annotate, update, forget, describe),
        *(replace, rewrite, touch),
        *(remember, unlearn, put, add_items, delete_items, upsert_vectors, delete_vectors),
        *(add_entities, delete_entity, add_document, delete_document),
        *(page, page_backwards, count, session_ids, sessions, records, by_ids),
        *(words, words_of_a_session, words_of_a_user, memories, latest),
        *(items, keys_between, get_items, namespaces, documents_of_vectors, get_vectors, nearest),
        *(entities, neighbours, relations, pages, ranked),
    )
}
