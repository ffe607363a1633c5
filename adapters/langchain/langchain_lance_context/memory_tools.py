"""Tools by which an agent manages a user's memories, and a manager that does so automatically.

They have LangMem's signatures: `manage_memory` and `search_memory`, and a manager of a store.
Memories are facts of the store's knowledge, with evidence and history; or, in a namespace, items of
LangGraph's store like LangMem's.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args
from uuid import uuid4

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field

from lance_context_core import (
    AsyncContextStore,
    AsyncKnowledge,
    ContextStoreError,
    InvalidRequestError,
)
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, block_on, listed
from lance_context_core.knowledge import Added, Job, Model, NoteExtractor
from langchain_lance_context._messages import to_canonical
from langchain_lance_context._retriever_runs import arun_of_retriever, of_tool

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

Action = Literal["create", "update", "delete"]

_MANAGE = """\
Create, update or delete what is remembered of the user beyond this conversation. Create a memory when \
the user states something that will matter later, or asks you to remember; update one that is wrong or \
no longer true; delete one that the user wants forgotten. Update and delete need its id, as \
search_memory tells it."""
_SEARCH = """\
Search what is remembered of the user, from this conversation and earlier ones. Returns memories with \
their ids, and what the user said that proves them."""
_SESSION = "notes of the agent"


class _Manage(BaseModel):
    action: Action = Field(default="create", description="create, update or delete")
    content: str | None = Field(
        default=None, description="The memory, one whole sentence; not needed to delete."
    )
    id: str | None = Field(default=None, description="Which memory to update or delete.")


class _Search(BaseModel):
    query: str = Field(description="What to look for.")
    limit: int = Field(default=5, ge=1, le=50, description="How many memories at most.")


def create_manage_memory_tool(
    place: StoreLike | tuple[str, ...] | None = None,
    /,
    *,
    namespace: str | tuple[str, ...] | None = None,
    store: "StoreLike | BaseStore | None" = None,
    user_id: str | None = None,
    schema: Any = str,
    actions_permitted: Sequence[Action] = ("create", "update", "delete"),
    name: str = "manage_memory",
    instructions: str = _MANAGE,
) -> BaseTool:
    """A tool with which an agent creates, corrects and deletes memories.

    With `store`, or a store as the first argument, memories are facts of `store.knowledge`:

    - `user_id`: the owner; absent means `config["configurable"]["user_id"]` of the run, or the user
      of the scope `store`. Memories of other users cannot be changed.
    - An updated memory keeps its former text, and a deleted one is hidden, not lost:
      `store.knowledge.history(id)` has both.

    With `namespace`, or a tuple as the first argument, it is LangMem's tool of that name: memories
    are items of LangGraph's store, `{"content": …}` in that namespace.

    - `namespace`: its labels; `"{user_id}"` is replaced by `config["configurable"]["user_id"]` of
      the run, and so is any other name in braces.
    - `store`: LangGraph's store, such as a `LanceContextStore`; absent means the graph's.
    - `schema`: the type of a memory, such as a pydantic model.

    `actions_permitted` are the agent's actions of "create", "update" and "delete". Raises
    InvalidRequestError for arguments that exclude each other.
    """
    actions = _checked_actions(actions_permitted)
    if (labels := _labels(place, namespace)) is not None:
        from langchain_lance_context import _namespace_tools as tools

        _refuse_user(user_id)
        return tools.manage_tool(
            tools.Namespace(labels),
            _graph_store(store),
            schema=schema,
            actions=actions,
            name=name,
            description=instructions,
        )
    if schema is not str:
        raise InvalidRequestError(
            f"schema={schema!r:.80}: facts are texts; pass a namespace for memories of another type"
        )
    handle = Handle(_store(place, store))

    async def manage(
        config: RunnableConfig,
        action: Action = "create",
        content: str | None = None,
        id: str | None = None,
    ) -> str:
        if action not in actions:
            return f"Error: {action!r} is not permitted: {', '.join(actions)}"
        try:
            return await _managed(_of_the_user(handle, user_id, config), action, content, id)
        except ContextStoreError as error:
            return f"Error: {error}"

    return _tool(manage, name, instructions, _Manage)


def create_search_memory_tool(
    place: StoreLike | tuple[str, ...] | None = None,
    /,
    *,
    namespace: str | tuple[str, ...] | None = None,
    store: "StoreLike | BaseStore | None" = None,
    user_id: str | None = None,
    response_format: Literal["content", "content_and_artifact"] = "content",
    name: str = "search_memory",
    instructions: str = _SEARCH,
) -> BaseTool:
    """A tool with which an agent searches memories; calls no model.

    Over a store as in `create_manage_memory_tool`, it answers with JSON: each memory's `id` and
    `text`, and its evidence as `said`; then recent turns that no job has read, without an `id`.
    Deleted memories are not found again, though their turns stay stored.

    With a namespace it is LangMem's tool of that name, and answers with the items as JSON; with
    `response_format="content_and_artifact"` the items are the artifact of its message.

    A search is a run of a retriever in the trace.
    """
    if (labels := _labels(place, namespace)) is not None:
        from langchain_lance_context import _namespace_tools as tools

        _refuse_user(user_id)
        return tools.search_tool(
            tools.Namespace(labels),
            _graph_store(store),
            response_format=response_format,
            name=name,
            description=instructions,
        )
    if response_format != "content":
        raise InvalidRequestError(
            f"response_format={response_format!r:.80}: facts are answered as their text; pass a "
            "namespace for items"
        )
    handle = Handle(_store(place, store))

    async def search(config: RunnableConfig, query: str, limit: int = 5) -> str:
        async def facts() -> list[Any]:
            memory = _of_the_user(handle, user_id, config).knowledge
            only_facts: Any = {"search_type": "facts", "filter": {"kind": "fact"}}
            hits = await memory.search(query, top_k=limit, evidence=True, **only_facts)
            if len(hits) < limit:
                said = await memory.search(query, top_k=limit, evidence=True)
                hits += [hit for hit in said if hit.layer == "L2"][: limit - len(hits)]
            return hits

        try:
            hits = await arun_of_retriever(of_tool(config), query, facts, name=name, shown=_shown)
        except ContextStoreError as error:
            return f"Error: {error}"
        found = [
            {
                "id": None if hit.layer == "L2" else hit.record.id,
                "text": hit.record.text,
                "said": [one.text for one in hit.evidence if one.is_verified],
            }
            for hit in hits
        ]
        return json.dumps(found, ensure_ascii=False)

    return _tool(search, name, instructions, _Search)


class LanceContextMemoryManager(HandleOwner, Runnable[dict[str, Any], list[dict[str, Any]]]):
    """Extracts knowledge from conversations, at once or in the background.

    `invoke({"messages": […]})` stores the messages, extracts facts, and returns them. `submit` only
    stores them with a job: `run_due` runs due jobs, in this process or any other one, after an exit
    too. The same messages again are the same job.
    """

    def __init__(
        self, store: StoreLike, *, model: Model | None = None, user_id: str | None = None
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `model`: extracts the facts, such as `language_model(chat_model)`; absent means rules.
        - `user_id`: as in `create_manage_memory_tool`.
        """
        self._handle = Handle(store)
        self._model = model
        self._user_id = user_id
        self._knowledge(self._handle.aio)

    def invoke(
        self, input: dict[str, Any], config: RunnableConfig | None = None, **_: Any
    ) -> list[dict[str, Any]]:
        """The facts of these messages, each with its `id` and `text`.

        Raises ContextStoreError if the model is unavailable or its answer unusable: the messages
        stay stored, and the job waits or has failed, see `store.knowledge.jobs`.
        """
        return block_on(self.ainvoke(input, config))

    async def ainvoke(
        self, input: dict[str, Any], config: RunnableConfig | None = None, **_: Any
    ) -> list[dict[str, Any]]:
        """As `invoke`."""
        config = ensure_config(config)
        added = await self._add(input, config, infer="auto")
        if added is None:
            return []
        memory = self._knowledge(_of_the_user(self._handle, self._user_id, config))
        if added.errors:
            raise ContextStoreError(
                f"the messages are kept, and not all facts of them are made: {added.errors[0]}; "
                "run_due, or store.knowledge.jobs.retry, tries again"
            )
        jobs = [await memory.jobs.get(id) for id in added.job_ids]
        return [
            {"id": id, "text": (await memory.explain(id, depth=1)).records[id].text}
            for job in jobs
            for id in job.result.get("facts", ())
        ]

    def submit(self, input: dict[str, Any], config: RunnableConfig | None = None) -> str | None:
        """Stores messages with a job; returns its id, or None if they contain no text."""
        return block_on(self.asubmit(input, config))

    async def asubmit(
        self, input: dict[str, Any], config: RunnableConfig | None = None
    ) -> str | None:
        """As `submit`."""
        added = await self._add(input, ensure_config(config), infer="later")
        return None if added is None else added.job_id

    def run_due(self) -> list[Job]:
        """Runs the due jobs of all users that the store shows; returns their results."""
        return block_on(self.arun_due())

    async def arun_due(self) -> list[Job]:
        """As `run_due`."""
        return await self._knowledge(self._handle.aio).jobs.run_due()

    async def _add(
        self, input: dict[str, Any], config: RunnableConfig, *, infer: Literal["auto", "later"]
    ) -> Added | None:
        if not isinstance(input, dict) or "messages" not in input:
            raise InvalidRequestError(f"input is {input!r:.80}: pass {{'messages': […]}}")
        messages = [_with_id(one) for one in convert_to_messages(input["messages"])]
        given = [to_canonical(one) for one in messages]
        if not given:
            return None
        thread = config.get("configurable", {}).get("thread_id")
        memory = self._knowledge(_of_the_user(self._handle, self._user_id, config))
        session = str(thread) if thread is not None else messages[0].id
        return await memory.add(given, session_id=session, infer=infer)

    def _knowledge(self, store: AsyncContextStore) -> AsyncKnowledge:
        return store.knowledge.using(model=self._model)


