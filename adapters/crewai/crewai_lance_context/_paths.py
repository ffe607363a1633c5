"""Scopes of CrewAI: paths such as `/team/research`."""

import re

from lance_context_core import InvalidRequestError


def normal(path: object, where: str = "scope") -> str:
    """A path with one slash before each name, and none at the end; `/` for the root."""
    if not isinstance(path, str):
        raise InvalidRequestError(f"{where}={path!r:.80}: give a path, such as '/team/research'")
    return re.sub("/+", "/", f"/{path}").rstrip("/") or "/"


def ancestors(path: str) -> list[str]:
    """A normal path and all those above it, the root first."""
    names = path.strip("/").split("/") if path != "/" else []
    return ["/", *(f"/{'/'.join(names[: n + 1])}" for n in range(len(names)))]


def below(root: str, path: str) -> str:
    """A normal path inside the normal path `root`."""
    return path if root == "/" else normal(f"{root}/{path}")


def without(root: str, path: str) -> str:
    """A path as it is called inside of `root`."""
    return path if root == "/" else path.removeprefix(root) or "/"


def child_of(parent: str, path: str) -> str | None:
    """The path directly below `parent` that leads to `path`; None if `path` is not below it."""
    prefix = parent.rstrip("/") + "/"
    if not path.startswith(prefix) or path == prefix:
        return None
    return prefix + path.removeprefix(prefix).partition("/")[0]
