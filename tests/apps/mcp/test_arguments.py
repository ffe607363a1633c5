"""Arguments that a tool does not have or cannot take: an error that names them, and no silence."""

import pytest
from mcp.shared.exceptions import MCPError

pytestmark = pytest.mark.anyio


def objects(schema):
    """All schemas of objects with known fields in a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            yield schema
        for part in schema.values():
            yield from objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects(part)


async def test_an_argument_that_no_tool_has_is_an_error_that_names_the_known_ones(call, store):
    for tool in (await call.client.list_tools()).tools:
        for schema in objects(tool.input_schema):
            assert schema["additionalProperties"] is False, (tool.name, schema)
        told = await call.error(tool.name, user_id="bob")
        assert "user_id" in told
        assert tool.name in told
        for name in tool.input_schema["properties"]:
            assert name in told, (tool.name, told)
    told = await call.error("remember", text="The code is 4711", valid_until="2026-12-01")
    assert "valid_until: no such argument of remember" in told
    assert "expires_in_days" in told
    assert (await store.memory.list()).total == 0


async def test_an_unknown_field_within_an_argument_is_an_error_too(call):
    said = [{"role": "user", "text": "x", "at": "noon"}]
    told = await call.error("append_conversation", session_id="s", messages=said)
    assert told.startswith("messages[0]: at: no such argument")
    entity = {"name": "Ada", "entityType": "person", "observations": [], "born": 1815}
    assert "born" in await call.error("create_entities", entities=[entity])
    assert (await call("read_graph"))["entities"] == []


async def test_a_prompt_refuses_an_argument_that_it_does_not_have(call):
    for name, arguments in (
        ("with_memory", {"question": "x", "user": "bob"}),
        ("remember_this", {"user": "bob"}),
    ):
        with pytest.raises(MCPError, match=f"user: no such argument of {name}"):
            await call.client.get_prompt(name, arguments)


async def test_a_whole_number_may_be_written_with_a_point(call):
    for text in ("tea at noon", "tea at five", "tea at six"):
        told = await call("remember", text=text, expires_in_days=2.0)
    assert len((await call("recall", query="tea", limit=2.0))["results"]) == 2
    assert len((await call("recall", query="tea", as_of=2.0))["results"]) <= 3
    said = [{"role": "user", "text": "Hm."}]
    await call("append_conversation", session_id="s", messages=said)
    assert len((await call("history", session_id="s", last=1.0))["messages"]) == 1
    assert "limit: 2.5 is not of type 'integer'" in await call.error(
        "recall", query="tea", limit=2.5
    )
    assert "limit: True is not of type" in await call.error("recall", query="tea", limit=True)
    assert told["id"]


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        pytest.param("recall", {"query": "x", "kind": "memories"}, "kind: 'memories'", id="kind"),
        pytest.param("remember", {"text": " "}, "text: the text is blank", id="blank"),
        pytest.param(
            "recall",
            {"query": "x", "since": "2026-05-04", "until": "2026-05-01"},
            "since='2026-05-04' is not before until='2026-05-01'",
            id="an empty span",
        ),
        pytest.param("history", {"session_id": "s", "before_last": 10**30}, "maximum", id="far"),
        pytest.param("forget", {"ids": [""]}, "ids[0]: '' should be non-empty", id="no id"),
    ],
)
async def test_what_cannot_be_answered_is_refused_by_the_name_that_the_tool_gives_it(
    call, tool, arguments, told
):
    assert told in await call.error(tool, **arguments)
