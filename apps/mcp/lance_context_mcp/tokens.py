"""A file of tokens: who sends one is served one scope of the store. The file holds hashes alone."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from lance_context_core import InvalidRequestError

_FIELDS = {"sha256": str, "tenant": str, "user": str, "agent": str, "read_only": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a token gives access to: a scope within the one that the server was started with."""

    tenant: str | None = None
    user: str | None = None
    agent: str | None = None
    read_only: bool = False


def hashed(token: str) -> str:
    """The hash of a token as the file holds it."""
    return hashlib.sha256(token.encode()).hexdigest()


def read(file: Path) -> dict[str, Grant]:
    """The grants of a file by the hashes of their tokens; a line of JSON for each.

    Raises InvalidRequestError, which names the line, for what is none, and for an empty file.
    """
    grants: dict[str, Grant] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        hash = _checked(found, f"{file}:{number}")
        if hash in grants:
            raise InvalidRequestError(f"{file}:{number}: this token has a line already")
        fields = {name: value for name, value in found.items() if name != "sha256"}
        grants[hash] = Grant(**fields)
    if not grants:
        raise InvalidRequestError(f"{file} has no token: add one with --add-token {file}")
    return grants


def _checked(found: object, where: str) -> str:
    if not isinstance(found, Mapping):
        raise InvalidRequestError(
            f'{where}: not a JSON object such as {{"sha256": "…", "user": "ada"}}'
        )
    for name, value in found.items():
        kind = _FIELDS.get(name)
        if kind is None:
            raise InvalidRequestError(
                f"{where}: unknown field {name!r}; the fields are {', '.join(_FIELDS)}"
            )
        if type(value) is not kind or value == "":
            raise InvalidRequestError(f"{where}: {name} is no {kind.__name__}, or empty")
    hash = found.get("sha256", "")
    if len(hash) != 64 or set(hash) - set("0123456789abcdef"):
        raise InvalidRequestError(f"{where}: sha256 is not 64 hexadecimal digits in lower case")
    return str(hash)


def add(file: Path, grant: Grant) -> str:
    """Append a new token to a file, which is made if it does not exist; returns the token."""
    token = secrets.token_urlsafe(32)
    fields = {name: value for name, value in asdict(grant).items() if value}
    file.touch(mode=0o600)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({"sha256": hashed(token), **fields}) + "\n")
    return token
