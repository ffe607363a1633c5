"""What calls return, in the types that JSON has."""

import base64
import dataclasses
from collections.abc import Mapping
from datetime import date
from enum import Enum
from typing import Any


def plain(value: Any) -> Any:
    """The value in what JSON knows, and a value that is none of the store's as it is.

    Dataclasses become objects of their fields, a namespace that is a key its segments with slashes
    between them, moments ISO 8601, bytes base64.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, date):  # A datetime is one, too.
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return value.value if isinstance(value, Enum) else value


def _key(name: object) -> str:
    return "/".join(map(str, name)) if isinstance(name, tuple) else str(name)
