"""A role and a text a message, for whatever takes no more: calls and results are told in words."""

from collections.abc import Mapping, Sequence
from typing import Any

from lance_context_core._util.checks import dumps
from lance_context_core.messages import Message
from lance_context_core.window.dialects import common
from lance_context_core.window.dialects.common import Uncached, Violation, results


class Plain(Uncached):
    """Roles and texts alone."""

    name = "plain"
    provider = None

    def _rendered(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The messages: `{"role": …, "content": …}`."""
        rendered = []
        for message in messages:
            lines = [common.texts(part for part in message.parts if part not in results(message))]
            lines += [
                f"[call {call.call_id}] {call.name}({_text(call.arguments)})"
                for call in common.calls(message)
            ]
            lines += [
                f"[result {result.call_id}] {common.texts(result.content)}"
                for result in results(message)
            ]
            text = "\n".join(line for line in lines if line)
            if text:
                rendered.append({"role": common.speaker(message), "content": text})
        return {"messages": rendered}

    def validate(self, request: Mapping[str, Any]) -> list[Violation]:
        """No message is empty, and there is one."""
        sent = request.get("messages") or []
        broken = [
            Violation(rule="empty_content", index=index)
            for index, message in enumerate(sent)
            if not str(message.get("content") or "").strip()
        ]
        return broken if sent else [Violation(rule="no_messages", index=-1)]


def _text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else dumps(arguments)
