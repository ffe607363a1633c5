"""A conversation remembered by one process and recalled by another.

    python examples/quickstart.py [CONVERSATION.json] [--store DIR]

The first process reads the conversation, remembers it and ends. The second opens the same directory,
answers questions from it, shows what is new since a tag, looks at the memory as it was then, tries
something on a branch, merges it, and in the end erases a person from every file. Where
langchain-lance-context is installed, a third one reads and writes the same memory as LangChain does;
where llama-index-lance-context is, LlamaIndex finds what they wrote; and where
agentscope-lance-context is, with agentscope-runtime before 1.0, AgentScope adds a note.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.rule import Rule
from rich.text import Text

# The process that starts the others needs no store, so each of them imports it for itself.
if TYPE_CHECKING:
    from lance_context_core import ContextRecord, ContextStore, Message

SAMPLE = Path(__file__).parent / "data" / "conversation.json"
TAG = "before-the-last-session"
N_QUESTIONS = 6
N_HITS = 3
BRANCH = "what-if"
VISITOR = "Visitor"
PHONE = "555-0199"
ADAPTERS = {
    "langchain": "langchain_lance_context",
    "llama_index": "llama_index_lance_context",
    "agentscope": "agentscope_lance_context",
}
"""What must be installed for the steps of these names."""
ENVIRONMENT = {
    "PYTHONUTF8": "1",  # ✓ and … in a pipe on any system
    "RUNTIME_SANDBOX_REGISTRY": "docker.io",  # without it AgentScope prints where it looks for one
}
NOTES = "notes of LangChain"
NOTE = "The flood in the cellar was only the old boiler; a plumber comes on Friday at nine."

console = Console(highlight=False)
console.width = min(console.width, 100)  # longer lines are no pleasure to read


def main() -> int:
    """Run the processes, one after the other; returns the exit code."""
    arguments = _arguments()
    try:
        conversation = Conversation.read(arguments.conversation)
    except (OSError, ValueError) as error:
        return _refuse(
            f"{arguments.conversation} is no conversation: {error}; see examples/data/README.md"
        )
    if arguments.step is not None:
        return _take(arguments.step, conversation, arguments.store)
    with tempfile.TemporaryDirectory(prefix="memory-") as scratch:
        directory = arguments.store or Path(scratch) / "memory"
        missing = [step for step in ADAPTERS if not _is_installed(step)]
        for step in (step for step in STEPS if step not in missing):
            command = [sys.executable, __file__, str(arguments.conversation)]
            child = subprocess.run(  # noqa: S603 - ourselves
                [*command, "--store", str(directory), "--step", step],
                env={**os.environ, **ENVIRONMENT},
                check=False,
            )
            if child.returncode:
                return child.returncode
    kept = (
        f"The memory is in {arguments.store}." if arguments.store else "Keep it with --store DIR."
    )
    if missing:
        kept += " Other frameworks read it, too: docs/quickstart.md says how."
    console.print()
    for line in _lines(kept, indent=0):
        console.print(line, style="dim")
    return 0


def remember(conversation: "Conversation", directory: Path) -> None:
    """Write the conversation, one commit a session, and name the moment before the last session."""
    from lance_context_core import ContextStore

    _heading("1  Remember")
    sessions = list(conversation.sessions())
    started = time.perf_counter()
    with ContextStore.open(directory, embedder="local") as store:
        n_before = store.context().entries()
        for session_id, messages in track(
            sessions,
            description="   remembering",
            console=console,
            transient=True,
            disable=not console.is_terminal,
        ):
            if session_id == sessions[-1][0] and TAG not in store.tags():
                store.tag(TAG)
            # Each message has an id of its own, so a second run of this writes nothing.
            store.history.append_many("", messages, session_id=session_id)
        n_new = store.context().entries() - n_before
    seconds = time.perf_counter() - started
    n_turns = len(conversation.turns)
    _say(
        f"{_n(n_turns, 'turn')} of {conversation.who()} in {_n(len(sessions), 'session')}, "
        f"{conversation.when()}."
    )
    _say(
        f"Remembered in {seconds:.1f} s."
        if n_new == n_turns
        else f"{n_new} of them are new; what was here already is not written twice."
    )
    _say(f"Process {os.getpid()} ends here, and with it all that it knew.")


def recall(conversation: "Conversation", directory: Path) -> None:
    """Answer questions from the directory alone, then look at what changed, and back in time."""
    from lance_context_core import ContextStore

    with ContextStore.open(directory, embedder="local") as store:
        _heading("2  Recall")
        questions = conversation.featured()
        _say(f"Process {os.getpid()} has nothing but the directory.")
        if questions:
            _say(
                f"It is asked {_n(len(questions), 'question')} of the {len(conversation.questions)} "
                "in the file. A turn that holds the answer is marked ✓."
            )
        for question in questions:
            console.print()
            for line in _lines(question.text, indent=3):
                console.print(line, style="bold")
            for hit in store.search(question.text, limit=N_HITS):
                is_evidence = (hit.record.session_id, hit.record.id) in question.evidence
                mark = "[green]✓[/]" if is_evidence else " "
                _show(
                    hit.record,
                    label=f"{mark} [cyan]{hit.score:.2f}[/]",
                    note=" + ".join(hit.matched_channels) or "beside",
                    n_lines=8 if is_evidence else 2,
                )

        show_why(store, conversation)
        _heading(f"3  New since the tag {TAG!r}")
        diff = store.diff(TAG)
        _say(f"{len(diff.added)} added, {len(diff.changed)} changed, {len(diff.removed)} removed.")
        for record in diff.added[:N_HITS]:
            _show(record, label="[green]+[/]")

        _heading(f"4  The memory as it was at {TAG!r}")
        then = store.checkout(TAG)
        _say(
            f"It holds {then.context().entries()} records instead of {store.context().entries()}. "
            "Asked for the last thing said, the two find:"
        )
        last = conversation.turns[-1]
        for label, view in (("now ", store), ("then", then)):
            hits = view.search(last.text or last.caption or last.speaker, limit=1)
            for hit in hits:
                _show(hit.record, label=f"{label} [cyan]{hit.score:.2f}[/]")
            if not hits:
                _say(f"{label} nothing")

        try_out(store)
        erase_the_visitor(store, directory)


def show_why(store: "ContextStore", conversation: "Conversation") -> None:
    """Show a question that words and vectors alone miss, and what of its hit's score they are."""
    from lance_context_core.settings import SearchOptions

    alone = SearchOptions(
        neighbours=0, coverage=0, speaker=0, surroundings=False, without_names=False
    )
    for question in conversation.questions:
        best = store.search(question.text, limit=1)[0]
        if (best.record.session_id, best.record.id) not in question.evidence:
            continue
        missing = store.search(question.text, limit=N_HITS, options=alone)
        if not {(hit.record.session_id, hit.record.id) for hit in missing} & question.evidence:
            break
    else:
        return
    console.print()
    _say(
        f"Words and vectors alone do not have the answer to this among the first {N_HITS}. A search "
        "in a conversation also looks at who speaks, and at the turns around:"
    )
    for line in _lines(question.text, indent=3):
        console.print(line, style="bold")
    _show(best.record, label=f"[green]✓[/] [cyan]{best.score:.2f}[/]", n_lines=8)
    _say("of which " + ", ".join(f"{part} {share:.2f}" for part, share in best.why.items()))


