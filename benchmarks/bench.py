"""What a figure is given: the sides, the records, and the folder to work in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.corpus import Corpus, make_corpus
from benchmarks.processes import Program, Side, SideError

STORE = "lance-context-core"
NO_JOURNAL = "the same, journal=None"
LANCEDB = "lancedb"
LANCE_CONTEXT = "lance-context"
SQLITE_NORMAL = "sqlite3, normal"
SQLITE_OFF = "sqlite3, off"
ADAPTER = "langchain-lance-context"
ADAPTER_STORE = "its store"
"""The store under an adapter, in the same process."""
IN_MEMORY = "InMemoryVectorStore"
COMMUNITY = "langchain-community, LanceDB"
CHROMA = "langchain-chroma"
LANGCHAIN_PEERS = (IN_MEMORY, COMMUNITY, CHROMA)
LLAMA_INDEX = "llama-index-lance-context"
SIMPLE = "SimpleVectorStore"
LLAMA_INDEX_LANCEDB = "llama-index, LanceDB"
LLAMA_INDEX_CHROMA = "llama-index, Chroma"
LLAMA_INDEX_PEERS = (LLAMA_INDEX_LANCEDB, SIMPLE, LLAMA_INDEX_CHROMA)
LLAMA_INDEX_SQLITE = "llama-index, SQLite"
LANGGRAPH = "langgraph"
"""The process that runs LangGraph over each of its checkpointers."""
SAVER = "LanceContextSaver"
SQLITE_SAVER = "AsyncSqliteSaver"
IN_MEMORY_SAVER = "InMemorySaver"
LANGGRAPH_SAVERS = (SAVER, SQLITE_SAVER, IN_MEMORY_SAVER)
ITEMS = "LanceContextStore"
SQLITE_ITEMS = "SqliteStore"
LANGGRAPH_STORES = (ITEMS, SQLITE_ITEMS)
AGENTSCOPE = "agentscope"
"""The process that runs AgentScope's ContextManager over each of its services."""
AGENTSCOPE_SERVICES = "LanceContext services"
REDIS_SERVICES = "Redis services"
IN_MEMORY_SERVICES = "InMemory services"
SIDES = (STORE, LANCEDB, LANCE_CONTEXT)
"""Those that answer every sort of question."""
COLUMNS = (
    *SIDES,
    NO_JOURNAL,
    SQLITE_NORMAL,
    SQLITE_OFF,
    ADAPTER,
    ADAPTER_STORE,
    *LANGCHAIN_PEERS,
    *LANGGRAPH_SAVERS,
    *LANGGRAPH_STORES,
    AGENTSCOPE_SERVICES,
    REDIS_SERVICES,
    IN_MEMORY_SERVICES,
    LLAMA_INDEX,
    *LLAMA_INDEX_PEERS,
    LLAMA_INDEX_SQLITE,
)
"""All there are, in the order of the report."""

_PROGRAMS = {
    STORE: Program(script="store"),
    NO_JOURNAL: Program(script="store"),
    LANCEDB: Program(script="lancedb_records", environment=LANCEDB),
    LANCE_CONTEXT: Program(script="lance_context_records", environment=LANCE_CONTEXT),
    SQLITE_NORMAL: Program(script="sqlite"),
    SQLITE_OFF: Program(script="sqlite"),
    ADAPTER: Program(script="langchain_adapter", environment=ADAPTER),
    IN_MEMORY: Program(script="langchain_in_memory", environment=IN_MEMORY),
    COMMUNITY: Program(script="langchain_community_lancedb", environment=COMMUNITY),
    CHROMA: Program(script="langchain_chroma", environment=CHROMA),
    LANGGRAPH: Program(script="langgraph_savers", environment=LANGGRAPH),
    ITEMS: Program(script="langgraph_stores", environment=LANGGRAPH),
    SQLITE_ITEMS: Program(script="langgraph_stores", environment=LANGGRAPH),
    LLAMA_INDEX: Program(script="llama_index_adapter", environment=LLAMA_INDEX),
    SIMPLE: Program(script="llama_index_simple", environment=SIMPLE),
    LLAMA_INDEX_LANCEDB: Program(script="llama_index_lancedb", environment=LLAMA_INDEX_LANCEDB),
    LLAMA_INDEX_CHROMA: Program(script="llama_index_chroma", environment=LLAMA_INDEX_CHROMA),
    LLAMA_INDEX_SQLITE: Program(script="llama_index_sqlite", environment=LLAMA_INDEX),
    AGENTSCOPE: Program(script="agentscope_services", environment=AGENTSCOPE),
}
_SLOW_ROWS = 10_000
"""How much lance-context is given: 100,000 rows take it minutes to load and seconds a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The sides that hold the records, and why the others do not."""

    sides: Mapping[str, Side]
    rows: Mapping[str, int]
    notes: tuple[str, ...]


