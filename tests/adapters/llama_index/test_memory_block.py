"""The memory block that recalls what has left the conversation."""

import asyncio
import json
import pickle

import pytest
from adapters.llama_index.samples import say, texts
from core.conformance.doubles import WordVectors
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.memory import VectorMemoryBlock
from llama_index_lance_context import LanceContextMemory, LanceContextMemoryBlock

from lance_context_core import ContextStore, ImagePart, InvalidRequestError, Message


def words(text):
    """A token for each word."""
    return text.split()


def block_of(store, **fields):
    return LanceContextMemoryBlock(store, **{"tokenizer_fn": words, **fields})


def put(block, *messages, session_id=None):
    asyncio.run(block.aput(list(messages), session_id=session_id))


def recalled(block, *messages, session_id=None):
    return asyncio.run(block.aget(list(messages), session_id=session_id))


def test_what_answers_the_last_message_is_recalled_best_first(embedding_store):
    block = block_of(embedding_store, limit=2)
    put(block, say("green tea is hot"), say("the sky is blue"), say("tea in the cup", "assistant"))
    assert recalled(block, say("so"), say("a cup of tea?")) == (
        "assistant: tea in the cup\nuser: green tea is hot"
    )


def test_without_an_embedder_words_are_enough(store):
    block = block_of(store)
    put(block, say("green tea"), say("blue sky"))
    assert recalled(block, say("tea?")) == "user: green tea"


@pytest.mark.parametrize("messages", [[], [say("")], [say("  ")]])
def test_nothing_is_recalled_where_nothing_is_asked(store, messages):
    block = block_of(store)
    assert recalled(block, *messages) == ""
    assert asyncio.run(block.aget(None)) == ""


@pytest.mark.defect(23)
def test_a_new_store_recalls_nothing(store):
    assert recalled(block_of(store), say("tea?"), session_id="s") == ""


@pytest.mark.defect(24)
def test_a_session_recalls_nothing_of_another(embedding_store):
    block = block_of(embedding_store)
    put(block, say("the password is swordfish"), session_id="a")
    put(block, say("the password is herring"), session_id="b")
    put(block, say("the password is nobody's"))
    ask = say("what is the password?")
    for _ in range(2):
        assert recalled(block, ask, session_id="a") == "user: the password is swordfish"
        assert recalled(block, ask, session_id="b") == "user: the password is herring"
        assert recalled(block, ask, session_id="c") == ""
        assert recalled(block, ask) == "user: the password is nobody's"


def test_a_user_recalls_all_of_their_sessions_and_nothing_of_others(embedding_store):
    blocks = {
        user: block_of(embedding_store, scope="user", user_id=user, name=user) for user in "ab"
    }
    put(blocks["a"], say("my cat is Ada"), session_id="1")
    put(blocks["b"], say("my cat is Bob"), session_id="1")
    embedding_store.memory.add(["my cat eats fish"], user_id="a", session_id="elsewhere")
    found = recalled(blocks["a"], say("my cat?"), session_id="2")
    assert sorted(found.split("\n")) == ["user: my cat eats fish", "user: my cat is Ada"]


def test_a_user_must_have_a_name(store):
    with pytest.raises(InvalidRequestError, match="user_id"):
        block_of(store, scope="user")


def test_the_messages_that_it_is_given_stay_as_they_are(store):
    message = say("tea")
    put(block_of(store), message, session_id="s")
    assert message == say("tea")


def test_what_other_blocks_write_into_messages_is_not_kept(store):
    message = say("tea")
    message.additional_kwargs["session_id"] = "s"
    block = block_of(store)
    put(block, message, session_id="s")
    put(block, say("tea"), session_id="s")
    (kept,) = store.memory.list().items
    assert "session_id" not in kept.native["additional_kwargs"]
    asyncio.run(block._aput([message]))
    assert store.memory.list().total == 1


def test_a_message_is_remembered_once(store):
    block = block_of(store)
    put(block, say("tea"), say("tea"), session_id="s")
    put(block, say("tea"), session_id="s")
    put(block, say("tea"), session_id="t")
    assert sorted(one.session_id for one in store.memory.list().items) == ["s", "t"]


