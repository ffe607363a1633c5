"""A tool: what a client is told of it, how its arguments are checked, and what it does."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator
from mcp.types import Tool as ToolCard
from mcp.types import ToolAnnotations

from lance_context_core import InvalidRequestError
from lance_context_mcp.memory import Memory

Schema = dict[str, Any]
Arguments = Mapping[str, Any]


class Effect(Enum):
    """What a call does to the store, which clients are told as hints."""

    READS = ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    ADDS = ToolAnnotations(
        read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
    )
    REMOVES = ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
    )


def _as_json(answer: Mapping[str, Any]) -> str:
    return json.dumps(answer, ensure_ascii=False, indent=2)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool of the server."""

    name: str
    title: str
    description: str
    effect: Effect
    arguments: Schema
    """JSON schemas by the arguments' names."""
    required: tuple[str, ...] = ()
    answer: Schema
    """JSON schemas by the names of what it returns, all of which are always there."""
    call: Callable[[Memory, Arguments], Awaitable[dict[str, Any]]]
    text: Callable[[Mapping[str, Any]], str] = field(default=_as_json)
    """The answer for clients that read no structured content: as JSON, unless it says otherwise."""
    changes: tuple[str, ...] = ()
    """The addresses of the resources that a call may change."""

    @cached_property
    def card(self) -> ToolCard:
        """What a client is told."""
        return ToolCard(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=_object(self.arguments, self.required),
            output_schema=_object(self.answer, tuple(self.answer)),
            annotations=self.effect.value,
        )

    def check(self, arguments: Arguments) -> None:
        """Raises InvalidRequestError for what the schema does not allow."""
        for problem in sorted(
            self._validator.iter_errors(arguments), key=lambda one: one.json_path
        ):
            where = problem.json_path.removeprefix("$").removeprefix(".")
            told = problem.message if len(problem.message) <= 200 else f"{problem.message[:200]}…"
            raise InvalidRequestError(f"{where}: {told}" if where else told)

    @cached_property
    def _validator(self) -> Draft202012Validator:
        return Draft202012Validator(self.card.input_schema)


def _object(properties: Schema, required: tuple[str, ...]) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def text(description: str, **more: Any) -> Schema:
    """The schema of a text."""
    return {"type": "string", "description": description, **more}


def whole(description: str, **more: Any) -> Schema:
    """The schema of a whole number."""
    return {"type": "integer", "description": description, **more}


def each(items: Schema, description: str, **more: Any) -> Schema:
    """The schema of a list."""
    return {"type": "array", "items": items, "description": description, **more}


def limit(what: str, *, default: int = 10) -> Schema:
    """The schema of how many are wanted."""
    return whole(f"How many {what} at most.", minimum=1, maximum=100, default=default)


BRANCH = text("On this branch, made by create_branch, rather than on main.")
AS_OF: Schema = {
    # Of two types in one schema some models' providers know nothing.
    "anyOf": [{"type": "string"}, {"type": "integer"}],
    "description": "As it was then: a moment (ISO 8601), a version's number, or a tag.",
}
