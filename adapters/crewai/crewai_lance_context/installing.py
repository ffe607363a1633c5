"""All crews and flows of a process over one store: `install("memory")`."""

from typing import Any, Self

from crewai.flow.persistence import factory as flows
from crewai.knowledge.storage import factory as knowledge
from crewai.memory.storage import factory as memory

from crewai_lance_context.flow_persistence import LanceFlowPersistence
from crewai_lance_context.knowledge_storage import LanceKnowledgeStorage
from crewai_lance_context.memory_storage import LanceMemoryStorage
from lance_context_core.adapting import Handle, StoreLike

_OWN = "lancedb"
"""What CrewAI calls the memory of a crew that names no other one."""


class Installed:
    """What `install` has put in place of CrewAI's own storages."""

    memory: LanceMemoryStorage
    """The memory of all crews, agents and flows with `memory=True`."""
    flows: LanceFlowPersistence
    """The persistence of `@persist` and of flows that pause for feedback."""

    def __init__(self, handle: Handle, *, scope: str, user_id: str | None) -> None:
        """Those over an open store, which `uninstall` closes if the handle has opened it."""
        self._handle = handle
        self._user_id = user_id
        self.memory = LanceMemoryStorage(handle.aio, scope=scope, user_id=user_id)
        self.flows = LanceFlowPersistence(handle.aio, user_id=user_id)
        self._before = tuple(one._factory for one in (memory, flows, knowledge))  # noqa: SLF001 - no getter
        self._made = (self._memory_of, self._flows_of, self._knowledge_of)
        _set(*self._made)

    def uninstall(self) -> None:
        """Put back what was there before; storages that crews have already are closed.

        What someone else has installed since stays.
        """
        now = (memory._factory, flows._factory, knowledge._factory)  # noqa: SLF001 - no getter
        pairs = zip(now, self._made, self._before, strict=True)
        _set(*(before if one == made else one for one, made, before in pairs))
        self._handle.close()

    def __enter__(self) -> Self:
        """Itself, uninstalled at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """As `uninstall`."""
        self.uninstall()

    # What CrewAI calls

    def _memory_of(self, spec: str) -> LanceMemoryStorage | None:
        return self.memory if spec == _OWN else None

    def _flows_of(self) -> LanceFlowPersistence:
        return self.flows

    def _knowledge_of(self, embedder: Any, name: str | None) -> LanceKnowledgeStorage:
        collection = f"knowledge_{name}" if name else "knowledge"
        return LanceKnowledgeStorage(
            self._handle.aio, collection=collection, user_id=self._user_id, embedder=embedder
        )


def install(
    store: StoreLike, *, scope: str = "/", user_id: str | None = None, embedder: Any = None
) -> Installed:
    """Let all crews, agents and flows that are made from now on remember in `store`.

    Replaces the default memory, flow persistence and knowledge of the process: those that CrewAI
    uses where no other storage is named. `uninstall` of the result, or the end of a `with` block,
    undoes it.

    - `store`: an open one, which stays open, or a URI, which `uninstall` closes again.
    - `scope`: the path below which memories are, such as `/team/research`.
    - `user_id`: whose memory, flows and knowledge.
    - `embedder`: for a URI, what makes the vectors by which other frameworks find memories, and
      those of knowledge for crews without an embedder.
    """
    return Installed(Handle(store, embedder=embedder), scope=scope, user_id=user_id)


def _set(memory_factory: Any, flow_factory: Any, knowledge_factory: Any) -> None:
    memory.set_memory_storage_factory(memory_factory)
    flows.set_flow_persistence_factory(flow_factory)
    knowledge.set_knowledge_storage_factory(knowledge_factory)
