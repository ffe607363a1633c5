"""A conversation remembered by one process and recalled by another.

    python examples/quickstart.py [CONVERSATION.json] [--store DIR]

The first process reads the conversation, remembers it and ends. The second opens the same directory,
answers questions from it, shows what is new since a tag, and looks at the memory as it was then.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from lance_context_core import ContextStore
from lance_context_core.messages import ImagePart, Message, Part, TextPart
from lance_context_core.records import ContextRecord, SearchHit

SAMPLE = Path(__file__).parent / "data" / "conversation.json"
TAG = "before-the-last-session"
N_QUESTIONS = 6
N_HITS = 3

console = Console(highlight=False)


def main() -> None:
    """Run the two processes, one after the other."""
    arguments = _arguments()
    if arguments.step is not None:
        step = {"remember": remember, "recall": recall}[arguments.step]
        step(Conversation.read(arguments.conversation), arguments.store)
        return
    with tempfile.TemporaryDirectory(prefix="memory-") as scratch:
        directory = arguments.store or Path(scratch) / "memory"
        for name in ("remember", "recall"):
            command = [sys.executable, __file__, str(arguments.conversation)]
            subprocess.run([*command, "--store", str(directory), "--step", name], check=True)  # noqa: S603 - ourselves
    kept = f"The memory is in {directory}." if arguments.store else "Keep it with --store DIR."
    console.print(f"\n[dim]{kept}[/]")


def remember(conversation: "Conversation", directory: Path) -> None:
    """Write the conversation, one commit a session, and name the moment before the last session."""
    console.print(Rule("[bold]1  Remember", align="left"))
    started = time.perf_counter()
    with ContextStore.open(directory, embedder="local") as store:
        sessions = list(conversation.sessions())
        for number, (session_id, messages) in enumerate(
            track(sessions, description="   remembering", console=console, transient=True), start=1
        ):
            if number == len(sessions) and TAG not in store.tags():
                store.tag(TAG)
            store.history.append_many("", messages, session_id=session_id)
        n_turns = sum(session.n_messages for session in store.sessions.list())
    seconds = time.perf_counter() - started
    console.print(
        f"   {n_turns} turns of {conversation.who()} in {len(sessions)} sessions, "
        f"{conversation.when()}, in {seconds:.1f} s.\n"
        f"   Process {os.getpid()} ends here, and with it all that it knew.\n"
    )


def recall(conversation: "Conversation", directory: Path) -> None:
    """Answer questions from the directory alone, then look at what changed, and back in time."""
    console.print(Rule("[bold]2  Recall", align="left"))
    console.print(f"   Process {os.getpid()} has only the directory.\n")
    with ContextStore.open(directory, embedder="local") as store:
        for question in conversation.questions():
            hits = store.search(question["question"], limit=N_HITS)
            console.print(f"   [bold]{question['question']}[/]")
            console.print(_hits(hits, set(question["evidence"])))

        console.print(Rule(f"[bold]3  New since the tag {TAG!r}", align="left"))
        diff = store.diff(TAG)
        console.print(
            f"   {len(diff.added)} added, {len(diff.changed)} changed, "
            f"{len(diff.removed)} removed; the first of them:"
        )
        for record in diff.added[:3]:
            console.print(Text.assemble("   + ", *_turn(record)), soft_wrap=False)

        console.print(Rule(f"\n[bold]4  The memory as it was at {TAG!r}", align="left"))
        then = store.checkout(TAG)
        question = diff.added[-1].text or ""
        console.print(
            f"   It holds {then.context().entries()} records instead of "
            f"{store.context().entries()}. Asked for the last thing said,\n"
        )
        for label, view in (("now ", store), ("then", then)):
            best = view.search(question, limit=1)[0]
            console.print(Text.assemble(f"   {label}  {best.score:.2f}  ", *_turn(best.record)))


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation file: turns, and questions with the ids of the turns that answer them."""

    data: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Conversation":
        """The conversation in a file; ends the program with a clear word if it is none."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if not data["turns"]:
                raise ValueError("it has no turns")
            return cls(data)
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.exit(f"{path} is no conversation: {error!r}; see examples/data/README.md")

    def sessions(self) -> Iterator[tuple[str, list[Message]]]:
        """Each session's id and messages, in order."""
        for number, turns in groupby(self.data["turns"], key=lambda turn: turn["session"]):
            yield f"{self.data['conversation_id']}/{number}", [self._message(t) for t in turns]

    def questions(self) -> list[dict[str, Any]]:
        """A few of the questions, of every category."""
        by_category: dict[str, list[dict[str, Any]]] = {}
        for question in self.data.get("questions", []):
            by_category.setdefault(question["category"], []).append(question)
        by_category.pop("adversarial", None)  # these have no answer
        rounds = zip(*(qs[:N_QUESTIONS] for qs in by_category.values()), strict=False)
        return [question for one in rounds for question in one][:N_QUESTIONS]

    def who(self) -> str:
        """The speakers."""
        return " and ".join(self.data["speakers"])

    def when(self) -> str:
        """From when to when it goes."""
        times = [datetime.fromisoformat(turn["session_time"]) for turn in self.data["turns"]]
        return f"{min(times):%-d %B %Y} to {max(times):%-d %B %Y}"

    def _message(self, turn: dict[str, Any]) -> Message:
        is_first = turn["speaker"] == self.data["speakers"][0]
        parts: list[Part] = [TextPart(text=turn["text"])]
        if turn.get("image_caption"):
            photo = f"urn:photo:{turn['id']}"
            parts.append(ImagePart(url=photo, media_type="image/jpeg", caption=turn["image_caption"]))
        return Message(
            role="user" if is_first else "assistant",
            parts=tuple(parts),
            id=turn["id"],
            name=turn["speaker"],
            created_at=datetime.fromisoformat(turn["session_time"]),
        )


def _hits(hits: list[SearchHit[ContextRecord]], evidence: set[str]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    for style in ("green", "cyan", "bold", "dim", "dim", ""):
        table.add_column(style=style, vertical="top", no_wrap=style != "")
    for hit in hits:
        record = hit.record
        table.add_row(
            "    ✓" if record.id in evidence else "     ",
            f"{hit.score:.2f}",
            record.name,
            f"{record.created_at:%d %b %Y}",
            " + ".join(hit.matched_channels),
            Text(record.text or ""),
        )
    table.add_row()
    return table


def _turn(record: ContextRecord) -> list[tuple[str, str]]:
    text = (record.text or "").replace("\n", " ")
    return [
        (f"{record.name} ", "bold"),
        (f"{record.created_at:%d %b %Y}  ", "dim"),
        (text if len(text) <= 90 else text[:89] + "…", ""),
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("conversation", nargs="?", type=Path, default=SAMPLE, metavar="FILE")
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep the memory in DIR")
    parser.add_argument("--step", choices=["remember", "recall"], help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
