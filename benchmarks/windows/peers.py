"""What a model is shown of one session: by this store, and by what frameworks shorten conversations with.

    python -m benchmarks.windows.peers --conversations DIR [--budget 4000] [--tiktoken DIR]

Each conversation is one session; with every sixth answer two tools are called. Before each answer a window
is made, and one after the last message, of which the conversation's questions are asked.

- tokens: the mean of all windows, and the largest
- evidence: of the questions' evidence, how much the last window holds word for word
- summaries: how often a summariser is asked; it is the same for all, a program
- stable: how much of a window the next one begins with, in tokens, on the mean
- cached: the same of what of it might be cached: all, but for what is recalled anew for each question
- breaks: windows that do not begin with all of that, of 100 messages
- errors: windows of 100 that break a rule of OpenAI's chat completions and responses, Anthropic, Gemini
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.environments import PINS, python_of
from benchmarks.windows.evidence import counter
from benchmarks.windows.session import Said, Told, asked, is_call
from lance_context_core import AsyncContextStore, Message, ToolCallPart
from lance_context_core.window import (
    Budget,
    DialectName,
    HistorySection,
    Measure,
    RecallSection,
    Section,
    SummarySection,
    TokenCounter,
    dialect,
)

_ROOT = Path(__file__).parents[2]
_RULES: tuple[DialectName, ...] = ("openai_chat", "openai_responses", "anthropic", "gemini")
PEERS = {
    "LangChain, `SummarizationMiddleware`": ("langchain", "langchain", "summarisation"),
    "LangChain, `trim_messages`": ("langchain", "langchain", "trimming"),
    "LlamaIndex, `Memory`": ("SimpleVectorStore", "llama_index", "memory"),
    "Agent Framework, truncation": ("agent-framework", "agent_framework", "truncation"),
    "Agent Framework, sliding window": ("agent-framework", "agent_framework", "sliding window"),
    "Agent Framework, summarisation": ("agent-framework", "agent_framework", "summarisation"),
    "Agent Framework, context window": ("agent-framework", "agent_framework", "context window"),
    "Agent Framework, all in turn": ("agent-framework", "agent_framework", "all in turn"),
}
"""By what they are called: their environment, their program, and what of it is asked for."""
OURS: Mapping[str, Sequence[type[Section]]] = {
    "this store, history": (HistorySection,),
    "this store, history and summary": (SummarySection, HistorySection),
    "this store, history and recall": (HistorySection, RecallSection),
}


@dataclass(slots=True)
class Shown:
    """What a side showed of a session."""

    windows: list[Sequence[Message]]
    """In order; the last one is of the whole session."""
    answers: list[Sequence[Message]]
    """What each question would be answered from."""
    n_messages: int = 0
    """So many are in the session."""
    n_summaries: int = 0
    caches: list[int] = field(default_factory=list)
    """How many messages of each window might be cached."""


# A session by each side


def of_peer(which: tuple[str, str, str], path: Path, budget: int, n_asked: int) -> Shown:
    """What a peer shows. Raises CalledProcessError if its environment or its program fails."""
    environment, program, what = which
    command = [str(python_of(environment)), "-W", "ignore", "-m"]
    command += [f"benchmarks.windows.sides.{program}", what, str(budget), str(path.resolve())]
    done = subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, text=True)
    *lines, end = map(json.loads, done.stdout.splitlines())
    windows: list[Sequence[Message]] = [_messages(one["window"]) for one in lines]
    return Shown(
        windows,
        [windows[-1]] * n_asked,
        n_messages=len(asked(path)),
        n_summaries=int(end["n_summaries"]),
        caches=[len(one) for one in windows],
    )


async def of_store(
    kinds: Sequence[type[Section]],
    path: Path,
    budget: int,
    questions: Sequence[str],
    counts: TokenCounter,
) -> Shown:
    """What this store shows, with all that its sections do unless told otherwise."""
    told, said = Told(), asked(path)
    sections = [
        SummarySection(summariser=told.summarised) if one is SummarySection else one()
        for one in kinds
    ]
    arguments: Any = {
        "session_id": "s",
        "budget": Budget(total=budget, margin=0),
        "sections": sections,
        "dialect": "openai_chat",
        "counter": counts,
    }
    shown = Shown([], [], n_messages=len(said))
    embedder = "local" if RecallSection in kinds else None
    async with AsyncContextStore.open("memory://", embedder=embedder) as store:
        for index in range(len(said) + 1):
            if index == len(said) or is_call(said, index):
                window = await store.assemble(**arguments)
                shown.windows.append(window.messages)
                shown.caches.append(window.breakpoints[-1] + 1)
            if index < len(said):
                await store.history.append("", _message(said[index], f"m{index}"), session_id="s")
        for question in questions:
            # Nothing but what is recalled depends on it.
            answer = shown.windows[-1]
            if RecallSection in kinds:
                answer = (await store.assemble(query=question, **arguments)).messages
            shown.answers.append(answer)
    shown.n_summaries = told.n_summaries
    return shown


def _messages(said: Sequence[Said]) -> list[Message]:
    return [_message(one, None) for one in said]


def _message(one: Said, id: str | None) -> Message:
    if one["role"] == "tool":
        return Message.tool(one["content"], call_id=one["tool_call_id"], id=id)
    parts: list[Any] = [
        ToolCallPart(
            call_id=call["id"],
            name=call["function"]["name"],
            arguments=json.loads(call["function"]["arguments"]),
        )
        for call in one.get("tool_calls", ())
    ]
    content = one["content"] or ""
    if not isinstance(content, str):
        content = "\n".join(part["text"] for part in content if part["type"] == "text")
    return Message.of(one["role"], [content, *parts] if parts else content, id=id)


# What is told of it


def figures(
    shown: Sequence[Shown], wanted: Sequence[Sequence[Sequence[str]]], counts: TokenCounter
) -> Iterator[str]:
    """The cells of a row: of what was shown of each session, whose questions want these texts."""
    measure = Measure(counts)
    sizes = [measure.messages(one) for each in shown for one in each.windows]
    yield f"{mean(sizes):,.0f}"
    yield f"{max(sizes):,}"
    words = {id(one): _plain(_text(one)) for each in shown for one in each.answers}
    held = [
        mean(_plain(text) in words[id(window)] for text in texts)
        for each, of in zip(shown, wanted, strict=True)
        for window, texts in zip(each.answers, of, strict=True)
    ]
    yield f"{100 * mean(held):.1f}"
    yield str(sum(one.n_summaries for one in shown))
    stable, cached, n_breaks = list[float](), list[float](), 0
    for each in shown:
        for number, (before, after) in enumerate(pairwise(each.windows)):
            n_same, n_cached = _n_same(before, after), each.caches[number]
            stable.append(_share(before[:n_same], before, measure))
            cached.append(_share(before[: min(n_same, n_cached)], before[:n_cached], measure))
            n_breaks += n_same < n_cached
    yield f"{mean(stable):.3f}"
    yield f"{mean(cached):.3f}"
    yield f"{100 * n_breaks / sum(one.n_messages for one in shown):.1f}"
    n_windows = sum(len(one.windows) for one in shown)
    for name in _RULES:
        rules = dialect(name)
        n_broken = sum(
            bool(rules.validate(rules.render(list(one)))) for each in shown for one in each.windows
        )
        yield f"{100 * n_broken / n_windows:.0f}"


def _n_same(before: Sequence[Message], after: Sequence[Message]) -> int:
    """How many messages both begin with."""
    pairs = zip(before, after, strict=False)
    return next(
        (n for n, (one, other) in enumerate(pairs) if _said(one) != _said(other)),
        min(len(before), len(after)),
    )


def _share(part: Sequence[Message], of: Sequence[Message], measure: Measure) -> float:
    whole = measure.messages(of)
    return measure.messages(part) / whole if whole else 1.0


def _said(message: Message) -> tuple[str, Any]:
    return message.role, message.parts


def _text(window: Sequence[Message]) -> str:
    return "\n".join(one.text for one in window)


def _plain(text: str) -> str:
    """The words of a text: quoting changes what stands between them."""
    return " ".join(["", *re.findall(r"[^\W_]+", text), ""])


async def main(arguments: Sequence[str]) -> None:
    """Print the table that `arguments` ask for."""
    options = _parser().parse_args(arguments)
    counts, paths = counter(options.tiktoken), sorted(options.conversations.glob("*.json"))
    questions, wanted = [], []
    for path in paths:
        data = json.loads(path.read_text(encoding="utf-8"))
        texts = {one["id"]: one["text"] for one in data["turns"]}
        some = [one for one in data["questions"] if set(one["evidence"]) & texts.keys()]
        questions.append([one["question"] for one in some])
        wanted.append([[texts[id] for id in one["evidence"] if id in texts] for one in some])
    print(
        "| what is shown | mean | most | evidence | summaries | stable | cached | breaks | errors | | | |"
    )
    print(f"|---|{'---:|' * 11}")
    for name, kinds in OURS.items():
        found = [
            await of_store(kinds, path, options.budget, some, counts)
            for path, some in zip(paths, questions, strict=True)
        ]
        print(f"| {name} | {' | '.join(figures(found, wanted, counts))} |", flush=True)
    for name, which in PEERS.items():
        try:
            found = [
                of_peer(which, path, options.budget, len(some))
                for path, some in zip(paths, questions, strict=True)
            ]
        except subprocess.CalledProcessError as error:
            print(f"| {name} | not measured: {error.stderr or error} |")
            continue
        print(f"| {name} | {' | '.join(figures(found, wanted, counts))} |", flush=True)
    used = dict.fromkeys(pin for environment, *_ in PEERS.values() for pin in PINS[environment])
    print(f"\n{', '.join(used)}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.windows.peers")
    parser.description, parser.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--conversations", type=Path, required=True, help="a folder, in JSON")
    parser.add_argument("--budget", type=int, default=4_000, help="tokens of a window")
    parser.add_argument("--tiktoken", type=Path, help="a folder with the file of cl100k")
    return parser


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
