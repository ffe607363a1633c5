"""Microsoft Agent Framework: its compaction strategies, which mark what a model is not shown."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_framework import (
    CharacterEstimatorTokenizer,
    ChatResponse,
    Content,
    ContextWindowCompactionStrategy,
    Message,
    SlidingWindowStrategy,
    SummarizationStrategy,
    TokenBudgetComposedStrategy,
    ToolResultCompactionStrategy,
    TruncationStrategy,
    apply_compaction,
)

from benchmarks.windows.session import Said, Told, asked, is_call


class Summariser:
    """A chat client that summarises."""

    def __init__(self, told: Told) -> None:
        """With what counts its calls."""
        self.additional_properties: dict[str, Any] = {}
        self._told = told

    async def get_response(self, messages: Sequence[Any], **_: Any) -> Any:
        """A summary of the last message."""
        text = self._told.summarised(messages[-1].text)
        return ChatResponse(messages=[Message("assistant", [text])])


def strategy(which: str, budget: int, told: Told) -> Any:
    """As their documentation sets it up, for this budget."""
    tokenizer = CharacterEstimatorTokenizer()
    match which:
        case "sliding window":
            return SlidingWindowStrategy(keep_last_groups=20)
        case "truncation":
            return TruncationStrategy(max_n=budget, compact_to=budget // 2, tokenizer=tokenizer)
        case "summarisation":
            return SummarizationStrategy(client=Summariser(told), target_count=20, threshold=20)
        case "context window":
            return ContextWindowCompactionStrategy(
                max_context_window_tokens=budget, max_output_tokens=0
            )
    return TokenBudgetComposedStrategy(
        token_budget=budget,
        tokenizer=tokenizer,
        strategies=[
            ToolResultCompactionStrategy(keep_last_tool_call_groups=1),
            SummarizationStrategy(client=Summariser(told), target_count=20),
            SlidingWindowStrategy(keep_last_groups=20),
        ],
    )


async def main(which: str, budget: int, path: Path) -> None:
    """Print the window of each call of the model, and of one after the last message."""
    told, said = Told(), asked(path)
    compacts, messages = strategy(which, budget, told), list[Any]()
    for index in range(len(said) + 1):
        if index == len(said) or is_call(said, index):
            shown = await apply_compaction(
                messages, strategy=compacts, tokenizer=CharacterEstimatorTokenizer()
            )
            told.window([each for one in shown for each in _said(one)])
        if index < len(said):
            messages.append(_message(said[index], f"m{index}"))
    told.end()


def _message(one: Said, id: str) -> Any:
    contents: list[Any] = [one["content"]] if one["content"] else []
    for call in one.get("tool_calls", ()):
        function = call["function"]
        contents.append(
            Content.from_function_call(
                call["id"], function["name"], arguments=function["arguments"]
            )
        )
    if "tool_call_id" in one:
        contents = [Content.from_function_result(one["tool_call_id"], result=one["content"])]
    return Message(one["role"], contents, message_id=id)


def _said(message: Any) -> list[Said]:
    results = [one for one in message.contents if one.type == "function_result"]
    if results:
        return [
            {"role": "tool", "tool_call_id": one.call_id, "content": str(one.result)}
            for one in results
        ]
    said: Said = {"role": str(message.role), "content": message.text}
    calls = [
        {
            "id": one.call_id,
            "type": "function",
            "function": {"name": one.name, "arguments": one.arguments},
        }
        for one in message.contents
        if one.type == "function_call"
    ]
    return [{**said, "tool_calls": calls} if calls else said]


asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
