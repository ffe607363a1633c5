"""Words of every length and kind are found: hashes, keys, addresses, paths, identifiers, emoji."""

import pytest
from core.test_old_data import old  # noqa: F401 - a fixture
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import AsyncContextStore, ContextStore, Message
from lance_context_core.storage.lance import indexes as text_index
from lance_context_core.text.analysis import index_words, query_words

SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
SHA1 = "da39a3ee5e6b4b0d3255bfef95601890afd80709"
KEY = "sk-proj-" + "AbC123xyz" * 20
UUID = "550e8400-e29b-41d4-a716-446655440000"

FOUND = {
    f"The commit {SHA1} broke it": [SHA1, SHA1.upper()],
    f"sha256 is {SHA256}": [SHA256],
    f"My key is {KEY}.": [KEY, "proj"],
    f"Run {UUID} has failed": [UUID, "550e8400"],
    "Write to ann.lee@example.org": ["ann.lee@example.org", "lee", "example.org"],
    "It says so on https://docs.example.com/3/library/re.html#sub": [
        "https://docs.example.com/3/library/re.html#sub",
        "docs.example.com",
        "library",
    ],
    "Look in /usr/local/share/site-packages/foo_bar.py": [
        "/usr/local/share/site-packages/foo_bar.py",
        "site-packages",
        "foo_bar.py",
        "bar",
    ],
    "It calls getUserName first": ["getUserName", "getusername", "user name", "get_user_name"],
    "The class HTTPServer answers": ["HTTPServer", "server", "http server"],
    "It is set by max_retry_count": ["max_retry_count", "retry", "maxRetryCount"],
    "Those PDFs are large": ["PDFs", "pdf"],
    "We won 🎉 at last": ["🎉", "did we win? 🎉"],
    "Well done 👍🏽": ["👍", "👍🏿"],
    "Off to 🇯🇵 soon": ["🇯🇵"],
    "With love ❤️": ["❤", "❤️"],
}
"""Texts, and questions that only they answer."""


@pytest.fixture(scope="module")
def store():
    with ContextStore.open("memory://") as store:
        store.memory.add(list(FOUND))
        yield store


@pytest.mark.parametrize(
    ("text", "question"), [(text, one) for text, some in FOUND.items() for one in some]
)
def test_each_is_found_before_all_others(store, text, question):
    best = store.memory.search(question, mode="text")[0]
    assert best.record.text == text


@pytest.mark.parametrize("emoji", ["👎", "🇯🇲", "🎊"])
def test_an_emoji_does_not_find_another(store, emoji):
    assert store.memory.search(emoji, mode="text") == []


def test_a_key_of_a_hundred_thousand_letters_is_kept_and_found(store):
    long = "deadbeef" * 12_500
    with ContextStore.open("memory://") as other:
        other.memory.add([f"It is {long}", "It is deadbeef"])
        (hit,) = other.memory.search(long, mode="text")
        assert hit.record.text == f"It is {long}"


def test_the_parts_of_an_identifier_follow_it():
    assert index_words("a getUserName call") == "a getUserName get User Name call"
    assert index_words("parseHTTPResponse") == "parseHTTPResponse parse HTTP Response"
    assert index_words("an iPhone, NASA, Ann's, x2Y") == "an iPhone Phone, NASA, Ann's, x2Y"


def test_a_question_of_an_emoji_alone_asks_for_it():
    assert query_words("🎉?").split() == index_words("🎉?").split()


@given(st.text(st.sampled_from("aAbB👍🏽🇯❤️ ._-é")).map("We said {}".format))
def test_whatever_a_text_says_a_question_in_its_words_has_no_other_words(text):
    said = set(index_words(text).casefold().split())
    assert set(query_words(text).casefold().split()) <= said


async def test_an_index_that_left_out_long_words_is_made_anew_by_maintenance(old):  # noqa: F811
    await old.history.append("g", Message.user(f"It was {SHA1}", id="m9"), session_id="s")
    async with AsyncContextStore.open(old.uri, search_cache=None) as store:
        assert await store.search(SHA1, mode="text") == []
        assert any("search_text" in done.indexes_built for done in await old.maintain())
        assert [hit.record.id for hit in await store.search(SHA1, mode="text", limit=1)] == ["m9"]
    assert not any("search_text" in done.indexes_built for done in await old.maintain())


def test_what_the_engine_tells_of_an_index_says_whether_it_lacks_words():
    assert text_index.leaves_out_words({"max_token_length": 40})
    assert not text_index.leaves_out_words({"max_token_length": None})
    assert not text_index.leaves_out_words(None)
