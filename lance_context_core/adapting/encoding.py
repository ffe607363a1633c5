"""Texts that UTF-8 cannot hold, as a framework's caller may hand them over."""

from collections.abc import Mapping
from typing import Any


def encodable(value: Any) -> Any:
    """`value` with each lone surrogate in its texts replaced by "?"; itself if there is none.

    A lone surrogate is half of an emoji that was cut in two, which UTF-8, and so the store, cannot
    hold. Dicts, lists, tuples and models with a `model_copy` are looked through, and copied where
    something is replaced; other values stay as they are. Anything nested deeper than 100 stays, too.
    """
    return _encodable(value, 100)


def _encodable(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _text(value)
    if depth == 0:
        return value
    if isinstance(value, Mapping):
        pairs = [(_encodable(k, depth - 1), _encodable(v, depth - 1)) for k, v in value.items()]
        is_same = all(
            k is was and v is value[was] for (k, v), was in zip(pairs, value, strict=True)
        )
        return value if is_same else dict(pairs)
    if isinstance(value, list | tuple):
        items = [_encodable(one, depth - 1) for one in value]
        is_same = all(one is was for one, was in zip(items, value, strict=True))
        return value if is_same else items if isinstance(value, list) else tuple(items)
    if hasattr(value, "model_copy") and not isinstance(value, type):
        found = {name: (one, _encodable(one, depth - 1)) for name, one in value}
        changed = {name: new for name, (one, new) in found.items() if new is not one}
        return value.model_copy(update=changed) if changed else value
    return value


def _text(text: str) -> str:
    if text.isascii():
        return text
    replaced = text.encode(errors="replace").decode()
    return text if replaced == text else replaced
