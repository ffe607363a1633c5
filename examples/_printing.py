"""How the quickstart prints: headings, sentences and records, on lines of a pleasant length."""

from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.rule import Rule
from rich.text import Text

if TYPE_CHECKING:
    from lance_context_core import ContextRecord

console = Console(highlight=False)
console.width = min(console.width, 100)  # longer lines are no pleasure to read


def heading(title: str) -> None:
    console.print()
    console.print(Rule(f"[bold]{escape(title)}", align="left"))


def say(text: str) -> None:
    for line in wrapped(text, indent=3):
        console.print(line)


def show(record: "ContextRecord", *, label: str, note: str = "", n_lines: int = 2) -> None:
    """One line about the record, and its text below, up to `n_lines`."""
    head = Text.from_markup(f"   {label}  ")
    about = f"  {date(record.created_at)}  {note}".rstrip()
    console.print(head + Text.assemble((f"{record.name}", "bold"), (about, "dim")), no_wrap=True)
    said = " ".join([record.text or "", *(f"[photo: {one}]" for one in record.captions)])
    lines = wrapped(said, indent=head.cell_len)
    if len(lines) > n_lines:
        lines[n_lines - 1].append(" …")
    for line in lines[:n_lines]:
        console.print(line)


def wrapped(text: str, *, indent: int) -> list[Text]:
    """`text` in lines that leave room for two more characters, however wide its script is."""
    room = max(console.width - indent - 2, 20)
    lines = Text(" ".join(text.split())).wrap(console, room)
    return [Text(" " * indent + line.plain.rstrip()) for line in lines]


def n_of(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def date(time: datetime, *, month: str = "%b") -> str:
    return f"{time.day} {time:{month} %Y}"


def quote(text: str, label: str) -> None:
    """A turn, on two lines at most."""
    lines = wrapped(f"{label}: {text}", indent=5)
    if len(lines) > 2:
        lines[1].append(" …")
    for line in lines[:2]:
        console.print(line)
