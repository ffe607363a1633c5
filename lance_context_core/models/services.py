"""Models over HTTP: OpenAI, Anthropic, and services with the same endpoints."""

import json
import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from lance_context_core._util.checks import check_count, check_name, dumps, shown
from lance_context_core._util.http import (
    OPENAI,
    JsonService,
    ServiceError,
    checked_headers,
    openai_service,
)
from lance_context_core.errors import InvalidRequestError, ModelError
from lance_context_core.models.asking import Completion, ModelRequest

_ANTHROPIC = "https://api.anthropic.com"
_ANTHROPIC_VERSION = "2023-06-01"
_ANSWER = "answer"
"""The name of the schema, or of the tool that takes it."""


class OpenAIModel:
    """A chat model of OpenAI, or of a service with the same `/chat/completions`: Ollama, vLLM, LiteLLM, Groq.

    Without `base_url` the service is that of OPENAI_BASE_URL in the environment, else OpenAI's own;
    without `api_key` the key is that of OPENAI_API_KEY, which only OpenAI's own service must have. The
    JSON schema of a question is sent as `response_format`; a service that refuses it is asked again
    without it. `extra_body` is sent with each request, such as `{"temperature": 0}`, `headers` too. Network
    failures and temporary errors (429, 5xx) are retried `max_retries` times, after the delay that the
    service asks for; `timeout_seconds` is the longest silence.

    Needs no package: it uses the standard library's client. Raises InvalidRequestError, at
    construction, for a missing key and for invalid options.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        timeout_seconds: float = 120.0,
        max_retries: int = 2,
    ) -> None:
        self.name = check_name(model, "model")
        self._body = _checked_body(extra_body)
        url, said = openai_service(
            base_url,
            api_key,
            headers,
            missing=f"model {self.name!r} has no key: set OPENAI_API_KEY, or pass "
            "OpenAIModel(..., api_key=...); for another service give base_url",
        )
        self._limit = "max_completion_tokens" if url.rstrip("/") == OPENAI else "max_tokens"
        self._knows_schemas = True
        self._url = url
        self._service = JsonService(
            url, headers=said, timeout_seconds=timeout_seconds, max_retries=max_retries
        )

    def __repr__(self) -> str:
        return f"OpenAIModel({self.name!r}, base_url={self._url!r})"

    def complete(self, request: ModelRequest) -> Completion:
        """The model's answer. Raises ModelError if there is none."""
        messages = [{"role": one.role, "content": one.text} for one in request.messages]
        body: dict[str, Any] = {"model": self.name, "messages": messages}
        if request.max_output is not None:
            body[self._limit] = request.max_output
        body |= self._body
        answer = self._asked(body, request.schema)
        choice = _first(answer.get("choices"))
        message = choice.get("message")
        if not isinstance(message, Mapping):
            raise ModelError(f"model {self.name!r} returned {shown(answer)}, where choices belong")
        text = _text(message.get("content")) or _text(message.get("refusal"))
        names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
        data = None if request.schema is None else _read(text, request.schema)
        return Completion(text=text, data=data, usage=_usage(answer.get("usage"), names))

    def _asked(
        self, body: Mapping[str, Any], schema: Mapping[str, Any] | None
    ) -> Mapping[str, Any]:
        if schema is not None and self._knows_schemas and "response_format" not in body:
            form = {"name": _ANSWER, "strict": True, "schema": closed(schema)}
            whole = {**body, "response_format": {"type": "json_schema", "json_schema": form}}
            try:
                return _posted(self._service, "/chat/completions", whole, self.name)
            except ModelError as error:
                if getattr(error.__cause__, "status", None) not in _UNKNOWN_FORM:
                    raise
            # Those that do not know it say so in many ways: whether it is that, the answer without shows.
            found = _posted(self._service, "/chat/completions", body, self.name)
            self._knows_schemas = False
            return found
        return _posted(self._service, "/chat/completions", body, self.name)


_UNKNOWN_FORM = (400, 404, 415, 422, 501)


