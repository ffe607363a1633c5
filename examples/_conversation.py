"""The conversation of the quickstart; `data/README.md` describes its file."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from _printing import date

# The process that starts the others needs no store, so each of them imports it for itself.
if TYPE_CHECKING:
    from lance_context_core import Message

N_QUESTIONS = 6


@dataclass(frozen=True, slots=True)
class Turn:
    """One speaker's turn."""

    id: str
    session_id: str
    time: datetime
    speaker: str
    text: str
    caption: str | None
    """The caption of its photo."""

    def message(self, *, role: str) -> "Message":
        """This turn as the store keeps it."""
        from lance_context_core import ImagePart, Message, TextPart

        text = TextPart(text=self.text)
        photo = ImagePart(url=f"urn:photo:{self.id}", media_type="image/jpeg", caption=self.caption)
        parts = (text, photo) if self.caption else (text,)
        return Message(role=role, parts=parts, id=self.id, name=self.speaker, created_at=self.time)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the turns that answer it, by their sessions and ids."""

    text: str
    category: str
    evidence: frozenset[tuple[str, str]]
    is_featured: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation file; `examples/data/README.md` describes it."""

    speakers: list[str]
    turns: list[Turn]
    questions: list[Question]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads the conversation from a file; raises ValueError if it is malformed."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            turns = [_turn(turn, data["conversation_id"]) for turn in data["turns"]]
            sessions = {turn.id: turn.session_id for turn in turns}
            questions = [_question(question, sessions) for question in data.get("questions", [])]
            speakers = [str(speaker) for speaker in data["speakers"]]
        except KeyError as error:
            raise ValueError(f"it lacks {error}") from error
        except (TypeError, AttributeError) as error:
            raise ValueError(f"it is of another shape ({error})") from error
        if not turns or not speakers:
            raise ValueError(f"it has no {'speakers' if turns else 'turns'}")
        return cls(speakers, turns, questions)

    def sessions(self) -> "Iterator[tuple[str, list[Message]]]":
        """Each session's id and messages, in order."""
        for session_id, turns in groupby(self.turns, key=lambda turn: turn.session_id):
            yield session_id, [turn.message(role=self._role(turn)) for turn in turns]

    def featured(self) -> list[Question]:
        """The questions that the file features; without any, a few of every category."""
        featured = [question for question in self.questions if question.is_featured]
        if featured:
            return featured
        by_category: dict[str, list[Question]] = {}
        for question in self.questions:
            by_category.setdefault(question.category, []).append(question)
        by_category.pop("adversarial", None)  # these have no answer
        rounds = zip(*(asked[:N_QUESTIONS] for asked in by_category.values()), strict=False)
        return [question for one in rounds for question in one][:N_QUESTIONS]

    def who(self) -> str:
        """The speakers."""
        return " and ".join(self.speakers)

    def when(self) -> str:
        """From when to when it goes."""
        times = [turn.time for turn in self.turns]
        return f"{date(min(times), month='%B')} to {date(max(times), month='%B')}"

    def _role(self, turn: Turn) -> str:
        return "user" if turn.speaker == self.speakers[0] else "assistant"


def _turn(data: Mapping[str, Any], conversation_id: str) -> Turn:
    for name in ("id", "speaker", "text"):
        if not isinstance(data[name], str):
            raise TypeError(f"the {name} {data[name]!r} of a turn is not a string")
    time = datetime.fromisoformat(data["session_time"])
    if time.tzinfo is None:
        raise ValueError(f"{data['session_time']!r} does not say its offset from UTC, such as Z")
    return Turn(
        id=data["id"],
        session_id=f"{conversation_id}/{data['session']}",
        time=time,
        speaker=data["speaker"],
        text=data["text"],
        caption=data.get("image_caption"),
    )


def _question(data: Mapping[str, Any], sessions: Mapping[str, str]) -> Question:
    return Question(
        text=data["question"],
        category=data["category"],
        evidence=frozenset((sessions.get(turn, ""), turn) for turn in data["evidence"]),
        is_featured=data.get("featured", False),
    )
