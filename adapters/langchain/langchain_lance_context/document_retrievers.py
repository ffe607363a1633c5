"""LangChain's retriever over the store's documents: adds loaded files, returns cited passages."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, PrivateAttr

from lance_context_core import DocumentScope, InvalidRequestError
from lance_context_core.adapting import (
    Handle,
    HandleOwner,
    LoadedText,
    StoreLike,
    add_loaded,
    block_on,
    citation_of,
)
from lance_context_core.arguments import FilterLike, SearchMode
from lance_context_core.documents import Chunker, PieceChunker
from lance_context_core.results import DocumentChunk, SearchHit, SourceDocument
from langchain_lance_context._documents import FACTS
from langchain_lance_context._keywords import check_keywords
from langchain_lance_context._values import decode_object, encode_object

_PAGES = ("page", "page_label", "page_number")
"""The metadata keys that differ between pages of one file."""


class LanceContextDocumentRetriever(HandleOwner, BaseRetriever):
    """Finds passages of `store.documents` by words and meaning, with citations.

    `add_documents` adds the output of LangChain's loaders. `invoke` takes `k` and `mode` in place
    of the retriever's own, and a `filter` that narrows it further.

    A found document has the metadata of its file. `lance_context` in it has the citation:
    `citation`, such as `handbook.pdf, p. 3`, `document_id`, `name`, `type`, `page` from 1,
    `section`, the offsets `start` and `end`, `score` in [0, 1] and `channels`, without absent ones.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    store: StoreLike
    """An open store, which stays open, or a URI, which `close` closes again."""
    embedding: Embeddings | None = None
    """The embedder of a store at a URI; an open store has its own."""
    splitter: Any = None
    """Cuts added documents: a text splitter of LangChain, or a `Chunker` of the store; absent
    means the store's own."""
    first_page: int = 0
    """The loader's number of the first page: LangChain's PDF loaders count from 0."""
    k: int = 4
    """Maximum number of passages."""
    filter: Any = None
    """Filters passages, in the store's filter language."""
    mode: SearchMode | None = None
    """`hybrid`, `vector` or `text`; absent means hybrid where the store can embed, else text."""
    options: Any = None
    """The store's `SearchOptions`: how hits are fused and ranked."""
    scope: DocumentScope | Sequence[DocumentScope] | None = None
    """Scopes of the documents to search; absent means all. Adding needs a single one."""
    type: str | Sequence[str] | None = None
    """File types to search, such as `pdf`; absent means all."""
    document_id: str | Sequence[str] | None = None
    """Ids of the documents to search; absent means all."""
    tenant: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    """With `tenant` and `user_id`, the scope of the store to search and add to."""

    _handle: Handle = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Opens the store."""
        super().model_post_init(context)
        self._handle = Handle(self.store, embedder=self.embedding)

    def add_documents(
        self, documents: Iterable[Document], *, scope: DocumentScope | None = None
    ) -> list[SourceDocument]:
        """As `aadd_documents`."""
        return block_on(self.aadd_documents(documents, scope=scope))

    async def aadd_documents(
        self, documents: Iterable[Document], *, scope: DocumentScope | None = None
    ) -> list[SourceDocument]:
        """Adds loaded documents, such as `loader.lazy_load()`, each file in one commit.

        Consecutive documents of one `source` that differ only in page or `row` are the pages of one
        file; any other is its own file. `scope` replaces the retriever's. Blank texts are skipped,
        and texts that are already stored are left unchanged, so that the call may be repeated.
        Returns the stored documents, in order. Raises InvalidRequestError for a value that is not a
        document, metadata that cannot be stored, and a splitter that rewrites the text; files
        before it stay stored.
        """
        if scope is None and isinstance(self.scope, DocumentScope):
            scope = self.scope
        texts = _loaded(documents, self.first_page)
        chunker = _chunker(self.splitter)
        return await add_loaded(self._room().documents, texts, scope=scope, chunker=chunker)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - the base class passes it
        **kwargs: Any,
    ) -> list[Document]:
        return block_on(self._found(query, **kwargs))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - the base class passes it
        **kwargs: Any,
    ) -> list[Document]:
        return await self._found(query, **kwargs)

    async def _found(
        self,
        query: str,
        *,
        k: int | None = None,
        filter: FilterLike | None = None,
        mode: SearchMode | None = None,
        **others: Any,
    ) -> list[Document]:
        check_keywords(others, ("k", "filter", "mode"), "invoke")
        filters = [one for one in (self.filter, filter) if one is not None]
        hits = await self._room().documents.search(
            query,
            scope=self.scope,
            type=self.type,
            document_id=self.document_id,
            filter={"$and": filters} if len(filters) > 1 else next(iter(filters), None),
            mode=mode or self.mode,
            limit=self.k if k is None else k,
            options=self.options,
        )
        return [_from_hit(hit) for hit in hits]

    def _room(self) -> Any:
        return self._handle.aio.scope(
            tenant=self.tenant, user_id=self.user_id, agent_id=self.agent_id
        )


def _from_hit(hit: SearchHit[DocumentChunk]) -> Document:
    facts = citation_of(hit.record)
    facts |= {"score": hit.score, "channels": list(hit.matched_channels)}
    metadata = {**decode_object(hit.record.metadata), FACTS: facts}
    return Document(id=hit.record.id, page_content=hit.record.text, metadata=metadata)


def _chunker(splitter: Any) -> Chunker | None:
    """A splitter as a chunker of the store."""
    cut = getattr(splitter, "split_text", None)
    if callable(cut):
        return PieceChunker(lambda text: [_text_of(piece) for piece in cut(text)])
    if splitter is None or (isinstance(splitter, Chunker) and not isinstance(splitter, str)):
        return splitter
    raise InvalidRequestError(
        f"splitter={splitter!r:.80}: give a text splitter of LangChain, or a Chunker"
    )


def _text_of(piece: Any) -> Any:
    """The text of a splitter's result: splitters by heading return documents."""
    return piece.page_content if isinstance(piece, Document) else piece


def _loaded(documents: Iterable[Document], first_page: int) -> Iterator[LoadedText]:
    for number, one in enumerate(documents):
        if not isinstance(one, Document):
            raise InvalidRequestError(
                f"documents[{number}] is a {type(one).__name__}: pass Document('…')"
            )
        source, row = one.metadata.get("source"), one.metadata.get("row")
        page, section = _page(one.metadata, first_page), None
        left_out: tuple[str, ...] = _PAGES if page is not None else ()
        if page is None and isinstance(row, int):
            # Line 1 of the file has the column names.
            section, left_out = f"row {row + 2}", ("row",)
        metadata = {name: value for name, value in one.metadata.items() if name not in left_out}
        yield LoadedText(
            text=one.page_content,
            source=str(source) if source else None,
            page=page,
            section=section,
            metadata=encode_object(metadata, f"the metadata of documents[{number}]"),
        )


def _page(metadata: dict[str, Any], first_page: int) -> int | None:
    """The number of the page, from 1, if the loader gives it."""
    number, page = metadata.get("page_number"), metadata.get("page")
    if isinstance(number, int) and number >= 1:
        return number
    return page - first_page + 1 if isinstance(page, int) and page >= first_page else None
