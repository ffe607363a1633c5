"""The record API writes what it is given, and keeps it."""

import asyncio
import io
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from core.stores.records.record_api import EARLIER, EVERY_FIELD, assert_refused, contents
from lance_context_testing.samples import METADATA, NAMES, TEXTS

from lance_context_core import AlreadyExistsError, InvalidRequestError
from lance_context_core.messages import ImagePart, Message, TextPart

# Adding


async def test_every_field_comes_back_as_it_was_given(ctx, clock):
    edge = {"target_id": "a", "relation": "cites", "weight": 0.5}
    given = {**EVERY_FIELD, "relationships": [edge], "bot_id": "b", "superseded_by_id": "after"}
    written = await ctx.add("narrator", "Once upon a time", "text/markdown", None, [1, 2], **given)
    (record,) = await ctx.list(include_retired=True)
    assert record == {
        **given,
        "id": written.id,
        "role": "narrator",
        "content": "Once upon a time",
        "text": "Once upon a time",
        "binary": None,
        "content_type": "text/markdown",
        "embedding": [1.0, 2.0],
        "agent_id": "b",
        "context": "default",
        "author": None,
        "updated_at": clock.now(),
    }
    assert record["created_at"].utcoffset() == timedelta(0)


async def test_a_record_needs_a_role_and_a_content_and_nothing_else(ctx, clock):
    record = await ctx.get(id=(await ctx.add("user", "")).id)
    assert (record["role"], record["content"]) == ("user", "")
    assert (record["content_type"], record["kind"], record["lifecycle_status"]) == (
        "text/plain",
        "record",
        "active",
    )
    assert record["created_at"] == record["updated_at"] == clock.now()
    assert (record["metadata"], record["tags"], record["relationships"]) == ({}, [], [])
    absent = {"external_id", "tenant", "user_id", "agent_id", "bot_id", "session_id", "embedding"}
    assert {record[name] for name in absent} == {None}


async def test_an_empty_name_is_an_absent_one(ctx):
    for content in "ab":
        await ctx.add("user", content, external_id="", tenant="", session_id="", user_id="")
    assert [one["external_id"] for one in await ctx.list()] == [None, None]
    assert contents(await ctx.list(filters={"tenant": None})) == ["a", "b"]


async def test_hostile_texts_and_names_come_back_as_they_were_given(ctx):
    made = [
        {
            "role": name,
            "content": name,
            "external_id": name,
            "tenant": name,
            "tags": [name],
            "source": name,
        }
        for name in NAMES
    ]
    made += [{"role": "user", "content": text} for text in TEXTS]
    await ctx.add_many(made)
    listed = await ctx.list()
    assert contents(listed) == [one["content"] for one in made]
    assert [
        (r["role"], r["external_id"], r["tenant"], r["tags"], r["source"])
        for r in listed[: len(NAMES)]
    ] == [(name, name, name, [name], name) for name in NAMES]
    for name in NAMES:
        assert (await ctx.get(external_id=name))["content"] == name
        assert contents(await ctx.list(filters={"tenant": name, "tags": {"contains": name}})) == [
            name
        ]


@pytest.mark.parametrize("metadata", METADATA)
async def test_any_json_metadata_comes_back_as_it_was_given(ctx, metadata):
    id = (await ctx.add("user", "a", metadata=metadata, state_metadata=metadata)).id
    record = await ctx.get(id=id)
    assert record["metadata"] == record["state_metadata"] == metadata


async def test_times_may_be_written_as_iso_8601(ctx):
    times = {"created_at": "2020-03-01T06:59:59.999999Z", "expires_at": "2999-01-01T00:00:00+01:00"}
    record = await ctx.get(id=(await ctx.add("user", "a", **times)).id)
    assert record["created_at"] == EARLIER
    assert record["expires_at"] == datetime(2998, 12, 31, 23, tzinfo=UTC)


async def test_tenant_and_tags_in_the_metadata_count_where_the_record_has_none_of_its_own(ctx):
    theirs = {"tenant": "meta", "tags": ["meta"]}
    await ctx.add("user", "promoted", metadata=theirs)
    await ctx.add("user", "own", metadata=theirs, tenant="own", tags=["own"])
    await ctx.add("user", "neither", metadata={"tenant": 5, "tags": "meta"})
    shown = [(one["tenant"], one["tags"], one["metadata"]) for one in await ctx.list()]
    assert shown == [
        ("meta", ["meta"], theirs),
        ("own", ["own"], theirs),
        (None, [], {"tenant": 5, "tags": "meta"}),
    ]
    assert contents(await ctx.list(filters={"tenant": "meta"})) == ["promoted"]
    assert contents(await ctx.list(filters={"metadata.tenant": "meta"})) == ["promoted", "own"]
    assert contents(await ctx.list(filters={"tags": {"contains": "meta"}})) == ["promoted"]