async def _managed(
    store: AsyncContextStore, action: Action, content: str | None, id: str | None
) -> str:
    memory = store.knowledge
    if action == "delete":
        if not id:
            return "Error: deleting needs the id of a memory"
        await memory.invalidate(id, reason="deleted by the agent")
        return f"Deleted {id}."
    if not content or not content.strip():
        return f"Error: content is empty: say what to {action}"
    if action == "update":
        if not id:
            return "Error: updating needs the id of a memory"
        await memory.correct(id, content)
        return f"Updated {id}."
    added = await memory.using(extractor=NoteExtractor()).add(content, session_id=_SESSION)
    ids = (await memory.jobs.get(added.job_id or "")).result["facts"]
    return f"Created {ids[0]}." if ids else "That is remembered already."


def _labels(
    place: StoreLike | tuple[str, ...] | None, namespace: str | tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """The labels of a namespace, if given: a plain text is the location of a store."""
    if isinstance(place, tuple | list):
        if namespace is not None:
            raise InvalidRequestError(f"namespace={namespace!r:.80}: the first argument is one")
        return tuple(place)
    if namespace is None:
        return None
    if place is not None:
        raise InvalidRequestError(
            f"namespace={namespace!r:.80}: pass LangGraph's store by keyword, as store="
        )
    return (namespace,) if isinstance(namespace, str) else tuple(namespace)


def _store(place: Any, store: Any) -> StoreLike:
    """The store of the knowledge."""
    if (place is None) == (store is None):
        raise InvalidRequestError("where are the memories? Pass a store, or a namespace")
    found: StoreLike = store if place is None else place
    return found


def _graph_store(store: Any) -> "BaseStore | None":
    """LangGraph's store, if given."""
    from langgraph.store.base import BaseStore

    if store is not None and not isinstance(store, BaseStore):
        raise InvalidRequestError(
            f"store={store!r:.80}: with a namespace, give a store of LangGraph, such as "
            "LanceContextStore(store), or none for that of the graph"
        )
    return store


def _refuse_user(user_id: str | None) -> None:
    if user_id is not None:
        raise InvalidRequestError(
            f"user_id={user_id!r:.80}: with a namespace, the user is one of its labels"
        )


def _checked_actions(actions: Any) -> tuple[Action, ...]:
    found = tuple(listed(actions, "actions_permitted"))
    if not found or not set(found) <= set(get_args(Action)):
        raise InvalidRequestError(
            f"actions_permitted={actions!r:.80}: give some of {', '.join(get_args(Action))}"
        )
    return found


def _shown(hits: Sequence[Any]) -> list[Document]:
    """Facts, as documents of a trace."""
    return [
        Document(
            id=hit.record.id, page_content=hit.record.text or "", metadata={"score": hit.score}
        )
        for hit in hits
    ]


def _tool(call: Any, name: str, description: str, schema: type[BaseModel]) -> BaseTool:
    def blocking(config: RunnableConfig, **given: Any) -> str:
        said: str = block_on(call(of_tool(config), **given))
        return said

    return StructuredTool.from_function(
        func=blocking, coroutine=call, name=name, description=description, args_schema=schema
    )


def _with_id(message: BaseMessage) -> BaseMessage:
    return message if message.id else message.model_copy(update={"id": str(uuid4())})


def _of_the_user(handle: Handle, user_id: str | None, config: RunnableConfig) -> AsyncContextStore:
    """The scope of this run."""
    user = user_id or config.get("configurable", {}).get("user_id") or handle.scope.user_id
    if not isinstance(user, str) or not user:
        raise InvalidRequestError(
            f"user_id={user!r:.80}: whose memories are these? Pass "
            "config={'configurable': {'user_id': '…'}}, or user_id="
        )
    return handle.aio.scope(user_id=user)
