"""What stands for a long tool result: how long it was, and the id by which it is found again."""

from dataclasses import replace

from lance_context_core.messages import TextPart, ToolResultPart
from lance_context_core.window.counting import Measure
from lance_context_core.window.groups import Group, replaced


def stub_text(tokens: int, id: str | None) -> str:
    """What is said in place of a result."""
    return f"[… {tokens} tokens, id {id}]" if id else f"[… {tokens} tokens]"


def stubbed(group: Group, measure: Measure) -> Group | None:
    """The group with stubs for the results that are longer than these; None if none is."""
    messages = []
    is_shorter = False
    for message in group.messages:
        parts = []
        for part in message.parts:
            if isinstance(part, ToolResultPart):
                tokens = measure.parts(part.content)
                stub = TextPart(text=stub_text(tokens, message.id))
                if measure.parts([stub]) < tokens:
                    part, is_shorter = replace(part, content=(stub,)), True  # noqa: PLW2901
            parts.append(part)
        messages.append(replaced(message, parts=tuple(parts)))
    if not is_shorter:
        return None
    notes = tuple(dict.fromkeys((*group.notes, "result_stubbed")))
    return replace(group, messages=tuple(messages), notes=notes)
