"""Templates of the store as LangChain's prompts."""

import pickle

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.prompts import (
    ChatPromptTemplate,
    HumanMessagePromptTemplate,
    PromptTemplate,
    SystemMessagePromptTemplate,
)
from langchain_lance_context import LanceContextPromptTemplate

from lance_context_core.errors import InvalidRequestError, NotFoundError


@pytest.fixture
def review(store):
    return store.templates.save("review", "Review {{path}} as {{role}}: {json} {{ braces.")


def test_a_template_is_filled_in_as_the_store_fills_it_in(store, review):
    values = {"path": "{{role}} {path}", "role": "critic"}
    prompt = LanceContextPromptTemplate.from_store(store, "review")
    assert prompt.input_variables == ["path", "role"]
    assert prompt.format(**values) == store.templates.render("review", values)
    assert prompt.format(**values) == "Review {{role}} {path} as critic: {json} {{ braces."


def test_a_prompt_stays_at_its_version(store, review):
    first = LanceContextPromptTemplate.from_store(store, "review")
    store.templates.save("review", "Look at {{path}}.")
    latest = LanceContextPromptTemplate.from_store(store, "review")
    again = LanceContextPromptTemplate.from_store(store, "review", version=1)
    assert latest.format(path="a.py") == "Look at a.py."
    values = {"path": "a.py", "role": "critic"}
    assert first.format(**values) == again.format(**values) != latest.format(**values)
    assert (latest.metadata["lance_context_template"], first.metadata["lance_context_version"]) == (
        "review",
        1,
    )


async def test_a_template_of_jinja_is_filled_in_within_the_sandbox(store):
    text = "{% for one in notes %}- {{ one }}\n{% endfor %}"
    prompt = LanceContextPromptTemplate(store.templates.save("list", text, syntax="jinja"))
    assert await prompt.aformat(notes=["{{ 7 * 7 }}", "b"]) == "- {{ 7 * 7 }}\n- b\n"
    spy = store.templates.save("spy", "{{ one.__class__.__mro__ }}", syntax="jinja")
    with pytest.raises(InvalidRequestError, match="__class__"):
        LanceContextPromptTemplate(spy).format(one="text")


def test_a_variable_that_is_missing_is_named(review):
    with pytest.raises((InvalidRequestError, KeyError), match="role"):
        LanceContextPromptTemplate(review).format(path="a.py")
    with pytest.raises(KeyError, match="role"):
        LanceContextPromptTemplate(review).invoke({"path": "a.py"})


def test_a_template_that_is_not_there_is_an_error(store):
    with pytest.raises(NotFoundError, match="'other'"):
        LanceContextPromptTemplate.from_store(store, "other")
    with pytest.raises(InvalidRequestError, match=r"store\.templates\.get"):
        LanceContextPromptTemplate("Review {{path}}")


def test_some_variables_can_be_given_before(review):
    prompt = LanceContextPromptTemplate(review, partial_variables={"role": lambda: "critic"})
    assert prompt.input_variables == ["path"]
    by_partial = LanceContextPromptTemplate(review).partial(role="critic")
    assert by_partial.input_variables == ["path"]
    assert prompt.invoke({"path": "a"}) == by_partial.invoke({"path": "a"})


def test_a_prompt_is_a_part_of_a_chain_and_of_a_chat(review):
    prompt = LanceContextPromptTemplate(review)
    chain = prompt | FakeListChatModel(responses=["fine"])
    assert chain.invoke({"path": "a.py", "role": "critic"}).text == "fine"
    chat = ChatPromptTemplate(
        [
            SystemMessagePromptTemplate(prompt=prompt),
            ("placeholder", "{history}"),
            HumanMessagePromptTemplate.from_template("{question}"),
        ]
    )
    assert set(chat.input_variables) == {"path", "role", "question"}
    values = {"path": "a.py", "role": "critic", "question": "Well?", "history": [("ai", "Hm.")]}
    system, _, human = chat.invoke(values).to_messages()
    assert system == SystemMessage("Review a.py as critic: {json} {{ braces.")
    assert human == HumanMessage("Well?")


def test_what_is_no_text_is_written_as_langchain_writes_it(store, review):
    values = {"path": ["a.py", None], "role": True, "more": object()}
    own = PromptTemplate.from_template("{path} {role}").format(**values)
    template = store.templates.save("own", "{{path}} {{role}}")
    assert LanceContextPromptTemplate(template).format(**values) == own


def test_filling_in_a_prompt_counts_as_no_use(store, review):
    LanceContextPromptTemplate(review).format(path="a.py", role="critic")
    assert store.templates.get("review").n_uses == 0


def test_a_prompt_is_copied_by_pickle(review):
    prompt = LanceContextPromptTemplate(review)
    values = {"path": "a.py", "role": "critic"}
    assert pickle.loads(pickle.dumps(prompt)).format(**values) == prompt.format(**values)  # noqa: S301 - our own bytes
