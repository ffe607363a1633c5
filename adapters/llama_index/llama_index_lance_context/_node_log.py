"""Nodes of a document store as key-value items: one for each, and one for each separate hash."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import compress
from typing import Any

from llama_index.core.schema import BaseNode
from llama_index.core.storage.docstore.types import RefDocInfo

from lance_context_core import AlreadyExistsError, AsyncKeyValues, ConflictError, Item, KeyValues
from lance_context_core.adapting import Attempts, in_steps
from lance_context_core.arguments import ItemKey
from llama_index_lance_context._known_hashes import KnownHashes
from llama_index_lance_context._values import decode, encode, node_from_json, node_to_json
from llama_index_lance_context.kv_stores import JSON_TYPE, from_data, to_data

_N_KEYS_AS_ONE = 64
"""Number of keys made in the time of one node."""

_FEW = 4
"""More are written on the store's loop, which yields between them."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A node in the form in which it is kept."""

    id: str
    value: dict[str, Any]
    """Fields that are read without the node: its hash, source document and metadata."""
    data: bytes | None
    """The node itself; absent if only the other fields are stored."""


def entries_of(nodes: Iterable[BaseNode], *, with_content: bool) -> list[Entry]:
    """The stored form of nodes; the last one of an id."""
    unique = {node.node_id: node for node in nodes}
    return [_entry(node, with_content=with_content) for node in unique.values()]


@dataclass(frozen=True, slots=True)
class NodeLog:
    """The nodes of one namespace."""

    _kv: AsyncKeyValues
    _namespace: str
    _known: KnownHashes

    async def add(self, entries: Sequence[Entry], *, may_replace: bool) -> None:
        """Writes nodes in one commit. A replaced node keeps its position in its document.

        A hash that was set separately is dropped. Raises AlreadyExistsError, and writes nothing,
        for an existing node that is not in `may_replace`, also for one written concurrently.
        """
        ids = [entry.id for entry in entries]
        places = await in_steps(self._node, ids, n_as_one=_N_KEYS_AS_ONE)
        hashes = await in_steps(self._hash, ids, n_as_one=_N_KEYS_AS_ONE)
        needs_data = any(entry.data is None for entry in entries)
        attempts = Attempts("the same nodes kept being written by others")
        while True:
            attempts.begin()
            found = await self._kv.get(
                [*places, *hashes], include_data=needs_data or not may_replace
            )
            old = dict(zip(ids, found, strict=False))
            if not may_replace:
                _refuse_taken(old)
            revisions = (None if one is None else one.revision for one in found)
            there = dict(zip(places, revisions, strict=False))
            puts = await self._items(entries, old)
            deletes = [*compress(hashes, found[len(places) :])]
            if may_replace and not deletes:
                return await self._kv.put(puts)
            with suppress(ConflictError):
                await self._kv.write(
                    puts=puts, deletes=deletes, expected={} if may_replace else there
                )
                return None

    def add_few(self, kv: KeyValues, entries: Sequence[Entry]) -> bool:
        """Like `add`, with blocking calls; returns whether it wrote.

        A few new whole nodes take one transaction in the caller's thread.
        """
        if len(entries) > _FEW or any(entry.data is None for entry in entries):
            return False
        new = [self._item(entry, index, None) for index, entry in enumerate(entries)]
        hashes = [self._hash(entry.id) for entry in entries]
        with suppress(AlreadyExistsError):  # One that is there keeps its place: that is to be read.
            kv.write(adds=new, deletes=hashes)
            return True
        return False

    async def nodes(self, ids: Sequence[str]) -> list[BaseNode | None]:
        """The nodes with these ids, in order; None for a missing one."""
        return await in_steps(_node_of, await self._kv.get([self._node(id) for id in ids]))

    async def all_nodes(self) -> list[BaseNode]:
        """All nodes, in the order of their first write."""
        items = _in_order(await self._kv.list(namespace=(self._namespace, "nodes")))
        return [node for node in await in_steps(_node_of, items) if node is not None]

    async def exists(self, id: str) -> bool:
        """Whether the node itself is stored."""
        (item,) = await self._kv.get([self._node(id)])
        return item is not None and item.data is not None

    async def remove(self, id: str) -> bool:
        """Removes a node in one commit; with the last node of a document, the document's metadata.

        Returns whether anything was removed.
        """
        keys = [self._node(id), self._hash(id)]
        (item, _) = await self._kv.get(keys, include_data=False)
        source = None if item is None else (item.value or {}).get("ref_doc_id")
        if source is not None and source != id:
            siblings = await self._node_keys(source)
            if set(siblings) <= {self._node(id)}:
                keys += [self._node(source), self._hash(source)]
        return any((await self._kv.delete(keys))[:2])

    async def remove_document(self, source: str) -> bool:
        """Removes a document's nodes and metadata, in one commit.

        Returns whether it had nodes.
        """
        keys = await self._node_keys(source)
        own = [self._node(source), self._hash(source)]
        await self._kv.delete(list(dict.fromkeys([*keys, *own])))
        return bool(keys)

    async def set_hashes(self, hashes: Mapping[str, str]) -> None:
        """Sets hashes in one commit, also for missing nodes."""
        items = [
            Item(namespace=namespace, key=key, value={"doc_hash": hashes[id]})
            for id in hashes
            for namespace, key in [self._hash(id)]
        ]
        await self._kv.put(items)

    async def hash(self, id: str) -> str | None:
        """The hash that was set for a node, or else the hash of its write."""
        version = await self._kv.version()
        if (known := self._known.at(version)) is not None:
            return known.get(id)
        if self._known.ask(version):
            self._known.count(version, await self._kv.count(namespace=(self._namespace, None)))
        if self._known.should_read_all(version):
            items = await self._items_with_hashes()
            hashes = _hashes(items)
            # Expiry changes the items without a new version.
            if all(item.expires_at is None for item in items):
                self._known.keep(version, hashes)
            return hashes.get(id)
        found = await self._kv.get([self._hash(id), self._node(id)], include_data=False)
        return next((_hash_of(item) for item in found if item is not None), None)

    async def hashes(self) -> dict[str, str]:
        """The hashes of all nodes, by the nodes' ids."""
        return _hashes(await self._items_with_hashes())

    async def documents(self, source: str | None = None) -> dict[str, RefDocInfo]:
        """The nodes of the documents, or of one; by document id."""
        known = {"ref_doc_id": {"$exists": True} if source is None else source}
        found = await self._kv.list(
            namespace=(self._namespace, "nodes"), filter=known, include_data=False
        )
        documents: dict[str, RefDocInfo] = {}

        def note(item: Item) -> None:
            assert item.value is not None
            info = documents.setdefault(item.value["ref_doc_id"], RefDocInfo())
            info.node_ids.append(item.key)
            info.metadata = info.metadata or decode(json.loads(item.value["metadata"]))

        await in_steps(note, _in_order(found))
        return documents

    async def _items_with_hashes(self) -> list[Item]:
        """First the nodes, then separate hashes; each in order."""
        found = await self._kv.list(namespace=(self._namespace, None), include_data=False)
        return sorted(_in_order(found), key=lambda item: item.namespace == self._hash("")[0])

    async def _node_keys(self, source: str) -> list[ItemKey]:
        return await self._kv.keys(
            namespace=(self._namespace, "nodes"), filter={"ref_doc_id": source}
        )

    def _node(self, id: str) -> ItemKey:
        return (self._namespace, "nodes"), id

    def _hash(self, id: str) -> ItemKey:
        return (self._namespace, "hashes"), id

    async def _items(self, entries: Sequence[Entry], old: Mapping[str, Item | None]) -> list[Item]:
        return await in_steps(
            lambda one: self._item(one[1], one[0], old[one[1].id]), enumerate(entries)
        )

    def _item(self, entry: Entry, index: int, old: Item | None) -> Item:
        namespace, key = self._node(entry.id)
        known = {} if old is None else dict(old.value or {})
        return Item(
            namespace=namespace,
            key=key,
            value={**entry.value, "index": known.get("index", index)},
            data=entry.data if entry.data is not None or old is None else old.data,
            data_type=JSON_TYPE,
        )


