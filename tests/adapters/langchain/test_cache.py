"""Answers of models by what was asked: the framework's own suites, and what they leave out."""

import asyncio
from datetime import timedelta

import pytest
from core.conformance.doubles import ManualClock
from langchain_core.language_models import FakeListChatModel, FakeListLLM
from langchain_core.load import dumps
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    Generation,
    GenerationChunk,
)
from langchain_lance_context import LanceContextSemanticCache
from langchain_tests.integration_tests import AsyncCacheTestSuite, SyncCacheTestSuite

from lance_context_core import ContextStore, InvalidRequestError
from lance_context_core.errors import DimensionMismatchError, StoreClosedError

MODEL = "model=a temperature=0"
ANSWER = [Generation(text="an answer")]


class TestCache(SyncCacheTestSuite):
    @pytest.fixture
    def cache(self, store, embedding):
        return LanceContextSemanticCache(store, embedding)


class TestAsyncCache(AsyncCacheTestSuite):
    @pytest.fixture
    def cache(self, store, embedding):
        return LanceContextSemanticCache(store, embedding)


class TestCacheOfAStoreThatEmbeds(SyncCacheTestSuite):
    @pytest.fixture
    def cache(self, embedding_store):
        return LanceContextSemanticCache(embedding_store)


@pytest.fixture
def cache(store, embedding):
    return LanceContextSemanticCache(store, embedding, score_threshold=0.9)


@pytest.fixture(params=["sync", "async"])
def call(request, cache):
    """Calls a method, or awaits the asynchronous one."""

    def called(method, *args):
        if request.param == "sync":
            return getattr(cache, method)(*args)
        return asyncio.run(getattr(cache, f"a{method}")(*args))

    return called


def asked(*messages):
    """A conversation, as LangChain puts it to its caches."""
    return dumps(list(messages))


def test_a_prompt_that_means_the_same_is_answered(call):
    call("update", "what is the capital city of France", MODEL, ANSWER)
    assert call("lookup", "what is the capital city of France please", MODEL) == ANSWER
    assert call("lookup", "how warm is it in Oslo today", MODEL) is None


def test_the_nearest_prompt_answers(call):
    call("update", "one two three four five six", MODEL, [Generation(text="six")])
    call("update", "one two three four five", MODEL, [Generation(text="five")])
    assert call("lookup", "five four three two one", MODEL)[0].text == "five"


def test_a_model_is_another_by_a_letter(call):
    call("update", "the same prompt", MODEL, ANSWER)
    assert call("lookup", "the same prompt", f"{MODEL} ") is None
    assert call("lookup", "the same prompt", MODEL.upper()) is None


def test_other_models_do_not_take_the_place_of_ones_own(call):
    """Of a search for the nearest, all hits may be answers of others."""
    call("update", "one two three four five", MODEL, ANSWER)
    for n in range(30):
        call("update", "one two three four five six", f"model={n}", [Generation(text="other")])
    assert call("lookup", "one two three four five six", MODEL) == ANSWER


def test_an_update_replaces_the_answer(call):
    call("update", "prompt", MODEL, ANSWER)
    call("update", "prompt", MODEL, [Generation(text="better")])
    assert call("lookup", "prompt", MODEL) == [Generation(text="better")]


def test_the_threshold_is_a_score_of_the_store(store, embedding):
    asked_, known = "one two three four", "one two three five"
    store_ = ContextStore.open("memory://", embedder=embedding)
    kv = store_.kv("probe")
    from lance_context_core import Item, ItemVector

    kv.put([Item(key="k", vectors=[ItemVector(text=known)])])
    [hit] = kv.search(asked_)
    store_.close()
    for threshold, is_found in ((hit.score - 0.001, True), (hit.score + 0.001, False)):
        cache = LanceContextSemanticCache(
            store, embedding, score_threshold=threshold, name=f"c{is_found}"
        )
        cache.update(known, MODEL, ANSWER)
        assert (cache.lookup(asked_, MODEL) == ANSWER) is is_found


def test_with_a_threshold_of_one_nothing_is_embedded(store):
    cache = LanceContextSemanticCache(store, score_threshold=1)
    cache.update("prompt", MODEL, ANSWER)
    assert cache.lookup("prompt", MODEL) == ANSWER
    assert cache.lookup("prompt ", MODEL) is None