async def test_bot_id_and_agent_id_are_one(ctx):
    await ctx.add("user", "bot", bot_id="b")
    await ctx.add("user", "agent", agent_id="b")
    assert [(one["bot_id"], one["agent_id"]) for one in await ctx.list()] == [("b", "b")] * 2
    for name in ("bot_id", "agent_id"):
        assert contents(await ctx.list(filters={name: "b"})) == ["bot", "agent"]


async def test_a_scope_takes_bot_id_for_agent_id(store):
    bot, agent = store.scope(bot_id="b"), store.scope(tenant="t").scope(agent_id="b", bot_id="b")
    assert repr(bot) == repr(store.scope(agent_id="b"))
    assert repr(agent) == repr(store.scope(tenant="t", bot_id="b"))
    await bot.context().add("user", "said", session_id="s")
    (record,) = await bot.context().list(filters={"bot_id": "b"})
    assert (record["agent_id"], record["bot_id"]) == ("b", "b")
    assert await bot.history.count("b", session_id="s") == 1
    for bad in ({"bot_id": "b", "agent_id": "c"}, {"bot_id": ""}, {"bot_id": 5}):
        with pytest.raises(InvalidRequestError, match=r"bot_id|agent_id"):
            store.scope(**bad)
    with pytest.raises(InvalidRequestError, match="agent_id"):
        bot.scope(bot_id="c")


@pytest.mark.usefixtures("each_write_commits")
async def test_a_batch_is_one_commit_in_the_order_given(ctx):
    first = await ctx.add("user", "first")
    written = await ctx.add_many({"role": "user", "content": str(n)} for n in range(50))
    assert written.version == first.version + 1 == await ctx.version()
    assert [one["id"] for one in await ctx.list()] == [first.id, *written.ids]
    assert contents(await ctx.list(offset=1)) == [str(n) for n in range(50)]
    assert (await ctx.add_many([])).ids == ()


@pytest.mark.parametrize("name", ["id", "external_id"])
async def test_adding_the_same_again_changes_nothing(ctx, name):
    first = await ctx.add("user", "a", **{name: "one"}, metadata={"n": 1})
    again = await ctx.add("user", "a", **{name: "one"}, metadata={"n": 2})
    assert again == first
    assert (await ctx.get(**{name: "one"}))["metadata"] == {"n": 1}
    both = await ctx.add_many(
        {"role": "user", "content": one, name: one2} for one, one2 in [("a", "one"), ("b", "two")]
    )
    assert both.ids == (first.id, (await ctx.get(**{name: "two"}))["id"])
    assert contents(await ctx.list()) == ["a", "b"]


@pytest.mark.parametrize("name", ["id", "external_id"])
@pytest.mark.parametrize(
    "other",
    [
        {"content": "b"},
        {"role": "tool"},
        {"content_type": "text/html"},
        {"content": b"a"},
        {"payload_uri": "file:a"},
    ],
)
async def test_another_content_under_a_taken_id_is_refused(ctx, name, other):
    record = {"role": "user", "content": "a", name: "one"}
    await ctx.add(**record)
    batch = [{"role": "user", "content": "new"}, {**record, **other}]
    await assert_refused(ctx, ctx.add_many(batch), AlreadyExistsError, "one")


@pytest.mark.parametrize("name", ["id", "external_id"])
async def test_one_of_many_who_give_the_same_id_at_once_wins_and_all_are_told(ctx, name):
    await ctx.add("user", "the table exists")
    same = await asyncio.gather(*(ctx.add("user", "same", **{name: "one"}) for _ in range(8)))
    assert {one.id for one in same} == {(await ctx.get(**{name: "one"}))["id"]}
    different = (ctx.add("user", str(n), **{name: "two"}) for n in range(8))
    outcomes = await asyncio.gather(*different, return_exceptions=True)
    (winner,) = [n for n, one in enumerate(outcomes) if not isinstance(one, AlreadyExistsError)]
    assert (await ctx.get(**{name: "two"}))["content"] == str(winner)
    assert await ctx.entries() == 3


async def test_records_of_another_context_have_nothing_to_do_with_these(store):
    first, second = store.context("first"), store.context("Second's")
    await first.add("user", "alpha", external_id="one", embedding=[1.0, 0.0])
    await second.add("user", "beta", external_id="one", embedding=[1.0, 0.0])
    for ctx, content in ((first, "alpha"), (second, "beta")):
        assert contents(await ctx.list()) == [content]
        assert (await ctx.get(external_id="one"))["content"] == content
        assert contents(await ctx.search([1.0, 0.0])) == [content]
        assert contents(await ctx.search("alpha beta")) == [content]
    assert await first.delete(external_id="one")
    assert (await first.entries(), await second.entries()) == (0, 1)


