"""What answers a question stands in its window: a floor under the figures of the benchmark."""

import json
from pathlib import Path
from statistics import mean

import pytest

from lance_context_core import ContextStore, Message
from lance_context_core.window import Budget, HistorySection, RecallSection

SAMPLE = Path(__file__).parents[3] / "examples" / "data" / "conversation.json"
FLOOR = 0.80
"""Of 2,048 tokens; 1.5 points below what was measured."""
SECTIONS = [HistorySection(), RecallSection(limit=100, share=1)]


@pytest.mark.slow
def test_the_evidence_of_most_questions_is_in_the_window():
    data = json.loads(SAMPLE.read_text(encoding="utf-8"))
    with ContextStore.open("memory://", embedder="local") as store:
        for session in {turn["session"]: None for turn in data["turns"]}:
            turns = [one for one in data["turns"] if one["session"] == session]
            messages = [
                Message.user(one["text"], id=one["id"], name=one["speaker"]) for one in turns
            ]
            store.history.append_many("", messages, session_id=f"{session}")
        held = []
        for one in data["questions"][::2]:
            window = store.assemble(
                session_id="now",
                budget=Budget(total=2_048, margin=0),
                sections=SECTIONS,
                messages=[Message.user(one["question"])],
            )
            shown = set(window.report.ids("kept"))
            held.append(mean(id in shown for id in one["evidence"]))
    assert mean(held) >= FLOOR
