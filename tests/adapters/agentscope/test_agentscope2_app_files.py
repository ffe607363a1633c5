"""Uploads and knowledge bases of agentscope's app, in the store, and the app with all of ours."""

import asyncio
import io
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx
import pytest
from adapters.agentscope.agentscope2_doubles import DIMENSIONS, WordCredential, chunk
from agentscope.app.rag import (
    CollectionPerKbManager,
    DimensionPolicyKind,
    KnowledgeBaseNotFoundError,
    LocalBlobStore,
)
from agentscope.app.storage import EmbeddingModelConfig
from agentscope.credential import CredentialFactory
from agentscope_lance_context import (
    LanceContextBlobStore,
    LanceContextKnowledgeBaseManager,
    LanceContextStorage,
    LanceContextVectorStore,
)

from lance_context_core import AsyncContextStore, ContextStore, InvalidRequestError, NotFoundError

# Blobs.

KEYS = ("kb/a/1", "kb/a/2", "kb/b")
SIZES = (0, 1, 70_000, 1_100_000)


async def bytes_of(blobs, uri, n):
    async with blobs.open(uri) as reader:
        parts = []
        while part := await reader.read(n):
            parts.append(part)
            if n < 0:
                break
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(4))
async def test_any_calls_have_the_outcome_that_they_have_on_agentscope_s_own_store(seed, tmp_path):
    rng, theirs = random.Random(seed), LocalBlobStore(tmp_path / "theirs")
    uris = {}
    for _restart in range(2):
        async with LanceContextBlobStore(tmp_path / "ours") as ours, theirs:
            for _ in range(20):
                key = rng.choice(KEYS)
                verb = rng.choice(["write", "write", "read", "delete", "size"])
                if verb == "write":
                    content = rng.choice([b"a", b"b"]) * rng.choice(SIZES)
                    mine = await ours.write_stream(key, io.BytesIO(content))
                    uris[key] = mine, await theirs.write_stream(key, io.BytesIO(content))
                elif key not in uris:
                    continue
                elif verb == "delete":
                    for blobs, uri in zip((ours, theirs), uris[key], strict=True):
                        await blobs.delete(uri)
                elif verb == "size":
                    (mine, other) = uris[key]
                    assert await ours.size(mine) == await theirs.size(other)
                    assert await ours.exists(mine) == await theirs.exists(other)
                else:
                    n = rng.choice([-1, 1_000_000])
                    outcomes = []
                    for blobs, uri in zip((ours, theirs), uris[key], strict=True):
                        try:
                            outcomes.append(await bytes_of(blobs, uri, n))
                        except FileNotFoundError:
                            outcomes.append(None)
                    assert outcomes[0] == outcomes[1]


async def test_the_same_bytes_under_another_key_stay(tmp_path):
    async with LanceContextBlobStore(tmp_path) as blobs:
        first, second = [await blobs.write_stream(key, io.BytesIO(b"tea")) for key in KEYS[:2]]
        await blobs.delete(first)
        assert not await blobs.exists(first)
        assert await bytes_of(blobs, second, 2) == b"tea"
        store = blobs._handle.aio
        assert [one.size for one in await store.blobs.list()] == [3]
        await blobs.write_stream(KEYS[1], io.BytesIO(b"coffee"))
        assert [one.size for one in await store.blobs.list()] == [6]


async def test_a_large_file_is_read_in_pieces_of_the_size_asked_for(tmp_path):
    content = bytes(range(256)) * 12_000
    async with LanceContextBlobStore(tmp_path) as blobs:
        uri = await blobs.write_stream("a", io.BytesIO(content))
        async with blobs.open(uri) as reader:
            assert await reader.read(1_000_000) == content[:1_000_000]
            assert await reader.read(0) == b""
            assert await reader.read() == content[1_000_000:]
            assert await reader.read(1) == b""
        assert await blobs.size(uri) == len(content)


async def test_a_uri_of_another_store_is_refused(tmp_path):
    async with LanceContextBlobStore(tmp_path) as blobs:
        for verb in (blobs.delete, blobs.size, blobs.exists):
            with pytest.raises(InvalidRequestError, match="write_stream"):
                await verb("local://a")
        with pytest.raises(InvalidRequestError, match="key"):
            await blobs.write_stream("", io.BytesIO(b""))
        with pytest.raises(NotFoundError, match="no such blob"):
            async with blobs.open("lance-context://a"):
                pass


# Knowledge bases.


def config(credential_id):
    return EmbeddingModelConfig(
        type="word_credential", credential_id=credential_id, model="words", dimensions=DIMENSIONS
    )


@pytest.fixture(autouse=True)
def words():
    CredentialFactory.register_credential(WordCredential)


async def found_in(manager, user, base_id, said):
    knowledge = await manager.get_knowledge(user, base_id)
    return [one.chunk.content.text for one in await knowledge.search([said], top_k=1)]