def _node_of(item: Item | None) -> BaseNode | None:
    """The node of an item, if the item holds one."""
    return None if item is None or item.data is None else node_from_json(from_data(item.data))


def _entry(node: BaseNode, *, with_content: bool) -> Entry:
    where = f"node {node.node_id!r:.80}"
    value = {"doc_hash": node.hash}
    if node.ref_doc_id:
        value["ref_doc_id"] = node.ref_doc_id
        # JSON text keeps the order of the keys.
        value["metadata"] = json.dumps(encode(node.metadata, f"the metadata of {where}"))
    data = to_data(node_to_json(node), where) if with_content else None
    return Entry(id=node.node_id, value=value, data=data)


def _refuse_taken(old: Mapping[str, Item | None]) -> None:
    for id, item in old.items():
        if item is not None and item.data is not None:
            raise AlreadyExistsError(
                f"node_id {id!r:.80} already exists: pass allow_update=True to overwrite it"
            )


def _hashes(items: Iterable[Item]) -> dict[str, str]:
    hashes = {item.key: _hash_of(item) for item in items}
    return {id: hash for id, hash in hashes.items() if hash}


def _hash_of(item: Item) -> str | None:
    return (item.value or {}).get("doc_hash")


def _in_order(items: Iterable[Item]) -> list[Item]:
    """Sorted by first write, within a commit by position."""
    return sorted(items, key=lambda one: (one.created_at or _LONG_AGO, _index(one), one.key))


def _index(item: Item) -> int:
    return int((item.value or {}).get("index", 0))
