"""What of a message a model reads as words: what a limit of tokens must count."""

from collections.abc import Iterable, Iterator

from lance_context_core._util.checks import dumps
from lance_context_core.messages import Part, iter_parts
from lance_context_core.messages import parts as kinds


def countable_text(parts: Iterable[Part], *, with_reasoning: bool = True) -> str:
    """The text to count the tokens of, so that nothing which a model is sent counts as nothing.

    A line each, in order: texts; the names and arguments of tool calls; the names of tools that
    answered and all that their results hold; data, and parts that nobody has a word for, as JSON;
    and, unless it is not sent again, reasoning. Ids, signatures and `extra` are no words of a model.

    What images, sounds, films and files weigh is the model's own affair, and not in here: find them
    with `iter_parts`, and `MediaPart`.
    """
    lines = (
        line for part in iter_parts(parts) for line in _lines(part, with_reasoning=with_reasoning)
    )
    return "\n".join(line for line in lines if line)


def _lines(part: Part, *, with_reasoning: bool) -> Iterator[str]:
    match part:
        case kinds.TextPart():
            yield part.text
        case kinds.ReasoningPart() if with_reasoning:
            yield part.text
        case kinds.ToolCallPart():
            yield part.name
            yield part.arguments if isinstance(part.arguments, str) else dumps(part.arguments)
        case kinds.ToolResultPart():
            # What it holds follows it in `iter_parts`.
            yield part.name or ""
        case kinds.DataPart():
            yield dumps(part.data)
        case kinds.UnknownPart():
            yield dumps({"type": part.type, **part.payload})
