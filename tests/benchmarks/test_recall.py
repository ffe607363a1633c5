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
        ('{"question": "Who?", "evidence": []}', (), "line 1"),
        ('{"question": "Who?", "evidence": "1"}', (), "line 1"),
        ('{"question": "Who?", "evidence": ["ab"]}', (), "no message with 1 of the 1 ids .* 'ab'"),
        ("", (), "nothing to ask"),
        ("", ("--draw", "3"), "needs one of"),
        (None, (), "needs one of"),
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


async def test_a_file_that_is_not_there_is_told(tmp_path, capsys):
    ContextStore.open(tmp_path / "store").close()
    with pytest.raises(SystemExit, match="questions"):
        await told(capsys, "--store", str(tmp_path), "--questions", str(tmp_path / "questions"))


async def test_memories_are_asked_for_by_the_ids_that_are_listed(tmp_path, capsys):
    with ContextStore.open(tmp_path / "store") as store:
        store.history.append("a", Message.user("Ben likes trains."), session_id="s")
        store.memory.add(["Ann likes kites.", "Ann has a cat."], user_id="ann")
    asked = ["--store", str(tmp_path / "store"), "--memories"]
    await recall.main([*asked, "--list", "--embedder", "none"])
    kites, cat = map(json.loads, capsys.readouterr().out.splitlines())
    assert (kites["user_id"], kites["text"]) == ("ann", "Ann likes kites.")
    question = {"question": "Who has a pet, a cat?", "evidence": [cat["id"], kites["id"]]}
    (tmp_path / "questions").write_text(json.dumps(question | {"user_id": "ann"}))
    found = await told(capsys, *asked, "--questions", str(tmp_path / "questions"))
    assert found == {"all parts": 50.0, "without `surroundings`": 50.0}


async def test_what_the_store_refuses_is_told_without_a_trace(tmp_path, capsys):
    with ContextStore.open(tmp_path / "store") as store:
        store.history.append("a", Message.user("red kites over green hills"), session_id="s")
    vectors = ["--only", "vectors alone, all parts", "--embedder", "none"]
    with pytest.raises(SystemExit, match="needs a vector"):
        await recall.main(["--store", str(tmp_path / "store"), "--draw", "1", *vectors])


@pytest.mark.parametrize("more", [(), ("--together",)])
async def test_conversations_have_a_store_each_or_one_for_all(tmp_path, capsys, more):
    times = {"session_time": "2026-05-04T10:00:00+00:00", "image_caption": None}
    for name in ("a", "b"):
        data = {"turns": [turn | times for turn in TURNS], "questions": QUESTIONS}
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    found = await told(capsys, "--conversations", str(tmp_path), *more)
    assert found == {"all parts": 100.0, "without `surroundings`": 0.0}


async def test_sessions_are_ranked_by_their_first_turn_and_count_by_any_and_by_all(
    tmp_path, capsys
):
    times = {"session_time": "2026-05-04T10:00:00+00:00", "image_caption": None}
    turns = [
        {"id": str(number), "session": number, "speaker": None, "text": text} | times
        for number, text in enumerate(["a kite", "no", "a vase", "kite kite", "a tent", "the vase"])
    ]
    questions = [
        {"question": "vase", "evidence": ["2"], "category": "one"},
        {"question": "kite", "evidence": ["0", "1"], "category": "two"},
        {"question": "tent", "evidence": ["1"], "category": "two"},
    ]
    (tmp_path / "a.json").write_text(json.dumps({"turns": turns, "questions": questions}))
    asked = ["--conversations", str(tmp_path), "--embedder", "none", "--only", "all parts"]
    await recall.main([*asked, "--sessions", "--categories"])
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()[2:]]
    shares = {row[0].strip(): [float(one) for one in (*row[1:3], *row[4:])] for row in rows}
    assert shares == {
        "all parts": [50.0, 50.0, 66.7, 66.7, 33.3, 33.3],
        "- one (1)": [100.0, 100.0, 100.0, 100.0, 100.0, 100.0],
        "- two (2)": [25.0, 25.0, 50.0, 50.0, 0.0, 0.0],
    }


async def test_calls_of_tools_and_their_results_are_turns(tmp_path, capsys):
    times = {"session": 1, "session_time": "2026-05-04T10:00:00+00:00", "image_caption": None}
    call = {"id": "c", "name": "search_flights", "arguments": {"to": "Oslo"}}
    turns = [
        {"id": "1", "role": "user", "speaker": None, "text": "Find one."},
        {"id": "2", "role": "assistant", "speaker": None, "text": "I look.", "call": call},
        {"id": "3", "role": "tool", "speaker": None, "text": "SK123 at 8", "result_of": "c"},
    ]
    questions = [{"question": "SK123", "evidence": ["3"]}]
    data = {"turns": [turn | times for turn in turns], "questions": questions}
    (tmp_path / "a.json").write_text(json.dumps(data))
    found = await told(capsys, "--conversations", str(tmp_path))
    assert found["all parts"] == 100.0


def test_an_interval_holds_the_mean_and_is_narrow_where_all_are_equal():
    assert recall.interval([0.5] * 9) == (0.5, 0.5)
    low, high = recall.interval([0.0, 1.0] * 50)
    assert 0.35 < low < 0.5 < high < 0.65
