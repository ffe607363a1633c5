"""What the origin of the record API promises and breaks, point by point, holds here."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from random import Random

import lancedb
import pytest
from PIL import Image, ImageChops

from lance_context_core import Context, ContextStore, InvalidRequestError, ReadOnlyError
from lance_context_core.errors import FilterError


@pytest.fixture
def uri(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def open_context(uri, clock):
    """Opens contexts, all of them on one directory, and closes them in the end."""
    opened = []

    def open_(**options):
        opened.append(Context.create(uri, **{"clock": clock, **options}))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


@pytest.fixture
def ctx(open_context):
    return open_context()


def contents(records):
    return [one["content"] for one in records]


def program(uri, body):
    """The command that runs `body` in another process, with a context on the same directory."""
    head = "import sys\nfrom lance_context_core import Context\nctx = Context.create(sys.argv[1])\n"
    return [sys.executable, "-W", "error", "-c", head + textwrap.dedent(body), str(uri)]


# 1: versions


@pytest.mark.usefixtures("each_write_commits")
def test_every_add_returns_an_id_and_makes_a_version_that_can_be_read_again(ctx):
    written = [ctx.add("user", str(n)) for n in range(5)]
    numbers = [one.version for one in written]
    assert numbers == sorted(set(numbers))
    assert ctx.version() == numbers[-1]
    assert [ctx.get(id=one.id)["content"] for one in written] == list("01234")
    for n, number in reversed(list(enumerate(numbers))):
        ctx.checkout(number)
        assert (ctx.version(), ctx.entries()) == (number, n + 1)
        assert contents(ctx.list()) == [str(one) for one in range(n + 1)]


def test_a_handle_that_looked_back_can_return_to_the_present_and_write(ctx):
    first = ctx.add("user", "first").version
    ctx.add("user", "second")
    ctx.checkout(first)
    with pytest.raises(ReadOnlyError):
        ctx.add("user", "into the past")
    ctx.checkout_latest()
    ctx.add("user", "third")
    assert contents(ctx.list()) == ["first", "second", "third"]


# 2: restarts and live handles


def test_a_store_is_written_and_read_by_one_process_after_the_other(uri):
    for n in range(2):
        body = f"ctx.add('user', '{n}', metadata={{'n': {n}}})\nprint([r['content'] for r in ctx.list()])"
        said = subprocess.check_output(program(uri, body), text=True, timeout=300)
        assert said.strip() == repr([str(one) for one in range(n + 1)])


def test_two_live_handles_see_what_the_other_wrote(open_context):
    handles = [open_context(), open_context()]
    for n in range(6):
        handles[n % 2].add("user", str(n), external_id=f"turn-{n}")
        for handle in handles:
            assert contents(handle.list()) == [str(one) for one in range(n + 1)]
            assert handle.get(external_id=f"turn-{n}")["content"] == str(n)


# 3 and 4: update and delete


@pytest.mark.parametrize("n_updates", [0, 1, 3])
def test_one_delete_forgets_a_record_however_often_it_was_changed(open_context, n_updates):
    ctx = open_context()
    ctx.upsert("user", "the code is 1234", external_id="secret")
    for n in range(n_updates):
        ctx.update(external_id="secret", metadata={"n": n})
        ctx.upsert("user", f"the code is {n}", external_id="secret")
    assert ctx.delete(external_id="secret") is True
    for handle in (ctx, open_context()):
        assert handle.get(external_id="secret") is None
        assert handle.list(include_expired=True, include_retired=True) == []
        assert handle.search("code") == []
        assert handle.entries() == 0
        assert handle.delete(external_id="secret") is False


def test_an_update_keeps_id_run_creation_and_place(ctx, clock):
    for n in range(3):
        ctx.add("user", str(n), external_id=f"turn-{n}", run_id="run", session_id="s")
        clock.advance(seconds=1)
    before = ctx.get(external_id="turn-1")
    changed = ctx.update(external_id="turn-1", metadata={"seen": True})["record"]
    now = clock.now()
    assert changed == {**before, "metadata": {"seen": True}, "updated_at": now}
    assert ctx.get(id=before["id"]) == ctx.get(external_id="turn-1") == changed
    replaced = ctx.upsert("user", "one", external_id="turn-1", run_id="run", session_id="s")
    assert replaced["record"]["id"] == before["id"]
    assert replaced["record"]["created_at"] == before["created_at"]
    assert contents(ctx.list()) == ["0", "one", "2"]
    assert contents(ctx.list(newest_first=True)) == ["2", "one", "0"]


# 6: labels


def test_a_label_is_checked_out_like_a_version(uri):
    with ContextStore.open(uri) as store:
        ctx = store.context()
        ctx.add("user", "before")
        number = store.tag("first-draft")
        ctx.add("user", "after")
        ctx.checkout("first-draft")
        assert (ctx.version(), contents(ctx.list())) == (number, ["before"])
    with Context.create(uri) as ctx:
        assert contents(ctx.checkout("first-draft").list()) == ["before"]


# 7: compaction


@pytest.mark.usefixtures("each_write_commits")
def test_compaction_removes_the_fragments_that_it_counted_and_nothing_else(ctx):
    for n in range(30):
        ctx.add("user", str(n), embedding=[1.0, n])
    ctx.delete(id=ctx.list(limit=1)[0]["id"])
    before = ctx.compaction_stats()
    assert before["total_fragments"] >= 29
    assert (before["total_compactions"], before["last_compaction"]) == (0, None)
    records, found = ctx.list(), contents(ctx.search([1.0, 5.0]))
    metrics = ctx.compact()
    after = ctx.compaction_stats()
    assert metrics["fragments_removed"] == before["total_fragments"]
    assert after["total_fragments"] == metrics["fragments_added"] == 1
    assert (after["total_compactions"], after["is_compacting"], after["last_error"]) == (1, False, None)  # fmt: skip
    assert ctx.list() == records
    assert contents(ctx.search([1.0, 5.0])) == found


# 8: entries


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_entries_is_always_the_length_of_the_list(open_context, clock, seed):
    ctx, random, counts = open_context(), Random(seed), []
    for n in range(25):
        name = f"e{random.randrange(5)}"
        match random.randrange(7):
            case 0 | 1:
                ctx.upsert("user", str(n), external_id=name)
            case 2:
                ctx.add_many([{"role": "user", "content": str(n)}] * 2)
            case 3:
                ctx.update(external_id=name, metadata={"n": n})
            case 4:
                ctx.delete(external_id=name)
            case 5:
                ctx.update(external_id=name, retired_at=clock.now())
            case 6:
                ctx.update(external_id=name, expires_at=clock.advance(seconds=1))
        counts.append((ctx.entries(), len(ctx.list())))
    assert all(counted == listed for counted, listed in counts)
    assert counts[-1][0] > 0
    assert open_context().entries() == counts[-1][0]


# 9: images


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "I;16"])
def test_an_image_is_kept_as_png_with_every_pixel(ctx, mode):
    image = Image.new(mode, (3, 2))
    image.putpixel((1, 0), 1)
    stored = ctx.get(id=ctx.add("assistant", image).id)
    assert stored["content_type"] == "image/png"
    again = Image.open(io.BytesIO(stored["binary"]))
    assert again.format == "PNG"
    assert (again.mode, again.size, again.tobytes()) == (image.mode, image.size, image.tobytes())


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_an_image_that_has_a_format_keeps_it_and_its_looks(ctx, kind):
    encoded = io.BytesIO()
    Image.effect_noise((32, 32), 80).convert("RGB").save(encoded, format=kind, quality=95)
    given = Image.open(encoded)
    stored = ctx.get(id=ctx.add("assistant", given).id)
    again = Image.open(io.BytesIO(stored["binary"]))
    assert (stored["content_type"], again.format) == (f"image/{kind.lower()}", kind)
    differences = ImageChops.difference(given.convert("RGB"), again.convert("RGB")).getextrema()
    # A JPEG rounds each time that it is encoded, but no coarser than it was.
    assert max(greatest for _, greatest in differences) <= (5 if kind == "JPEG" else 0)


def test_every_frame_of_an_image_is_kept(ctx):
    encoded = io.BytesIO()
    frames = [Image.new("L", (4, 4), color) for color in (0, 120, 250)]
    frames[0].save(encoded, format="GIF", save_all=True, append_images=frames[1:])
    stored = ctx.get(id=ctx.add("assistant", Image.open(encoded)).id)
    again = Image.open(io.BytesIO(stored["binary"]))
    assert again.n_frames == 3


def test_an_image_that_no_format_can_hold_is_refused(ctx):
    with pytest.raises(InvalidRequestError, match="content"):
        ctx.add("assistant", Image.new("F", (2, 2)))
    assert ctx.entries() == 0


# 10: external ids


@pytest.mark.parametrize("verb", ["add", "upsert"])
@pytest.mark.parametrize("ending", ["expired", "deleted", "updated and deleted", "updated and expired"])  # fmt: skip
def test_the_external_id_of_what_is_gone_can_be_given_again(ctx, clock, verb, ending):
    first = ctx.add("user", "old", external_id="page", expires_at=clock.now() if ending == "expired" else None)  # fmt: skip
    if ending.startswith("updated"):
        ctx.update(external_id="page", metadata={"read": True})
    if ending.endswith("deleted"):
        assert ctx.delete(external_id="page")
    elif ending == "updated and expired":
        ctx.update(external_id="page", expires_at=clock.now())
    clock.advance(seconds=1)
    getattr(ctx, verb)("user", "new", external_id="page")
    again = ctx.get(external_id="page")
    assert (again["content"], again["created_at"]) == ("new", clock.now())
    assert again["id"] != first.id
    assert contents(ctx.list(include_expired=True)) == ["new"]


# 11: words


@pytest.mark.parametrize("text", ["", " ", "?", "?!…", "---", "\n\t", "'", '"', "()", "AND", "*", "a:b", "+", "\\", "🤷"])  # fmt: skip
def test_a_text_without_words_to_find_finds_nothing_and_raises_nothing(ctx, text):
    ctx.add("user", "The moon is up.", embedding=[1.0, 0.0])
    assert ctx.search(text) == []
    assert ctx.retrieve(text=text) == []
    (hit,) = ctx.retrieve(text=text, vector=[1.0, 0.0])
    assert hit["matched_channels"] == ["vector"]


def test_a_rare_word_weighs_more_than_a_common_one(ctx):
    ctx.add_many(
        {"role": "user", "content": text} for text in ["the cat", "the the the", "the dog"]
    )
    ctx.add("user", "somebody saw a quokka on an island far away from here")
    assert "quokka" in ctx.search("the quokka")[0]["content"]
    ctx.add_many({"role": "user", "content": f"quarterly report number {n}"} for n in range(20))
    ctx.add("user", "a walrus, and nothing in it about what came in the last three months")
    hits = ctx.search("walrus report", limit=30)
    assert "walrus" in hits[0]["content"]
    assert hits[0]["text_score"] > 2 * hits[1]["text_score"]


# 12: filters

PEOPLE = [
    {"role": "user", "run_id": "r1", "lifecycle_status": "active", "metadata": {"age": 30, "city": "Rome"}},
    {"role": "user", "run_id": "r2", "lifecycle_status": "contradicted", "metadata": {"age": 41, "city": "Oslo"}},
    {"role": "tool", "run_id": "r2", "lifecycle_status": "active", "metadata": {"age": 41.5}},
    {"role": "it's", "run_id": None, "lifecycle_status": "active", "metadata": {"city": None, "a.b": 1}},
]  # fmt: skip
FILTERS = [
    ({"run_id": "r2"}, [1, 2]),
    ({"run_id": None}, [3]),
    ({"role": "it's"}, [3]),
    ({"lifecycle_status": "contradicted"}, [1]),
    ({"role": {"$in": ["tool", "it's"]}}, [2, 3]),
    ({"role": {"in": ["tool", "user"]}}, [0, 1, 2]),
    ({"role": {"$nin": ["user"]}}, [2, 3]),
    ({"$or": [{"run_id": "r1"}, {"city": "Oslo"}]}, [0, 1]),
    ({"$and": [{"run_id": "r2"}, {"role": "tool"}]}, [2]),
    ({"$not": {"role": "user"}}, [2, 3]),
    ({"age": {"$gt": 30}}, [1, 2]),
    ({"age": {"$gte": 30, "$lt": 41.5}}, [0, 1]),
    ({"age": 41}, [1]),
    ({"city": {"$exists": True}}, [0, 1]),
    ({"city": {"$ne": "Rome"}}, [1, 2, 3]),
    ({"metadata": {"city": "Rome"}}, [0]),
    ({"metadata.city": "Rome"}, [0]),
    ({"a.b": 1}, [3]),
    ({}, [0, 1, 2, 3]),
]


@pytest.mark.parametrize(("filters", "expected"), FILTERS, ids=[str(one[0]) for one in FILTERS])
def test_every_filter_means_the_same_for_lists_and_searches(ctx, filters, expected):
    ctx.add_many(
        {**one, "content": f"person {n}", "embedding": [1.0, n]} for n, one in enumerate(PEOPLE)
    )
    wanted = [f"person {n}" for n in expected]
    assert contents(ctx.list(filters=filters)) == wanted
    assert sorted(contents(ctx.search("person", filters=filters))) == wanted
    assert sorted(contents(ctx.search([1.0, 1.0], filters=filters))) == wanted
    assert sorted(contents(ctx.retrieve(text="person", vector=[1.0, 0.0], filters=filters))) == wanted  # fmt: skip


def test_a_record_is_filtered_by_its_id(ctx):
    ids = ctx.add_many({"role": "user", "content": str(n)} for n in range(3)).ids
    assert contents(ctx.list(filters={"id": ids[1]})) == ["1"]
    assert contents(ctx.list(filters={"id": {"$in": [ids[2], ids[0]]}})) == ["0", "2"]


@pytest.mark.parametrize("filters", [{"role": {"$like": "u%"}}, {"$xor": []}, {"$or": {"role": "user"}}, {"embedding": [1.0]}, {"created_at": {"$gt": "yesterday"}}, {"role": {"$in": "user"}}, {"role": {"near": 1}}, ["role"]])  # fmt: skip
def test_a_filter_that_is_not_understood_is_refused_by_every_read(ctx, filters):
    ctx.add("user", "person", embedding=[1.0])
    for read in (
        lambda: ctx.list(filters=filters),
        lambda: ctx.search("person", filters=filters),
        lambda: ctx.search([1.0], filters=filters),
        lambda: ctx.retrieve(text="person", vector=[1.0], filters=filters),
    ):
        with pytest.raises(FilterError):
            read()


# 13: content


@pytest.mark.parametrize("content", [None, 5, 1.5, {1, 2}, object(), float("nan"), {"a": {1}}, [float("nan")], {1: "a"}, "\ud800", True])  # fmt: skip
def test_content_that_cannot_be_kept_is_refused(ctx, content):
    with pytest.raises(InvalidRequestError, match="content"):
        ctx.add("user", content)
    assert (ctx.version(), ctx.entries()) == (0, 0)


JSON = [{"a": [1, None, {"b": "ü"}]}, [1, "two", 2.5], {}, [], {"n": 2**53 + 1}]
BYTES = [b"", b"\x00\xff", bytearray(b"abc"), memoryview(b"abc")]


@pytest.mark.parametrize("value", JSON)
def test_json_stays_json(ctx, value):
    stored = ctx.get(id=ctx.add("tool", value).id)
    assert stored["content_type"] == "application/json"
    assert json.loads(stored["content"]) == value


@pytest.mark.parametrize("value", BYTES, ids=[type(one).__name__ + str(len(one)) for one in BYTES])
def test_bytes_stay_bytes(ctx, value):
    id = ctx.add("tool", value).id
    assert ctx.get(id=id)["content_type"] == "application/octet-stream"
    assert ctx.get(id=id)["content"] == ctx.get_blob(id) == bytes(value)


@pytest.mark.parametrize("embedding", [[float("nan"), 1.0], [1.0, float("inf")], [1.0, 1e39], [], [[1.0]], "12", ["a"], 1.0])  # fmt: skip
def test_an_embedding_that_is_no_vector_is_refused(ctx, embedding):
    with pytest.raises(InvalidRequestError, match="embedding"):
        ctx.add("user", "a", embedding=embedding)
    assert (ctx.version(), ctx.entries()) == (0, 0)


# 14: roles


def test_one_write_may_have_two_hundred_roles(ctx):
    roles = [f"role {n}" for n in range(200)]
    ctx.add_many({"role": role, "content": "a"} for role in roles)
    assert [one["role"] for one in ctx.list()] == roles
    assert [one["role"] for one in ctx.list(filters={"role": "role 150"})] == ["role 150"]


# 15 and 16: searches and indexes


def test_a_record_is_found_by_words_and_by_vector_as_soon_as_it_is_written(ctx):
    for n in range(20):
        ctx.add("user", f"word{n} is new", embedding=[1.0, n])
        assert contents(ctx.search(f"word{n}")) == [f"word{n} is new"]
        assert contents(ctx.search([1.0, n], limit=1)) == [f"word{n} is new"]


def test_words_are_indexed_from_the_first_record_on(ctx, uri):
    ctx.add("user", "hello")
    (index,) = lancedb.connect(uri).open_table("records").list_indices()
    assert (index.index_type, index.columns) == ("FTS", ["search_text"])


# Reliability


def test_two_hundred_adds_from_threads_are_all_kept(ctx):
    with ThreadPoolExecutor(16) as threads:
        written = list(threads.map(lambda n: ctx.add("user", str(n)), range(200)))
    stored = {one["id"]: one["content"] for one in ctx.list()}
    assert stored == {one.id: str(n) for n, one in enumerate(written)}


async def test_twenty_gathered_adds_are_all_kept(store):
    ctx = store.context()
    written = await asyncio.gather(*(ctx.add("user", str(n)) for n in range(20)))
    stored = {one["id"]: one["content"] for one in await ctx.list()}
    assert stored == {one.id: str(n) for n, one in enumerate(written)}


def test_two_processes_lose_nothing_that_was_acknowledged(uri):
    body = "for n in range(100): print(ctx.add('user', str(n)).id, flush=True)"
    writers = [
        subprocess.Popen(program(uri, body), stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    acknowledged = [writer.communicate(timeout=300)[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    with Context.create(uri) as ctx:
        records = ctx.list()
    places = {one["id"]: place for place, one in enumerate(records)}
    assert len(records) == 200
    for ids in acknowledged:
        assert len(ids) == 100
        # Each writer's records are in the order in which they were acknowledged.
        assert [places[id] for id in ids] == sorted(places[id] for id in ids)


def test_two_handles_of_one_process_lose_nothing(open_context):
    handles = [open_context(), open_context()]
    with ThreadPoolExecutor(8) as threads:
        written = list(threads.map(lambda n: handles[n % 2].add("user", str(n)), range(80)))
    for handle in handles:
        stored = {one["id"]: one["content"] for one in handle.list()}
        assert stored == {one.id: str(n) for n, one in enumerate(written)}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize("n_acknowledged", [1, 23])
def test_a_writer_that_is_killed_loses_nothing_and_harms_nobody(uri, n_acknowledged):
    body = """
        from itertools import count
        for n in count():
            verb = ctx.add if n % 2 else ctx.upsert
            verb("user", str(n), external_id=f"turn-{n}", embedding=[1.0, n])
            if n % 5 == 0:
                ctx.compact()
            print(n, flush=True)
    """
    with subprocess.Popen(program(uri, body), stdout=subprocess.PIPE, text=True) as writer:
        acknowledged = [int(writer.stdout.readline()) for _ in range(n_acknowledged)]
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout]
    with Context.create(uri) as ctx:
        ctx.add("user", "the next one")
        ctx.update(external_id="turn-0", metadata={"a": 1})
        ctx.compact()
        stored = contents(ctx.list())
        # What was written and not yet acknowledged may be there: one record at most.
        assert stored[-1] == "the next one"
        assert stored[: len(acknowledged)] == [str(n) for n in acknowledged]
        assert len(stored) - len(acknowledged) in {1, 2}
        assert ctx.get(external_id="turn-0")["metadata"] == {"a": 1}
        assert len(ctx.search([1.0, 0.0], limit=100)) == len(stored) - 1


def test_the_data_is_there_for_whoever_opens_it_with_the_engine_alone(ctx, uri):
    ctx.add("user", "hello", external_id="turn-1", metadata={"n": 1}, embedding=[1.0, 2.0])
    ctx.add("tool", b"bytes")
    ctx.version()  # which has them in the tables
    rows = lancedb.connect(uri).open_table("records").to_arrow().to_pylist()
    assert [(one["role"], one["text"], one["blob"]) for one in rows] == [
        ("user", "hello", None),
        ("tool", None, b"bytes"),
    ]
    assert (rows[0]["external_id"], rows[0]["vector"]) == ("turn-1", [1.0, 2.0])
    assert json.loads(rows[0]["metadata"]) == {"n": 1}
