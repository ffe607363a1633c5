"""Documents and key-value items in dicts, by somebody who knows nothing of our store."""

import copy
import itertools
from dataclasses import replace

from packages.testing.dicts import matches, new_id, now, part

from lance_context_core.errors import AlreadyExistsError, ConflictError
from lance_context_core.types import ItemsAppended, ItemsWritten, SearchHit


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


REVISIONS = itertools.count(1)


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
        made = replace(item, created_at=created_at, updated_at=moment, revision=next(REVISIONS))
        return copy.deepcopy(made)

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

    async def write(self, *, puts=(), adds=(), deletes=(), expected=None):
        before, alive = dict(self.items), self.alive()
        for name, revision in (expected or {}).items():
            if (alive[name].revision if name in alive else None) != revision:
                raise ConflictError(f"{name} is not as expected")
        self.items = {name: one for name, one in before.items() if name not in deletes}
        if taken := [one.key for one in adds if (one.namespace, one.key) in self.alive()]:
            self.items = before
            raise AlreadyExistsError(f"{taken} are taken")
        for one in [*adds, *puts]:
            self.items[one.namespace, one.key] = self.kept(one)
        self.n_changes += self.items != before
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