def try_out(store: "ContextStore") -> None:
    """Say something on a branch, which the memory does not know of until it is merged."""
    from lance_context_core import Message

    _heading(f"5  A branch called {BRANCH!r}")
    branch = store.create_branch(BRANCH)
    said = Message.user(f"I was never here, but you can call me at {PHONE}.", name=VISITOR)
    branch.history.append("", said, session_id="a-visit")
    question = "How can the visitor be called?"
    _say(f"There, somebody else has a word. Asked {question!r}, the two find:")
    for label, view in (("main  ", store), ("branch", branch)):
        (hit,) = view.search(question, limit=1)
        _show(hit.record, label=f"{label} [cyan]{hit.score:.2f}[/]")
    merged = store.merge(BRANCH).tables["records"]
    store.delete_branch(BRANCH)
    _say(f"Merged: {merged.added} added, {merged.updated} changed, {merged.deleted} removed. Now:")
    (hit,) = store.search(question, limit=1)
    _show(hit.record, label=f"main   [cyan]{hit.score:.2f}[/]")


def erase_the_visitor(store: "ContextStore", directory: Path) -> None:
    """Remove all that one person said from every version and every file."""
    _heading("6  The visitor is erased")
    n_before = _n_files_with(PHONE, directory)
    erased = store.erase(filter={"name": VISITOR})
    _say(
        f"{_n(erased.records, 'record')} and {_n(erased.versions_removed, 'old version')} are gone, "
        f"and {erased.bytes_removed / 1e6:.1f} MB with them. The number {PHONE} stood in "
        f"{_n(n_before, 'file')} of the store; now it stands in "
        f"{_n(_n_files_with(PHONE, directory), 'file')}."
    )


