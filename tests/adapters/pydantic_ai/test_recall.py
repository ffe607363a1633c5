"""An agent recalls what its user said in other conversations, and remembers."""

from dataclasses import dataclass

import pytest
from adapters.pydantic_ai.samples import conversation, run
from pydantic_ai import Agent
from pydantic_ai import messages as ai
from pydantic_ai.conversation import Conversation
from pydantic_ai.exceptions import UserError
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_lance_context import LanceConversationStore, LanceRecall

from lance_context_core import Message, StorageError


def scripted(tool, arguments):
    """A model that calls a tool, and says what it answers; and the tools that it was offered."""
    offered = []

    def model(messages, info):
        offered.append(info)
        last = messages[-1].parts[-1]
        if isinstance(last, ai.ToolReturnPart):
            return ai.ModelResponse(parts=[ai.TextPart(last.model_response_str())])
        return ai.ModelResponse(parts=[ai.ToolCallPart(tool, arguments)])

    return FunctionModel(model), offered


async def asked(recall, tool, arguments, **options):
    model, _ = scripted(tool, arguments)
    agent = Agent(model, capabilities=[recall], deps_type=object)
    return (await agent.run("…", **options)).output


async def test_what_was_said_in_another_conversation_is_recalled(store):
    conversations = LanceConversationStore(store, user_id="ada")
    await conversations.save(conversation("monday", "I am allergic to nuts.", "Noted."))
    model, offered = scripted("recall", {"query": "allergic nuts"})
    agent = Agent(model, capabilities=[LanceRecall(store, user_id="ada")])
    for _ in range(2):
        await run(agent, conversations, "tuesday", "May I eat nuts, being allergic?")
    (*_, answer) = (await conversations.load("tuesday")).messages
    assert '"text":"I am allergic to nuts."' in answer.parts[0].content
    # Not what this conversation has said, which the model sees anyway.
    assert "May I eat nuts" not in answer.parts[0].content
    assert [one.name for one in offered[0].function_tools] == ["recall", "remember"]
    assert "query" in offered[0].function_tools[0].parameters_json_schema["properties"]
    assert "Call `recall`" in offered[0].instructions


async def test_a_fact_is_remembered_once_and_recalled_with_its_day(store):
    recall = LanceRecall(store, user_id="ada")
    fact = {"fact": "Ada prefers trains."}
    assert await asked(recall, "remember", fact) == "It is remembered."
    assert await asked(recall, "remember", fact) == "It was remembered already."
    answer = await asked(recall, "recall", {"query": "trains"})
    assert '"by":"memory"' in answer
    (memory,) = (await store.memory.list(user_id="ada")).items
    assert f'"on":"{memory.created_at.date()}"' in answer


async def test_nothing_is_said_where_nothing_is_remembered(store):
    answer = await asked(LanceRecall(store), "recall", {"query": "tea"})
    assert answer == "Nothing is remembered about that."


async def test_the_user_of_a_run_is_told_by_its_dependencies(store):
    @dataclass
    class Deps:
        user_id: str

    recall = LanceRecall(store, user_id=lambda ctx: ctx.deps.user_id)
    await asked(recall, "remember", {"fact": "Likes tea."}, deps=Deps("ada"))
    assert "tea" in await asked(recall, "recall", {"query": "tea"}, deps=Deps("ada"))
    assert "Nothing" in await asked(recall, "recall", {"query": "tea"}, deps=Deps("ben"))
    with pytest.raises(UserError, match="whose memory"):
        await asked(recall, "recall", {"query": "tea"}, deps=Deps(""))
    with pytest.raises(UserError, match="ctx"):
        await recall.search("tea")


async def test_no_results_of_tools_and_no_system_prompts_are_recalled(store):
    await store.history.append_many(
        "a",
        [
            Message.system("Never speak of tea."),
            Message.tool("tea: 3 euros", call_id="c"),
            Message.user("I like tea."),
        ],
        session_id="1",
    )
    assert [hit.record.text for hit in await LanceRecall(store).search("tea")] == ["I like tea."]


async def test_a_filter_and_a_limit_restrict_what_is_found(store):
    await store.memory.add(["Black tea", "Green tea"], metadata={"shelf": 1})
    await store.memory.add(["Herbal tea"], metadata={"shelf": 2})
    assert len(await LanceRecall(store, limit=2).search("tea")) == 2
    found = await LanceRecall(store, filter={"shelf": 2}).search("tea")
    assert [hit.record.text for hit in found] == ["Herbal tea"]


async def test_a_store_that_fails_does_not_end_the_run_unless_it_is_to(store, monkeypatch, caplog):
    async def broken(self, *arguments, **options):
        raise StorageError("the disk is away")

    monkeypatch.setattr(type(store), "search", broken)
    answer = await asked(LanceRecall(store), "recall", {"query": "tea"})
    assert answer == "The memory is not available now."
    assert "does not answer" in caplog.text
    with pytest.raises(StorageError):
        await asked(LanceRecall(store, on_error="raise"), "recall", {"query": "tea"})


async def test_an_agent_may_have_no_word_for_remembering(store):
    model, offered = scripted("recall", {"query": "tea"})
    recall = LanceRecall(store, can_remember=False, instructions="Recall.")
    await Agent(model, capabilities=[recall]).run(
        "…", conversation=Conversation(conversation_id="1")
    )
    assert [one.name for one in offered[0].function_tools] == ["recall"]
    assert offered[0].instructions == "Recall."