@dataclass(kw_only=True)
class Bench:
    """One run of the benchmarks."""

    folder: Path
    """For stores and logs; the caller removes it."""
    rows: int
    repeats: int
    conversations: Path | None = None
    is_long: bool = False
    """Whether the figures that have a long form are measured in it."""
    _running: list[Side] = field(default_factory=list)

    @cached_property
    def corpus(self) -> Corpus:
        """The records of this run."""
        return make_corpus(self.rows, self.folder)

    @cached_property
    def loaded(self) -> Prepared:
        """Every side with the records of `corpus`, indexed as that side does it; loaded once."""
        sides, rows, notes = {}, {}, []
        for name in SIDES:
            count = min(self.rows, _SLOW_ROWS) if name == LANCE_CONTEXT else self.rows
            try:
                side = self.start(name)
                done = side.ask(
                    "load",
                    uri=str(self.folder / name),
                    corpus=str(self.corpus.path),
                    rows=count,
                    timeout_seconds=900,
                )
            except SideError as error:
                notes.append(self.failed(name, error))
                continue
            sides[name], rows[name] = side, count
            if count != self.rows:
                notes.append(f"{name} with {count:,} rows")
            if done:
                notes.append(f"{name}: {done}")
        return Prepared(sides=sides, rows=rows, notes=tuple(notes))

    def start(self, name: str) -> Side:
        """A new process of a side. Raises SideError if its environment cannot be made."""
        log = self.folder / f"{name}-{len(self._running)}.log"
        side = _PROGRAMS[name].start(log)
        self._running.append(side)
        return side

    def failed(self, name: str, error: Exception) -> str:
        """The note that a side failed, without the paths of this machine."""
        text = str(error).replace(str(self.folder), "DIR").replace(str(Path.cwd()), ".")
        text = " ".join(text.split())
        return f"{name} failed: {text[:200]}{'…' if len(text) > 200 else ''}"

    def close(self) -> None:
        """End all sides."""
        for side in self._running:
            side.close()


@dataclass(kw_only=True)
class Turns:
    """What the sides answered, each asked in turn."""

    answers: dict[str, list[Any]]
    notes: tuple[str, ...] = ()

    def medians_ms(self, key: str = "seconds") -> dict[str, float]:
        """The median of `key` by side, in milliseconds; the first answer is left out as warm-up."""
        return {
            name: median(answer[key] for answer in answers[1:]) * 1_000
            for name, answers in self.answers.items()
        }


def in_turn(
    bench: Bench,
    sides: Mapping[str, Side],
    requests: Sequence[Mapping[str, Any]],
    *,
    adapt: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] | None = None,
) -> Turns:
    """Ask all sides each request before the next one; who comes first changes every time.

    `adapt` changes a request for one side. A side that fails once is asked no more.
    """
    answers: dict[str, list[Any]] = {name: [] for name in sides}
    notes = []
    for number, request in enumerate(requests):
        order = list(answers)
        for name in order[number % len(order) :] + order[: number % len(order)] if order else []:
            asked = request if adapt is None else adapt(name, request)
            try:
                answers[name].append(sides[name].ask(**asked))
            except SideError as error:
                notes.append(bench.failed(name, error))
                del answers[name]
    return Turns(answers=answers, notes=tuple(notes))


def ratio(values: Mapping[str, float], *, of: str = STORE, to: str = LANCEDB) -> float | None:
    """One side's value by another's; None unless both are there."""
    if of not in values or not values.get(to):
        return None
    return values[of] / values[to]