# Content

TABLE = pa.table({"n": [1, 2, None], "s": ["a", "ü", None]})


class Frame:
    """Something tabular of another library, such as polars."""

    def to_arrow(self):
        return TABLE


@pytest.mark.parametrize(
    "table", [TABLE, TABLE.to_batches()[0], Frame()], ids=["table", "batch", "to_arrow"]
)
async def test_a_table_is_kept_as_an_arrow_stream(ctx, table):
    record = await ctx.get(id=(await ctx.add("tool", table)).id)
    assert record["content_type"] == "application/vnd.apache.arrow.stream"
    assert pa.ipc.open_stream(io.BytesIO(record["content"])).read_all() == TABLE


@pytest.mark.parametrize("name", ["content_type", "data_type"])
@pytest.mark.parametrize(
    "content", ["a", b"a", {"a": 1}, TABLE], ids=["text", "bytes", "json", "table"]
)
async def test_a_declared_type_is_kept(ctx, name, content):
    record = await ctx.get(id=(await ctx.add("tool", content, **{name: "application/x-own"})).id)
    assert record["content_type"] == "application/x-own"


async def test_a_message_keeps_its_parts_and_what_it_knows_of_itself(store, ctx):
    message = Message(
        role="assistant",
        parts=(TextPart(text="look"), ImagePart(url="https://a/b.png", caption="a quokka")),
        name="Ann",
        created_at=EARLIER,
        metadata={"n": 1},
    )
    id = (await ctx.add("assistant", message, session_id="s", source="mail")).id
    record = await ctx.get(id=id)
    assert (record["content"], record["name"], record["source"]) == ("look", "Ann", "mail")
    assert (record["created_at"], record["metadata"]) == (EARLIER, {"n": 1})
    assert [one["id"] for one in await ctx.search("quokka")] == [id]
    (again,) = await store.history.get_messages("", session_id="s")
    assert (again.parts, again.name, again.created_at) == (message.parts, "Ann", EARLIER)


@pytest.mark.parametrize("id", ["m1", 'O\'Brien "x" . ;--'])
async def test_a_message_s_own_id_is_the_record_s(store, ctx, id):
    message = Message.user("hello", id=id)
    first = await ctx.add("user", message, session_id="s")
    assert first.id == id
    assert await ctx.add("user", message, session_id="s") == first
    assert await ctx.entries() == 1
    work = ctx.add("user", Message.user("other", id=id), session_id="s")
    await assert_refused(ctx, work, AlreadyExistsError, "taken")
    replaced = await ctx.upsert("user", Message.user("other", id=id), key="id")
    assert (replaced["inserted"], replaced["replaced_id"]) == (False, id)


async def test_an_id_of_one_s_own_goes_before_that_of_the_message(ctx):
    message = Message.user("hello", id="m1")
    assert (await ctx.add("user", message, id="mine")).id == "mine"
    outer = await ctx.add("user", message, external_id="theirs")
    assert outer.id not in {"m1", "mine"}
    assert await ctx.get(id="m1") is None
    assert (await ctx.get(external_id="theirs"))["id"] == outer.id


async def test_a_message_is_the_same_whether_history_or_the_record_api_wrote_it_first(store, ctx):
    messages = [Message.user(f"{n}", id=f"m{n}") for n in range(4)]
    await store.history.append_many("bot", messages[:2], session_id="s")
    turns = [
        {"role": one.role, "content": one, "session_id": "s", "bot_id": "bot"} for one in messages
    ]
    assert (await ctx.add_many(turns)).ids == ("m0", "m1", "m2", "m3")
    await store.history.append_many("bot", messages, session_id="s")
    read = await store.history.get_messages("bot", session_id="s")
    assert [one.id for one in read] == ["m0", "m1", "m2", "m3"]


# History


async def test_what_a_chat_role_says_in_a_session_is_a_message_of_its_history(store, ctx):
    for role in ("user", "assistant", "system", "tool", "developer", "narrator"):
        await ctx.add(role, f"{role} says", session_id="s", bot_id="bot")
        await ctx.add(role, f"{role} says elsewhere")
    said = await store.history.get_messages("bot", session_id="s")
    assert [(one.role, one.text) for one in said] == [
        (role, f"{role} says") for role in ("user", "assistant", "system", "tool", "developer")
    ]
    kinds = {one["content"]: one["kind"] for one in await ctx.list()}
    assert [name for name, kind in kinds.items() if kind == "message"] == [one.text for one in said]
    await store.history.append("bot", Message.user("and more"), session_id="s")
    assert contents(await ctx.list(filters={"session_id": "s"}))[-1] == "and more"