@pytest.mark.parametrize("kind", ["ours", "agentscope's"])
async def test_a_knowledge_base_is_made_filled_searched_and_removed_by_its_user(kind, tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        storage = LanceContextStorage(store)
        if kind == "ours":
            manager = LanceContextKnowledgeBaseManager(store)
        else:
            manager = CollectionPerKbManager(storage, LanceContextVectorStore(store))
        credential = await storage.upsert_credential("ada", WordCredential(name="w"))
        async with manager:
            made = await manager.create_knowledge_base("ada", "Tea", "", config(credential))
            assert await manager.list_knowledge_bases("ada") == [made]
            assert await storage.get_knowledge_base("ada", made.id) == made
            assert (await manager.get_dimension_policy()).kind is DimensionPolicyKind.ANY
            knowledge = await manager.get_knowledge("ada", made.id)
            await knowledge.insert_document([chunk("green tea"), chunk("carrot cake", 1)])
            assert await found_in(manager, "ada", made.id, "tea") == ["green tea"]
            renamed = await manager.update_knowledge_base("ada", made.id, name="Teas")
            assert renamed.data.name == "Teas"
            for user, id in (("bob", made.id), ("ada", "unknown")):
                with pytest.raises(KnowledgeBaseNotFoundError):
                    await manager.get_knowledge(user, id)
                assert not await manager.delete_knowledge_base(user, id)
            assert await manager.delete_knowledge_base("ada", made.id)
            assert await manager.list_knowledge_bases("ada") == []


async def test_what_a_user_has_uploaded_is_erased_with_the_user(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        manager, bases = LanceContextKnowledgeBaseManager(store), {}
        for user in ("ada", "bob"):
            credential = await LanceContextStorage(store).upsert_credential(
                user, WordCredential(name="w")
            )
            bases[user] = (
                await manager.create_knowledge_base(user, "T", "", config(credential))
            ).id
            knowledge = await manager.get_knowledge(user, bases[user])
            await knowledge.insert_document([chunk(f"tea of {user}")])
        await store.scope(user_id="ada").erase(sole_writer=True)
        assert await manager.list_knowledge_bases("ada") == []
        assert await found_in(manager, "bob", bases["bob"], "tea") == ["tea of bob"]
        assert await store.vectors(f"kb_{bases['ada']}").count() == 0
        assert await store.vectors(f"kb_{bases['bob']}").count() == 1


# The app.

APP = """
    import sys
    import uvicorn
    from adapters.agentscope.agentscope2_doubles import WordCredential
    from agentscope.app import create_app
    from agentscope.app.workspace_manager import LocalWorkspaceManager
    from agentscope_lance_context import (
        LanceContextBlobStore,
        LanceContextKnowledgeBaseManager,
        LanceContextMessageBus,
        LanceContextStorage,
    )
    from lance_context_core import AsyncContextStore

    where, work = sys.argv[1:]
    store = AsyncContextStore.open(where)
    app = create_app(
        LanceContextStorage(store),
        LanceContextMessageBus(store),
        LocalWorkspaceManager(work),
        LanceContextKnowledgeBaseManager(store),
        blob_store=LanceContextBlobStore(store),
        extra_credentials=[WordCredential],
    )

    class Told(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets)
            print(self.servers[0].sockets[0].getsockname()[1], flush=True)

    Told(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning")).run()
"""


class App:
    """AgentScope's app in a process of its own, over a store that others have, too."""

    def __init__(self, where):
        self.command = [sys.executable, "-c", textwrap.dedent(APP), where / "s", where / "work"]

    def __enter__(self):
        tests = str(Path(__file__).parents[2])
        self.process = subprocess.Popen(
            [*map(str, self.command)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": tests},
        )
        return self

    async def begun(self):
        port = await asyncio.to_thread(self.process.stdout.readline)
        self.url = f"http://127.0.0.1:{port.strip()}"

    def __exit__(self, *_):
        self.end(signal.SIGTERM)

    def end(self, how):
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(30)
        self.process.stdout.close()

    async def ask(self, verb, path, **more):
        async with httpx.AsyncClient(base_url=self.url, headers={"X-User-ID": "ada"}) as web:
            answer = await web.request(verb, path, **more)
        return answer.raise_for_status().json() if answer.content else None


@pytest.mark.process
async def test_two_processes_of_the_app_and_one_that_was_killed_share_knowledge(tmp_path):
    with App(tmp_path) as one, App(tmp_path) as other:
        await asyncio.gather(one.begun(), other.begun())
        credential = await one.ask(
            "POST", "/credential/", json={"data": {"type": "word_credential", "name": "w"}}
        )
        model = config(credential["credential_id"]).model_dump()
        base = await one.ask(
            "POST", "/knowledge_bases/", json={"name": "Tea", "embedding_model_config": model}
        )
        home = f"/knowledge_bases/{base['knowledge_base_id']}"
        for n, app in enumerate([one, other]):
            file = (f"{n}.txt", f"Tea number {n} takes {n} minutes".encode(), "text/plain")
            await app.ask("POST", f"{home}/documents", files={"file": file})
        for _ in range(600):
            documents = (await one.ask("GET", f"{home}/documents"))["documents"]
            if {document["status"] for document in documents} == {"ready"}:
                break
            await asyncio.sleep(0.1)
        one.end(signal.SIGKILL)
        for n in range(2):
            asked = {"query": f"number {n} takes {n}", "top_k": 1}
            (found,) = (await other.ask("POST", f"{home}/search", json=asked))["results"]
            assert f"number {n}" in str(found)
        await other.ask("DELETE", home)
        assert (await other.ask("GET", "/knowledge_bases/"))["knowledge_bases"] == []
    with ContextStore.open(tmp_path / "s") as store:
        assert store.blobs.list() == []
