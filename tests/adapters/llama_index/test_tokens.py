"""What counts toward the limit of the memory: all that a model is sent."""

import pytest
from adapters.llama_index.samples import MESSAGES, say
from llama_index.core.base.llms.types import (
    AudioBlock,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.memory import Memory
from llama_index_lance_context import LanceContextMemory

LONG = "word " * 100


def call(id="c1", arguments=None):
    return ToolCallBlock(
        tool_call_id=id, tool_name="look", tool_kwargs=arguments or {"query": LONG}
    )


def openai_call(id="c1"):
    return {"id": id, "type": "function", "function": {"name": "look", "arguments": LONG}}


@pytest.fixture
def memory(store):
    # A token for each word.
    return LanceContextMemory(
        store,
        session_id="s",
        token_limit=1_000,
        tokenizer_fn=str.split,
        image_token_size_estimate=11,
        audio_token_size_estimate=12,
        video_token_size_estimate=13,
        document_token_size_estimate=14,
    )


def count(memory, *blocks, **more):
    message = ChatMessage(role="assistant", blocks=list(blocks), additional_kwargs=more)
    return memory._estimate_token_count(message)


@pytest.mark.parametrize(
    "block",
    [
        TextBlock(text=LONG),
        ThinkingBlock(content=LONG),
        pytest.param(call(), id="a call with one long argument"),
        pytest.param(call(arguments=LONG), id="a call with all arguments in a text"),
        CitableBlock(title="t", source="s", content=[TextBlock(text=LONG)]),
        CitationBlock(
            cited_content=TextBlock(text=LONG),
            source="s",
            title="t",
            additional_location_info={},
        ),
    ],
    ids=lambda block: block.block_type,
)
def test_a_block_of_a_hundred_words_counts_about_a_hundred(memory, block):
    assert 100 <= count(memory, block) <= 103
    assert 200 <= memory._estimate_token_count([block, block]) <= 206


def test_media_count_as_the_memory_is_told_also_where_they_are_cited(memory):
    image = ImageBlock(image=b"x")
    blocks = [image, AudioBlock(audio=b"x"), VideoBlock(video=b"x"), DocumentBlock(data=b"x")]
    assert count(memory, *blocks, CachePoint(cache_control={"type": "ephemeral"})) == 50
    assert count(memory, CitableBlock(title="t", source="s", content=[image])) == 11
    # Nothing is read from where it is.
    assert count(memory, ImageBlock(url="http://nowhere.invalid/x.png")) == 11


def test_a_call_beside_the_blocks_counts_and_one_that_is_in_both_counts_once(memory):
    beside = count(memory, tool_calls=[openai_call()])
    assert 100 <= beside <= 110
    both = count(memory, call(), tool_calls=[openai_call()])
    assert 100 <= both <= 103
    assert count(memory, call(), tool_calls=[openai_call("c2")]) == both + beside
    # In whatever form it is.
    assert count(memory, tool_calls=LONG) >= 100
    assert count(memory, anything={"else": LONG}) >= 100


def test_every_kind_of_message_counts_at_least_as_much_as_llama_index_says(memory):
    theirs = Memory.from_defaults(
        token_limit=1_000, tokenizer_fn=str.split, image_token_size_estimate=11
    )
    for name, message in MESSAGES.items():
        if not any(isinstance(one, ToolCallBlock) for one in message.blocks):
            text = ChatMessage(
                role=message.role,
                blocks=[one for one in message.blocks if isinstance(one, TextBlock)],
                additional_kwargs=message.additional_kwargs,
            )
            ours = memory._estimate_token_count(message)
            assert ours >= theirs._estimate_token_count(text), name
    assert memory._estimate_token_count("three short words") == 3
    assert memory._estimate_token_count([say("a b"), say("c")]) == 3


@pytest.mark.parametrize("form", ["blocks", "kwargs"])
def test_a_conversation_of_tool_calls_stays_within_its_limit(store, form):
    memory = LanceContextMemory(
        store, session_id="s", token_limit=2_000, token_flush_size=1, tokenizer_fn=str.split
    )
    for n in range(20):
        made = (
            {"blocks": [call(f"c{n}", {"query": LONG * 5})]}
            if form == "blocks"
            else {"additional_kwargs": {"tool_calls": [openai_call(f"c{n}")] * 5}}
        )
        memory.put_messages([say(f"question {n}"), ChatMessage(role="assistant", **made)])
    active = memory.get()
    assert [one.content for one in active[::2]] == ["question 18", "question 19"]
    assert len(memory.get_all()) == 40
