"""The recall of a store of one's own, and of conversations, with parts switched off."""

import json

import pytest

from benchmarks import recall
from lance_context_core import ContextStore, Message

TURNS = [
    {"id": "1", "session": 1, "speaker": "Ann", "text": "Which museum did you like best?"},
    {"id": "2", "session": 1, "speaker": "Ben", "text": "The one with the trains."},
    {"id": "3", "session": 2, "speaker": "Ann", "text": "My cat broke the blue vase."},
]
QUESTIONS = [{"question": "Which museum?", "evidence": ["2"]}]


async def told(capsys, *arguments):
    await recall.main(
        [*arguments, "--embedder", "none", "--only", "all parts", "without `surroundings`"]
    )
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()[2:]]
    return {part.strip(): float(at_10) for part, _, at_10, _ in rows}


async def test_a_store_is_asked_what_the_file_says_with_each_part_and_without(tmp_path, capsys):
    with ContextStore.open(tmp_path / "store") as store:
        for turn in TURNS[:2]:
            message = Message.user(turn["text"], id=turn["id"], name=turn["speaker"])
            store.history.append("", message, session_id="s")
    questions = tmp_path / "questions.jsonl"
    questions.write_text("\n".join(map(json.dumps, QUESTIONS)) + "\n")
    found = await told(capsys, "--store", str(tmp_path / "store"), "--questions", str(questions))
    assert found == {"all parts": 100.0, "without `surroundings`": 0.0}


async def test_a_store_is_asked_for_turns_that_are_drawn_from_it(tmp_path, capsys):
    with ContextStore.open(tmp_path / "store") as store:
        texts = ["yes", "a red kite over green hills", "blue vases stood beside old clocks"]
        for text in texts:
            store.history.append("someone", Message.user(text), session_id="s")
    found = await told(capsys, "--store", str(tmp_path / "store"), "--draw", "9")
    assert found == {"all parts": 100.0, "without `surroundings`": 100.0}


@pytest.mark.parametrize(
    ("lines", "more", "message"),
    [
        ('{"question": "Who?"}', (), r"line 1: write \{"),
        ("[]", (), "line 1"),
        ("", (), "nothing to ask"),
        ("", ("--draw", "3"), "either"),
        (None, (), "either"),
    ],
)
async def test_what_cannot_be_asked_is_told(tmp_path, capsys, lines, more, message):
    with ContextStore.open(tmp_path / "store") as store:
        store.history.append("", Message.user("yes"), session_id="s")
    asked = ["--store", str(tmp_path / "store"), *more]
    if lines is not None:
        (tmp_path / "questions").write_text(lines)
        asked += ["--questions", str(tmp_path / "questions")]
    with pytest.raises(SystemExit, match=message):
        await told(capsys, *asked)


@pytest.mark.parametrize("more", [(), ("--together",)])
async def test_conversations_have_a_store_each_or_one_for_all(tmp_path, capsys, more):
    times = {"session_time": "2026-05-04T10:00:00+00:00", "image_caption": None}
    for name in ("a", "b"):
        data = {"turns": [turn | times for turn in TURNS], "questions": QUESTIONS}
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    found = await told(capsys, "--conversations", str(tmp_path), *more)
    assert found == {"all parts": 100.0, "without `surroundings`": 0.0}


def test_an_interval_holds_the_mean_and_is_narrow_where_all_are_equal():
    assert recall.interval([0.5] * 9) == (0.5, 0.5)
    low, high = recall.interval([0.0, 1.0] * 50)
    assert 0.35 < low < 0.5 < high < 0.65
