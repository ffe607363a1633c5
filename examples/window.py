"""One long conversation, five budgets: the contents of each window, drawn as a bar per part.

`python examples/window.py [DRAWING.svg]`
"""

import json
import sys
from datetime import datetime
from html import escape
from pathlib import Path

from lance_context_core import ContextStore, Message
from lance_context_core.window import (
    Budget,
    HistorySection,
    PinnedSection,
    RecallSection,
    SystemSection,
    Window,
)

DATA = Path(__file__).parent / "data" / "conversation.json"
QUESTION = "What is Enna allergic to?"
BUDGETS = (512, 1_024, 2_048, 4_096, 8_192)
COLOURS = {"system": "#4e79a7", "pinned": "#b07aa1", "history": "#59a14f", "recall": "#f28e2b"}


def main(drawing: Path | None = None) -> None:
    """Assembles the windows, and prints their contents."""
    with ContextStore.open("memory://", embedder="local") as store:
        remember(store)
        windows = {total: assembled(store, total) for total in BUDGETS}
        for total, window in windows.items():
            parts = ", ".join(f"{name} {n}" for name, n in window.tokens_by_section.items())
            dropped = len(window.report.ids("dropped")) + window.report.n_not_considered
            print(f"{total:>5}: {window.tokens} of {window.room} tokens ({parts})")
            print(f"       {len(window.citations)} cited, {dropped} left out, {window.validate()}")
        smallest = windows[BUDGETS[0]]
        print(f"\nFrom {BUDGETS[0]} tokens, {QUESTION!r} can be answered by")
        for mark, one in smallest.citations.items():
            if "allerg" in one.text:
                print(f"  [{mark}] {one.session_id}, {one.created_at:%d %b %Y}: {one.text}")
    if drawing is not None:
        drawing.write_text(drawn(windows), encoding="utf-8")
        print(f"\nDrawn: {drawing}")


def remember(store: ContextStore) -> None:
    """All sittings but the last are sessions of their own; the last one goes on."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    sittings: dict[int, list[Message]] = {}
    for turn in data["turns"]:
        role = "user" if turn["speaker"] == data["speakers"][0] else "assistant"
        message = Message.of(
            role,
            turn["text"],
            id=turn["id"],
            name=turn["speaker"],
            created_at=datetime.fromisoformat(turn["session_time"]),
        )
        sittings.setdefault(turn["session"], []).append(message)
    for number, messages in sittings.items():
        store.history.append_many("", messages, session_id=f"sitting {number}")


def assembled(store: ContextStore, total: int) -> Window:
    """The window for a question at the end of the last sitting."""
    return store.assemble(
        session_id="sitting 23",
        budget=Budget(total=total),
        sections=[
            SystemSection(text="You are Wren, who helps Tilda. Cite what you rely on."),
            PinnedSection(texts=["Answer in one sentence."]),
            HistorySection(max_tokens=total // 5),
            RecallSection(limit=100),
        ],
        messages=[Message.user(QUESTION)],
        dialect="anthropic",
    )


def drawn(windows: dict[int, Window]) -> str:
    """The windows as bars, of which the parts are as long as their share of the budget."""
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 220" font-family="sans-serif">'
    ]
    for row, (total, window) in enumerate(windows.items()):
        y, x = 10 + row * 36, 60.0
        lines.append(f'<text x="4" y="{y + 17}" font-size="12">{total}</text>')
        lines.append(f'<rect x="60" y="{y}" width="560" height="26" fill="#eee"/>')
        for name, tokens in window.tokens_by_section.items():
            width = 560 * tokens / total
            title = f"<title>{escape(name)}: {tokens} tokens</title>"
            lines.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="26" '
                f'fill="{COLOURS[name]}">{title}</rect>'
            )
            x += width
    for column, (name, colour) in enumerate(COLOURS.items()):
        x = 60 + column * 120
        lines.append(f'<rect x="{x}" y="195" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{x + 18}" y="206" font-size="12">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
