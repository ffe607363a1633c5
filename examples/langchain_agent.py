"""An agent that is killed half-way, goes on in another process, and knows whom it talks to.

    python examples/langchain_agent.py [--store DIR]

It is an agent of LangChain's `create_agent` with a checkpointer, a long-term store and a memory, all
of them in one directory. Its model is a script of a few lines, so that it runs anywhere; put a real
one in its place.

    pip install ".[local]" "./adapters/langchain[agents]"
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_lance_context import (
    LanceContextMemoryMiddleware,
    LanceContextSaver,
    LanceContextStore,
)

from lance_context_core import ContextStore, ContextStoreError

CAKES = {"nut cake": ["nuts", "eggs"], "carrot cake": ["carrots", "eggs"]}
NO_ANSWER_YET = "the shop does not answer yet …"


def main() -> int:
    """Run each part in a process of its own; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep the memory in DIR")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part is not None:
        return _take(arguments.part, arguments.store)
    with tempfile.TemporaryDirectory(prefix="agent-") as scratch:
        directory = arguments.store or Path(scratch) / "memory"
        for part in PARTS:
            if code := _run(part, directory):
                return code
    kept = f"in {arguments.store}" if arguments.store else "gone; keep it with --store DIR"
    print(f"\nThe memory is {kept}.")
    return 0


# The agent


