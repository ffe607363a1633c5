"""What `model=` takes: a function of a prompt, models of frameworks as they are; all else is refused."""

from types import SimpleNamespace

import pytest
from core.knowledge.asking import BEES, SAID, facts_of
from core.knowledge.living import facts

from lance_context_core import InvalidRequestError, ManagedMemory
from lance_context_core.models import OpenAIModel


def test_a_function_of_a_prompt_is_a_model(store, memory):
    asked = []

    def model(prompt):
        asked.append(prompt)
        return facts_of(BEES)

    added = memory.using(model=model).add(SAID)
    assert facts(store) == ["Ada keeps bees."]
    assert "I keep bees" in asked[0]
    assert "+model+" in memory.jobs.get(added.job_id).producer


async def test_a_function_of_a_prompt_may_be_awaited(store):
    async def answer(prompt):
        return f'{{"facts": []}} {prompt[:0]}'

    added = await store.aio.knowledge.using(model=answer, model_name="mine").add(SAID)
    assert added.errors == ()
    assert "+mine+" in (await store.aio.knowledge.jobs.get(added.job_id)).producer


class ChatModel:
    """As a chat model of LangChain is asked."""

    model_name = "chat"
    name = None

    def __init__(self, *, is_structured):
        self.is_structured = is_structured
        self.asked = []

    def invoke(self, messages, **limits):
        self.asked.append((messages, limits))
        usage = {"input_tokens": 7, "output_tokens": 2}
        words = '{"facts": []}' if not self.is_structured else ""
        return SimpleNamespace(content=words, usage_metadata=usage)

    def with_structured_output(self, schema, *, include_raw=False):
        if not self.is_structured:
            raise NotImplementedError
        assert schema["title"]
        assert include_raw
        outer = self

        class Structured:
            def invoke(self, messages, **limits):
                raw = ChatModel.invoke(outer, messages, **limits)
                return {"raw": raw, "parsed": facts_of(BEES), "parsing_error": None}

        return Structured()


@pytest.mark.parametrize("is_structured", [True, False])
def test_a_chat_model_of_langchain_is_a_model_as_it_is(store, memory, is_structured):
    model = ChatModel(is_structured=is_structured)
    added = memory.using(model=model).add(SAID)
    job = memory.jobs.get(added.job_id)
    assert facts(store) == (["Ada keeps bees."] if is_structured else [])
    assert [role for role, _ in model.asked[0][0]] == ["system", "human"]
    assert (job.usage["input_tokens"], "+chat+" in job.producer) == (7, True)


class LLM:
    """As an LLM of LlamaIndex is asked."""

    metadata = SimpleNamespace(model_name="llm", is_chat_model=True)

    def chat(self, messages):
        raise AssertionError(messages)

    def structured_predict(self, kind, prompt):
        raise AssertionError(kind, prompt)

    def complete(self, prompt, **_):
        assert "I keep bees" in prompt
        return SimpleNamespace(
            text='{"facts": []}', additional_kwargs={"prompt_tokens": 5, "completion_tokens": 1}
        )


def test_an_llm_of_llama_index_is_a_model_as_it_is(memory):
    added = memory.using(model=LLM()).add(SAID)
    job = memory.jobs.get(added.job_id)
    assert (job.state, job.usage["input_tokens"], "+llm+" in job.producer) == ("succeeded", 5, True)


CLIENT = SimpleNamespace(
    chat=SimpleNamespace(completions=SimpleNamespace(create=lambda **_: None)),
    api_key="secret-key",
)
OTHER = SimpleNamespace(messages=SimpleNamespace(create=lambda **_: None))


@pytest.mark.parametrize(
    ("wrong", "way_out"),
    [
        pytest.param("gpt-4o-mini", r"OpenAIModel\('gpt-4o-mini'\)", id="a name"),
        pytest.param(CLIENT, r"client of OpenAI.*OpenAIModel\(name\)", id="a client of OpenAI"),
        pytest.param(OTHER, r"client of Anthropic.*AnthropicModel\(name\)", id="of Anthropic"),
        pytest.param(OpenAIModel, "the class OpenAIModel: pass an object", id="a class"),
        pytest.param(7, "a function of a prompt", id="a number"),
        pytest.param({"model": "x"}, "a function of a prompt", id="a mapping"),
        pytest.param(lambda: "", "not a function of one prompt", id="a function of nothing"),
        pytest.param(lambda _a, _b: "", "not a function of one prompt", id="a function of two"),
    ],
)
def test_what_is_no_model_is_refused_with_the_way_out(store, memory, wrong, way_out):
    for make in (memory.using, lambda model: ManagedMemory(store, model=model)):
        with pytest.raises(InvalidRequestError, match=way_out) as raised:
            make(model=wrong)
        assert "secret-key" not in str(raised.value)