def test_without_an_embedder_it_says_so(store):
    with pytest.raises(InvalidRequestError, match="embedder"):
        LanceContextSemanticCache(store).update("prompt", MODEL, ANSWER)


def test_blank_prompts_are_found_to_the_letter(call):
    call("update", "", MODEL, ANSWER)
    assert call("lookup", "", MODEL) == ANSWER
    assert call("lookup", " ", MODEL) is None


# Conversations

SYSTEM = SystemMessage("You are a cook.")
QUESTION = HumanMessage("how long do I boil the green tea eggs")
SIMILAR = HumanMessage("how long do I boil the green tea eggs then")


def test_of_a_conversation_the_last_question_is_compared_by_meaning(call):
    call("update", asked(SYSTEM, QUESTION), MODEL, ANSWER)
    assert call("lookup", asked(SYSTEM, SIMILAR), MODEL) == ANSWER
    assert call("lookup", asked(SYSTEM, HumanMessage("who are you")), MODEL) is None


def test_the_words_that_all_messages_have_say_nothing(call):
    """Serialised messages look much alike, whatever they say."""
    call("update", asked(HumanMessage("yes")), MODEL, ANSWER)
    assert call("lookup", asked(HumanMessage("no")), MODEL) is None


@pytest.mark.parametrize(
    "before",
    [
        [],
        [SystemMessage("You are a poet.")],
        [SYSTEM, HumanMessage("hello"), AIMessage("hello")],
        [SYSTEM, AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])],
    ],
)
def test_what_stands_before_it_must_be_the_same(call, before):
    call("update", asked(SYSTEM, QUESTION), MODEL, ANSWER)
    assert call("lookup", asked(*before, SIMILAR), MODEL) is None


def test_what_a_tool_said_must_be_the_same(call):
    def conversation(said):
        return asked(QUESTION, ToolMessage(said, tool_call_id="1"))

    call("update", conversation("the balance of the account is 900"), MODEL, ANSWER)
    assert call("lookup", conversation("the balance of the account is 900"), MODEL) == ANSWER
    assert call("lookup", conversation("the balance of the account is 100"), MODEL) is None


def test_images_beside_a_text_must_be_the_same(call):
    def question(url):
        text = {"type": "text", "text": QUESTION.content}
        return asked(HumanMessage([text, {"type": "image_url", "image_url": {"url": url}}]))

    call("update", question("http://a"), MODEL, ANSWER)
    assert call("lookup", question("http://a"), MODEL) == ANSWER
    assert call("lookup", question("http://b"), MODEL) is None
    assert call("lookup", asked(QUESTION), MODEL) is None


@pytest.mark.parametrize(
    "prompt", ["[", "[]", "[1]", '[{"lc": 1}]', "[not json]", '[{"lc": 1, "kwargs": 1}]']
)
def test_a_prompt_that_only_looks_like_messages_is_a_prompt(call, prompt):
    call("update", prompt, MODEL, ANSWER)
    assert call("lookup", prompt, MODEL) == ANSWER


def test_a_chat_model_answers_from_it(cache):
    model = FakeListChatModel(responses=["first", "second"], cache=cache)
    assert model.invoke([SYSTEM, QUESTION]).content == "first"
    assert model.invoke([SYSTEM, SIMILAR]).content == "first"
    assert asyncio.run(model.ainvoke([SYSTEM, QUESTION])).content == "first"
    assert model.invoke([SYSTEM, HumanMessage("who are you")]).content == "second"


def test_a_completion_model_answers_from_it(cache):
    model = FakeListLLM(responses=["first", "second"], cache=cache)
    assert model.invoke("tell me about green tea") == "first"
    assert model.invoke("tell me about green tea") == "first"
    assert asyncio.run(model.ainvoke("who are you")) == "second"


# Answers


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [Generation(text="a"), Generation(text="b", generation_info={"logprobs": [0.5, None]})],
        [
            ChatGeneration(
                message=AIMessage(
                    [{"type": "text", "text": "a"}],
                    id="x",
                    tool_calls=[{"name": "f", "args": {"n": 1}, "id": "1"}],
                    usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
                    response_metadata={"model": "m"},
                ),
                generation_info={"finish_reason": "stop"},
            )
        ],
    ],
)
def test_answers_come_back_equal(call, answer):
    call("update", "prompt", MODEL, answer)
    found = call("lookup", "prompt", MODEL)
    assert found == answer
    assert [type(one) for one in found] == [type(one) for one in answer]


