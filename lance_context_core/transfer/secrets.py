"""Finds secrets in texts by rules, and leaves them out."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

_NAMED = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|auth[_-]?key"
    r"|private[_-]?key|client[_-]?secret|credentials?"
)
"""What people call a secret, as the whole name or its last word."""

_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "private key",
        re.compile(
            r"-----BEGIN (?P<kind>[A-Z ]*PRIVATE KEY(?: BLOCK)?)-----"
            r"(?P<secret>.*?)(?:-----END (?P=kind)-----|\Z)",
            re.DOTALL,
        ),
    ),
    ("AWS key", re.compile(r"\b(?P<secret>(?:AKIA|ASIA)[A-Z2-7]{16})\b")),
    (
        "GitHub token",
        re.compile(r"\b(?P<secret>gh[opsur]_[A-Za-z0-9]{36,}|github_pat_\w{22,})\b"),
    ),
    ("GitLab token", re.compile(r"\b(?P<secret>glpat-[\w-]{20,})")),
    ("Slack token", re.compile(r"\b(?P<secret>xox[abeoprs]-[A-Za-z0-9-]{10,})")),
    ("API key", re.compile(r"\b(?P<secret>sk-(?:ant-|proj-|or-|live-)?[A-Za-z0-9_-]{20,})")),
    ("API key", re.compile(r"\b(?P<secret>(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,})")),
    ("Google key", re.compile(r"\b(?P<secret>AIza[\w-]{35})")),
    ("Hugging Face token", re.compile(r"\b(?P<secret>hf_[A-Za-z0-9]{30,})\b")),
    ("npm token", re.compile(r"\b(?P<secret>npm_[A-Za-z0-9]{36})\b")),
    ("PyPI token", re.compile(r"\b(?P<secret>pypi-[\w-]{50,})")),
    ("web token", re.compile(r"\b(?P<secret>eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,})")),
    (
        "authorization header",
        re.compile(
            r"\bAuthorization\b[\"']?\s*[:=]\s*[\"']?(?:Bearer|Basic|Token)\s+"
            r"(?P<secret>[\w.~+/=-]{8,})",
            re.IGNORECASE,
        ),
    ),
    (
        "password in an address",
        re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s:/@]*:(?P<secret>[^\s/@]+)@"),
    ),
    (
        "secret by its name",
        re.compile(
            rf"(?<![A-Za-z0-9])(?:\w+[_-])?(?:{_NAMED})[\"']?\s*(?:=|:)\s*"
            r"(?:\"(?P<quoted>[^\"\n]{6,})\"|'(?P<single>[^'\n]{6,})'|(?P<bare>[^\s\"',;{}()<>\[\]]{8,}))",
            re.IGNORECASE,
        ),
    ),
)
"""The rules in the order of their use: what a precise one has left out, no later one finds."""

_REFERENCE = re.compile(
    r"\$|%\w+%|<|\{\{|\*{3}|\[secret|xxx|\.\.\.|os\.environ|process\.env|getenv|settings\.|config\.|self\."
    r"|your[_-]|example|changeme|placeholder|(?:None|null|true|false|str|string|required)\b",
    re.IGNORECASE,
)
"""How a value begins that only names where the secret is, or stands in its place."""

_CODE = re.compile(r"[A-Za-z_][\w.]*(?:\(|\[|$)")
"""A name or a call, as code has it at the right of an equals sign."""


def redacted(text: str, found: Counter[str] | None = None) -> str:
    """Return the text with a mark in place of each secret, such as `[secret left out: API key]`.

    Rules find known forms (keys of providers by their prefix, private keys, web tokens, authorization
    headers, passwords in addresses), and values that are assigned to names such as `password`. A
    secret that has none of these forms stays. Counts what it has left out by kind in `found`.
    """
    for kind, rule in _RULES:
        text = rule.sub(_replacing(kind, found), text)
    return text


def _replacing(kind: str, found: Counter[str] | None) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        group = next(name for name, value in match.groupdict().items() if value and name != "kind")
        secret = match[group]
        if group in ("quoted", "single", "bare") and not _is_secret(
            secret, is_bare=group == "bare"
        ):
            return match[0]
        if found is not None:
            found[kind] += 1
        start, end = (place - match.start() for place in match.span(group))
        return f"{match[0][:start]}[secret left out: {kind}]{match[0][end:]}"

    return replace


def _is_secret(value: str, *, is_bare: bool) -> bool:
    """Whether a value that is assigned to a secret's name is one, and not code or a place for one."""
    if _REFERENCE.match(value):
        return False
    if is_bare and _CODE.match(value):
        # A bare word without a digit is a name in code, or a word of prose.
        return any(one.isdigit() for one in value) and "(" not in value and "." not in value
    return not value.isspace() and " " not in value


def redacted_json(value: Any, found: Counter[str] | None = None) -> Any:
    """As `redacted`, of every text in a JSON value; of a name and its value together."""
    if isinstance(value, str):
        return redacted(value, found)
    if isinstance(value, list | tuple):
        return [redacted_json(one, found) for one in value]
    if isinstance(value, dict):
        return {key: _member(key, one, found) for key, one in value.items()}
    return value


def _member(key: str, value: Any, found: Counter[str] | None) -> Any:
    if isinstance(value, str):
        before = f'{key}="'
        whole = redacted(f'{before}{value}"', Counter())
        if whole.startswith(before) and "[secret left out: secret by its name]" in whole:
            if found is not None:
                found["secret by its name"] += 1
            return whole[len(before) : -1]
    return redacted_json(value, found)
