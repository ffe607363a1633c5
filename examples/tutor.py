"""A tutor that knows its student: a typed profile with evidence, and an undo of one session.

python examples/tutor.py [DIR]

Facts come from rules and a function in the place of a language model, so that it runs without a key.
"""

import json
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lance_context_core import ContextStore, ManagedMemory, Message
from lance_context_core.knowledge import ModelExtractor
from lance_context_core.models import FunctionModel
from lance_context_core.window import HistorySection, SystemSection

STUDENT = "mia"


@dataclass
class Student:
    """The tutor's profile of a student. Each field is one slot of facts."""

    level: str
    goal: str | None = None
    weak_topic: str | None = None


LESSONS = (
    ("lesson 1", 3, "I want to pass the B2 exam in June.", ("goal", "pass the B2 exam in June")),
    ("lesson 2", 10, "My level is A2.", ("level", "A2")),
    ("lesson 3", 17, "I always confuse der, die and das.", ("weak_topic", "articles")),
    ("lesson 4", 24, "My teacher says my level is B1 now.", ("level", "B1")),
)
BROTHER = ("lesson 5", 31, "My level is C2, I need no exam.", ("level", "C2"))


def scripted(prompt: str) -> str:
    """The facts that a language model would find in the turns of this prompt, as JSON."""
    turns = [json.loads(line) for line in prompt.splitlines() if line.startswith('{"turn"')]
    facts = [
        {
            "turn": turn["turn"],
            "text": f"The student's {slot.replace('_', ' ')}: {value}",
            "slot": slot,
            "value": value,
            "quote": text,
        }
        for turn in turns
        for _, _, text, (slot, value) in (*LESSONS, BROTHER)
        if turn["text"] == text
    ]
    return json.dumps({"facts": facts})


def teach(memory: ManagedMemory, lesson: tuple[str, int, str, tuple[str, str]]) -> str:
    """Adds the student's messages of one lesson; returns the id of the job that extracts facts."""
    session_id, day, text, _ = lesson
    said = Message.user(text, created_at=datetime(2026, 3, day, 16, tzinfo=UTC))
    return memory.add([said], user_id=STUDENT, session_id=session_id).job_id or ""


def show(memory: ManagedMemory, title: str) -> None:
    """Print the profile: each value, its former values, and the sentence that proves it."""
    print(f"== {title}")
    profile = memory.profile(Student, user_id=STUDENT)
    for name, field in profile.fields.items():
        values = " → ".join(one.text for one in field.history)
        print(f"  {name}: {values}   “{field.evidence[0].text}”")


def main(directory: Path) -> None:
    """Four lessons, one in which the brother had the keyboard, and its undo."""
    extractor = ModelExtractor(FunctionModel(scripted, name="script"), profile=Student)
    with (
        ContextStore.open(directory) as store,
        ManagedMemory(store, extractor=extractor) as memory,
    ):
        for lesson in LESSONS:
            teach(memory, lesson)
        show(memory, "After four lessons")
        then = datetime(2026, 3, 20, tzinfo=UTC)
        earlier = memory.profile(Student, user_id=STUDENT, valid_at=then)
        print(f"  on 20 March the level was {earlier.values['level']}")

        job_id = teach(memory, BROTHER)
        show(memory, "After lesson 5, which her brother took")
        undone = memory.undo(job_id)
        show(memory, f"After the undo of lesson 5 ({len(undone.conflicts)} conflicts)")

        window = store.assemble(
            session_id="lesson 6",
            budget=1_000,
            sections=[SystemSection(text=instructions(memory)), HistorySection()],
            messages=[Message.user("What do we practise today?")],
        )
        print("== The prompt of lesson 6 begins")
        print(f"  {window.messages[0].text}")


def instructions(memory: ManagedMemory) -> str:
    """The first message of a prompt: the task, and the student's profile."""
    known = memory.profile(Student, user_id=STUDENT).values
    about = ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in known.items())
    return f"You teach German. The student's {about}."


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
