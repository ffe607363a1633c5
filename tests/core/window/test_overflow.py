"""A provider that refuses a window as too long says so in words of its own; the next window fits."""

import re

import pytest

from lance_context_core import ContextStore, Message
from lance_context_core.errors import BudgetError
from lance_context_core.window import HistorySection, SystemSection

TOO_LONG = {
    "openai": "This model's maximum context length is {limit} tokens. However, your messages resulted in {needed} tokens. Please reduce the length of the messages.",
    "openai, input": "Input tokens exceed the configured limit of {limit} tokens. Your messages resulted in {needed} tokens.",
    "vllm": "This model's maximum context length is {limit} tokens. However, you requested {needed} tokens (9 in the messages, 0 in the completion).",
    "anthropic": "prompt is too long: {needed} tokens > {limit} maximum",
    "anthropic, output": "input length and `max_tokens` exceed context limit: {needed} + 0 > {limit}, decrease input length or `max_tokens` and try again",
    "gemini": "The input token count ({needed}) exceeds the maximum number of tokens allowed ({limit}).",
    "mistral": "Prompt contains {needed} tokens and 0 draft tokens, too large for model with {limit} maximum context length",
    "openai responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "bedrock": "Input is too long for requested model.",
    "llama.cpp": "the request exceeds the available context size, try increasing it",
}  # fmt: skip
OTHERS = [
    "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 9000. reduce the length",
    "Incorrect API key provided",
    "messages.1.content: text content blocks must be non-empty",
]


@pytest.fixture
def store():
    with ContextStore.open("memory://") as opened:
        said = [Message.of("user", "tea and cake " * 9, id=f"t{n}") for n in range(60)]
        opened.history.append_many("", said, session_id="s")
        yield opened


class RefusedError(Exception):
    """What a client raises."""


def sent(window, limit, words, *, beside=0):
    """What a provider of so many tokens does with a window, and what is sent `beside` it."""
    needed = window.tokens + beside
    if needed > limit:
        raise RefusedError(words.format(needed=needed, limit=limit))
    return "done"


@pytest.mark.parametrize("words", TOO_LONG.values(), ids=TOO_LONG)
@pytest.mark.parametrize("beside", [0, 300])
def test_a_window_that_was_too_long_fits_the_second_time(store, words, beside):
    window = store.assemble(session_id="s", budget=1_500)
    limit = window.tokens + beside - 100
    with pytest.raises(RefusedError) as refused:
        sent(window, limit, words, beside=beside)
    smaller = window.smaller_budget(refused.value)
    again = store.assemble(session_id="s", budget=smaller)
    assert sent(again, limit, words, beside=beside) == "done"
    assert again.messages[-1] == window.messages[-1]


def test_as_much_is_left_as_the_error_lets(store):
    window = store.assemble(session_id="s", budget=1_500)
    error = RefusedError(
        f"prompt is too long: {window.tokens} tokens > {window.tokens - 10} maximum"
    )
    assert window.smaller_budget(error).room >= 0.9 * window.tokens


@pytest.mark.parametrize("words", OTHERS)
def test_another_error_gives_no_budget(store, words):
    assert store.assemble(session_id="s", budget=900).smaller_budget(RefusedError(words)) is None


def test_what_a_client_keeps_of_the_answer_is_read_too(store):
    window = store.assemble(session_id="s", budget=900)
    by_code, by_answer = RefusedError("Error 400"), RefusedError("Client error '400 Bad Request'")
    by_code.code = "context_length_exceeded"
    by_answer.response = type("Response", (), {"text": "prompt is too long: 9 tokens > 8 maximum"})
    wrapped = RefusedError("The model failed")
    wrapped.__cause__ = by_code
    assert all(window.smaller_budget(one) for one in (by_code, by_answer, wrapped))


def test_what_cannot_become_so_short_is_one_clear_error(store):
    sections = [SystemSection(text="You pour tea. " * 30), HistorySection()]
    window = store.assemble(session_id="s", budget=900, sections=sections)
    smaller = window.smaller_budget(RefusedError("prompt is too long: 9000 tokens > 90 maximum"))
    with pytest.raises(BudgetError, match=re.escape("the required sections need")):
        store.assemble(session_id="s", budget=smaller, sections=sections)
