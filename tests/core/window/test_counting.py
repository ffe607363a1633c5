"""Token counts without a network: how near the estimate is, and what a caller's counter may say."""

import pytest

from lance_context_core import InvalidRequestError, Message
from lance_context_core.messages import ImagePart, ReasoningPart, TextPart, ToolCallPart
from lance_context_core.window import CallableTokenCounter, HeuristicTokenCounter
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


@pytest.mark.parametrize(
    "text", ["x" * 1_000_000, "🫖" * 50_000, "\u202e" * 1_000, "\n" * 100_000, ""]
)
def test_any_text_has_a_count(text):
    counted = HeuristicTokenCounter().count(text)
    assert (counted > 0) == bool(text)
    assert counted <= 3 * len(text)
