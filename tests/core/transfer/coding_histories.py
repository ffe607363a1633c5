"""Made-up histories of three coding agents, each in the shape of its files."""

import json
import string

PROJECT = "/home/ada/shop"
TOKEN = "ghp_" + string.ascii_letters[:36]


def lines(path, *documents):
    """Append JSON lines to a file; returns it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(one) + "\n" for one in documents)
    return path


def claude_line(number, kind, content, **more):
    """A line of Claude Code."""
    return {
        "type": kind,
        "uuid": f"claude-{number}",
        "sessionId": "claude-session",
        "timestamp": f"2026-03-01T10:00:{number:02}.000Z",
        "cwd": PROJECT,
        "gitBranch": "main",
        "message": {"role": kind, "content": content, "model": "a-model"},
        **more,
    }


def claude_code(folder):
    """A conversation with a tool call, a reminder, reasoning and a conversation beside it."""
    return lines(
        folder / "-home-ada-shop" / "claude-session.jsonl",
        {"type": "summary", "summary": "Tax"},
        claude_line(
            1,
            "user",
            "Why is the tax of an order rounded twice?<system-reminder>Be brief.</system-reminder>",
        ),
        claude_line(2, "assistant", [{"type": "thinking", "thinking": "Let me look."}]),
        claude_line(3, "assistant", [{"type": "text", "text": "I look at tax.py."}]),
        claude_line(
            4,
            "assistant",
            [{"type": "tool_use", "id": "call-1", "name": "Read", "input": {"path": "tax.py"}}],
        ),
        claude_line(
            5,
            "user",
            [{"type": "tool_result", "tool_use_id": "call-1", "content": f"TOKEN = '{TOKEN}'"}],
        ),
        claude_line(6, "user", "This is hidden.", isMeta=True),
        claude_line(7, "assistant", "Look at the tests.", isSidechain=True, agentId="helper"),
        claude_line(
            8, "assistant", [{"type": "text", "text": "Decimal is rounded in two places."}]
        ),
    )


def codex_item(number, **payload):
    """A line of Codex."""
    return {
        "timestamp": f"2026-03-02T10:00:{number:02}.000Z",
        "type": "response_item",
        "payload": payload,
    }


def codex(folder):
    """A conversation with a tool call, reasoning and what Codex tells its model."""
    return lines(
        folder / "2026" / "03" / "02" / "rollout-2026-03-02T10-00-00-codex-session.jsonl",
        {
            "timestamp": "2026-03-02T10:00:00Z",
            "type": "session_meta",
            "payload": {"id": "codex-session", "cwd": f"{PROJECT}/api", "git": {"branch": "dev"}},
        },
        codex_item(
            1,
            type="message",
            role="user",
            content=[
                {"type": "input_text", "text": "<environment_context>x</environment_context>"}
            ],
        ),
        codex_item(
            2,
            type="message",
            role="user",
            content=[{"type": "input_text", "text": "Move the deployment to Frankfurt."}],
        ),
        {
            "timestamp": "2026-03-02T10:00:03Z",
            "type": "event_msg",
            "payload": {"type": "token_count"},
        },
        codex_item(4, type="reasoning", summary=[]),
        codex_item(
            5, type="function_call", name="shell", arguments='{"command": ["ls"]}', call_id="call-2"
        ),
        codex_item(6, type="function_call_output", call_id="call-2", output="deploy.yaml"),
        codex_item(
            7,
            type="message",
            role="assistant",
            content=[{"type": "output_text", "text": "The region is eu-central-1 now."}],
        ),
    )


def gemini_cli(folder):
    """A conversation with a tool call that is over."""
    path = folder / "0f3a" / "chats" / "session-2026-03-03.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    call = {
        "id": "call-3",
        "name": "list",
        "args": {"dir": "."},
        "status": "success",
        "result": [{"functionResponse": {"response": {"output": "readme.md"}}}],
    }
    messages = [
        {
            "id": "g1",
            "type": "user",
            "timestamp": "2026-03-03T10:00:00Z",
            "content": "Which licence?",
        },
        {
            "id": "g2",
            "type": "gemini",
            "timestamp": "2026-03-03T10:00:01Z",
            "content": "It is under Apache 2.0.",
            "toolCalls": [call],
            "thoughts": [{"subject": "licence"}],
        },
    ]
    document = {"sessionId": "gemini-session", "messages": messages}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


WRITERS = {"claude-code": claude_code, "codex": codex, "gemini-cli": gemini_cli}
