"""The files of the store, as LlamaIndex's retriever: what readers have read goes in, citations come out."""

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
"""The metadata key under which a passage's node says what it is cited by."""

_SOURCES = ("file_path", "url", "URL", "source", "file_name")
"""The metadata keys in which readers say where a file is, the best one first."""

_LABELS = ("page_label", "page_number")
"""The metadata keys in which they say which page it is, from 1."""


class LanceContextDocumentRetriever(HandleOwner, BaseRetriever):
    """Finds the passages of `store.documents` that answer a text, by words and by meaning, and cites them.

    `add_documents` puts there what LlamaIndex's readers have read. A node that is found has the
    metadata of the file, its offsets as `start_char_idx` and `end_char_idx`, and the file's id as
    `ref_doc_id`. Under `lance_context`, which no prompt shows, stands what it is cited by:
    `citation`, such as `handbook.pdf, p. 3`, `document_id`, `name`, `type`, `page` from 1, `section`,
    `start` and `end`, without what is absent. Scores lie in [0, 1].
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

        - `node_parser`: what cuts the documents that are added: one of LlamaIndex, or a `Chunker` of the
          store; absent means the store's own.
        - `embed_model`: what the store at the URI is embedded with; an open store has its own.
        - `similarity_top_k`: how many nodes to return at most.
        - `mode`: `hybrid`, `vector` or `text`; absent means hybrid where a vector can be had, else
          text.
        - `filters`: which may be found, as LlamaIndex's or in the store's own filter language.
        - `options`: how hits are fused and ranked.
        - `scope`: for whom the documents are that may be found; absent means all. One is that of what
          is added.
        - `type`, `document_id`: of which types the files are, or which they are; absent means all.
        - `tenant`, `user_id`, `agent_id`: the scope of the store that is searched and added to.

        `uri` is what other classes call `store`. What cannot be raises InvalidRequestError, a
        ValueError.
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
        """Add what readers have read, such as `reader.load_data()`, each file in one commit.

        Documents of one file that follow each other and differ in their page alone are its pages; any
        other is a file of its own. `scope` is for whom they are, without one that of the retriever.
        What is blank is left out; what is there already, by its texts, is left as it is, so that the call
        may be repeated. Returns what is there now, in order. Raises InvalidRequestError for what
        is no document, metadata that cannot be kept, and a node parser that rewrites the text or
        cuts it more than once; the files before it are there.
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
    """Which page it is, which is taken out of the metadata; None if no reader says it."""
    found = [str(metadata.pop(name)) for name in _LABELS if _is_label(metadata, name)]
    if not found and "file_path" in metadata and str(metadata.get("source", "")).isdecimal():
        # The reader that PyMuPDF stands behind calls the page so.
        found = [str(metadata.pop("source"))]
    return next(iter(found), None)


def _is_label(metadata: Mapping[str, Any], name: str) -> bool:
    value = metadata.get(name)
    return isinstance(value, int | str) and not isinstance(value, bool) and value != ""
