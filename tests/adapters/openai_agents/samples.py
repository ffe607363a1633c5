"""Items of every kind that the SDK keeps in a session."""

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkqGcAAAGRAJDvQYdbAAAAAElFTkSuQmCC"
PICTURE = f"data:image/png;base64,{PNG}"


def user(text):
    return {"role": "user", "content": text}


def assistant(text, id="msg_1"):
    block = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [block],
    }


def call(call_id="call_1", name="weather", arguments='{"city": "Oslo"}'):
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def output(said="sunny", call_id="call_1"):
    return {"type": "function_call_output", "call_id": call_id, "output": said}


REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "It rains there often."}],
    "encrypted_content": "gAAAAB",
}

KINDS = {
    "a user": user("Grüße aus dem Süden 🏔️\twith\nlines"),
    "a user without words": user(""),
    "a typed user": {"type": "message", **user("Hello.")},
    "instructions": {"role": "system", "content": "Be brief."},
    "a developer": {"role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
    "a model": assistant("It is sunny."),
    "a model in short": {"role": "assistant", "content": "Yes."},
    "a refusal": {
        **assistant(""),
        "content": [{"type": "refusal", "refusal": "I cannot help with that."}],
    },
    "a picture, a file and a sound": {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "Look."},
            {"type": "input_image", "detail": "auto", "image_url": PICTURE},
            {"type": "input_image", "detail": "low", "file_id": "file-1"},
            {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,YQ=="},
            {"type": "input_file", "file_url": "https://example.org/a.pdf"},
            {"type": "input_audio", "input_audio": {"data": "YQ==", "format": "mp3"}},
        ],
    },
    "a broken picture": {
        "role": "user",
        "content": [{"type": "input_image", "image_url": "data:no comma"}, {"type": "hologram"}],
    },
    "reasoning": REASONING,
    "reasoning without words": {"type": "reasoning", "id": "rs_2", "summary": []},
    "a call": call(),
    "a call with broken arguments": call(arguments='{"city": '),
    "an output": output(),
    "an output in blocks": output([{"type": "input_text", "text": "sunny"}]),
    "a custom call": {
        "type": "custom_tool_call",
        "call_id": "call_2",
        "name": "grammar",
        "input": "x = 1",
    },
    "a custom output": {"type": "custom_tool_call_output", "call_id": "call_2", "output": "ok"},
    "a search of the web": {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "Oslo"},
    },
    "a search of files": {
        "type": "file_search_call",
        "id": "fs_1",
        "status": "completed",
        "queries": ["nuts"],
        "results": [{"file_id": "file-1", "text": "No nuts.", "score": 0.5}],
    },
    "code that was run": {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "code": "1 + 1",
        "container_id": "c",
        "outputs": [{"type": "logs", "logs": "2"}],
    },
    "a picture that was made": {"type": "image_generation_call", "id": "ig_1", "result": PNG},
    "a call over MCP": {
        "type": "mcp_call",
        "id": "mcp_1",
        "name": "list",
        "server_label": "files",
        "arguments": "{}",
        "output": "a.txt",
        "error": None,
    },
    "a request of approval": {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "name": "delete",
        "server_label": "files",
        "arguments": "{}",
    },
    "an approval": {
        "type": "mcp_approval_response",
        "approval_request_id": "mcpr_1",
        "approve": True,
    },
    "the screen": {
        "type": "computer_call_output",
        "call_id": "call_3",
        "output": {"type": "computer_screenshot", "image_url": PICTURE},
    },
    "a shell": {
        "type": "shell_call",
        "call_id": "call_4",
        "action": {"commands": ["ls"]},
        "status": "completed",
    },
    "what a shell said": {
        "type": "shell_call_output",
        "call_id": "call_4",
        "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    "a compaction": {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAC"},
    "a reference": {"type": "item_reference", "id": "msg_1"},
    "an unknown kind": {"type": "telepathy", "thought": ["of", {"you": None}]},
    "an encrypted item": {"__enc__": 1, "v": 1, "kid": "hkdf-v1", "payload": "gAAAAD"},
    "half a character": user("broken \ud83d emoji"),
    "a NUL": user("a\0b"),
    "numbers": {"type": "telepathy", "n": [0, -1, 1.5, 1e300, 2**53, True, None]},
}
"""Each is what a run or a user may put into a session."""
