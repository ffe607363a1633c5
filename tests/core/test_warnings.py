"""What is done as it was asked, and perhaps not as it was meant, is said once."""

import warnings

import pytest

from lance_context_core import Document, Message
from lance_context_core.errors import ElsewhereWarning, NotEmbeddedWarning


async def heard(work):
    """What `work` warns of."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        await work
    return [(one.category, str(one.message)) for one in given]


async def say(store, text="tea"):
    await store.history.append("a", Message.user(text), session_id="s")


# Texts that get no vectors


WRITES = {
    "history": say,
    "memory": lambda store: store.memory.add(["tea"], user_id="u", duplicates="keep"),
    "record": lambda store: store.context().add("user", "tea"),
    "document": lambda store: store.vectors("docs").add([Document(text="tea")]),
}


@pytest.mark.parametrize("kind", WRITES)
async def test_texts_written_without_the_embedder_that_made_the_others_are_warned_of_once(
    kind, open_store, embedder
):
    await WRITES[kind](open_store(embedder=embedder))
    store = open_store()
    ((category, text),) = await heard(WRITES[kind](store))
    assert category is NotEmbeddedWarning
    assert repr(embedder.model) in text
    assert "embed_pending()" in text
    for write in (WRITES[kind], WRITES[kind]):
        assert await heard(write(store)) == []


async def test_each_store_that_is_opened_is_told(open_store, embedder):
    await say(open_store(embedder=embedder))
    for _ in range(2):
        assert len(await heard(say(open_store()))) == 1


async def test_nobody_is_warned_who_brings_vectors_or_has_none(open_store, embedder):
    plain = open_store()
    assert await heard(say(plain)) == []
    vector = [1.0, 0.0]
    documents = plain.vectors("docs")
    assert await heard(documents.add([Document(text="tea", embedding=vector)])) == []
    assert await heard(documents.add([Document(text="cake")])) == []
    with_one = open_store(embedder=embedder)
    assert await heard(say(with_one)) == []
    later = open_store(embedder=embedder, defer_embedding=True)
    assert await heard(say(later)) == []


# Searches that look where nothing is


async def test_a_search_over_a_store_whose_records_are_all_in_a_named_context_says_where_they_are(
    store,
):
    assert await heard(store.search("tea")) == []
    await store.context("notes").add("user", "green tea")
    ((category, text),) = await heard(store.search("tea"))
    assert category is ElsewhereWarning
    assert "store.context('notes').search" in text
    assert await heard(store.search("tea")) == []


async def test_a_search_that_finds_nothing_where_there_is_something_does_not_warn(store):
    await store.context("notes").add("user", "green tea")
    await say(store, "carrot cake")
    assert await heard(store.search("tea")) == []


async def test_a_search_in_a_scope_does_not_tell_of_the_contexts_of_others(store):
    await store.scope(tenant="other").context("secret").add("user", "green tea")
    mine = store.scope(tenant="mine")
    assert await heard(mine.search("tea")) == []
    await mine.context("notes").add("user", "green tea")
    ((_, text),) = await heard(mine.search("tea"))
    assert "'notes'" in text
    assert "secret" not in text
