"""LlamaIndex's retriever over the store's documents: adds read files, returns cited passages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import (
    Document,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import MetadataFilters

from lance_context_core import DocumentScope, InvalidRequestError
from lance_context_core.adapting import (
    Handle,
    HandleOwner,
    LoadedText,
    StoreLike,
    add_loaded,
    block_on,
    citation_of,
    in_steps,
)
from lance_context_core.arguments import FilterLike, SearchMode
from lance_context_core.documents import Chunker, PieceChunker
from lance_context_core.results import DocumentChunk, SearchHit, SourceDocument
from lance_context_core.settings import SearchOptions
from llama_index_lance_context._filters import to_filter
from llama_index_lance_context._given import store_given
from llama_index_lance_context._values import decode_object, encode_object
from llama_index_lance_context._words import check_count

FACTS = "lance_context"
"""The metadata key of a passage's citation."""

_SOURCES = ("file_path", "url", "URL", "source", "file_name")
"""The readers' metadata keys of a file's location, the best one first."""

_LABELS = ("page_label", "page_number")
"""The readers' metadata keys of the page number, from 1."""


class LanceContextDocumentRetriever(HandleOwner, BaseRetriever):
    """Finds passages of `store.documents` by words and meaning, with citations.

    `add_documents` adds the output of LlamaIndex's readers. A found node has the metadata of its
    file, its offsets as `start_char_idx` and `end_char_idx`, and the file's id as `ref_doc_id`.
    `lance_context`, which no prompt shows, has the citation: `citation`, such as `handbook.pdf, p.
    3`, `document_id`, `name`, `type`, `page` from 1, `section`, `start` and `end`, without absent
    ones. Scores are in [0, 1].
    """

    def __init__(
        self,
        store: StoreLike | None = None,
        *,
        uri: StoreLike | None = None,
        node_parser: NodeParser | Chunker | None = None,
        embed_model: BaseEmbedding | None = None,
        similarity_top_k: int = 4,
        mode: SearchMode | None = None,
        filters: MetadataFilters | FilterLike | None = None,
        options: SearchOptions | None = None,
        scope: DocumentScope | Sequence[DocumentScope] | None = None,
        type: str | Sequence[str] | None = None,
        document_id: str | Sequence[str] | None = None,
        tenant: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `node_parser`: cuts added documents: one of LlamaIndex, or a `Chunker` of the store;
          absent means the store's own.
        - `embed_model`: the embedder of a store at a URI; an open store has its own.
        - `similarity_top_k`: maximum number of nodes.
        - `mode`: `hybrid`, `vector` or `text`; absent means hybrid if a vector is available, else
          text.
        - `filters`: LlamaIndex's, or in the store's own filter language.
        - `options`: how hits are fused and ranked.
        - `scope`: of the documents to search; absent means all. Adding needs a single one.
        - `type`, `document_id`: file types, or ids of documents, to search; absent means all.
        - `tenant`, `user_id`, `agent_id`: the scope of the store to search and add to.

        `uri` is another name of `store`, as in other classes. Invalid arguments raise
        InvalidRequestError, a ValueError.
        """
        super().__init__(callback_manager, verbose=verbose)
        _chunker(node_parser)  # what is none is refused at once
        self._node_parser = node_parser
        self._scope = scope
        self._how: dict[str, Any] = {
            "scope": scope,
            "type": type,
            "document_id": document_id,
            "filter": to_filter(filters) if isinstance(filters, MetadataFilters) else filters,
            "mode": mode,
            "limit": check_count(similarity_top_k, "similarity_top_k"),
            "options": options,
        }
        self._handle = Handle(store_given(store, uri), embedder=embed_model)
        self._whose = {"tenant": tenant, "user_id": user_id, "agent_id": agent_id}

    def add_documents(
        self, documents: Iterable[Document], *, scope: DocumentScope | None = None
    ) -> list[SourceDocument]:
        """As `aadd_documents`."""
        return block_on(self.aadd_documents(documents, scope=scope))

    async def aadd_documents(
        self, documents: Iterable[Document], *, scope: DocumentScope | None = None
    ) -> list[SourceDocument]:
        """Adds read documents, such as `reader.load_data()`, each file in one commit.

        Consecutive documents of one file that differ only in page are its pages; any other is its
        own file. `scope` replaces the retriever's. Blank texts are skipped, and texts that are
        already stored are left unchanged, so that the call may be repeated. Returns the stored
        documents, in order. Raises InvalidRequestError for a value that is not a document, metadata
        that cannot be stored, and a node parser that rewrites the text or cuts it more than once;
        files before it stay stored.
        """
        if scope is None and isinstance(self._scope, DocumentScope):
            scope = self._scope
        room, chunker = self._handle.aio.scope(**self._whose), _chunker(self._node_parser)
        return await add_loaded(room.documents, _loaded(documents), scope=scope, chunker=chunker)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return block_on(self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        room = self._handle.aio.scope(**self._whose)
        hits = await room.documents.search(query_bundle.query_str, **self._how)
        return await in_steps(_from_hit, hits)


def _from_hit(hit: SearchHit[DocumentChunk]) -> NodeWithScore:
    chunk = hit.record
    node = TextNode(
        id_=chunk.id,
        text=chunk.text,
        start_char_idx=chunk.start,
        end_char_idx=chunk.end,
        metadata={**decode_object(chunk.metadata), FACTS: citation_of(chunk)},
        excluded_llm_metadata_keys=[FACTS],
        excluded_embed_metadata_keys=[FACTS],
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=chunk.document_id)},
    )
    return NodeWithScore(node=node, score=hit.score)


def _chunker(parser: Any) -> Chunker | None:
    """A node parser as a chunker of the store."""
    if isinstance(parser, NodeParser):

        def cut(text: str) -> list[str]:
            nodes = parser.get_nodes_from_documents([Document(text=text)])
            return [node.get_content(MetadataMode.NONE) for node in nodes]

        return PieceChunker(cut)
    if parser is None or (isinstance(parser, Chunker) and not isinstance(parser, str)):
        return parser
    raise InvalidRequestError(
        f"node_parser={parser!r:.80}: give a node parser of LlamaIndex, or a Chunker"
    )


def _loaded(documents: Iterable[Document]) -> Iterator[LoadedText]:
    for number, one in enumerate(documents):
        if not isinstance(one, Document):
            raise InvalidRequestError(
                f"documents[{number}] is a {type(one).__name__}: pass Document(text='…')"
            )
        metadata = dict(one.metadata)
        label = _taken_label(metadata)
        is_number = label is not None and label.isdecimal() and int(label) >= 1
        sources = (metadata[name] for name in _SOURCES if metadata.get(name))
        source = next(sources, None)
        yield LoadedText(
            text=one.get_content(MetadataMode.NONE),
            source=None if source is None else str(source),
            page=int(label) if label is not None and is_number else None,
            section=None if label is None or is_number else f"p. {label}",
            metadata=encode_object(metadata, f"the metadata of documents[{number}]"),
        )


def _taken_label(metadata: dict[str, Any]) -> str | None:
    """The page number, which is removed from the metadata; None if the reader gives none."""
    found = [str(metadata.pop(name)) for name in _LABELS if _is_label(metadata, name)]
    if not found and "file_path" in metadata and str(metadata.get("source", "")).isdecimal():
        # LlamaIndex's reader for PyMuPDF uses this key.
        found = [str(metadata.pop("source"))]
    return next(iter(found), None)


def _is_label(metadata: Mapping[str, Any], name: str) -> bool:
    value = metadata.get(name)
    return isinstance(value, int | str) and not isinstance(value, bool) and value != ""
