"""What a test case is called: its values in a few words, so that its name says which one failed.

`test_a_limit_is_kept[limit=3]`, not `[3]`, `[limit0]`, `[<lambda>]` or `[<object at 0x7f…>]`.
"""

import datetime as dt
import linecache
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path, PurePath
from types import FunctionType
from typing import Any

ROOT = Path(__file__).parents[1]
MAX_CHARACTERS = 60
ADDRESS = re.compile(r"<(?:[\w<>]+\.)*(\w+)(?: object)? at 0x[0-9a-f]+>")


def words(value: Any, argument: str) -> str:
    """What the value of an argument is called, in one short line of ASCII."""
    if value is None or isinstance(value, bool | int | float):
        return _short(f"{argument}={value}")
    if isinstance(value, str) and _is_plain(value):
        return _short(value)
    return _short(_told(value))


def nameless(cases: Iterable[tuple[str, Collection[str], str]]) -> list[str]:
    """The names that say nothing, of cases that are each a test, its arguments, and a name."""
    by_test = defaultdict(dict)
    for test, arguments, name in cases:
        by_test[test][name] = arguments
    return [
        f"{test}[{name}]"
        for test, names in by_test.items()
        for name, arguments in names.items()
        if _says_nothing(name, arguments) or _is_counted(name, names)
    ]


def _says_nothing(name, arguments):
    """Whether it is a lambda, an address, a bare number, or an argument with a number."""
    numbered = "|".join(["-?[0-9]+", *(rf"{re.escape(one)}[0-9]+" for one in arguments)])
    is_number = re.fullmatch(numbered, name) or re.match(r"[0-9]{1,3}-", name)
    is_numbered = re.search(rf"(?:^|-)(?:{numbered.partition('|')[2] or '$.'})(?:-|$)", name)
    return "<lambda>" in name or " at 0x" in name or bool(is_number or is_numbered)


def _is_counted(name, names):
    """Whether a number alone tells it from others, as pytest has it for two of one name."""
    stem = name.rstrip("0123456789")
    is_word = stem[-1:].isalpha() or (stem.endswith("-") and not stem.endswith("=-"))
    return name != stem and is_word and {f"{stem}0", f"{stem}1"} <= names.keys()


def _is_plain(text):
    """Whether a text can be read without quotes."""
    return text.isprintable() and text == " ".join(text.split()) and not _is_number(text)


def _is_number(text):
    return not text or text.removeprefix("-").isdigit()


def _told(value, depth=3):
    def told(one):
        return _told(one, depth - 1) if depth else "..."

    match value:
        case FunctionType(__name__="<lambda>"):
            return _body(value)
        case _ if isinstance(getattr(value, "__name__", None), str):
            return value.__name__
        case partial():
            return f"partial({told(value.func)})"
        case Mapping():
            return f"{{{', '.join(f'{told(key)}: {told(one)}' for key, one in value.items())}}}"
        case AbstractSet():
            return f"{{{', '.join(sorted(map(told, value)))}}}"
        case list():
            return f"[{', '.join(map(told, value))}]"
        case tuple():
            return f"({', '.join(map(told, value))})"
        case PurePath() if value.is_absolute():
            return str(value.relative_to(ROOT)) if value.is_relative_to(ROOT) else value.name
        case re.Pattern():
            return value.pattern
        case dt.date():
            return value.isoformat()
        case _:
            return ADDRESS.sub(r"\1", repr(value))


def _body(function):
    """What a lambda gives, as it is written."""
    code = function.__code__
    spans = [((a, c), (b, d)) for a, b, c, d in code.co_positions() if None not in (a, b, c, d)]
    # What stands nowhere is of no length: the beginning of the function itself.
    spans = [(start, end) for start, end in spans if start < end]
    (first, left), (last, right) = min(start for start, _ in spans), max(end for _, end in spans)
    lines = [linecache.getline(code.co_filename, line) for line in range(first, last + 1)]
    # Columns count bytes.
    lines[-1] = lines[-1].encode()[:right].decode()
    lines[0] = lines[0].encode()[left:].decode()
    return "".join(lines)


def _short(text):
    text = " ".join(text.split()) or text
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    half = (MAX_CHARACTERS - 3) // 2
    return text if len(text) <= MAX_CHARACTERS else f"{text[:half]}...{text[-half:]}"
