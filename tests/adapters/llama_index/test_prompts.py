"""Templates of the store as LlamaIndex's prompts."""

import pytest
from llama_index.core.base.llms.types import MessageRole
from llama_index.core.llms.mock import MockLLM
from llama_index.core.prompts import PromptTemplate, PromptType
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index_lance_context import LanceContextPromptTemplate

from lance_context_core import ContextStore
from lance_context_core.errors import InvalidRequestError, NotFoundError


@pytest.fixture
def opened(tmp_path):
    with ContextStore.open(tmp_path / "prompts") as store:
        yield store


@pytest.fixture
def review(opened):
    return opened.templates.save("review", "Review {{path}} as {{role}}: {json} {{ braces.")


def test_a_template_is_filled_in_as_the_store_fills_it_in(opened, review):
    values = {"path": "{{role}} {path}", "role": "critic"}
    prompt = LanceContextPromptTemplate.from_store(opened, "review")
    assert isinstance(prompt, PromptTemplate)
    assert prompt.template_vars == ["path", "role"]
    assert prompt.format(**values) == opened.templates.render("review", values)
    assert prompt.format(**values) == "Review {{role}} {path} as critic: {json} {{ braces."
    (message,) = prompt.format_messages(**values)
    assert (message.role, message.content) == (MessageRole.USER, prompt.format(**values))
    assert prompt.get_template() == review.text


def test_a_prompt_stays_at_its_version(opened, review):
    first = LanceContextPromptTemplate(review)
    opened.templates.save("review", "Look at {{path}}.")
    latest = LanceContextPromptTemplate.from_store(opened, "review")
    again = LanceContextPromptTemplate.from_store(opened, "review", version=1)
    assert latest.format(path="a.py") == "Look at a.py."
    values = {"path": "a.py", "role": "critic"}
    assert first.format(**values) == again.format(**values) != latest.format(**values)
    assert latest.metadata["lance_context_version"] == 2


def test_a_template_of_jinja_is_filled_in_within_the_sandbox(opened):
    text = "{% for one in notes %}- {{ one }}\n{% endfor %}"
    prompt = LanceContextPromptTemplate(opened.templates.save("list", text, syntax="jinja"))
    assert prompt.format(notes=["{{ 7 * 7 }}", "b"]) == "- {{ 7 * 7 }}\n- b\n"
    spy = opened.templates.save("spy", "{{ one.__class__.__mro__ }}", syntax="jinja")
    with pytest.raises(InvalidRequestError, match="__class__"):
        LanceContextPromptTemplate(spy).format(one="text")


def test_a_variable_that_is_missing_is_named(review):
    with pytest.raises(InvalidRequestError, match="role"):
        LanceContextPromptTemplate(review).format(path="a.py")


def test_a_template_that_is_not_there_is_an_error(opened):
    with pytest.raises(NotFoundError, match="'other'"):
        LanceContextPromptTemplate.from_store(opened, "other")
    with pytest.raises(InvalidRequestError, match=r"store\.templates\.get"):
        LanceContextPromptTemplate("Review {{path}}")


def test_some_variables_can_be_given_before(review):
    prompt = LanceContextPromptTemplate(review)
    partial = prompt.partial_format(role="critic")
    assert partial.format(path="a") == prompt.format(path="a", role="critic")
    with pytest.raises(InvalidRequestError, match="role"):
        prompt.format(path="a")


def test_variables_are_called_otherwise_and_made_by_functions(review):
    prompt = LanceContextPromptTemplate(
        review,
        prompt_type=PromptType.SUMMARY,
        template_var_mappings={"file": "path"},
        function_mappings={"role": lambda **given: given["file"].upper()},
    )
    assert prompt.format(file="a") == "Review a as A: {json} {{ braces."
    assert prompt.metadata["prompt_type"] == PromptType.SUMMARY


@pytest.mark.parametrize("mode", ["compact", "simple_summarize", "tree_summarize"])
@pytest.mark.parametrize("llm", [MockLLM(), MockLLM(is_chat_model=True)], ids=["text", "chat"])
def test_an_answer_is_made_with_it_as_with_a_prompt_of_llama_index(opened, mode, llm):
    template = opened.templates.save("qa", "Of {{context_str}} tell {{query_str}}")
    own = PromptTemplate("Of {context_str} tell {query_str}")
    found = [NodeWithScore(node=TextNode(text="tea at five"))]
    # The model of this test says again what it was sent.
    expected, answer = (
        get_response_synthesizer(
            llm=llm, response_mode=mode, text_qa_template=one, summary_template=one
        ).synthesize("the hour", nodes=found)
        for one in (own, LanceContextPromptTemplate(template))
    )
    assert str(answer) == str(expected)
    assert "tell the hour" in str(answer)
