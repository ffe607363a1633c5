"""LangChain: its summarisation, which rewrites the state, and its trimming."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    BaseMessage,
    convert_to_messages,
    convert_to_openai_messages,
    get_buffer_string,
    trim_messages,
)
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.graph.message import add_messages

from benchmarks.windows.session import Told, asked, is_call


def main(which: str, budget: int, path: Path) -> None:
    """Print the window of each call of the model, and of one after the last message."""
    told, said = Told(), asked(path)
    given = convert_to_messages(said)

    def summarised(messages: Sequence[BaseMessage]) -> str:
        return told.summarised(get_buffer_string(messages))

    middleware: Any = SummarizationMiddleware(
        FakeListChatModel(responses=[""]), trigger=("tokens", budget), summarizer=summarised
    )
    state: Any = []
    for index in range(len(said) + 1):
        if index == len(said) or is_call(said, index):
            if which == "summarisation":
                changed = middleware.before_model({"messages": state}, None)
                state = add_messages(state, changed["messages"]) if changed else state
                shown = state
            else:
                shown = trim_messages(
                    state,
                    max_tokens=budget,
                    token_counter=count_tokens_approximately,
                    strategy="last",
                    start_on="human",
                    include_system=True,
                )
            told.window(convert_to_openai_messages(shown))
        if index < len(said):
            state = add_messages(state, [given[index]])
    told.end()


main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
