"""A store is opened by a plain call, with options that are declared once."""

import asyncio
import inspect
from datetime import timedelta
from pathlib import Path
from typing import get_type_hints

import pytest

from lance_context_core import (
    AsyncContext,
    AsyncContextStore,
    Context,
    ContextStore,
    InvalidRequestError,
    Message,
)
from lance_context_core.settings import OpenOptions

OPTIONS = get_type_hints(OpenOptions)
each_kind = pytest.mark.parametrize("cls", [AsyncContextStore, ContextStore])


# A plain call


def test_a_store_is_opened_where_no_event_loop_runs(tmp_path):
    store = AsyncContextStore.open(tmp_path / "store")
    asyncio.run(store.history.append("a", Message.user("tea"), session_id="s"))
    asyncio.run(store.close())
    with ContextStore.open(tmp_path / "store") as again:
        assert again.history.count("a", session_id="s") == 1


async def test_to_await_it_gives_the_same_store_as_often_as_one_likes(tmp_path):
    store = AsyncContextStore.open(tmp_path / "store")
    assert await store is store
    assert await asyncio.gather(store, store) == [store, store]
    async with await AsyncContextStore.open(tmp_path / "store") as awaited:
        await awaited.history.append("a", Message.user("tea"), session_id="s")
    async with AsyncContextStore.open(tmp_path / "store") as plain:
        assert await plain.history.count("a", session_id="s") == 1
    await store.close()


@each_kind
def test_opening_makes_nothing(tmp_path, cls):
    cls.open(tmp_path / "store")
    assert not (tmp_path / "store").exists()


# What cannot be


BAD = {
    "author": "",
    "clock": 5,
    "composer": len,
    "defer_embedding": "yes",
    "durability": "forever",
    "embedder": 5,
    "journal": True,
    "maintenance": 5,
    "search_engines": "postgres",
    "read_consistency": 5,
    "read_only": "yes",
    "retention": timedelta(days=1),
    "search_cache": 100,
    "storage_options": 5,
    "text_index": "German",
}


@each_kind
@pytest.mark.parametrize("option", OPTIONS)
def test_a_value_that_an_option_cannot_have_is_refused_at_the_call(tmp_path, cls, option):
    with pytest.raises(InvalidRequestError, match=option) as caught:
        cls.open(tmp_path / "store", **{option: BAD[option]})
    assert len(str(caught.value)) < 300
    assert not (tmp_path / "store").exists()


@each_kind
@pytest.mark.parametrize(
    ("given", "meant"),
    [("embeder", "embedder"), ("text_indexes", "text_index"), ("durable", "durability")],
)
def test_an_unknown_option_is_refused_with_the_nearest_that_there_is(tmp_path, cls, given, meant):
    with pytest.raises(InvalidRequestError, match=f"'{given}'.* did you mean '{meant}'"):
        cls.open(tmp_path, **{given: None})


def test_an_option_that_is_like_none_is_refused_with_all_that_there_are(tmp_path):
    with pytest.raises(InvalidRequestError) as caught:
        ContextStore.open(tmp_path, zzz=1)
    assert "did you mean" not in str(caught.value)
    assert all(option in str(caught.value) for option in OPTIONS)


async def test_a_context_is_opened_with_the_options_of_a_store_and_refuses_others(tmp_path):
    with pytest.raises(InvalidRequestError, match="did you mean 'quiet_hours'"):
        Context.create(tmp_path / "store", quiet_hour=[(22, 6)])
    with pytest.raises(InvalidRequestError, match="maintenance"):
        await AsyncContext.create(tmp_path / "store", maintenance=5)
    assert not (tmp_path / "store").exists()
    async with await AsyncContext.create(tmp_path / "store", durability="fsync") as context:
        await context.add("user", "tea")
    async with await AsyncContext.open(tmp_path / "store", maintenance=None) as context:
        assert await context.entries() == 1


# What is shown


@each_kind
def test_the_signature_shows_each_option_with_its_type_and_default(cls):
    parameters = inspect.signature(cls.open).parameters
    assert [*parameters] == ["uri", *OPTIONS]
    assert {name: parameters[name].annotation for name in OPTIONS} == OPTIONS
    assert all(p.kind is p.KEYWORD_ONLY for name, p in parameters.items() if name != "uri")
    assert parameters["durability"].default == "process"
    assert parameters["read_consistency"].default == timedelta(0)


@each_kind
@pytest.mark.parametrize("option", OPTIONS)
def test_help_says_of_each_option_what_it_decides(cls, option):
    assert f"\n- `{option}`: " in inspect.getdoc(cls.open)


# What names no place


@each_kind
@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("s3:/bucket/x", r"lacks a slash: write 's3://bucket/x', as a str"),
        (Path("s3://bucket/x"), r"write 's3://bucket/x', as a str, since a Path leaves one out"),
        ("memory:/", "write 'memory://'"),
        ("file:/x", "write 'file:///x'"),
        ("C:\\memory", "a path of Windows, and this is another system"),
        ("c:/memory", "a path of Windows"),
        ("\\\\server\\share", "a path of Windows"),
        ("sqlite:/x.db", "no store is opened by 'sqlite://'"),
        ("sqlite:///x.db", r"no store is opened by 'sqlite://': give a directory, 'memory://', or"),
        ("https://example.com/x", "no store is opened by 'https://'"),
        ("~nosuchuser/memory", "give the whole path"),
        ("", "uri is empty"),
        (b"memory", "give a directory or the URI of an object store"),
    ],
)
def test_what_would_become_a_strange_directory_is_refused_when_it_is_opened(
    tmp_path, monkeypatch, cls, uri, told
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidRequestError, match=told) as caught:
        cls.open(uri)
    assert "uri" in str(caught.value)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("uri", ["s3:/bucket/x", Path("s3://bucket/x"), "C:\\x", "sqlite:///x"])
def test_nothing_is_copied_exported_or_imported_to_or_from_such_a_place(tmp_path, monkeypatch, uri):
    monkeypatch.chdir(tmp_path)
    with ContextStore.open("store") as store:
        store.history.append("a", Message.user("tea"), session_id="s")
        for work in (store.copy, store.export):
            with pytest.raises(InvalidRequestError, match="destination="):
                work(uri)
        with pytest.raises(InvalidRequestError, match="source="):
            store.import_(uri)
        with pytest.raises(InvalidRequestError, match="a file or a folder of this machine"):
            store.export("s3://bucket/x")
    assert [one.name for one in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("name", ["a:b", "s3", "x:", "memory", "C", "./s3:/bucket"])
def test_a_directory_may_have_an_odd_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with ContextStore.open(name) as store:
        store.history.append("a", Message.user("tea"), session_id="s")
        assert Path(store.uri) == tmp_path / name
    assert (tmp_path / name / "records.lance").is_dir()


@pytest.mark.parametrize("uri", ["s3://b/x", "S3://b/x", "gs://b/x", "az://b/x", "abfss://c@a/x"])
def test_an_object_store_is_told_by_its_scheme_in_any_case(uri):
    scheme, rest = uri.split("://")
    assert AsyncContextStore.open(uri).uri == f"{scheme.lower()}://{rest}"
