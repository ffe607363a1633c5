"""What a context of lance-context is opened with means the same here, or is refused by name."""

import re

import pytest
from core.stores.records.record_api import contents

from lance_context_core import AsyncContext, Context, as_embedder
from lance_context_core.errors import InvalidRequestError
from lance_context_core.stores.records.lookup import opening


class Provider:
    """What lance-context calls an embedding provider."""

    dims = 2

    def embed_texts(self, texts):
        return [[1.0, 0.0] if "tea" in text else [0.0, 1.0] for text in texts]


class MediaProvider(Provider):
    def embed_media(self, items):
        return [[1.0, 0.0] for _ in items]


def test_the_constructor_opens_what_create_does(tmp_path):
    with Context(tmp_path / "store", name="notes") as ctx:
        ctx.add("user", "kept")
    with Context.create(tmp_path / "store", name="notes") as ctx:
        assert contents(ctx.list()) == ["kept"]


async def test_a_provider_embeds_texts_and_queries(tmp_path):
    options = {"embedding_provider": Provider(), "distance_metric": "cosine"}
    async with await AsyncContext.create(tmp_path, **options) as ctx:
        await ctx.add_many([{"role": "user", "content": text} for text in ("milk", "tea")])
        hits = await ctx.search("a cup of tea", None)
    assert [(one["content"], one["embedding"]) for one in hits] == [
        ("tea", [1.0, 0.0]),
        ("milk", [0.0, 1.0]),
    ]


def test_a_provider_is_an_embedder_wherever_one_is_asked_for():
    assert as_embedder(Provider()).embed_query("tea").tolist() == [1.0, 0.0]
    assert as_embedder(Provider()).model.endswith("Provider")


def shown(options):
    """Options as the id of a test, which is the same in every process."""
    return re.sub(r"<[\w.]*?(\w+) object at \w+>", r"\1", repr(options))


def test_credentials_go_into_the_storage_options():
    named = {
        "aws_access_key_id": "id",
        "aws_secret_access_key": "secret",
        "aws_session_token": "token",
        "region": "eu-west-1",
        "endpoint_url": "http://localhost:9000",
        "allow_http": True,
    }
    given = {"aws_region": "eu-west-1", "timeout": "5s"}
    assert opening({**named, "storage_options": given}).store["storage_options"] == {
        "timeout": "5s",
        "aws_access_key_id": "id",
        "aws_secret_access_key": "secret",
        "aws_session_token": "token",
        "aws_region": "eu-west-1",
        "aws_endpoint_url": "http://localhost:9000",
        "aws_allow_http": "true",
    }
    assert given == {"aws_region": "eu-west-1", "timeout": "5s"}
    assert opening({"allow_http": False, "region": None}).store["storage_options"] is None


@pytest.mark.parametrize(
    "harmless",
    [{"id_index_type": "btree"}, {"id_index_type": "zonemap"}, {"compaction_target_rows": 500}],
)
async def test_what_has_no_effect_is_taken(tmp_path, harmless):
    async with await AsyncContext.create(tmp_path, **harmless) as ctx:
        await ctx.add("user", "kept")
        assert contents(await ctx.list()) == ["kept"]


@pytest.mark.parametrize("bad", [
    {"distance_metric": "l2"}, {"distance_metric": "dot"}, {"distance_metric": ["cosine"]},
    {"id_index_type": "hash"}, {"id_index_type": ["btree"]}, {"compaction_target_rows": 0},
    {"compaction_target_rows": "many"}, {"embedding_provider": {"provider": "openai"}},
    {"embedding_provider": MediaProvider()}, {"embedding_provider": Provider(), "embedder": "local"},
    {"region": 5}, {"region": True}, {"allow_http": "yes", "storage_options": {"aws_allow_http": "no"}},
    {"region": "a", "storage_options": {"aws_region": "b"}}, {"namespace": "x"},
], ids=shown)  # fmt: skip
async def test_what_cannot_be_meant_here_is_refused_by_its_name(tmp_path, bad):
    with pytest.raises(InvalidRequestError, match=next(iter(bad))):
        await AsyncContext.create(tmp_path / "store", **bad)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("bad", [
    {"embedding_provider": {"provider": "openai", "api_key": "sesame"}},
    {"aws_secret_access_key": b"sesame"}, {"aws_secret_access_key": ["sesame"]},
    {"aws_session_token": "sesame", "storage_options": {"aws_session_token": "other"}},
])  # fmt: skip
def test_a_refusal_gives_no_secret_away(bad):
    with pytest.raises(InvalidRequestError) as caught:
        opening(bad)
    assert "sesame" not in str(caught.value)


@pytest.mark.usefixtures("each_write_commits")
async def test_one_fragment_alone_is_never_merged(tmp_path):
    chosen = opening({"compaction_min_fragments": 1})
    async with await AsyncContext.create(tmp_path) as ctx:
        await ctx.add("user", "one")
        assert not await ctx._live.resources.compaction.tick(chosen.schedule)
        await ctx.add("user", "two")
        assert await ctx._live.resources.compaction.tick(chosen.schedule)


async def test_a_limit_of_none_is_ten_hits(store):
    ctx = store.context()
    await ctx.add_many({"role": "user", "content": f"tea {n}"} for n in range(12))
    assert len(await ctx.search("tea", None)) == len(await ctx.search("tea")) == 10
    assert len(await ctx.retrieve(text="tea", limit=None)) == 10


async def test_a_hit_names_the_vector_channel_first(store):
    ctx = store.context()
    await ctx.add("user", "tea", embedding=[1.0, 0.0])
    (hit,) = await ctx.retrieve(text="tea", vector=[1.0, 0.0])
    assert hit["matched_channels"] == ["vector", "text"]


async def test_a_context_knows_its_branch(store):
    await store.context().add("user", "tea")
    branch = await store.create_branch("b")
    assert (store.context().branch(), branch.context().branch()) == ("main", "b")
    past = await branch.checkout(await branch.version())
    assert past.context().branch() == "b"
