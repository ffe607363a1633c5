"""A composer of one's own decides what everything is found by, by whatever way it comes in."""

from dataclasses import replace

import pytest
from core.conformance.doubles import WordVectors

from lance_context_core import Document, Message
from lance_context_core.settings import Composer


def secret(text):
    """Words as nobody else writes them, so that only its own pair finds them."""
    return " ".join(f"zq{word.lower()[::-1]}" for word in text.split())


def told(record):
    text = f"{record.metadata.get('topic', '')} {record.text or ''}".strip()
    return secret(text) if text else None


COMPOSER = Composer(
    embed_text=lambda record: (
        f"{record.metadata.get('topic', '')} {record.text or ''}".strip() or None
    ),
    index_text=told,
    query_text=secret,
)


class Seen(WordVectors):
    """Notes what it is asked to embed."""

    def __init__(self, model="words"):
        super().__init__(model)
        self.texts = []

    def embed_documents(self, texts):
        self.texts += texts
        return super().embed_documents(texts)


@pytest.fixture
def store(open_store):
    return open_store(composer=COMPOSER)


def milk(id="m", **metadata):
    return Document(id=id, text="no milk", metadata={"topic": "allergies", **metadata})


async def found(notes, word="allergies"):
    hits = await notes.search(word, mode="text")
    assert [hit.record.id for hit in await notes.search("zqunheard", mode="text")] == []
    return [hit.record.id for hit in hits]


async def test_added_documents(store):
    notes = store.vectors("notes")
    await notes.add([milk(), replace(milk(), id=None)])
    await notes.add([milk("n")])
    assert len(await found(notes)) == len(await found(notes, "milk")) == 3


async def test_upserted_documents(store):
    notes = store.vectors("notes")
    await notes.upsert([milk(), replace(milk("n"), metadata={})])
    assert await found(notes) == ["m"]
    await notes.upsert([milk("n"), replace(milk(), metadata={})])
    assert await found(notes) == ["n"]
    assert sorted(await found(notes, "milk")) == ["m", "n"]


async def test_documents_that_a_branch_brings(store):
    notes = store.vectors("notes")
    await store.memory.add(["a first record"])
    await notes.add([milk(), replace(milk("k"), metadata={})])
    trial = await store.create_branch("trial")
    await trial.vectors("notes").add([milk("n")])
    await trial.vectors("notes").upsert([milk(n=1), milk("k")])
    await notes.upsert([replace(milk(), text="no cream")])

    def both(conflict):
        return replace(conflict.theirs, text=f"{conflict.ours.text} {conflict.theirs.text} either")

    await store.merge("trial", policy=both)
    assert sorted(await found(notes)) == ["k", "m", "n"]
    assert await found(notes, "either") == await found(notes, "cream") == ["m"]


async def test_records_that_a_branch_brings(store):
    await store.history.append("", said("x", "no milk"), session_id="s")
    trial = await store.create_branch("trial")
    await trial.context().update(id="x", metadata={"topic": "allergies"})
    await store.context().update(id="x", metadata={"topic": "food"})
    await store.merge("trial", policy=lambda one: replace(one.theirs, text="no milk either"))
    for word in ("allergies", "either"):
        assert [hit.record.id for hit in await store.search(word, mode="text")] == ["x"]


async def test_every_way_of_a_record(store):
    await store.context().add("user", "no milk", id="a", metadata={"topic": "allergies"})
    await store.context().upsert(
        "user", "no milk", external_id="b", metadata={"topic": "allergies"}
    )
    await store.context().upsert(
        "user", "no nuts", external_id="b", metadata={"topic": "allergies"}
    )
    await store.history.append("", said("c", "no milk"), session_id="s")
    await store.history.annotate("", {"topic": "allergies"}, session_id="s")
    await store.memory.add([said("d", "no milk")], metadata={"topic": "allergies"})
    await store.history.replace("", [said("e", "no eggs")], session_id="t")
    assert len(await store.search("allergies", mode="text")) == 4
    assert [hit.record.text for hit in await store.search("eggs", mode="text")] == ["no eggs"]


async def test_documents_after_the_text_index_is_made_anew(store):
    notes = store.vectors("notes")
    await notes.add([milk(f"{n}") for n in range(5)])
    await store.maintain()
    await notes.delete(["0"])
    await store.maintain()
    assert len(await found(notes)) == 4


async def test_what_is_embedded_at_once_later_and_by_another_model_is_composed(open_store):
    at_once = Seen()
    await open_store(composer=COMPOSER, embedder=at_once).vectors("notes").add([milk()])
    later = Seen()
    deferring = open_store(composer=COMPOSER, embedder=later, defer_embedding=True)
    await deferring.vectors("later").add([replace(milk(), text="no eggs")])
    await deferring.memory.add(["so that there are records"])
    assert later.texts == []
    await deferring.embed_pending()
    other = Seen("another")
    changing = open_store(composer=COMPOSER, embedder=other)
    await changing.change_model()
    await changing.embed_pending()
    assert at_once.texts == ["allergies no milk"]
    assert "allergies no eggs" in later.texts
    assert {"allergies no milk", "allergies no eggs"} <= {*other.texts}


async def test_what_a_merge_embeds_is_composed(open_store):
    seen = Seen()
    store = open_store(composer=COMPOSER, embedder=seen)
    await store.memory.add(["a first record"])
    await store.vectors("notes").add([milk()])
    trial = await store.create_branch("trial")
    await trial.vectors("notes").upsert([milk(n=1)])
    await store.vectors("notes").upsert([milk(n=2)])
    seen.texts.clear()
    await store.merge("trial", policy=lambda one: replace(one.theirs, metadata={"topic": "diet"}))
    assert seen.texts == ["diet no milk"]


def said(id, text):
    return Message.user(text, id=id)
