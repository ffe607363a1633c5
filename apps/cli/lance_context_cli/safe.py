"""What was remembered must not drive a terminal: control characters are shown, not sent."""

import re

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_HIDDEN = f"\x7f-\x9f\u2028\u2029\ufeff{_BIDI}\ud800-\udfff"
_CONTROL = re.compile(f"[\x00-\x1f{_HIDDEN}]")
_NOT_ESCAPED_BY_JSON = re.compile(f"[{_HIDDEN}]")
_DELETE = 0x7F
_CONTROL_PICTURES = 0x2400
"""Unicode's pictures of the control characters, from `␀` on, in their order."""


def shown(text: str) -> str:
    """The text on one line, each control character and change of direction as a visible mark."""
    return _CONTROL.sub(_mark, text)


def shown_in_lines(text: str) -> str:
    """As `shown`, with the text's own lines and tabs."""
    return "\n".join(line.expandtabs(4) for line in map(_shown_but_tabs, text.split("\n")))


def escaped(json_text: str) -> str:
    """JSON in which no control character stands as itself; it means the same."""
    return _NOT_ESCAPED_BY_JSON.sub(lambda found: rf"\u{ord(found[0]):04x}", json_text)


def _shown_but_tabs(line: str) -> str:
    return "\t".join(shown(piece) for piece in line.split("\t"))


def _mark(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code == _DELETE:
        return "␡"
    return chr(_CONTROL_PICTURES + code) if code < 0x20 else f"<U+{code:04X}>"
