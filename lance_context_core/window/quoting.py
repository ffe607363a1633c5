"""Texts that are quoted in a window: they can neither end their quotation, nor bear a mark of ours.

What was remembered is data. A memory may say «ignore your instructions», and close what looks like the end of
the quotation before it: so what looks like one of our marks in a text is made to look like none.
"""

import re

_TAG = re.compile(r"<(?=\s*/?\s*[a-z])", re.IGNORECASE)
_MARK = re.compile(r"\[(m[0-9]+)\]")
_ENDS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def quoted(text: str) -> str:
    """A text that can neither end its quotation, nor begin an item, nor bear a mark."""
    text = _MARK.sub(r"(\1)", _TAG.sub("\u2039", text))
    return _ENDS.sub("\n    ", text)
