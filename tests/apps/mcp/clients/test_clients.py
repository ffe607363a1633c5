"""The fifty tasks by other clients than the SDK's: they read the schemas, and write arguments by them."""

import json

from apps.mcp.tasks import do, each_task


@each_task
async def test_fastmcps_client_gets_each_task_done(fastmcp, ada, task):
    async with fastmcp() as client:

        async def call(name, /, **arguments):
            return (await client.call_tool(name, arguments)).structured_content

        await do(call, task, ada[1])


@each_task
async def test_the_inspectors_command_line_gets_each_task_done(inspector, ada, task):
    async with inspector() as run:

        async def call(name, /, **arguments):
            pairs = [f"{key}={written(value)}" for key, value in arguments.items()]
            given = [word for pair in pairs for word in ("--tool-arg", pair)]
            answer = await run("--method", "tools/call", "--tool-name", name, *given)
            assert not answer.get("isError"), answer
            return answer["structuredContent"]

        await do(call, task, ada[1])


def written(value):
    """A value as the inspector reads it: as JSON, and what is no JSON as a text."""
    try:
        json.loads(value)
    except (TypeError, ValueError):
        return value if isinstance(value, str) else json.dumps(value)
    return json.dumps(value)


async def test_fastmcp_makes_values_of_answers_with_all_that_they_have(fastmcp):
    """Its `data` is made by the output schema: what the schema does not name is lost."""
    async with fastmcp() as client:
        found = await client.call_tool("recall", {"query": "coffee"})
        for told, made in zip(found.structured_content["results"], found.data.results, strict=True):
            assert {*vars(made)} >= {*told}


async def test_the_inspector_finds_no_fault_in_any_schema(inspector):
    async with inspector() as run:
        listed = await run("--method", "tools/list", "--strict")
        assert len(listed["tools"]) > 20
