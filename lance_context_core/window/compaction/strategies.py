"""Six compaction strategies, with ravi's names, and a pipeline of several.

All work on groups, so that no call loses its results. Protected groups stay: instructions, pins,
the newest turn of the user, and calls that wait for results.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from lance_context_core._util.checks import check_name, listed, shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import Message, TextPart, ToolResultPart
from lance_context_core.window.compaction.plans import (
    MAX_INPUT_TOKENS,
    CompactionStrategy,
    Plan,
    Strategy,
    Summariser,
    SummaryError,
    SummaryMaker,
    summary_message,
    text_of,
    whole,
)
from lance_context_core.window.groups import Group, replaced

# Published context sizes of the large providers' models, by family.
#
# The list becomes outdated: pass `context_window=` if you know better.

_TOKENS = {
    "claude": 200_000,
    "gemini-1.5-pro": 2_097_152,
    "gemini": 1_048_576,
    "gpt-4-turbo": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-4o": 128_000,
    "gpt-5": 400_000,
    "llama-3": 128_000,
    "o1": 200_000,
    "o3": 200_000,
    "o4-mini": 200_000,
}


def context_window_of(model: str) -> int:
    """Return the context size of a model, question and answer together.

    A provider's name before it, and a date or a size after it, are ignored:
    `openai/gpt-4o-2024-11-20` is a `gpt-4o`. Raises InvalidRequestError for an unknown model,
    rather than guess.
    """
    name = check_name(model, "model").lower().replace(":", "/").rpartition("/")[2]
    known = [one for one in _TOKENS if name == one or name.startswith((f"{one}-", f"{one}."))]
    if not known:
        raise InvalidRequestError(
            f"model={shown(model)} is not known: say context_window=, the tokens that it takes"
        )
    return _TOKENS[max(known, key=len)]


class SlidingWindowCompaction(Strategy):
    """Keeps the last groups: up to `max_messages`, or `keep_last_groups` of them."""

    def __init__(
        self, max_messages: int | None = 100, *, keep_last_groups: int | None = None
    ) -> None:
        """Set the size; protected groups are kept in addition."""
        given = keep_last_groups if keep_last_groups is not None else max_messages
        name = "max_messages" if keep_last_groups is None else "keep_last_groups"
        self._n = whole(given, name, least=1)
        self._counts_groups = keep_last_groups is not None

    @property
    def reach(self) -> int | None:
        """Number of last messages to read besides protected ones; None if unknown."""
        return None if self._counts_groups else self._n

    async def plan(self, plan: Plan) -> Plan:
        """Drop the groups before the last ones."""
        room, drops = self._n, []
        for index in reversed(plan.there()):
            room -= 1 if self._counts_groups else len(plan.entries[index].messages)
            if room < 0:
                drops.append(index)
                room = -1
        return plan.dropping(drops, "sliding_window")


class ToolResultCompactionStrategy(Strategy):
    """Truncates long texts of old tool results, noting the omission; the newest stay whole."""

    def __init__(self, max_chars: int = 500, *, keep_last: int = 1) -> None:
        """Set the maximum length, and the number of last groups with calls that stay whole."""
        self._max_chars = whole(max_chars, "max_chars")
        self._keep_last = whole(keep_last, "keep_last")

    async def plan(self, plan: Plan) -> Plan:
        """Truncate the results of the groups before the last ones."""
        made = [i for i in plan.there() if plan.entries[i].group.kind == "call"]
        entries = {}
        for index in made[: max(0, len(made) - self._keep_last)]:
            entry = plan.entries[index]
            if entry.is_protected:
                continue
            group = entry.shown or entry.group
            shorter = tuple(self._shortened(one) for one in group.messages)
            if shorter != group.messages:
                short = replace(group, messages=shorter)
                entries[index] = replace(
                    entry, action="stubbed", reason="tool_results", shown=short
                )
        return plan.with_entries(entries)

    def _shortened(self, message: Message) -> Message:
        parts = tuple(
            self._cut(part, message.id) if isinstance(part, ToolResultPart) else part
            for part in message.parts
        )
        return message if parts == message.parts else replaced(message, parts=parts)

    def _cut(self, result: ToolResultPart, id: str | None) -> ToolResultPart:
        """Return the result with truncated texts; errors and other parts stay."""
        if result.is_error or (length := len(result.text)) <= self._max_chars:
            return result
        where = f", id {id}" if id else ""
        note = f"… [{length - self._max_chars} chars truncated{where}]"
        kept = result.text[: self._max_chars]
        if len(kept) + len(note) >= length:
            return result
        others = tuple(part for part in result.content if not isinstance(part, TextPart))
        text = TextPart(text=f"{kept}\n{note}" if kept else note)
        return replace(result, content=(text, *others))


class SelectiveToolCallCompactionStrategy(Strategy):
    """Keeps the last groups with tool calls, and drops the older ones as a whole."""

    def __init__(self, keep_recent_groups: int = 5) -> None:
        """Set the number to keep."""
        self._keep = whole(keep_recent_groups, "keep_recent_groups")

    async def plan(self, plan: Plan) -> Plan:
        """Drop the older ones."""
        made = [i for i in plan.there() if plan.entries[i].group.kind == "call"]
        return plan.dropping(made[: max(0, len(made) - self._keep)], "selective_tool_calls")


class TruncationStrategy(Strategy):
    """Keeps the end of a conversation, up to a number of messages or characters."""

    def __init__(self, max_messages: int | None = None, max_chars: int | None = None) -> None:
        """Set at least one of the limits, or both."""
        if max_messages is None and max_chars is None:
            raise InvalidRequestError("max_messages and max_chars are both None: give one of them")
        self._max_messages = None if max_messages is None else whole(max_messages, "max_messages")
        self._max_chars = None if max_chars is None else whole(max_chars, "max_chars")

    async def plan(self, plan: Plan) -> Plan:
        """Drop the first group from the end that does not fit, and all before it."""
        drops: list[int] = []
        n_messages = n_chars = 0
        for index in reversed(plan.there()):
            messages = plan.entries[index].messages
            n_messages += len(messages)
            n_chars += sum(len(text_of(one)) for one in messages)
            over = self._max_messages is not None and n_messages > self._max_messages
            over = over or (self._max_chars is not None and n_chars > self._max_chars)
            if drops or over:
                drops.append(index)
        return plan.dropping(drops, "truncation")


class SummarizationCompaction(Strategy):
    """Replaces everything before the last tokens of a conversation by a summary.

    The summary is quoted as data, in a user message. If the summariser raises, exceeds its timeout,
    or its answer is empty, has tool calls, or is longer than its input, the plan stays unchanged,
    with a note.
    """

    def __init__(
        self,
        summariser: Summariser,
        *,
        recent_token_budget: int = 32_000,
        min_old_tokens: int = 1_000,
        timeout_seconds: float = 60.0,
        max_input_tokens: int = MAX_INPUT_TOKENS,
    ) -> None:
        """Set the summariser, the part to keep, and the minimum to summarise.

        A call that takes longer than `timeout_seconds` is not awaited; an input of more than
        `max_input_tokens`, four characters a token, is split into several calls.
        """
        self._maker = SummaryMaker(summariser, timeout_seconds, max_input_tokens)
        self._recent = whole(recent_token_budget, "recent_token_budget")
        self._least = whole(min_old_tokens, "min_old_tokens")

    async def plan(self, plan: Plan) -> Plan:
        """Summarise old groups, if they are long enough."""
        old: list[int] = []
        n_recent = 0
        for index in reversed(plan.there()):
            n_recent += plan.measure.messages(plan.entries[index].messages)
            if old or n_recent > self._recent:
                old.append(index)
        old = [index for index in reversed(old) if not plan.entries[index].is_protected]
        messages = [one for index in old for one in plan.entries[index].messages]
        n_old = plan.measure.messages(messages)
        if not old or n_old < self._least:
            return plan
        try:
            summary = await self._maker.make(self._maker.parts(messages))
        except SummaryError as error:
            return plan.noting(f"summarization: {error}")
        message = summary_message(summary)
        if plan.measure.message(message) >= n_old:
            return plan.noting("summarization: the summary is longer than what it is of")
        ids = tuple(dict.fromkeys(id for i in old for id in plan.entries[i].group.ids))
        shown_group = Group(kind="user", messages=(message,), ids=ids)
        return plan.with_entries(
            {
                index: replace(
                    plan.entries[index],
                    action="summarised",
                    reason="summarization",
                    shown=shown_group if index == old[0] else None,
                )
                for index in old
            }
        )


class CompactionPipeline(Strategy):
    """Applies several strategies, one after the other."""

    def __init__(self, strategies: Sequence[CompactionStrategy] = ()) -> None:
        """Set the strategies; none keeps everything."""
        self._strategies = checked(strategies)

    @property
    def reach(self) -> int | None:
        """That of the first strategy: the others receive its result."""
        first = self._strategies[0] if self._strategies else None
        reach: int | None = getattr(first, "reach", None)
        return reach

    async def plan(self, plan: Plan) -> Plan:
        """Apply them in turn."""
        for strategy in self._strategies:
            plan = await strategy.plan(plan)
        return plan


class TokenBudgetComposedStrategy(Strategy):
    """Applies as many strategies as necessary, once a budget is exceeded.

    It acts above `token_budget`, and continues until `target_ratio` of it is reached, so that it
    does not act again at the next turn. If it is still above after all, the oldest groups are
    dropped.
    """

    def __init__(
        self,
        strategies: Sequence[CompactionStrategy],
        token_budget: int,
        *,
        target_ratio: float = 0.75,
    ) -> None:
        """Set the strategies, mildest first, and the budget."""
        self._strategies = checked(strategies)
        if not self._strategies:
            raise InvalidRequestError("strategies is empty: give at least one")
        self._budget = whole(token_budget, "token_budget", least=1)
        check_ratio(target_ratio, "target_ratio")
        self._target = int(token_budget * target_ratio)

    @classmethod
    def from_model(
        cls,
        model: str,
        strategies: Sequence[CompactionStrategy],
        *,
        trigger_ratio: float = 0.8,
        target_ratio: float = 0.75,
        context_window: int | None = None,
    ) -> Self:
        """Use `trigger_ratio` (above 0, up to 1) of a model's context as the budget.

        The context sizes of the large providers' families are built in, and may have changed:
        `context_window`, in tokens, overrides them. Raises InvalidRequestError for an unknown model
        without it.
        """
        if context_window is None:
            context_window = context_window_of(model)
        window = whole(context_window, "context_window", least=1)
        check_ratio(trigger_ratio, "trigger_ratio")
        return cls(strategies, max(1, int(window * trigger_ratio)), target_ratio=target_ratio)

    async def plan(self, plan: Plan) -> Plan:
        """Return the plan, within the target if protected groups permit."""
        if plan.tokens <= self._budget:
            return plan
        for strategy in self._strategies:
            plan = await strategy.plan(plan)
            if plan.tokens <= self._target:
                return plan
        left = plan.tokens
        drops = []
        for index in plan.there():
            if left <= self._target:
                break
            if not plan.entries[index].is_protected:
                drops.append(index)
                left -= plan.measure.messages(plan.entries[index].messages)
        plan = plan.dropping(drops, "token_budget")
        if plan.tokens > self._budget:
            plan = plan.noting("token_budget: what is protected exceeds it")
        return plan


def checked(strategies: object) -> list[CompactionStrategy]:
    """Return the strategies as a list. Raises InvalidRequestError for an invalid one."""
    found = listed(strategies, "strategies")
    for index, one in enumerate(found):
        if not isinstance(one, CompactionStrategy) or isinstance(one, type):
            raise InvalidRequestError(
                f"strategies[{index}] is {shown(one)}: give an object with the method plan"
            )
    return found


def check_ratio(ratio: object, name: str) -> None:
    """Raise InvalidRequestError unless it is a number above 0, up to 1."""
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= 1:
        raise InvalidRequestError(f"{name}={shown(ratio)}: give a number above 0, up to 1")