def test_putting_messages_is_one_commit_and_empty_ones_are_none(store):
    block = block_of(store)
    put(block, say("first"))
    before = store.version()
    put(block, *[say(f"tea {i}") for i in range(9)], say(""), say(" "))
    assert store.version() == before + 1
    put(block, say(""))
    assert store.version() == before + 1


def test_what_is_still_in_the_conversation_is_not_told_twice(store):
    block = block_of(store)
    put(block, say("green tea"), say("black tea"))
    assert recalled(block, say("green tea"), say("tea?")) == "user: black tea"


def test_of_a_picture_is_told_what_it_shows(store):
    shown = ImagePart(url="https://example.org/a.png", caption="a red bicycle")
    store.memory.add([Message.user([shown])])
    assert recalled(block_of(store), say("whose bicycle?")) == "user: a red bicycle"


def test_it_may_be_closed_to_what_leaves_the_conversation(store):
    block = block_of(store, accept_short_term_memory=False)
    asyncio.run(block.aput([say("tea")], from_short_term_memory=True))
    assert store.memory.list().total == 0
    put(block, say("tea"))
    assert store.memory.list().total == 1


# Truncation


def test_it_is_cut_by_as_many_tokens_as_asked_for(store):
    block = block_of(store)
    content = "user: one two\nuser: three"
    assert [asyncio.run(block.atruncate(content, n)) for n in range(6)] == [
        "user: one two\nuser: three",
        "user: one two\nuser:",
        "user: one two",
        "user: one",
        "user:",
        None,
    ]


@given(content=st.text(alphabet="ab \n", max_size=40), n=st.integers(0, 12))
def test_what_is_left_is_the_beginning_and_small_enough(content, n):
    with ContextStore.open("memory://") as store:
        left = asyncio.run(block_of(store).atruncate(content, n)) or ""
    assert content.startswith(left)
    assert len(words(left)) == max(len(words(content)) - n, 0)


def test_a_memory_cuts_it_instead_of_dropping_it(store):
    block = block_of(store)
    memory = LanceContextMemory(
        store, session_id="s", memory_blocks=[block], token_limit=9, tokenizer_fn=words
    )
    put(block, say("tea is hot and green and good and here"), session_id="s")
    memory.put(say("tea?"))
    (system, _) = memory.get()
    assert "user: tea is hot and green and good\n" in system.content
    # LlamaIndex's own are dropped as a whole.
    assert asyncio.run(VectorMemoryBlock.atruncate(block, "user: tea", 1)) is None


# Together


def test_a_memory_recalls_what_has_left_the_conversation(embedding_store):
    def memory(session_id):
        return LanceContextMemory(
            embedding_store,
            session_id=session_id,
            memory_blocks=[block],
            token_limit=40,
            token_flush_size=1,
            chat_history_token_ratio=0.3,
            tokenizer_fn=words,
        )

    block = block_of(embedding_store, limit=1)
    first = memory("a")
    for text in ("the password is swordfish", "one two three four", "five six seven eight nine"):
        first.put(say(text))
    first.put(say("what was the password?"))
    assert "the password is swordfish" not in texts(first.get())[1:]
    assert "the password is swordfish" in first.get()[0].content
    second = memory("b")
    second.put(say("what was the password?"))
    assert texts(second.get()) == ["what was the password?"]


def test_given_by_its_uri_it_can_be_serialised(tmp_path):
    with LanceContextMemoryBlock(str(tmp_path / "s"), limit=3, mode="text") as block:
        for again in (
            LanceContextMemoryBlock.model_validate(json.loads(block.model_dump_json())),
            pickle.loads(pickle.dumps(block)),  # noqa: S301 - what has just been pickled
        ):
            assert again.model_dump() == block.model_dump()
            again.close()


def test_an_embedder_is_serialised_by_its_name_alone(tmp_path):
    with (
        LanceContextMemoryBlock(str(tmp_path / "s"), embedder=WordVectors()) as block,
        pytest.raises(ValueError, match="embedder"),
    ):
        block.model_dump_json()
