"""Token counts without a network: how near the estimate is, and what a caller's counter may say."""

import base64
import os

import pytest
import tiktoken

from lance_context_core import InvalidRequestError, Message, NotFoundError
from lance_context_core.messages import ImagePart, ReasoningPart, TextPart, ToolCallPart
from lance_context_core.window import CallableTokenCounter, HeuristicTokenCounter, TiktokenCounter
from lance_context_core.window.counting import Measure

# Counted by cl100k.
KNOWN = {
    "English": (
        ("I went to the support group yesterday and it was so powerful. The stories were so inspiring!"
        " I was so happy and thankful for all the support. What happened next, did you hear any more?"),
        40,
    ),
    "German": (
        ("Der Vertrag wurde gestern unterschrieben, obwohl die Verhandlungen zwischen den Gewerkschaften"
        " und der Geschäftsführung noch nicht abgeschlossen waren. Heute Morgen bin ich mit dem Fahrrad"
        " zur Bäckerei gefahren und habe drei Brötchen gekauft."),
        67,
    ),
    "Chinese": ("今天上午我们在会议室讨论了新产品的发布计划,市场部认为应该在十月之前完成所有的准备工作。", 43),
    "Japanese": ("昨日は友達と一緒に映画を見に行きました。とても面白かったです。", 34),
    "Thai": ("วันนี้อากาศดีมาก ฉันไปเดินเล่นที่สวนสาธารณะกับเพื่อน", 48),
    "code": ("def add(one: int, other: int) -> int:\n    return one + other\n\n\nclass Pot:\n    size = 3\n", 28),
    "JSON": ('[{"id": 17, "name": "tea", "price": 2.5, "tags": ["hot", "green"]}, {"id": 18}]', 37),
}  # fmt: skip


@pytest.mark.parametrize("text", ["English", "German", "code", "JSON"])
def test_the_estimate_is_within_15_percent(text):
    written, tokens = KNOWN[text]
    assert HeuristicTokenCounter().count(written) == pytest.approx(tokens, rel=0.15)


@pytest.mark.parametrize("text", ["Chinese", "Japanese", "Thai"])
def test_the_estimate_is_not_far_below_where_words_have_no_spaces(text):
    written, tokens = KNOWN[text]
    assert HeuristicTokenCounter().count(written) >= 0.9 * tokens


def test_what_a_model_reports_makes_the_estimate_right():
    counter = HeuristicTokenCounter()
    texts = [f"turn {n} " + "tea and cups " * (n % 7 + 3) for n in range(40)]
    plain = HeuristicTokenCounter()
    for text in texts[:20]:
        counter.observe(counter.count(text), round(plain.count(text) * 1.37))
    for text in texts[20:]:
        assert counter.count(text) == pytest.approx(plain.count(text) * 1.37, rel=0.03)


@pytest.mark.parametrize(("estimated", "actual"), [(0, 1), (1, 0), (1, -1), (1.5, 1), (True, 1)])
def test_a_report_of_nonsense_is_refused(estimated, actual):
    with pytest.raises(InvalidRequestError):
        HeuristicTokenCounter().observe(estimated, actual)


def test_everything_that_is_sent_counts():
    measure = Measure(HeuristicTokenCounter())
    least = measure.message(Message.user("tea"))
    for part in (
        ToolCallPart(name="look", arguments={"at": "pot"}),
        ReasoningPart(text="hm", signature="x" * 800),
        ImagePart(url="https://x.example/a.png"),
        TextPart(text="more"),
    ):
        assert measure.message(Message.assistant([TextPart(text="tea"), part])) > least


def test_a_tokenizer_is_a_counter():
    assert CallableTokenCounter(str.split).count("one two") == 2
    assert CallableTokenCounter(len).count("one") == 3


# By tiktoken, from a folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder with an encoding of bytes and of one word, under the name of cl100k."""
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    ranks = [bytes([n]) for n in range(256)] + [b"te", b"tea"]
    lines = "".join(f"{base64.b64encode(b).decode()} {n}\n" for n, b in enumerate(ranks))
    (tmp_path / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4").write_text(lines)
    monkeypatch.setattr("tiktoken.load.check_hash", lambda data, expected_hash: True, raising=True)
    tiktoken.registry.ENCODINGS.clear()
    yield tmp_path
    tiktoken.registry.ENCODINGS.clear()


def test_tiktoken_counts_from_a_folder_and_asks_no_network(cache, monkeypatch):
    monkeypatch.setattr("socket.socket.connect", None)
    counter = TiktokenCounter("cl100k_base", cache=cache)
    assert counter.count("tea tea") == 3
    assert counter.count("<|endoftext|>") == 12  # te is one of them
    assert counter.count("tea\ud800") == 2
    assert "TIKTOKEN_CACHE_DIR" not in os.environ


def test_a_folder_without_the_file_is_told_of_and_nothing_is_downloaded(tmp_path, monkeypatch):
    monkeypatch.setattr("socket.socket.connect", None)
    with pytest.raises(NotFoundError, match="o200k_base"):
        TiktokenCounter(cache=tmp_path)


def test_an_encoding_or_a_folder_that_is_not_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    with pytest.raises(InvalidRequestError, match="cl100k_base"):
        TiktokenCounter("klingon", cache=tmp_path)
    with pytest.raises(InvalidRequestError, match="TIKTOKEN_CACHE_DIR"):
        TiktokenCounter()


def test_what_a_model_reports_sets_the_estimate_of_windows_right():
    counter = HeuristicTokenCounter()
    measure = Measure(counter)
    message = Message.user("tea and cups " * 50)
    before = measure.message(message)
    counter.observe(before, before * 2)
    assert Measure(counter).message(message) == pytest.approx(2 * before, rel=0.03)


@pytest.mark.parametrize(
    "text", ["x" * 1_000_000, "🫖" * 50_000, "\u202e" * 1_000, "\n" * 100_000, ""]
)
def test_any_text_has_a_count(text):
    counted = HeuristicTokenCounter().count(text)
    assert (counted > 0) == bool(text)
    assert counted <= 3 * len(text)
