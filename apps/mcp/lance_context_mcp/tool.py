"""A tool: what a client is reported it, how its arguments are checked, and what it does."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
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
    needs_model: bool = False
    """Whether it is offered only where facts are made."""
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
            input_schema=_object(self.arguments, self.required, additionalProperties=False),
            output_schema=_object(self.answer, tuple(self.answer)),
            annotations=self.effect.value,
        )

    def taken(self, arguments: Arguments) -> Arguments:
        """The arguments as the tool takes them, a whole number that was written as 2.0 as 2.

        Raises InvalidRequestError for arguments that the schema does not allow.
        """
        given = {name: _whole(value, self.arguments.get(name)) for name, value in arguments.items()}
        for problem in sorted(self._validator.iter_errors(given), key=lambda one: one.json_path):
            where = problem.json_path.removeprefix("$").removeprefix(".")
            told = self._problem(problem)
            raise InvalidRequestError(f"{where}: {told}" if where else told)
        return given

    def _problem(self, problem: ValidationError) -> str:
        if problem.validator == "additionalProperties":
            known = problem.schema["properties"]
            unknown = ", ".join(sorted({*problem.instance} - {*known}))
            place = "in this object" if problem.path else f"of {self.name}"
            names = ", ".join(known) or "none"
            return f"{_short(unknown)}: no such argument {place}; the arguments are {names}"
        if problem.validator == "pattern":
            return "the text is blank; give at least one visible character"
        return _short(problem.message)

    @cached_property
    def _validator(self) -> Draft202012Validator:
        return Draft202012Validator(self.card.input_schema)


def _object(properties: Schema, required: tuple[str, ...], **more: Any) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, **more}
    return {**schema, "required": list(required)} if required else schema


def _whole(value: Any, schema: Schema | None) -> Any:
    """A number without a fraction as an integer, where the schema knows integers."""
    kinds = () if schema is None else (schema, *schema.get("anyOf", ()))
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole and any(one.get("type") == "integer" for one in kinds) else value


def _short(told: str) -> str:
    return told if len(told) <= 200 else f"{told[:200]}…"


def text(description: str, **more: Any) -> Schema:
    """The schema of a text."""
    return {"type": "string", "description": description, **more}


def whole(description: str, **more: Any) -> Schema:
    """The schema of a whole number."""
    told = {"description": description} if description else {}
    return {"type": "integer", **told, **more}


def each(items: Schema, description: str, **more: Any) -> Schema:
    """The schema of a list."""
    return {"type": "array", "items": items, "description": description, **more}


def offset(what: str) -> Schema:
    """The schema of how many are passed over."""
    return whole(what, minimum=0, maximum=2**31 - 1)


def limit(what: str, *, default: int = 10) -> Schema:
    """The schema of how many are wanted."""
    return whole(f"{what.capitalize()} at most.", minimum=1, maximum=100, default=default)


VISIBLE = r"\S"
"""The pattern of a text that is not blank."""
BRANCH = text("On this branch, made by create_branch, rather than on main.")
AS_OF: Schema = {
    # Of two types in one schema some models' providers know nothing.
    "anyOf": [{"type": "string"}, {"type": "integer"}],
    "description": "As it was at a moment (ISO 8601), version or tag.",
}
