"""Histories of coding agents: what becomes a message, what is left out, and repeated imports."""

import json
import string
from random import Random
from typing import get_args

import pytest
from core.transfer import coding_histories as histories
from core.transfer.coding_histories import PROJECT, TOKEN, WRITERS, claude_line, lines
from lance_context_cli.commands.moving import AGENTS, FORMATS

from lance_context_core import ContextStore, ToolCallPart, ToolResultPart
from lance_context_core.arguments import CodingAgent, ExportFormat
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.transfer.secrets import redacted, redacted_json

SAID = {
    "claude-code": [
        ("claude-session", "user", "Why is the tax of an order rounded twice?"),
        ("claude-session", "assistant", "I look at tax.py."),
        ("claude-session", "assistant", ""),
        ("claude-session", "tool", "TOKEN = '[secret left out: GitHub token]'"),
        ("claude-session/helper", "assistant", "Look at the tests."),
        ("claude-session", "assistant", "Decimal is rounded in two places."),
    ],
    "codex": [
        ("codex-session", "user", "Move the deployment to Frankfurt."),
        ("codex-session", "assistant", ""),
        ("codex-session", "tool", "deploy.yaml"),
        ("codex-session", "assistant", "The region is eu-central-1 now."),
    ],
    "gemini-cli": [
        ("gemini-session", "user", "Which licence?"),
        ("gemini-session", "assistant", "It is under Apache 2.0."),
        ("gemini-session", "tool", "readme.md"),
    ],
}
LEFT_OUT = {
    "claude-code": {"reasoning": 1, "reminders": 2, "secrets: GitHub token": 1},
    "codex": {"reasoning": 1, "reminders": 1},
    "gemini-cli": {"reasoning": 1},
}
QUESTIONS = {
    "claude-code": ("rounded in two places", "Decimal is rounded in two places."),
    "codex": ("deployment region Frankfurt", "Move the deployment to Frankfurt."),
    "gemini-cli": ("Apache licence", "It is under Apache 2.0."),
}
CALLS = {
    "claude-code": ("Read", {"path": "tax.py"}, "call-1"),
    "codex": ("shell", {"command": ["ls"]}, "call-2"),
    "gemini-cli": ("list", {"dir": "."}, "call-3"),
}
EACH = pytest.mark.parametrize("agent", WRITERS)


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path / "store") as store:
        yield store.scope(user_id="ada")


def said(store, agent):
    """What the store has of an agent: the session, the role and the text of each message."""
    sessions = {one.id for one in store.sessions.list()}
    return [
        (session, one.role, one.text)
        for session in sorted(sessions)
        for one in store.history.get_messages(agent, session_id=session)
    ]


@EACH
def test_a_history_becomes_messages_and_a_question_finds_them(store, tmp_path, agent):
    WRITERS[agent](tmp_path / "home")
    done = store.import_(tmp_path / "home", format=agent)
    assert (done.n_added, done.left_out, done.faults) == (len(SAID[agent]), LEFT_OUT[agent], ())
    assert said(store, agent) == sorted(SAID[agent], key=lambda one: one[0])
    query, text = QUESTIONS[agent]
    assert store.search(query, limit=1)[0].record.text == text


@EACH
def test_calls_and_results_are_parts_and_keep_what_joins_them(store, tmp_path, agent):
    WRITERS[agent](tmp_path / "home")
    store.import_(tmp_path / "home", format=agent)
    session = SAID[agent][0][0]
    parts = [
        part for one in store.history.get_messages(agent, session_id=session) for part in one.parts
    ]
    (call,) = (one for one in parts if isinstance(one, ToolCallPart))
    (result,) = (one for one in parts if isinstance(one, ToolResultPart))
    assert (call.name, call.arguments, call.call_id) == CALLS[agent]
    assert result.call_id == call.call_id


@EACH
def test_a_second_import_adds_nothing_and_a_grown_file_its_new_turns(store, tmp_path, agent):
    path = WRITERS[agent](tmp_path / "home")
    store.import_(tmp_path / "home", format=agent)
    before = said(store, agent)
    again = store.import_(tmp_path / "home", format=agent)
    assert (again.n_added, again.there, said(store, agent)) == (
        0,
        {"messages": len(before)},
        before,
    )
    if agent == "claude-code":
        lines(path, claude_line(20, "user", "Round once."))
    elif agent == "codex":
        content = [{"type": "input_text", "text": "Round once."}]
        lines(path, histories.codex_item(20, type="message", role="user", content=content))
    else:
        document = json.loads(path.read_text())
        document["messages"].append({"id": "g9", "type": "user", "content": "Round once."})
        path.write_text(json.dumps(document))
    assert store.import_(path, format=agent).n_added == 1
    assert {one[2] for one in said(store, agent)} - {one[2] for one in before} == {"Round once."}