def in_langchain(conversation: "Conversation", directory: Path) -> None:
    """Read what was remembered above through LangChain's retriever and chat history."""
    from lance_context_core import ContextStore

    # It need not be installed, so that its types are not known here.
    adapter = import_module(ADAPTERS["langchain"])
    message_class = import_module("langchain_core.messages").HumanMessage
    _heading("7  The same memory in LangChain")
    question = (conversation.featured() or conversation.questions)[:1]
    session_id = conversation.turns[-1].session_id
    with ContextStore.open(directory, embedder="local") as store:
        _say(
            f"Process {os.getpid()} opens the directory with LangChain's classes. "
            "Nothing was converted or copied."
        )
        if question:
            _say(f"The retriever is asked {question[0].text!r}, and finds the document")
            (found,) = adapter.LanceContextRetriever(store=store, k=1).invoke(question[0].text)
            _quote(found.page_content, found.metadata["lance_context"].get("name", "somebody"))
        _say("The chat history of the last session ends with")
        history = adapter.LanceContextChatMessageHistory(store, session_id, limit=2)
        for message in history.messages:
            _quote(str(message.text), type(message).__name__)
        _say("Another history begins with")
        notes = adapter.LanceContextChatMessageHistory(store, NOTES)
        # Its id makes a second run of this write nothing.
        notes.add_messages([message_class(NOTE, id="boiler")])
        _quote(NOTE, message_class.__name__)


def in_llama_index(conversation: "Conversation", directory: Path) -> None:
    """Find what was remembered above, by whomever, with LlamaIndex's retriever."""
    from lance_context_core import ContextStore

    adapter = import_module(ADAPTERS["llama_index"])
    _heading("8  And in LlamaIndex")
    asked = [question.text for question in conversation.featured()[:1]]
    with ContextStore.open(directory, embedder="local") as store:
        if store.history.count("", session_id=NOTES):
            asked.append("When does somebody repair the boiler?")
        retriever = adapter.LanceContextRetriever(store, similarity_top_k=1)
        for question in asked:
            _say(f"The retriever is asked {question!r}, and finds the node")
            (found,) = retriever.retrieve(question)
            facts = found.metadata["lance_context"]
            _quote(found.text, facts.get("name") or f"in the {facts['session_id']}")


def in_agentscope(conversation: "Conversation", directory: Path) -> None:
    """Say something to AgentScope's ContextManager, and find it as everything else is found."""
    asyncio.run(_in_agentscope(conversation.turns[0].speaker, directory))