class Script(BaseChatModel):
    """Follows a script, and uses only the messages."""

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:  # noqa: ARG002 - it knows them
        """This model: the script has the tools' names in it."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class passes it
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - as above
        **kwargs: Any,  # noqa: ARG002 - as above
    ) -> ChatResult:
        told = " ".join(str(one.text) for one in messages if isinstance(one, SystemMessage))
        allergy = re.search(r"allergic to (\w+)", told)
        said = _next_line(messages[-1], allergy[1] if allergy else None)
        return ChatResult(generations=[ChatGeneration(message=said)])


def _next_line(last: BaseMessage, allergy: str | None) -> AIMessage:
    text = str(last.text)
    if not isinstance(last, HumanMessage):
        if last.name == "find_cake":
            return _call("order", {"cake": text, "without": allergy})
        return AIMessage(f"Done: {text}.")
    if "birthday" in text:
        return _call("find_cake", {"without": allergy})
    if "?" in text:
        return AIMessage(f"You are allergic to {allergy}." if allergy else "I do not know that.")
    return AIMessage("I shall remember that.")


def _call(name: str, arguments: dict[str, Any]) -> AIMessage:
    call = {"name": name, "args": arguments, "id": f"call-{name}", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])


@tool
def find_cake(without: str | None) -> str:
    """Find a cake in the cookbook."""
    cake = next(cake for cake, needs in CAKES.items() if without not in needs)
    _say("tool", f"looked through the cookbook, and found a cake without {without}: {cake}")
    return cake


@tool
def order(cake: str, without: str | None, runtime: ToolRuntime[None, Any]) -> str:
    """Order what a cake needs, and write that down."""
    configured = runtime.config["configurable"]
    _say("tool", f"orders {' and '.join(CAKES[cake])}")
    if configured["is_shop_slow"]:
        _say("tool", NO_ANSWER_YET)
        time.sleep(60)
    if runtime.store is not None:
        namespace = ("orders", configured["user_id"])
        runtime.store.put(namespace, configured["thread_id"], {"cake": cake, "without": without})
    return f"{' and '.join(CAKES[cake])} are ordered for a {cake} without {without}"


def _agent(store: ContextStore) -> Any:
    return create_agent(
        Script(),
        [find_cake, order],
        middleware=[LanceContextMemoryMiddleware(store)],
        checkpointer=LanceContextSaver(store),
        store=LanceContextStore(store),
    )


def _config(thread_id: str, *, user_id: str, is_shop_slow: bool = False) -> RunnableConfig:
    names = {"thread_id": thread_id, "user_id": user_id}
    return {"configurable": {**names, "is_shop_slow": is_shop_slow}}


def _talk(agent: Any, text: str, config: RunnableConfig) -> None:
    _say(config["configurable"]["user_id"], text)
    # Each step is on disk before the next one begins.
    said = agent.invoke({"messages": [HumanMessage(text)]}, config, durability="sync")
    _say("agent", str(said["messages"][-1].text))


# Steps


def on_monday(store: ContextStore) -> None:
    """The user states a fact for later."""
    _heading(f"1  Monday, in process {os.getpid()}")
    _talk(_agent(store), "I am allergic to nuts.", _config("monday", user_id="ada"))


def on_tuesday(store: ContextStore) -> None:
    """Another process and another thread; it does not live to see the end."""
    _heading(f"2  Tuesday, in process {os.getpid()} and another thread")
    config = _config("tuesday", user_id="ada", is_shop_slow=True)
    _talk(_agent(store), "It is my birthday. Find me a cake, and order what it needs!", config)


def later(store: ContextStore) -> None:
    """The thread goes on where it was, with what was done before."""
    _heading(f"3  The same thread goes on in process {os.getpid()}")
    agent, config = _agent(store), _config("tuesday", user_id="ada")
    state = agent.get_state(config)
    _say("", f"{len(state.values['messages'])} messages are there; next: {', '.join(state.next)}.")
    said = agent.invoke(None, config, durability="sync")
    _say("agent", str(said["messages"][-1].text))


def somebody_else(store: ContextStore) -> None:
    """The same agent for another user: in another scope."""
    _heading(f"4  Somebody else asks, in process {os.getpid()}")
    agent = _agent(store)
    _talk(agent, "What am I allergic to?", _config("wednesday", user_id="ben"))
    _talk(agent, "What am I allergic to?", _config("thursday", user_id="ada"))
    _heading("5  What is in the directory")
    _show(store)


def _show(store: ContextStore) -> None:
    """The stored records."""
    saver = LanceContextSaver(store)
    for thread in ("monday", "tuesday", "wednesday", "thursday"):
        n = len(list(saver.list({"configurable": {"thread_id": thread}})))
        _say(thread, f"{n} checkpoints")
    for user in ("ada", "ben"):
        [said] = store.scope(user_id=user).search("cake", filter={"role": "user"}, limit=1)
        n = store.scope(user_id=user).context().entries()
        _say(user, f"{n} messages remembered; nearest to 'cake': {said.record.text!r}")
    for item in LanceContextStore(store).search(("orders",)):
        _say("orders", f"{item.namespace[-1]}, {item.key}: {item.value['cake']}")


PARTS = {"monday": on_monday, "tuesday": on_tuesday, "later": later, "else": somebody_else}


# How it is run and shown


def _run(part: str, directory: Path) -> int:
    """Run a part, and kill it where it waits for the shop; returns the exit code of the others."""
    command = [sys.executable, __file__, "--store", str(directory), "--part", part]
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(  # noqa: S603 - ourselves
        command, env=environment, stdout=subprocess.PIPE, encoding="utf-8"
    ) as child:
        for line in child.stdout or ():
            print(line, end="", flush=True)
            if NO_ANSWER_YET in line:
                child.kill()
                child.wait()
                _say("", f"Process {child.pid} was killed, and with it all that it knew.")
                return 0
    return child.returncode


def _take(part: str, directory: Path) -> int:
    try:
        with ContextStore.open(directory, embedder="local") as store:
            PARTS[part](store)
    except ContextStoreError as error:
        print(f"langchain_agent: {error}", file=sys.stderr)
        return 1
    return 0


def _heading(title: str) -> None:
    print(f"\n{title}\n")


def _say(who: str, text: str) -> None:
    label = f"   {who:<10}" if who else "   "
    print(textwrap.fill(text, 88, initial_indent=label, subsequent_indent=" " * len(label)))


if __name__ == "__main__":
    sys.exit(main())