def test_what_was_erased_stays_erased_when_the_history_is_imported_again(store, tmp_path):
    histories.claude_code(tmp_path / "home")
    store.import_(tmp_path / "home", format="claude-code")
    store.erase(ids=["claude-8"])
    assert store.import_(tmp_path / "home", format="claude-code").n_added == 0
    assert "Decimal" not in str(said(store, "claude-code"))


def test_only_the_conversations_of_a_project_are_imported_and_the_others_later(store, tmp_path):
    histories.claude_code(tmp_path / "home")
    other = claude_line(30, "user", "Elsewhere.", cwd="/home/ada/shopping", sessionId="other")
    lines(tmp_path / "home" / "-home-ada-shopping" / "other.jsonl", other)
    done = store.import_(tmp_path / "home", format="claude-code", project=PROJECT)
    assert done.n_added == len(SAID["claude-code"])
    assert {one.metadata["project"] for one in store.context().records(99)} == {PROJECT}
    assert store.import_(tmp_path / "home", format="claude-code").n_added == 1


def test_lines_that_cannot_be_read_are_counted_named_and_passed_over(store, tmp_path):
    path = histories.claude_code(tmp_path / "home")
    with path.open("ab") as file:
        file.write(b'{"type": "user", "mess\n')
        file.write(b"[1]\n")
        file.write(b"\xff\xfe\n")
        file.write(b'{"type": "user", "message": {"content": "no uuid"}}\n')
        file.write(b'{"type": "from a newer release", "uuid": "n"}\n')
        file.write(json.dumps(claude_line(40, "user", "After it.\ud800")).encode() + b"\n")
        file.write(json.dumps(claude_line(41, "user", "It is cut her")).encode()[:-9])
    done = store.import_(path, format="claude-code")
    assert done.n_added == len(SAID["claude-code"]) + 1
    assert done.left_out["lines that cannot be read"] == len(done.faults) == 5
    assert done.left_out["lines of the kind 'from a newer release'"] == 1
    assert [one.split(":")[1] for one in done.faults] == ["10", "11", "12", "13", "16"]
    assert said(store, "claude-code")[-2][2] == "After it.?"


def test_a_line_that_was_cut_is_read_once_it_is_whole(store, tmp_path):
    path = histories.claude_code(tmp_path / "home")
    whole = json.dumps(claude_line(40, "user", "It is whole.")) + "\n"
    with path.open("a") as file:
        file.write(whole[:30])
    assert store.import_(path, format="claude-code").left_out["lines that cannot be read"] == 1
    with path.open("a") as file:
        file.write(whole[30:])
    assert store.import_(path, format="claude-code").n_added == 1


ANYTHING = [
    None,
    True,
    7,
    -1.5,
    float("nan"),
    "",
    "\0",
    "\ud800",
    "x" * 5_000,
    [],
    [3],
    {},
    {"type": 3},
]
ANYTHING += [{"text": None}, [None], {"\ud800": "\0"}, [[["deep"]]]]


def replaced(value, rng):
    """JSON with something else at a place of it."""
    if rng.random() < 0.15 or not isinstance(value, dict | list) or not value:
        return rng.choice(ANYTHING)
    copy = dict(value) if isinstance(value, dict) else list(value)
    key = rng.choice([*copy] if isinstance(copy, dict) else range(len(copy)))
    copy[key] = replaced(copy[key], rng)
    return copy


@EACH
def test_whatever_stands_anywhere_is_imported_or_counted_and_the_rest_is_there(tmp_path, agent):
    path, rng = WRITERS[agent](tmp_path / "home"), Random(agent)
    text = path.read_text()
    for number in range(60):
        if agent == "gemini-cli":
            path.write_text(json.dumps(replaced(json.loads(text), rng)))
        else:
            changed = text.splitlines()
            place = rng.randrange(len(changed))
            changed[place] = json.dumps(replaced(json.loads(changed[place]), rng))
            path.write_text("\n".join([*changed, ""]))
        with ContextStore.open("memory://") as store:
            done = store.import_(path, format=agent)
            if agent == "claude-code":
                most = len(SAID[agent])
                assert done.n_added in (most, most - 1), (number, changed[place])


def test_the_command_line_offers_the_formats_that_there_are():
    assert {*FORMATS, *AGENTS} == {*get_args(ExportFormat), *get_args(CodingAgent)}


def test_a_tool_that_still_runs_is_waited_for(store, tmp_path):
    path = histories.gemini_cli(tmp_path / "home")
    document = json.loads(path.read_text())
    call = document["messages"][1]["toolCalls"][0]
    result = call.pop("result")
    call["status"] = "executing"
    path.write_text(json.dumps(document))
    assert store.import_(path, format="gemini-cli").n_added == 1
    call |= {"result": result, "status": "success"}
    path.write_text(json.dumps(document))
    assert store.import_(path, format="gemini-cli").n_added == 2


