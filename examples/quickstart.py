"""A conversation remembered by one process and recalled by another.

    python examples/quickstart.py [CONVERSATION.json] [--store DIR]

The first process reads the conversation, remembers it and ends. The second opens the same directory,
answers questions from it, shows what is new since a tag, looks at the memory as it was then, tries
something on a branch, merges it, and in the end erases a person from every file. A third one makes
knowledge of thirty days of a life, proves it, undoes it and forgets it, and a fourth one reads a lease
and answers with the page. Where langchain-lance-context is installed, another one reads and writes the same memory as LangChain does;
where llama-index-lance-context is, LlamaIndex finds what they wrote; and where
agentscope-lance-context is, with agentscope-runtime before 1.0, AgentScope adds a note.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from _conversation import Conversation
from _frameworks import ADAPTERS, in_agentscope, in_langchain, in_llama_index, is_installed
from _printing import console, date, heading, n_of, say, show, wrapped
from rich.progress import track

# The process that starts the others needs no store, so each of them imports it for itself.
if TYPE_CHECKING:
    from lance_context_core import ContextStore

SAMPLE = Path(__file__).parent / "data" / "conversation.json"
LEASE = Path(__file__).parent / "data" / "house" / "lease.pdf"
TAG = "before-the-last-session"
N_HITS = 3
BRANCH = "what-if"
VISITOR = "Visitor"
PHONE = "555-0199"
ENVIRONMENT = {
    "PYTHONUTF8": "1",  # ✓ and … in a pipe on any system
    "RUNTIME_SANDBOX_REGISTRY": "docker.io",  # without it AgentScope prints where it looks for one
}


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
        missing = [step for step in ADAPTERS if not is_installed(step)]
        for step in (step for step in STEPS if step not in missing):
            command = [sys.executable, __file__, str(arguments.conversation)]
            child = subprocess.run(  # noqa: S603 - ourselves
                [*command, "--store", str(directory), "--step", step],
                env={**os.environ, **ENVIRONMENT},
                check=False,
            )
            if child.returncode:
                return child.returncode
    tell_where(arguments.store, reads_more=bool(missing))
    return 0


def remember(conversation: Conversation, directory: Path) -> None:
    """Write the conversation, one commit a session, and name the moment before the last session."""
    from lance_context_core import ContextStore

    heading("1  Remember")
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
    say(
        f"{n_of(n_turns, 'turn')} of {conversation.who()} in {n_of(len(sessions), 'session')}, "
        f"{conversation.when()}."
    )
    say(
        f"Remembered in {seconds:.1f} s."
        if n_new == n_turns
        else f"{n_new} of them are new; what was here already is not written twice."
    )
    say(f"Process {os.getpid()} ends here, and with it all that it knew.")


def recall(conversation: Conversation, directory: Path) -> None:
    """Answer questions from the directory alone, then look at what changed, and back in time."""
    from lance_context_core import ContextStore

    with ContextStore.open(directory, embedder="local") as store:
        heading("2  Recall")
        questions = conversation.featured()
        say(f"Process {os.getpid()} has nothing but the directory.")
        if questions:
            say(
                f"It is asked {n_of(len(questions), 'question')} of the {len(conversation.questions)} "
                "in the file. A turn that holds the answer is marked ✓."
            )
        for question in questions:
            console.print()
            for line in wrapped(question.text, indent=3):
                console.print(line, style="bold")
            for hit in store.search(question.text, limit=N_HITS):
                is_evidence = (hit.record.session_id, hit.record.id) in question.evidence
                mark = "[green]✓[/]" if is_evidence else " "
                show(
                    hit.record,
                    label=f"{mark} [cyan]{hit.score:.2f}[/]",
                    note=" + ".join(hit.matched_channels) or "beside",
                    n_lines=8 if is_evidence else 2,
                )

        show_why(store, conversation)
        heading(f"3  New since the tag {TAG!r}")
        diff = store.diff(TAG)
        say(f"{len(diff.added)} added, {len(diff.changed)} changed, {len(diff.removed)} removed.")
        for record in diff.added[:N_HITS]:
            show(record, label="[green]+[/]")

        heading(f"4  The memory as it was at {TAG!r}")
        then = store.checkout(TAG)
        say(
            f"It holds {then.context().entries()} records instead of {store.context().entries()}. "
            "Asked for the last thing said, the two find:"
        )
        last = conversation.turns[-1]
        for label, view in (("now ", store), ("then", then)):
            hits = view.search(last.text or last.caption or last.speaker, limit=1)
            for hit in hits:
                show(hit.record, label=f"{label} [cyan]{hit.score:.2f}[/]")
            if not hits:
                say(f"{label} nothing")

        try_out(store)
        erase_the_visitor(store, directory)


def show_why(store: "ContextStore", conversation: Conversation) -> None:
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
    say(
        f"Words and vectors alone do not have the answer to this among the first {N_HITS}. A search "
        "in a conversation also looks at who speaks, and at the turns around:"
    )
    for line in wrapped(question.text, indent=3):
        console.print(line, style="bold")
    show(best.record, label=f"[green]✓[/] [cyan]{best.score:.2f}[/]", n_lines=8)
    say("of which " + ", ".join(f"{part} {share:.2f}" for part, share in best.why.items()))


def try_out(store: "ContextStore") -> None:
    """Say something on a branch, which the memory does not know of until it is merged."""
    from lance_context_core import Message

    heading(f"5  A branch called {BRANCH!r}")
    branch = store.create_branch(BRANCH)
    said = Message.user(f"I was never here, but you can call me at {PHONE}.", name=VISITOR)
    branch.history.append("", said, session_id="a-visit")
    question = "How can the visitor be called?"
    say(f"There, somebody else has a word. Asked {question!r}, the two find:")
    for label, view in (("main  ", store), ("branch", branch)):
        (hit,) = view.search(question, limit=1)
        show(hit.record, label=f"{label} [cyan]{hit.score:.2f}[/]")
    merged = store.merge(BRANCH).tables["records"]
    store.delete_branch(BRANCH)
    say(f"Merged: {merged.added} added, {merged.updated} changed, {merged.deleted} removed. Now:")
    (hit,) = store.search(question, limit=1)
    show(hit.record, label=f"main   [cyan]{hit.score:.2f}[/]")


def erase_the_visitor(store: "ContextStore", directory: Path) -> None:
    """Removes all data of a person from every version and every file."""
    heading("6  The visitor is erased")
    n_before = _n_files_with(PHONE, directory)
    erased = store.erase(filter={"name": VISITOR})
    say(
        f"{n_of(erased.records, 'record')} and {n_of(erased.versions_removed, 'old version')} are gone, "
        f"and {erased.bytes_removed / 1e6:.1f} MB with them. The number {PHONE} stood in "
        f"{n_of(n_before, 'file')} of the store; now it stands in "
        f"{n_of(_n_files_with(PHONE, directory), 'file')}."
    )


def know(_conversation: Conversation, _directory: Path) -> None:
    """The last part of `examples/knowledge.py`: thirty days of a life as a profile."""
    import knowledge as life

    from lance_context_core import ContextStore

    heading("7  What is known of somebody")
    with (
        tempfile.TemporaryDirectory(prefix="life-") as scratch,
        ContextStore.open(scratch) as store,
    ):
        memory = store.knowledge.using(extractor=life.RULES)
        life.live(store, range(1, 31))
        proposal = memory.distill()
        say(
            f"Thirty days of {life.WHO}, {n_of(proposal.report['turns'], 'turn')}: distilled without a "
            f"model on a branch, which proposes {n_of(proposal.report['add'], 'fact')} and has "
            f"{proposal.report['supersede']} take the place of another. Merged, each field has its proof:"
        )
        memory.merge(proposal.job_id)
        for name, field in memory.profile(life.Person, user_id=life.WHO).fields.items():
            proof = field.evidence[0]
            was = " → ".join(one.text for one in field.history)
            when = f", {date(proof.said_at)}" if proof.said_at else ""
            say(f"  {name}: {was}   “{proof.text}”{when}")
        undone = memory.undo(proposal.job_id)
        left = len(memory.profile(life.Person, user_id=life.WHO).fields)
        say(f"Undone: {len(undone.retired)} things are hidden, and {n_of(left, 'field')} are left.")
        memory.undo(undone.job_id)
        gone = store.scope(user_id=life.WHO).erase()
        known = memory.search("Where does she live?", user_id=life.WHO)
        say(
            f"Forgotten: {n_of(gone.records, 'record')} are in no file, and {len(known)} are found."
        )


def read(_conversation: Conversation, directory: Path) -> None:
    """Reads a file, and answers with the page."""
    from lance_context_core import ContextStore
    from lance_context_core.errors import MissingExtraError

    heading("8  A document, and where it says so")
    with ContextStore.open(directory, embedder="local") as store:
        try:
            lease = store.documents.add(LEASE)
        except MissingExtraError as error:
            say(f"Nobody here reads PDF: {error}")
            return
        say(
            f"{lease.name}, {lease.title!r}: {n_of(lease.n_pages or 0, 'page')}, "
            f"{n_of(lease.n_chunks, 'passage')}, which any question finds by its words and its meaning:"
        )
        question = "How much notice does it take to end the lease?"
        console.print()
        for line in wrapped(question, indent=3):
            console.print(line, style="bold")
        (hit,) = store.documents.search(question, limit=1)
        for line in wrapped(hit.record.text, indent=5):
            console.print(line)
        say(f"✓ {hit.record.citation}")
        content = store.blobs.get(lease.hash)
        say(
            f"The file is kept with it, all {len(content)} bytes: whoever doubts the passage opens that page."
        )


def tell_where(store: Path | None, *, reads_more: bool) -> None:
    """Where the memory is, and how to look at it."""
    command = None
    if store is None:
        kept = "Keep it with --store DIR."
    elif find_spec("lance_context_cli") and find_spec("lance_context_inspector"):
        kept = f"The memory is in {store}. Look at it in the browser:"
        program = os.path.relpath(Path(sys.executable).with_name("lance-ctx"))
        command = shlex.join([program, "-C", str(store), "ui", "--embedder", "local"])
    else:
        kept = f"The memory is in {store}. docs/cli.md says how to look at it in the browser."
    if reads_more:
        more = "Other frameworks read it, too: docs/quickstart.md says how."
        kept = f"{more} {kept}" if command else f"{kept} {more}"
    console.print()
    for line in wrapped(kept, indent=0):
        console.print(line, style="dim")
    if command:
        console.print(f"  {command}", markup=False, soft_wrap=True)


def _n_files_with(text: str, directory: Path) -> int:
    files = (path for path in directory.rglob("*") if path.is_file())
    return sum(text.encode() in path.read_bytes() for path in files)


STEPS = {
    "remember": remember,
    "recall": recall,
    "know": know,
    "read": read,
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