class AnthropicModel:
    """A model of Anthropic, or of a service with the same `/v1/messages`.

    Without `base_url` the service is that of ANTHROPIC_BASE_URL in the environment, else Anthropic's
    own; without `api_key` the key is that of ANTHROPIC_API_KEY. The JSON schema of a question is sent as
    a tool that the model has to call. `max_output` is the maximum answer in tokens, unless a question
    sets it; other options are as for `OpenAIModel`.

    Raises InvalidRequestError, at construction, for a missing key and for invalid options.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        max_output: int = 8_192,
        timeout_seconds: float = 120.0,
        max_retries: int = 2,
    ) -> None:
        self.name = check_name(model, "model")
        self._max_output = check_count(max_output, "max_output")
        self._body = _checked_body(extra_body)
        url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or _ANTHROPIC
        said = {"anthropic-version": _ANTHROPIC_VERSION} | checked_headers(headers)
        key = api_key if api_key is not None else os.environ.get("ANTHROPIC_API_KEY", "")
        if key:
            said |= checked_headers({"x-api-key": key})
        elif url.rstrip("/") == _ANTHROPIC and not headers:
            raise InvalidRequestError(
                f"model {self.name!r} has no key: set ANTHROPIC_API_KEY, or pass "
                "AnthropicModel(..., api_key=...)"
            )
        self._url = url
        self._service = JsonService(
            url, headers=said, timeout_seconds=timeout_seconds, max_retries=max_retries
        )

    def __repr__(self) -> str:
        return f"AnthropicModel({self.name!r}, base_url={self._url!r})"

    def complete(self, request: ModelRequest) -> Completion:
        """The model's answer. Raises ModelError if there is none."""
        told = [one.text for one in request.messages if one.role == "system"]
        body: dict[str, Any] = {
            "model": self.name,
            "max_tokens": request.max_output or self._max_output,
            "messages": _alternating(request),
            **({"system": "\n\n".join(told)} if told else {}),
        }
        if request.schema is not None:
            tool = {"name": _ANSWER, "description": "Takes the answer."}
            body["tools"] = [{**tool, "input_schema": dict(request.schema)}]
            body["tool_choice"] = {"type": "tool", "name": _ANSWER}
        answer = _posted(self._service, "/v1/messages", {**body, **self._body}, self.name)
        blocks = answer.get("content")
        if not isinstance(blocks, list) or not all(isinstance(one, Mapping) for one in blocks):
            raise ModelError(f"model {self.name!r} returned {shown(answer)}, where content belongs")
        given = [one.get("input") for one in blocks if one.get("type") == "tool_use"]
        text = "".join(_text(one.get("text")) for one in blocks)
        usage = _usage(answer.get("usage"), {one: one for one in ("input_tokens", "output_tokens")})
        if given and answer.get("stop_reason") == "max_tokens":
            # What the tool was given is what there was of it by then.
            return Completion(text=dumps(given[0])[:-1], usage=usage)
        return Completion(text=text, data=given[0] if given else None, usage=usage)


def closed(schema: Any) -> Any:
    """A schema as OpenAI takes it: objects have their properties alone, all of them, some of them null."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {name: closed(one) for name, one in schema.items()}
    properties = schema.get("properties")
    if schema.get("type") == "object" and isinstance(properties, Mapping):
        needed = {*schema.get("required", ())}
        found["properties"] = {
            name: closed(one) if name in needed else _or_null(closed(one))
            for name, one in properties.items()
        }
        found |= {"required": [*properties], "additionalProperties": False}
    return found


def _or_null(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], *([] if None in schema["enum"] else [None])]}
    kinds = schema.get("type")
    if kinds is None:
        return {"anyOf": [dict(schema), {"type": "null"}]}
    listed = [kinds] if isinstance(kinds, str) else [*kinds]
    return {**schema, "type": [*listed, *([] if "null" in listed else ["null"])]}


def _read(text: str, schema: Mapping[str, Any]) -> Any:
    """The text as JSON, without nulls that a closed schema required; None if it is not JSON."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _without_nulls(data, schema) if isinstance(data, dict) else None


def _without_nulls(data: Any, schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return data
    if isinstance(data, list):
        return [_without_nulls(one, schema.get("items")) for one in data]
    if not isinstance(data, dict):
        return data
    properties, needed = schema.get("properties", {}), schema.get("required", ())
    return {
        name: _without_nulls(one, properties.get(name))
        for name, one in data.items()
        if one is not None or name in needed or name not in properties
    }


def _posted(
    service: JsonService, path: str, body: Mapping[str, Any], name: str
) -> Mapping[str, Any]:
    try:
        answer = service.post(path, body)
    except ServiceError as error:
        raise ModelError(f"model {name!r} failed: {error}") from error
    if not isinstance(answer, Mapping):
        raise ModelError(f"model {name!r} returned {shown(answer)}, where an object belongs")
    return answer


def _alternating(request: ModelRequest) -> list[dict[str, str]]:
    """The messages of people and assistants, by turns."""
    said = [
        ("assistant" if one.role == "assistant" else "user", one.text)
        for one in request.messages
        if one.role != "system" and one.text
    ]
    return [
        {"role": role, "content": "\n\n".join(text for _, text in some)}
        for role, some in groupby(said, key=lambda one: one[0])
    ]


def _first(choices: Any) -> Mapping[str, Any]:
    is_list = isinstance(choices, Sequence) and not isinstance(choices, str) and bool(choices)
    return choices[0] if is_list and isinstance(choices[0], Mapping) else {}


def _text(content: Any) -> str:
    """The text of a content, which some services give in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text(one.get("text")) for one in content if isinstance(one, Mapping))
    return ""


def _usage(told: Any, names: Mapping[str, str]) -> dict[str, int]:
    """The usage, as far as the service counts it."""
    if not isinstance(told, Mapping):
        return {}
    return {
        to: told[name]
        for name, to in names.items()
        if type(told.get(name)) is int and told[name] >= 0
    }


def _checked_body(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    if extra is None:
        return {}
    if not isinstance(extra, Mapping) or {"messages", "model"} & set(extra):
        raise InvalidRequestError(
            f"extra_body={shown(extra)}: pass the fields to send in addition to the model and the messages"
        )
    return dict(extra)
