"""LangMem's tools: memories as items of LangGraph's store, in a namespace or a template of one."""

import json
from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID, uuid4

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.config import get_store
from langgraph.store.base import BaseStore, SearchItem
from pydantic import BaseModel, Field, create_model

from lance_context_core import ContextStoreError, InvalidRequestError
from langchain_lance_context._retriever_runs import arun_of_retriever, of_tool, run_of_retriever
from langchain_lance_context._values import encode

Action = Literal["create", "update", "delete"]


class Namespace:
    """Labels of a namespace; those in braces are filled from the run's config."""

    def __init__(self, template: Sequence[str]) -> None:
        """Raises InvalidRequestError for a value that is not a sequence of labels."""
        self._labels = tuple(template)
        if not self._labels or not all(isinstance(one, str) and one for one in self._labels):
            raise InvalidRequestError(
                f"namespace={template!r:.80}: give a tuple of texts, such as "
                "('memories', '{user_id}')"
            )

    def of(self, config: RunnableConfig) -> tuple[str, ...]:
        """The namespace of a run. Raises InvalidRequestError if its config lacks a name."""
        given = config.get("configurable") or {}
        return tuple(_label(one, given) for one in self._labels)


class _Search(BaseModel):
    query: str = Field(description="What to look for.")
    limit: int = Field(default=10, ge=1, description="How many memories at most.")
    offset: int = Field(default=0, ge=0, description="How many memories to skip.")
    filter: dict[str, Any] | None = Field(default=None, description="What a memory must equal.")


def manage_tool(
    namespace: Namespace,
    store: BaseStore | None,
    *,
    schema: Any,
    actions: Sequence[Action],
    name: str,
    description: str,
) -> BaseTool:
    """The tool that creates, updates and deletes items."""
    first = "create" if "create" in actions else actions[0]
    arguments: Any = {
        "content": (schema | None, Field(default=None, description="The memory.")),
        "action": (Literal[tuple(actions)], Field(default=first)),
        "id": (UUID | None, Field(default=None, description="Which one to update or delete.")),
    }

    def asked(content: Any, action: str, id: UUID | None) -> tuple[str, dict[str, Any] | None, str]:
        """The key, the value to store (None deletes it), and the answer."""
        if (action == "create") == (id is not None):
            problem = "takes no" if action == "create" else "needs the"
            raise InvalidRequestError(f"to {action} a memory {problem} id")
        if action == "delete":
            return str(id), None, f"Deleted memory {id}"
        if content is None:
            raise InvalidRequestError(f"content is empty: say what to {action}")
        key = str(id or uuid4())
        value = content.model_dump(mode="json") if isinstance(content, BaseModel) else content
        return key, {"content": encode(value, "content")}, f"{action}d memory {key}"

    def manage(
        config: RunnableConfig, content: Any = None, action: str = first, id: UUID | None = None
    ) -> str:
        try:
            key, value, answer = asked(content, action, id)
            place = namespace.of(config)
        except ContextStoreError as error:
            return f"Error: {error}"
        there = store or get_store()
        there.delete(place, key) if value is None else there.put(place, key, value)
        return answer

    async def amanage(
        config: RunnableConfig, content: Any = None, action: str = first, id: UUID | None = None
    ) -> str:
        try:
            key, value, answer = asked(content, action, id)
            place = namespace.of(config)
        except ContextStoreError as error:
            return f"Error: {error}"
        there = store or get_store()
        await (there.adelete(place, key) if value is None else there.aput(place, key, value))
        return answer

    return StructuredTool.from_function(
        func=manage,
        coroutine=amanage,
        name=name,
        description=description,
        args_schema=create_model(name, **arguments),
    )


def search_tool(
    namespace: Namespace,
    store: BaseStore | None,
    *,
    response_format: Literal["content", "content_and_artifact"],
    name: str,
    description: str,
) -> BaseTool:
    """The tool that searches items."""

    def answer(found: list[SearchItem]) -> Any:
        text = json.dumps([one.dict() for one in found], default=str, ensure_ascii=False)
        return (text, found) if response_format == "content_and_artifact" else text

    def refused(error: ContextStoreError) -> Any:
        said = f"Error: {error}"
        return (said, []) if response_format == "content_and_artifact" else said

    def search(config: RunnableConfig, query: str, **how: Any) -> Any:
        there = store or get_store()
        try:
            place = namespace.of(config)
            found = run_of_retriever(
                of_tool(config),
                query,
                lambda: there.search(place, query=query, **how),
                name=name,
                shown=_documents,
            )
            return answer(found)
        except ContextStoreError as error:
            return refused(error)

    async def asearch(config: RunnableConfig, query: str, **how: Any) -> Any:
        there = store or get_store()
        try:
            place = namespace.of(config)
            found = await arun_of_retriever(
                of_tool(config),
                query,
                lambda: there.asearch(place, query=query, **how),
                name=name,
                shown=_documents,
            )
            return answer(found)
        except ContextStoreError as error:
            return refused(error)

    return StructuredTool.from_function(
        func=search,
        coroutine=asearch,
        name=name,
        description=description,
        args_schema=_Search,
        response_format=response_format,
    )


def _label(label: str, given: Any) -> str:
    if not (label.startswith("{") and label.endswith("}")):
        return label
    value = given.get(label[1:-1])
    if value is None or not str(value):
        raise InvalidRequestError(
            f"the namespace needs {label}: pass config={{'configurable': {{{label[1:-1]!r}: '…'}}}}"
        )
    return str(value)


def _documents(found: Sequence[SearchItem]) -> list[Document]:
    return [
        Document(
            id=one.key,
            page_content=_text(one.value.get("content", one.value)),
            metadata={"namespace": list(one.namespace), "score": one.score},
        )
        for one in found
    ]


def _text(content: Any) -> str:
    is_text = isinstance(content, str)
    return content if is_text else json.dumps(content, default=str, ensure_ascii=False)