def test_the_history_is_of_the_user_alone_who_imports_it(store, tmp_path):
    histories.codex(tmp_path / "home")
    store.import_(tmp_path / "home", format="codex")
    with ContextStore.open(tmp_path / "store") as whole:
        bob = whole.scope(user_id="bob")
        assert said(bob, "codex") == []
        assert bob.import_(tmp_path / "home", format="codex").n_added == len(SAID["codex"])


def test_long_outputs_are_cut_and_pictures_left_out(store, tmp_path):
    content = [
        {"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo" * 99}},
        {"type": "text", "text": "x " * 30_000},
    ]
    path = lines(tmp_path / "one.jsonl", claude_line(1, "user", content))
    done = store.import_(path, format="claude-code")
    assert done.left_out == {"pictures": 1, "ends of long texts": 1}
    (message,) = store.history.get_messages("claude-code", session_id="claude-session")
    assert len(message.text) < 20_010


def test_it_is_read_from_where_the_agent_keeps_it(store, tmp_path, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    with pytest.raises(NotFoundError, match="codex's history"):
        store.import_(format="codex")
    histories.codex(tmp_path / "codex" / "sessions")
    assert store.import_(format="codex").n_added == len(SAID["codex"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"format": "cursor"}, "format='cursor': use one of jsonl, .*claude-code"),
        ({"format": "openai", "project": "x"}, "project='x' is for the histories"),
        ({"format": "openai"}, "source is missing"),
        ({}, "source is missing"),
    ],
    ids=["unknown agent", "project of an export", "no source of a format", "no source"],
)
def test_a_wrong_request_is_refused(store, arguments, told):
    with pytest.raises(InvalidRequestError, match=told):
        store.import_(**arguments)


# Secrets

ABC = string.ascii_letters + string.digits
SECRETS = {
    "AWS key": "aws configure: AKIAIOSFODNN7ABCDEFG",
    "GitHub token": f"git clone https://{TOKEN}@github.com/a/b",
    "GitLab token": f"glpat-{ABC[:20]}",
    "Slack token": "xoxb-1234567890-abcdefghij",
    "API key": f"OPENAI: sk-proj-{ABC[:40]}",
    "Google key": f"AIza{ABC[:35]}",
    "Hugging Face token": f"hf_{ABC[:34]}",
    "npm token": f"npm_{ABC[:36]}",
    "PyPI token": f"pypi-{ABC[:55]}",
    "web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4",
    "authorization header": "curl -H 'Authorization: Bearer 0a1b2c3d4e5f'",
    "password in an address": "postgresql://ada:s3cretword@db.example.com/shop",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "secret by its name": 'DB_PASSWORD = "correct-horse-9"',
}
NAMED = [
    "password: hunter2hunter2",
    "export API_KEY=0a1b2c3d4e5f6a7b",
    '{"client_secret": "a9s8d7f6g5"}',
    "auth_token='zz19qpw8x'",
]
HARMLESS = [
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "id 123e4567-e89b-12d3-a456-426614174000",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "password = os.environ['DB_PASSWORD']",
    "password=${DB_PASSWORD}",
    "token: str",
    "token = tokenizer.next_token()",
    "api_key=settings.api_key",
    "secret: <your secret here>",
    "The password is checked by the server.",
    "max_tokens=4096, tokens: 123456789",
    "https://example.com:8080/path@x",
    "def secret(self, value): ...",
    "sk-learn is a library",
]


@pytest.mark.parametrize(("kind", "text"), SECRETS.items(), ids=SECRETS)
def test_a_secret_of_a_known_form_is_replaced_by_its_kind(kind, text):
    found = redacted(f"before {text} after")
    assert f"[secret left out: {kind}]" in found
    assert found.startswith("before ")
    assert found.endswith(" after")
    assert redacted(found) == found


@pytest.mark.parametrize("text", NAMED, ids=NAMED)
def test_a_value_of_a_secret_s_name_is_replaced(text):
    assert "[secret left out: secret by its name]" in redacted(text)


@pytest.mark.parametrize("text", HARMLESS, ids=HARMLESS)
def test_what_only_looks_like_a_secret_stays(text):
    assert redacted(text) == text


def test_secrets_in_the_arguments_of_a_call_are_found_by_the_name_of_the_argument():
    given = {"env": {"API_KEY": "0a1b2c3d4e5f"}, "args": [f"--token={TOKEN}"], "n": 3}
    clean = redacted_json(given)
    assert clean["env"] == {"API_KEY": "[secret left out: secret by its name]"}
    assert TOKEN not in str(clean)
    assert clean["n"] == 3