async def _in_agentscope(user: str, directory: Path) -> None:
    from lance_context_core import AsyncContextStore

    adapter = import_module(ADAPTERS["agentscope"])
    schemas = import_module("agentscope_runtime.engine.schemas.agent_schemas")
    managers = import_module("agentscope_runtime.engine.services.context_manager")
    _heading("9  And in AgentScope")
    text = "Note for tomorrow: the oven man comes at seven."
    content = [schemas.TextContent(text=text)]
    # Its id makes a second run of this write nothing.
    note = schemas.Message(id="the-oven", role="user", content=content)
    async with (
        AsyncContextStore.open(directory, embedder="local") as store,
        managers.create_context_manager(
            session_history_service=adapter.LanceContextSessionHistoryService(
                store, deduplicate=True
            ),
            memory_service=adapter.LanceContextMemoryService(store, deduplicate=True),
        ) as manager,
    ):
        session = await manager.compose_session(user_id=user, session_id="a-note")
        await manager.compose_context(session, request_input=[note])
        question = "When does the oven man come?"
        _say(
            f"{user} leaves a note with the ContextManager. The store is asked {question!r}, and finds"
        )
        (hit,) = await store.search(question, limit=1)
        _quote(hit.record.text or "", f"{hit.record.user_id}, {hit.record.session_id}")


def _is_installed(step: str) -> bool:
    if find_spec(ADAPTERS[step]) is None:
        return False
    try:
        return step != "agentscope" or version("agentscope-runtime").startswith("0.")
    except PackageNotFoundError:
        return False


def _quote(text: str, label: str) -> None:
    """What somebody said, on two lines at most."""
    lines = _lines(f"{label}: {text}", indent=5)
    if len(lines) > 2:
        lines[1].append(" …")
    for line in lines[:2]:
        console.print(line)


def _n_files_with(text: str, directory: Path) -> int:
    files = (path for path in directory.rglob("*") if path.is_file())
    return sum(text.encode() in path.read_bytes() for path in files)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker said at once."""

    id: str
    session_id: str
    time: datetime
    speaker: str
    text: str
    caption: str | None
    """What the photo shows that came with it."""

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
    """A conversation file; `examples/data/README.md` says what stands in it."""

    speakers: list[str]
    turns: list[Turn]
    questions: list[Question]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The conversation in a file; raises ValueError that says what is wrong with it."""
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
        return f"{_date(min(times), month='%B')} to {_date(max(times), month='%B')}"

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


def _heading(title: str) -> None:
    console.print()
    console.print(Rule(f"[bold]{escape(title)}", align="left"))


def _say(text: str) -> None:
    for line in _lines(text, indent=3):
        console.print(line)


def _show(record: "ContextRecord", *, label: str, note: str = "", n_lines: int = 2) -> None:
    """One line about the record, and below it what it says, as far as `n_lines` hold it."""
    head = Text.from_markup(f"   {label}  ")
    about = f"  {_date(record.created_at)}  {note}".rstrip()
    console.print(head + Text.assemble((f"{record.name}", "bold"), (about, "dim")), no_wrap=True)
    said = " ".join([record.text or "", *(f"[photo: {one}]" for one in record.captions)])
    lines = _lines(said, indent=head.cell_len)
    if len(lines) > n_lines:
        lines[n_lines - 1].append(" …")
    for line in lines[:n_lines]:
        console.print(line)


def _lines(text: str, *, indent: int) -> list[Text]:
    """`text` in lines that leave room for two more characters, however wide its script is."""
    room = max(console.width - indent - 2, 20)
    lines = Text(" ".join(text.split())).wrap(console, room)
    return [Text(" " * indent + line.plain.rstrip()) for line in lines]


def _n(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _date(time: datetime, *, month: str = "%b") -> str:
    return f"{time.day} {time:{month} %Y}"


STEPS = {
    "remember": remember,
    "recall": recall,
    "langchain": in_langchain,
    "llama_index": in_llama_index,
    "agentscope": in_agentscope,
}
"""Each runs in a process of its own."""


def _take(step: str, conversation: Conversation, directory: Path) -> int:
    from lance_context_core import ContextStoreError

    try:
        STEPS[step](conversation, directory)
    except ContextStoreError as error:
        return _refuse(str(error))
    return 0


def _refuse(message: str) -> int:
    print(f"quickstart: {message}", file=sys.stderr)
    return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "conversation", nargs="?", type=Path, default=SAMPLE, metavar="CONVERSATION.json"
    )
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep the memory in DIR")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
