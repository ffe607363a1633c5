"""The LanceDB store of langchain-lancedb."""

from langchain_lancedb import (  # type: ignore[import-not-found]  # only in its environment
    LanceDB,
)

from benchmarks.sides.conversations import Wanted, operations
from benchmarks.sides.langchain_vectors import Known, LangChainVectors
from benchmarks.sides.protocol import serve


class Partner(LangChainVectors):
    """Opened with its defaults."""

    def _open(self, folder: str) -> None:
        self.api = LanceDB(embedding_function=Known(self._rows.vector_of), uri=folder)

    def _filter(self, wanted: Wanted) -> list[str]:
        return self._found(wanted, filter={"topic": wanted.topic})


if __name__ == "__main__":
    serve(operations(Partner, "langchain-lancedb", "langchain-core", "lancedb"))
