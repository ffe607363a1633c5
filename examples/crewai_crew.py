"""A crew that is killed in the middle of its work, and goes on as if it had not been.

    python examples/crewai_crew.py [--store DIR]

It is CrewAI's `Crew` with a memory and a `Flow` with a state, both in one directory. Its model is a
script of a few lines and its embedder counts words, so that it runs anywhere; put real ones in their
places.

    pip install . ./adapters/crewai
"""

import argparse
import json
import logging
import math
import os
import subprocess
import sys
import tempfile
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")

UNDER_WAY = "… and the power fails while it thinks"


def main() -> int:
    """Let one process work until it is killed, and go on in this one; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep the memory in DIR")
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)  # CrewAI's hints about a model that it does not know
    with tempfile.TemporaryDirectory(prefix="crew-") as scratch:
        directory = arguments.store or Path(scratch) / "memory"
        if not arguments.first and (code := _run_the_first(directory)):
            return code
        (monday if arguments.first else afterwards)(directory)
    if not arguments.first:
        kept = f"in {arguments.store}" if arguments.store else "gone; keep it with --store DIR"
        print(f"\nThe memory is {kept}.")
    return 0


# The crew


def embedded(texts: list[str]) -> list[list[float]]:
    """A vector for each text: the words that it has, as 256 numbers."""
    found = []
    for text in texts:
        sums = [0.0] * 256
        for word in text.lower().replace(".", " ").replace("?", " ").split():
            for n in blake2b(word.encode(), digest_size=4).digest():
                sums[n] += 1.0
        length = math.sqrt(sum(one * one for one in sums)) or 1.0
        found.append([one / length for one in sums])
    return found


def script() -> Any:
    """The model: it remembers what it is told, and answers with what the prompt has of that."""
    from crewai import BaseLLM

    class Script(BaseLLM):
        def call(self, messages: Any, *_: Any, **__: Any) -> str:
            prompt = messages if isinstance(messages, str) else json.dumps(messages)
            if "extract" in prompt.lower() and "memor" in prompt.lower():
                return json.dumps({"memories": []})
            if "Wait for me" in prompt:
                _say("", UNDER_WAY)
                time.sleep(60)
            known = [fact for fact in FACTS if fact in prompt]
            return f"Thought: I know.\nFinal Answer: I was told: {' '.join(known) or 'nothing.'}"

        def supports_function_calling(self) -> bool:
            return False

    return Script(model="script")


FACTS = ("Ada is allergic to nuts.", "Ada prefers trains to planes.")


def ask(question: str) -> None:
    """One run of a crew with a memory."""
    from crewai import Agent, Crew, Memory, Task

    _say("ada", question)
    llm = script()
    memory = Memory(llm=llm, embedder=embedded)
    agent = Agent(role="tutor", goal="Be of help.", backstory="A tutor.", llm=llm)
    task = Task(description=question, expected_output="An answer.", agent=agent)
    result = Crew(agents=[agent], tasks=[task], memory=memory).kickoff()
    _say("crew", str(result))


def remember(fact: str) -> None:
    """Store a fact in the memory of the crews of this process."""
    from crewai import Memory

    memory = Memory(llm="none", embedder=embedded)
    memory.remember(fact, scope="/ada", categories=["facts"], importance=0.8)
    _say("ada", fact)


def plan(stop: str) -> list[str]:
    """One run of a flow, whose state the process before it may have left."""
    from crewai.flow.flow import Flow, start
    from crewai.flow.persistence import persist

    @persist()
    class Trip(Flow[dict[str, Any]]):
        @start()
        def add(self) -> list[str]:
            self.state["stops"] = [*self.state.get("stops", []), stop]
            return list(self.state["stops"])

    return list(Trip(suppress_flow_events=True).kickoff(inputs={"id": "trip"}))


# What happens


def monday(directory: Path) -> None:
    """There is talk, and a power cut."""
    from crewai_lance_context import install

    _heading(f"1  Monday, in process {os.getpid()}")
    with install(directory, user_id="ada"):
        for fact in FACTS:
            remember(fact)
        _say("flow", f"the trip goes to {', '.join(plan('Oslo'))}")
        ask("Wait for me.")


def afterwards(directory: Path) -> None:
    """Another process goes on, and another framework would find the same."""
    from crewai_lance_context import install

    from lance_context_core import ContextStore

    with ContextStore.open(directory) as store, install(store, user_id="ada"):
        _heading(f"2  Another crew, in process {os.getpid()}")
        ask("What is Ada allergic to?")
        _say("flow", f"the trip goes to {', '.join(plan('Bergen'))}")
        _heading("3  What every framework finds")
        ada = store.scope(user_id="ada")
        (hit, *_) = ada.memory.search("trains")
        _say("", f"a memory: {hit.record.text}")
        _say("", f"Ben has {store.memory.list(user_id='ben').total} memories.")


# How it is run and shown


def _run_the_first(directory: Path) -> int:
    """Run Monday, and kill it in the middle; returns the exit code if it ends before."""
    command = [sys.executable, __file__, "--store", str(directory), "--first"]
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(  # noqa: S603 - ourselves
        command, env=environment, stdout=subprocess.PIPE, encoding="utf-8"
    ) as child:
        for line in child.stdout or ():
            print(line, end="", flush=True)
            if UNDER_WAY in line:
                child.kill()
                child.wait()
                _say("", f"Process {child.pid} was killed, and with it all that it knew.")
                return 0
    return child.returncode or 1


def _heading(title: str) -> None:
    print(f"\n{title}\n")


def _say(who: str, text: str) -> None:
    print(f"   {who:<8} {text}" if who else f"   {text}")


if __name__ == "__main__":
    sys.exit(main())
