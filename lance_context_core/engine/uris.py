"""What names a store: a directory, or the URI of an object store. What is neither is refused."""

import os
import re
from pathlib import Path

from lance_context_core._util.checks import check_name, shown
from lance_context_core.errors import InvalidRequestError

_REMOTE = frozenset(
    (
        *("memory", "shared-memory", "file+uring", "file-object-store"),
        *("s3", "s3+ddb", "gs", "az", "abfss", "oss", "cos", "hf", "goosefs"),
    )
)
"""The schemes that the engine opens, besides `file`."""

_URI = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/(/?)")
"""A scheme of two letters or more, and whether it has both slashes: `Path` leaves one of them."""

_OF_WINDOWS = re.compile(r"[a-zA-Z]:[\\/]|\\\\")
"""A drive, or another machine."""

_WAY_OUT = (
    "give a directory, 'memory://', or a URI such as 's3://bucket/prefix', 'gs://…', 'az://…'"
)


def normalised(uri: object, what: str = "uri") -> str:
    """`uri` as the engine wants it: local paths absolute, so that none is taken for a scheme.

    Raises InvalidRequestError for a scheme that the engine does not open, and for what would become a
    directory with a strange name: a URI that was a `Path`, and on other systems a path of Windows.
    """
    if not isinstance(uri, str | os.PathLike) or not isinstance(path := os.fspath(uri), str):
        raise InvalidRequestError(f"{what}={uri!r}: give a directory or the URI of an object store")
    text = check_name(path, what)
    if (found := _URI.match(text)) is not None:
        scheme, rest = found[1].lower(), text[found.end() :]
        if scheme not in {*_REMOTE, "file"}:
            raise InvalidRequestError(
                f"{what}={shown(text)}: no store is opened by '{scheme}://': {_WAY_OUT}"
            )
        if not found[2]:
            whole = f"{scheme}://{'/' * (scheme == 'file')}{rest}"
            raise InvalidRequestError(
                f"{what}={shown(text)} lacks a slash: write {whole!r}, as a str, since a Path leaves "
                f"one out; a directory of that name is './{text}'"
            )
        if scheme != "file":
            return f"{scheme}://{rest}"
        text = rest
    if os.name != "nt" and _OF_WINDOWS.match(text):
        raise InvalidRequestError(
            f"{what}={shown(text)} is a path of Windows, and this is another system: {_WAY_OUT}"
        )
    try:
        return str(Path(text).expanduser().absolute())
    except RuntimeError as error:  # There is no such user.
        raise InvalidRequestError(f"{what}={shown(text)}: {error}: give the whole path") from error


def require_local(path: object, what: str) -> None:
    """Raise InvalidRequestError for what names no file or folder of this machine, as `normalised` does."""
    if not Path(normalised(path, what)).is_absolute():
        raise InvalidRequestError(
            f"{what}={shown(path)}: give a file or a folder of this machine, and copy it from there"
        )
