"""Files in a store: added once, found with their citation, replaced and forgotten as wholes."""

import asyncio
import io

import pytest
from core.conformance.doubles import ManualClock, WordVectors
from core.documents.files import pdf

from lance_context_core import (
    AsyncContextStore,
    ContextStore,
    DocumentScope,
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
)
from lance_context_core.codecs import sources
from lance_context_core.documents import Passage, TextChunker, writing
from lance_context_core.errors import EmbeddingModelMismatchError, UnreadableDocumentError

ADA, BOB = DocumentScope(conversation_id="ada"), DocumentScope(conversation_id="bob")
HOUSE = DocumentScope(project_id="it's a house")
BY_PARAGRAPH = TextChunker(target=30, most=60, least=0, overlap=0)


class Counting(WordVectors):
    """Remembers what it embedded."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def embed_documents(self, texts):
        self.texts += texts
        return super().embed_documents(texts)


@pytest.fixture
def embedder():
    return Counting()


@pytest.fixture(params=["a journal", "no journal", "long for its steps"])
def store(request, tmp_path, embedder, monkeypatch):
    options = {"journal": None} if request.param == "no journal" else {}
    if request.param == "long for its steps":
        monkeypatch.setattr(writing, "STEP", 1)
        monkeypatch.setattr(sources, "PIECE", 7)
    with ContextStore.open(
        tmp_path / "store", embedder=embedder, clock=ManualClock(), **options
    ) as opened:
        yield opened


@pytest.fixture
def documents(store):
    return store.documents


def paragraphs(*texts):
    return "\n\n".join(texts).encode()


def texts(documents, document):
    return [one.text for one in documents.chunks(document.id)]


def names(found):
    return sorted(one.name for one in found)


# Adding


class Named(io.BytesIO):
    """As an open file."""

    def __init__(self, path):
        super().__init__(path.read_bytes())
        self.name = str(path)


@pytest.mark.parametrize("how", ["path", "text of a path", "bytes", "file", "text file"])
def test_a_file_is_added_however_it_is_handed_over(documents, tmp_path, how):
    path = tmp_path / "notes.md"
    path.write_bytes(b"# Notes\n\nGreen tea.")
    name = None if how in {"path", "text of a path", "file"} else "notes.md"
    source = {
        "path": path,
        "text of a path": str(path),
        "bytes": path.read_bytes(),
        "file": Named(path),
        "text file": io.StringIO(path.read_text()),
    }[how]
    added = documents.add(source, name=name, metadata={"team": "ops"})
    assert (added.name, added.type, added.title) == ("notes.md", "markdown", "Notes")
    assert (added.size, added.n_chunks, added.metadata) == (19, 1, {"team": "ops"})
    assert documents.get(added.id) == added
    assert documents.list() == [added]
    assert documents.text(added.id) == "# Notes\n\nGreen tea."
    assert documents.content(added.id) == b"# Notes\n\nGreen tea."


def test_a_chunk_says_where_it_stands_and_how_it_is_cited(documents):
    added = documents.add(
        pdf("Trains are booked here.", "Flights are not.", outline=[("Travel", 1)]),
        name="handbook.pdf",
    )
    first, second = documents.chunks(added.id)
    assert first.citation == "handbook.pdf, p. 1, Travel"
    assert second.citation == "handbook.pdf, p. 2, Travel"
    text = documents.text(added.id)
    assert [text[one.start : one.end] for one in (first, second)] == [first.text, second.text]
    assert [one.id for one in (first, second)] == [f"{added.id}:0", f"{added.id}:1"]
    assert documents.chunks(added.id, offset=1, limit=1) == [second]


def of_documents(store):
    return next(table for table in store.stats().tables if table.table == "documents")


def test_adding_a_file_is_one_commit(tmp_path):
    with ContextStore.open(tmp_path / "s", embedder=WordVectors(), journal=None) as store:
        store.documents.add(b"the first makes the table", name="first.txt")
        before = of_documents(store)
        store.documents.add(
            paragraphs(*(f"paragraph {n}" for n in range(50))), name="a.txt", chunker=BY_PARAGRAPH
        )
        after = of_documents(store)
        assert (after.versions - before.versions, after.rows > before.rows + 10) == (1, True)


def test_a_file_is_in_its_scope_once_whatever_it_is_called(documents, embedder):
    added = documents.add(b"green tea", name="a.txt", scope=ADA)
    n_embedded = len(embedder.texts)
    assert documents.add(b"green tea", name="b.md", scope=ADA) == added
    assert len(embedder.texts) == n_embedded
    others = [documents.add(b"green tea", scope=one) for one in (BOB, HOUSE, None)]
    assert len({added.id, *(one.id for one in others)}) == 4
    assert documents.count() == 4


def test_what_a_narrower_scope_has_is_not_that_of_a_wider_one(store):
    narrower = store.scope(user_id="ada").documents.add(b"green tea", name="hers.txt")
    mine = store.documents.add(b"green tea", name="mine.txt")
    assert (mine.name, mine.user_id) == ("mine.txt", None)
    assert mine.id != narrower.id
    assert store.documents.add(b"green tea", name="again.txt") == mine
    assert store.scope(user_id="ada").documents.list() == [narrower]


def test_a_file_that_many_add_at_once_is_there_once(tmp_path):
    async def run():
        async with AsyncContextStore.open(tmp_path / "s", embedder=WordVectors()) as store:
            added = await asyncio.gather(
                *(store.documents.add(b"green tea", name=f"{n}.txt") for n in range(8))
            )
            assert len({one.id for one in added}) == 1
            assert await store.documents.count() == 1
            assert len(await store.documents.chunks(added[0].id)) == 1

    asyncio.run(run())


def test_handles_of_different_tenants_share_nothing(store):
    added = {
        tenant: store.scope(tenant=tenant).documents.add(b"green tea", name=f"{tenant}.txt")
        for tenant in ("a", "b")
    }
    assert added["a"].id != added["b"].id
    inside = store.scope(tenant="a").documents
    assert inside.list() == [added["a"]]
    assert [hit.record.name for hit in inside.search("tea")] == ["a.txt"]
    assert inside.get(added["b"].id) is None
    assert not inside.delete(added["b"].id)
    with pytest.raises(NotFoundError):
        inside.update(added["b"].id, b"black tea")
    # Who sees all tenants changes a document where it is.
    changed = store.documents.update(added["b"].id, b"black tea")
    assert (changed.tenant, changed.name) == ("b", "b.txt")
    assert store.scope(tenant="b").documents.list() == [changed]


@pytest.mark.parametrize("keep", ["bytes", "uri", "hash"])
def test_of_a_file_is_kept_what_is_asked_for(documents, tmp_path, keep):
    path = tmp_path / "a.txt"
    path.write_bytes(b"green tea")
    added = documents.add(path, keep=keep)
    assert documents.content(added.id) == (b"green tea" if keep == "bytes" else None)
    assert added.uri == (None if keep == "hash" else path.as_uri())


@pytest.mark.parametrize(
    "name", ["../../etc/a.txt", "C:\\temp\\a.txt", "/a.txt", "x/../a.txt", "a.txt"]
)
def test_of_a_name_only_the_last_part_is_kept(documents, name):
    assert documents.add(b"green tea", name=name).name == "a.txt"


def test_a_file_that_is_too_large_is_refused_before_it_is_read(documents, tmp_path):
    path = tmp_path / "large.txt"
    with path.open("wb") as file:
        file.truncate(2 * 1024**3)
    for source in (path, b"x" * 11, io.BytesIO(b"x" * 11)):
        with pytest.raises(UnreadableDocumentError, match="over max_bytes"):
            documents.add(source, max_bytes=10 if source is not path else 1024**2)
    assert documents.count() == 0


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"source": 3}, id="no source"),
        pytest.param({"scope": "global"}, id="a scope that is a text"),
        pytest.param({"metadata": {"a": object()}}, id="metadata that is not JSON"),
        pytest.param({"keep": "all"}, id="keep what"),
        pytest.param({"chunker": len}, id="no chunker"),
        pytest.param({"chunker": "sentences"}, id="a text, which has a method split"),
        pytest.param({"max_bytes": 0}, id="no bytes"),
        pytest.param({"name": ""}, id="no name"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(documents, arguments):
    with pytest.raises(InvalidRequestError, match=next(iter(arguments))):
        documents.add(**{"source": b"x", **arguments})
    assert documents.count() == 0


def test_a_scope_is_a_conversation_or_a_project():
    with pytest.raises(InvalidRequestError, match="give one of"):
        DocumentScope(conversation_id="c", project_id="p")
    with pytest.raises(InvalidRequestError, match="conversation_id is empty"):
        DocumentScope(conversation_id="")


def test_a_chunker_of_ones_own_is_asked_and_checked(documents):
    class Whole:
        def __init__(self, *passages):
            self.passages = passages

        def split(self, document):
            return self.passages

    added = documents.add(b"green tea", chunker=Whole(Passage(start=6, end=9, section="here")))
    assert [(one.text, one.section) for one in documents.chunks(added.id)] == [("tea", "here")]
    for wrong in (Passage(start=0, end=99), "tea"):
        with pytest.raises(InvalidRequestError, match="the chunker returned"):
            documents.add(b"black tea", chunker=Whole(wrong))


def test_ids_may_hold_quotes_and_name_nothing_else(documents):
    for id in ("it's", "' OR '1'='1", '"', "--", "%", "\\"):
        scope = DocumentScope(conversation_id=id)
        added = documents.add(b"green tea", name=f"{id}.txt", scope=scope)
        assert documents.list(scope=scope) == [added]
        assert [hit.record.document_id for hit in documents.search("tea", scope=scope)] == [
            added.id
        ]
        assert documents.get(id) is None
        assert documents.search("tea", document_id=id) == []
        assert not documents.delete(id)
    assert documents.count() == 6


def test_another_embedding_model_is_refused_before_a_file_is_written(tmp_path):
    with ContextStore.open(tmp_path / "s", embedder=WordVectors("one")) as store:
        kept = store.documents.add(b"green tea", name="a.txt")
    with ContextStore.open(tmp_path / "s", embedder=WordVectors("another")) as store:
        with pytest.raises(EmbeddingModelMismatchError, match=r"'another'.*'one'"):
            store.documents.add(b"black tea", name="b.txt")
        assert store.documents.list() == [kept]
        assert len(store.blobs.list()) == 1


# Many


def test_many_files_are_added_whatever_becomes_of_each(documents, tmp_path):
    for name, content in {"a.txt": b"one", "b.pdf": b"%PDF-1.7 broken", "c.md": b"three"}.items():
        (tmp_path / name).write_bytes(content)
    seen = []
    done = documents.add_many(
        (tmp_path / name for name in ("a.txt", "b.pdf", "c.md", "missing.txt")),
        scope=ADA,
        progress=seen.append,
    )
    assert [one.name for one in done.documents] == ["a.txt", "c.md"]
    assert [one.name for one in done.failed] == ["b.pdf", "missing.txt"]
    assert all(isinstance(one.error, UnreadableDocumentError) for one in done.failed)
    assert [(one.n_done, one.n_files, one.name, one.error is None) for one in seen] == [
        (1, None, "a.txt", True),
        (2, None, "b.pdf", False),
        (3, None, "c.md", True),
        (4, None, "missing.txt", False),
    ]


def test_of_many_files_one_at_a_time_is_asked_for(documents):
    asked = []

    def files():
        for number in range(3):
            asked.append((number, documents.count()))
            yield f"text {number}".encode()

    documents.add_many(files())
    assert asked == [(0, 0), (1, 1), (2, 2)]


def test_documents_are_listed_in_the_order_of_adding_and_their_chunks_in_that_of_the_text(
    documents,
):
    added = [documents.add(f"tea {n}".encode(), name=name) for n, name in enumerate("cabed")]
    three = [f"{word} tea is in this paragraph" for word in ("no", "more", "and")]
    documents.update(added[0].id, paragraphs(*three), chunker=BY_PARAGRAPH)
    listed = [one.id for one in documents.list()]
    assert sorted(listed) == sorted(one.id for one in added)
    assert [one for one in listed if one != added[0].id] == [one.id for one in added[1:]]
    assert [one.id for one in documents.list(offset=1, limit=2)] == listed[1:3]
    assert texts(documents, added[0]) == three


# Searching


def test_words_that_only_one_chunk_has_find_it_beside_what_is_near_in_meaning(documents):
    for number in range(12):
        documents.add(f"green tea and black tea {number}".encode(), name=f"{number}.txt")
    documents.add(b"xylograph among other things entirely", name="odd.txt")
    hits = documents.search("green tea and black tea xylograph", limit=3)
    assert "odd.txt" in [hit.record.name for hit in hits]
    assert {channel for hit in hits for channel in hit.channels} == {"text", "vector"}


def test_a_search_finds_what_is_for_its_scope_or_for_everybody(documents):
    for name, scope in {"ada": ADA, "bob": BOB, "house": HOUSE, "all": None}.items():
        documents.add(f"tea of {name}".encode(), name=name, scope=scope)

    def found(scope):
        listed = names(documents.list(scope=scope))
        assert names(hit.record for hit in documents.search("tea", scope=scope)) == listed
        assert documents.count(scope=scope) == len(listed)
        return listed

    assert found(ADA) == ["ada", "all"]
    assert found([BOB, HOUSE]) == ["all", "bob", "house"]
    assert found(DocumentScope()) == found([]) == ["all"]
    assert found(None) == ["ada", "all", "bob", "house"]


def test_a_search_is_narrowed_by_type_document_and_filter(documents):
    text = documents.add(b"tea one", name="a.txt", metadata={"year": 2020})
    documents.add(b"tea two", name="b.md", metadata={"year": 2021})
    documents.add(pdf("tea", "tea again"), name="c.pdf", metadata={"year": 2021})

    def found(**arguments):
        return names(hit.record for hit in documents.search("tea", **arguments))

    assert found(type="pdf") == ["c.pdf", "c.pdf"]
    assert found(type=["text", "markdown"]) == ["a.txt", "b.md"]
    assert found(document_id=text.id) == ["a.txt"]
    assert found(document_id=[]) == []
    assert found(filter={"year": 2021, "page": {"$exists": False}}) == ["b.md"]
    assert found(filter={"page": {"$gt": 1}}) == ["c.pdf"]
    assert names(documents.list(filter={"n_pages": 2})) == ["c.pdf"]
    assert names(documents.list(type="markdown", filter={"year": 2021})) == ["b.md"]


def test_a_chunk_is_found_by_the_heading_above_it(documents):
    text = b"# Xylograph\n\n" + paragraphs(*(f"paragraph number {n} of it" for n in range(9)))
    documents.add(text, name="a.md", chunker=BY_PARAGRAPH)
    hits = documents.search("xylograph", mode="text", limit=20)
    assert len(hits) == documents.list()[0].n_chunks > 3


# Replacing


def test_an_update_leaves_exactly_the_new_chunks_and_embeds_only_what_is_new(tmp_path):
    first = ["paragraph one is here", "paragraph two is here", "paragraph three is here"]
    with ContextStore.open(tmp_path / "s", embedder=WordVectors()) as store:
        added = store.documents.add(paragraphs(*first), name="a.txt", chunker=BY_PARAGRAPH)
    embedder = Counting()  # which has no vector in its cache yet
    with ContextStore.open(tmp_path / "s", embedder=embedder) as store:
        documents = store.documents
        second = [first[0], "something new in the middle", *first[1:]]
        changed = documents.update(added.id, paragraphs(*second), chunker=BY_PARAGRAPH)
        assert embedder.texts == ["something new in the middle"]
        assert texts(documents, added) == second
        assert (changed.id, changed.name, changed.n_chunks) == (added.id, "a.txt", 4)
        assert changed.hash != added.hash

        documents.update(added.id, paragraphs(second[1]), chunker=BY_PARAGRAPH)
        assert texts(documents, added) == [second[1]]
        assert embedder.texts == ["something new in the middle"]
        assert documents.search("paragraph two", mode="text") == []
        (hit,) = documents.search("something new in the middle", mode="vector")
        assert hit.score == pytest.approx(1.0)


def test_of_a_long_document_only_the_page_is_written_that_changed(tmp_path):
    pages = [f"page number {n} says {n * n}" for n in range(40)]
    with ContextStore.open(tmp_path / "s", embedder=WordVectors(), journal=None) as store:
        added = store.documents.add(pdf(*pages), name="a.pdf")
    embedder = Counting()
    with ContextStore.open(tmp_path / "s", embedder=embedder, journal=None) as store:
        before = {one.id: one for one in store.documents.chunks(added.id)}
        written = store.aio.documents._documents.table.written
        pages[17] = "page number 17 says 288"
        store.documents.update(added.id, pdf(*pages))
        assert embedder.texts == ["page number 17 says 288"]
        assert written.rows == 2  # the document, and its page
        after = {one.id: one for one in store.documents.chunks(added.id)}
        assert [one for one in after if after[one] != before[one]] == [f"{added.id}:17"]


def test_an_update_is_one_commit_and_one_of_nothing_is_none(tmp_path):
    with ContextStore.open(tmp_path / "s", embedder=WordVectors(), journal=None) as store:
        added = store.documents.add(b"green tea", name="a.txt", metadata={"a": 1})

        def version():
            return of_documents(store).versions

        before = version()
        changed = store.documents.update(added.id, paragraphs("black tea", "and so on"))
        assert version() == before + 1
        assert store.documents.update(added.id, metadata={"a": 1}) == changed
        same = paragraphs("black tea", "and so on")
        assert store.documents.update(added.id, same) == changed
        assert version() == before + 1


def test_metadata_is_replaced_without_the_file(documents, embedder):
    added = documents.add(b"green tea", name="a.txt", scope=ADA, metadata={"a": 1})
    embedder.texts.clear()
    changed = documents.update(added.id, metadata={"b": 2}, name="c.txt")
    assert (changed.metadata, changed.name, changed.hash) == ({"b": 2}, "c.txt", added.hash)
    assert (changed.scope, documents.content(added.id)) == (ADA, b"green tea")
    assert embedder.texts == []
    (hit,) = documents.search("tea", filter={"b": 2})
    assert hit.record.citation == "c.txt"


def test_what_a_document_began_as_may_be_added_again(documents):
    first = documents.add(b"green tea", name="a.txt")
    documents.update(first.id, b"black tea")
    second = documents.add(b"green tea", name="b.txt")
    assert second.id != first.id
    assert names(documents.list()) == ["a.txt", "b.txt"]
    assert documents.add(b"green tea") == second


def test_of_updates_at_once_one_is_the_last_and_nothing_is_mixed(tmp_path):
    async def run():
        async with AsyncContextStore.open(tmp_path / "s", embedder=WordVectors()) as store:
            added = await store.documents.add(b"nothing yet", name="a.txt")
            versions = [
                paragraphs(*(f"version {n} paragraph {m}" for m in range(n + 1))) for n in range(4)
            ]
            await asyncio.gather(
                *(store.documents.update(added.id, one, chunker=BY_PARAGRAPH) for one in versions)
            )
            found = [one.text for one in await store.documents.chunks(added.id)]
            assert "\n\n".join(found).encode() in versions
            assert (await store.documents.get(added.id)).n_chunks == len(found)

    asyncio.run(run())


def test_a_broken_file_leaves_the_document_as_it_is(documents):
    added = documents.add(b"green tea", name="a.txt")
    with pytest.raises(UnreadableDocumentError):
        documents.update(added.id, b"%PDF-1.7 broken")
    assert documents.get(added.id) == added
    assert texts(documents, added) == ["green tea"]


# Forgetting


def test_a_document_goes_with_its_chunks(documents):
    added = documents.add(b"green tea", name="a.txt")
    other = documents.add(b"black tea", name="b.txt")
    assert documents.delete(added.id)
    assert not documents.delete(added.id)
    assert documents.chunks(added.id) == []
    for mode in ("text", "vector"):
        assert names(hit.record for hit in documents.search("green tea", mode=mode)) == ["b.txt"]
    assert documents.list() == [other]
    for call in (documents.text, documents.content, documents.update):
        with pytest.raises(NotFoundError, match="no such document"):
            call(added.id)


def test_an_erased_document_is_in_no_file_of_the_store(tmp_path):
    with ContextStore.open(tmp_path / "s", journal=None) as store:
        added = store.documents.add(b"the password is xylograph", name="a.txt")
        kept = store.documents.add(b"green tea", name="b.txt")
        store.documents.update(added.id, b"the password is gone")
        assert store.documents.erase(added.id, dry_run=True).documents == 1
        assert store.documents.erase(added.id, sole_writer=True).documents == 1
        assert store.documents.list() == [kept]
    held = b"".join(one.read_bytes() for one in (tmp_path / "s").rglob("*") if one.is_file())
    assert b"green tea" in held
    assert b"xylograph" not in held


def test_the_documents_of_a_scope_go_with_all_that_it_has(store):
    store.scope(user_id="ada").documents.add(b"green tea", name="a.txt")
    kept = store.scope(user_id="bob").documents.add(b"green tea", name="b.txt")
    erased = store.scope(user_id="ada").erase()
    assert erased.documents == 1
    assert store.documents.list() == [kept]


# Time


def test_documents_are_on_their_branch_and_merged_with_it(store):
    store.context().add("user", "something")
    store.documents.add(b"green tea", name="a.txt")
    branch = store.create_branch("try")
    added = branch.documents.add(b"black tea", name="b.txt")
    assert names(store.documents.list()) == ["a.txt"]
    store.merge("try")
    assert names(store.documents.list()) == ["a.txt", "b.txt"]
    assert texts(store.documents, added) == ["black tea"]


def test_documents_are_there_as_they_were(store):
    store.context().add("user", "something")
    added = store.documents.add(b"green tea", name="a.txt")
    store.tag("before")
    store.documents.update(added.id, b"black tea")
    past = store.checkout("before").documents
    assert texts(past, added) == ["green tea"]
    with pytest.raises(ReadOnlyError):
        past.add(b"more", name="c.txt")
    store.restore("before")
    assert texts(store.documents, added) == ["green tea"]


def test_chunks_are_embedded_later_where_that_is_asked_for(tmp_path, embedder):
    with ContextStore.open(tmp_path / "s", embedder=embedder, defer_embedding=True) as store:
        store.documents.add(pdf("green tea", "black tea"), name="a.pdf")
        assert (embedder.texts, store.documents.search("green", mode="vector")) == ([], [])
        assert store.embed_pending() == 2
        assert sorted(embedder.texts) == ["black tea", "green tea"]
        assert store.documents.search("green tea", mode="vector")[0].record.page == 1


def test_files_that_were_kept_are_read_by_a_store_that_is_opened_again(tmp_path):
    with ContextStore.open(tmp_path / "s") as store:
        added = store.documents.add(b"green tea", name="a.txt", scope=HOUSE)
    with ContextStore.open(tmp_path / "s") as store:
        assert store.documents.list(scope=HOUSE) == [added]
        store.maintain()
        assert [hit.record.name for hit in store.documents.search("tea")] == ["a.txt"]