def test_chunks_are_kept_as_what_they_amount_to(call):
    chunks = [
        GenerationChunk(text="a"),
        ChatGenerationChunk(message=AIMessageChunk("b", id="x")),
    ]
    call("update", "prompt", MODEL, chunks)
    assert call("lookup", "prompt", MODEL) == [
        Generation(text="a"),
        ChatGeneration(message=AIMessage("b", id="x")),
    ]


def test_an_answer_is_not_shared_with_who_changes_it(call):
    call("update", "prompt", MODEL, ANSWER)
    call("lookup", "prompt", MODEL)[0].text = "changed"
    assert call("lookup", "prompt", MODEL) == ANSWER


@pytest.mark.parametrize(
    ("prompt", "model", "answer"),
    [
        (None, MODEL, ANSWER),
        ("prompt", None, ANSWER),
        ("prompt", MODEL, None),
        ("prompt", MODEL, ["text"]),
        ("prompt", MODEL, "text"),
        ("prompt", MODEL, [Generation(text="a", generation_info={"file": object()})]),
    ],
)
def test_what_cannot_be_kept_is_refused(call, store, prompt, model, answer):
    with pytest.raises(InvalidRequestError):
        call("update", prompt, model, answer)
    assert store.kv("langchain_cache").count() == 0


@pytest.mark.parametrize("how", [{"score_threshold": 1.1}, {"score_threshold": -1}, {"score_threshold": "1"}, {"ttl": 5}, {"ttl": timedelta(0)}])  # fmt: skip
def test_settings_that_are_none_are_refused(store, embedding, how):
    with pytest.raises(InvalidRequestError):
        LanceContextSemanticCache(store, embedding, **how)


# The store around it


def test_clearing_forgets_all_of_this_cache(store, embedding):
    one, other = (LanceContextSemanticCache(store, embedding, name=name) for name in "ab")
    for cache in (one, other):
        cache.update("prompt", MODEL, ANSWER)
    one.clear()
    assert one.lookup("prompt", MODEL) is None
    assert other.lookup("prompt", MODEL) == ANSWER
    asyncio.run(other.aclear())
    assert other.lookup("prompt", MODEL) is None


def test_scopes_isolate(store, embedding):
    ada, ben = (LanceContextSemanticCache(store.scope(user_id=who), embedding) for who in "ab")
    ada.update("my secret prompt of today", MODEL, ANSWER)
    assert ben.lookup("my secret prompt of today", MODEL) is None
    ben.clear()
    assert ada.lookup("my secret prompt of today", MODEL) == ANSWER


def test_answers_expire(tmp_path, embedding):
    clock = ManualClock()
    with ContextStore.open(tmp_path, clock=clock) as opened:
        cache = LanceContextSemanticCache(opened, embedding, ttl=timedelta(hours=1))
        cache.update("prompt", MODEL, ANSWER)
        clock.advance(minutes=59)
        assert cache.lookup("prompt", MODEL) == ANSWER
        clock.advance(minutes=1)
        assert cache.lookup("prompt", MODEL) is None


def test_answers_are_there_after_a_restart(tmp_path, embedding):
    with LanceContextSemanticCache(tmp_path, embedding) as first:
        first.update("prompt", MODEL, ANSWER)
    with pytest.raises(StoreClosedError):
        first.lookup("prompt", MODEL)
    with LanceContextSemanticCache(tmp_path, embedding) as second:
        assert second.lookup("prompt", MODEL) == ANSWER


def test_an_embedder_of_another_length_is_refused(store, cache):
    from core.conformance.doubles import WordVectors

    cache.update("prompt", MODEL, ANSWER)
    with pytest.raises(DimensionMismatchError):
        LanceContextSemanticCache(store, Other(WordVectors(dimension=3))).lookup("other", MODEL)


class Other:
    def __init__(self, vectors):
        self._vectors = vectors

    def embed_documents(self, texts):
        return self._vectors.embed_documents(texts)

    def embed_query(self, text):
        return self._vectors.embed_query(text)

    async def aembed_documents(self, texts):
        return self.embed_documents(texts)

    async def aembed_query(self, text):
        return self.embed_query(text)
